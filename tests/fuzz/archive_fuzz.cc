// Archives from outside, unpacked: whatever the bytes are, nothing appears beside the folder, no link leads out of it,
// and nothing in it has more rights than its owner's.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/base/check.h"
#include "runtime/process/archive.h"

namespace {

namespace fs = std::filesystem;

// Goes with the process.
class Scratch {
 public:
  Scratch() {
    char pattern[] = "/tmp/mobula-fuzz-XXXXXX";
    MOBULA_CHECK(::mkdtemp(pattern) != nullptr, "a temporary folder");
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void check_inside(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat info {};
    MOBULA_CHECK(::lstat(entry.path().c_str(), &info) == 0, "what was unpacked is there");
    if (S_ISLNK(info.st_mode)) {
      std::error_code loop;
      const fs::path real = fs::weakly_canonical(entry.path(), loop);
      MOBULA_CHECK(loop || (real / "").string().starts_with(folder + "/"), "a link leads outside");
      continue;
    }
    MOBULA_CHECK(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode), "something else than a file was made");
    MOBULA_CHECK((info.st_mode & 07077U) == 0, "others have rights");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  const std::string folder = scratch.path() + "/in";
  MOBULA_CHECK(::mkdir(folder.c_str(), 0700) == 0, "a folder");
  const mobula::process::Fd archive(::memfd_create("archive", MFD_CLOEXEC));
  MOBULA_CHECK(::write(archive.get(), data, size) == static_cast<ssize_t>(size), "an archive");
  mobula::process::ArchiveLimits limits;
  limits.bytes_max = 1 << 20;
  limits.entries_max = 1000;
  static_cast<void>(mobula::process::unpack(archive.get(), folder, limits).ok());
  check_inside(folder);
  MOBULA_CHECK(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator()) == 1,
               "something lies beside");
  fs::remove_all(folder);
  return 0;
}
