#include "tune/run/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include <system_error>
#include <utility>

#include <mobula/error.h>

namespace mobula::tune {
namespace {

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) throw_file_error("open", path, errno);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_file_error("write", path_, errno);
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void sync() const {
    if (::fdatasync(fd_) != 0) throw_file_error("sync", path_, errno);
  }
  int get() const { return fd_; }

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace

void refuse(std::string message) {
  ErrorInfo info;
  info.kind = ErrorKind::kInvalid;
  info.message = std::move(message);
  throw_error(std::move(info));
}

void throw_file_error(const char* what, const std::filesystem::path& path, int code) {
  ErrorInfo info;
  const bool full = code == ENOSPC || code == EDQUOT;
  info.kind = full ? ErrorKind::kOutOfDisk : ErrorKind::kInvalid;
  info.message = std::string("cannot ") + what + " " + path.string() + ": " + std::generic_category().message(code) +
                 (full ? ". Make room and go on with resume" : "");
  throw_error(std::move(info));
}

std::string read_file(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat state {};
  if (::fstat(file.get(), &state) != 0) throw_file_error("read", path, errno);
  std::string text(static_cast<std::size_t>(state.st_size), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("read", path, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

void append_file(const std::filesystem::path& path, std::string_view text) {
  Descriptor(path, O_WRONLY | O_CREAT | O_APPEND).write(text);
}

void replace_file(const std::filesystem::path& path, std::string_view content, bool sync) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  {
    const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(content);
    if (sync) file.sync();
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw_file_error("write", path, errno);
  if (sync) sync_folder(path.parent_path());
}

void make_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_file_error("make the folder", path, error.value());
}

void sync_folder(const std::filesystem::path& path) {
  const Descriptor folder(path, O_RDONLY | O_DIRECTORY);
  if (::fsync(folder.get()) != 0) throw_file_error("sync", path, errno);
}

}  // namespace mobula::tune
