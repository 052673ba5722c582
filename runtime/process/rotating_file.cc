#include "runtime/process/rotating_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace mobula::process {
namespace {

Fd open_for_append(const std::string& path) {
  return Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
}

std::uint64_t size_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

std::string numbered(const std::string& path, unsigned number) {
  return path + "." + std::to_string(number);
}

}  // namespace

void rotate(const std::string& path, unsigned count) {
  if (count == 0) {
    ::unlink(path.c_str());
    return;
  }
  // rename() replaces the oldest.
  for (unsigned number = count; number > 1; --number) {
    std::rename(numbered(path, number - 1).c_str(), numbered(path, number).c_str());
  }
  std::rename(path.c_str(), numbered(path, 1).c_str());
}

RotatingFile::RotatingFile(std::string path, Rotation rotation, Fd file, std::uint64_t size)
    : path_(std::move(path)), rotation_(rotation), file_(std::move(file)), size_(size) {}

Result<RotatingFile> RotatingFile::open(std::string path, Rotation rotation) {
  Fd file = open_for_append(path);
  if (!file) return errno_error("open the log file " + path);
  const std::uint64_t size = size_of(file.get());
  return RotatingFile(std::move(path), rotation, std::move(file), size);
}

RotatingFile RotatingFile::at_first_piece(std::string path, Rotation rotation) {
  return RotatingFile(std::move(path), rotation, Fd(), 0);
}

void RotatingFile::write(std::string_view piece) {
  if (!file_) {
    file_ = open_for_append(path_);
    size_ = file_ ? size_of(file_.get()) : 0;
  }
  if (size_ > 0 && size_ + piece.size() > rotation_.bytes_max) {
    rotate(path_, rotation_.count);
    file_ = open_for_append(path_);
    size_ = 0;
  }
  while (!piece.empty()) {
    const ssize_t written = file_ ? ::write(file_.get(), piece.data(), piece.size()) : -1;
    if (written < 0 && file_ && errno == EINTR) continue;
    if (written <= 0) {
      ++dropped_;
      return;
    }
    size_ += static_cast<std::uint64_t>(written);
    piece.remove_prefix(static_cast<std::size_t>(written));
  }
}

void StdioRotator::check() {
  struct stat ours {};
  struct stat named {};
  if (::fstat(STDERR_FILENO, &ours) != 0 || !S_ISREG(ours.st_mode)) return;
  if (static_cast<std::uint64_t>(ours.st_size) <= rotation_.bytes_max) return;
  // Only a file that is still the one behind our output is turned over.
  const bool same = ::stat(path_.c_str(), &named) == 0 && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
  if (!same) return;
  rotate(path_, rotation_.count);
  const Fd fresh = open_for_append(path_);
  if (!fresh) return;
  struct stat out {};
  const bool out_too = ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == ours.st_dev && out.st_ino == ours.st_ino;
  ::dup2(fresh.get(), STDERR_FILENO);
  if (out_too) ::dup2(fresh.get(), STDOUT_FILENO);
}

std::string file_tail(const std::string& path, std::size_t bytes) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const std::uint64_t size = size_of(file.get());
  const std::uint64_t start = size > bytes ? size - bytes : 0;
  std::string text(static_cast<std::size_t>(size - start), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), static_cast<off_t>(start));
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t newline = text.find('\n');
  if (start > 0 && newline != std::string::npos && newline + 1 < text.size()) text.erase(0, newline + 1);
  return text;
}

}  // namespace mobula::process
