#include "tune/run/journal_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <cerrno>

#include <string>
#include <string_view>
#include <utility>

#include <mobula/error.h>

#include "tune/run/files.h"

namespace mobula::tune {
namespace {

class CloseOnError {
 public:
  explicit CloseOnError(int& fd) : fd_(fd) {}
  ~CloseOnError() {
    if (!kept_) ::close(std::exchange(fd_, -1));
  }
  CloseOnError(const CloseOnError&) = delete;
  CloseOnError& operator=(const CloseOnError&) = delete;
  void keep() { kept_ = true; }

 private:
  int& fd_;
  bool kept_ = false;
};

}  // namespace

JournalFile::JournalFile(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw_file_error("open", path, errno);
  CloseOnError guard(fd_);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    refuse("the experiment in " + path.parent_path().string() +
           " is being run by another process: wait for it, end it, or choose another name");
  }
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > kBytesMax) {
    refuse("the journal " + path.string() + " is larger than 4 GiB: start a new experiment");
  }
  auto journal = decode_journal(read_file(path));
  if (!journal.ok()) refuse(path.string() + ": " + journal.error().message);
  history_ = std::move(journal->events);
  sequence_ = history_.size();
  bytes_ = journal->valid_bytes;
  if (::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) throw_file_error("cut the torn tail off", path, errno);
  sync();
  sync_folder(path.parent_path());
  guard.keep();
}

JournalFile::~JournalFile() {
  if (fd_ >= 0) ::close(fd_);
}

void JournalFile::append(const JournalEvent& event, bool sync_now) {
  const std::string line = encode_line(sequence_ + 1, event);
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int code = errno;
      // Half a line would make every later one unreadable.
      if (::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) throw_file_error("undo a broken write to", path_, errno);
      throw_file_error("write", path_, code);
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  ++sequence_;
  bytes_ += line.size();
  if (sync_now) sync();
}

void JournalFile::sync() {
  if (::fdatasync(fd_) != 0) throw_file_error("sync", path_, errno);
}

}  // namespace mobula::tune
