#include "runtime/process/content_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "runtime/process/session_dir.h"

namespace mobula::process {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPutPrefix = ".put-";
constexpr std::uint64_t kContentMiB = std::uint64_t{1} << 20;

bool write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

std::string mib(std::uint64_t bytes) {
  return std::to_string((bytes + kContentMiB - 1) / kContentMiB) + " MiB";
}

}  // namespace

bool is_content_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<ContentStore> ContentStore::open(std::string folder, ContentLimits limits) {
  if (Status made = ensure_private_dir(folder); !made) return made.error();
  ContentStore store(std::move(folder), limits);
  if (Status loaded = store.load(); !loaded) return loaded.error();
  return store;
}

Status ContentStore::load() {
  struct Found {
    fs::file_time_type time;
    std::string hash;
    std::uint64_t bytes = 0;
  };
  std::vector<Found> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kPutPrefix)) {
      fs::remove(entry.path(), ignored);
    } else if (is_content_hash(name) && entry.symlink_status(ignored).type() == fs::file_type::regular) {
      found.push_back({entry.last_write_time(ignored), name, entry.file_size(ignored)});
    }
  }
  if (error) return make_error(ErrorKind::kInvalid, "cannot read the folder " + folder_ + ": " + error.message());
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.time < b.time; });
  for (const Found& one : found) {
    items_[one.hash] = Item{one.bytes, ++uses_};
    item_bytes_ += one.bytes;
  }
  return {};
}

Result<std::uint64_t> ContentStore::put(const std::string& hash, std::uint64_t total, std::uint64_t offset,
                                        std::span<const std::byte> bytes, Instant now) {
  if (!is_content_hash(hash)) return make_error(ErrorKind::kInvalid, "content is named by 64 hex digits");
  if (const auto item = items_.find(hash); item != items_.end()) {
    item->second.used = ++uses_;
    return item->second.bytes;
  }
  auto at = puts_.find(hash);
  if (at != puts_.end() && at->second.total != total) {
    return make_error(ErrorKind::kInvalid, "content " + hash + " is being put with another length: try again later");
  }
  if (at == puts_.end()) {
    if (Status begun = begin(hash, total, now); !begun) return begun.error();
    at = puts_.find(hash);
  }
  Put& put = at->second;
  put.touched = now;
  if (offset == put.have) {
    if (bytes.size() > total - put.have) {
      abandon(hash);
      return make_error(ErrorKind::kInvalid, "content " + hash + " is longer than was said");
    }
    if (!write_at(put.file.get(), bytes, offset)) {
      const ErrorInfo error = errno_error("write to " + folder_, ErrorKind::kOutOfDisk);
      abandon(hash);
      return error;
    }
    put.hash->add(bytes);
    put.have += bytes.size();
    // The disk starts on it now, so that the flush at the end is short.
    ::sync_file_range(put.file.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes.size()),
                      SYNC_FILE_RANGE_WRITE);
  }
  if (put.have < total) return put.have;
  if (Status done = finish(hash); !done) return done.error();
  return total;
}

Status ContentStore::begin(const std::string& hash, std::uint64_t total, Instant now) {
  if (total > limits_.item_bytes_max) {
    return make_error(ErrorKind::kInvalid, "the content is " + mib(total) + ", at most " + mib(limits_.item_bytes_max) +
                                               " may travel: leave data out and read it where the nodes can reach it");
  }
  if (puts_.size() >= limits_.puts_max) {
    const auto oldest = std::min_element(
        puts_.begin(), puts_.end(), [](const auto& a, const auto& b) { return a.second.touched < b.second.touched; });
    if (now - oldest->second.touched < limits_.put_idle) {
      return make_error(ErrorKind::kOverloaded,
                        std::to_string(limits_.puts_max) + " uploads are under way already: try again later");
    }
    abandon(std::string(oldest->first));
  }
  if (!make_room(total)) {
    return make_error(ErrorKind::kOutOfDisk, "the head keeps at most " + mib(limits_.total_bytes_max) +
                                                 " of shipped content, and running or waiting jobs need what is "
                                                 "there: wait for some to end");
  }
  Put put;
  put.path = folder_ + "/" + std::string(kPutPrefix) + std::to_string(next_put_++);
  put.file.reset(::open(put.path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!put.file) return errno_error("write to " + folder_, ErrorKind::kOutOfDisk);
  put.total = total;
  put.hash = std::make_unique<Sha256>();
  put.touched = now;
  put_bytes_ += total;
  puts_.emplace(hash, std::move(put));
  return {};
}

Status ContentStore::finish(const std::string& hash) {
  Put& put = puts_.at(hash);
  if (put.hash->hex() != hash) {
    abandon(hash);
    return make_error(ErrorKind::kInvalid, "content arrived that is not " + hash + ": it was dropped, send it again");
  }
  if (::fdatasync(put.file.get()) != 0 || std::rename(put.path.c_str(), path_of(hash).c_str()) != 0) {
    const ErrorInfo error = errno_error("keep content in " + folder_, ErrorKind::kOutOfDisk);
    abandon(hash);
    return error;
  }
  items_[hash] = Item{put.total, ++uses_};
  item_bytes_ += put.total;
  put_bytes_ -= put.total;
  puts_.erase(hash);
  return {};
}

void ContentStore::abandon(const std::string& hash) {
  const auto at = puts_.find(hash);
  if (at == puts_.end()) return;
  ::unlink(at->second.path.c_str());
  put_bytes_ -= at->second.total;
  puts_.erase(at);
}

// Removes what was not used for longest until `bytes` more fit.
bool ContentStore::make_room(std::uint64_t bytes) {
  while (total_bytes() + bytes > limits_.total_bytes_max || items_.size() + puts_.size() >= limits_.items_max) {
    auto victim = items_.end();
    for (auto item = items_.begin(); item != items_.end(); ++item) {
      if (in_use_ && in_use_(item->first)) continue;
      if (victim == items_.end() || item->second.used < victim->second.used) victim = item;
    }
    if (victim == items_.end()) return false;
    drop(std::string(victim->first));
  }
  return true;
}

Result<ContentStore::Piece> ContentStore::read(const std::string& hash, std::uint64_t offset, std::size_t bytes_max) {
  const auto at = items_.find(hash);
  if (at == items_.end()) return make_error(ErrorKind::kObjectLost, "content " + hash + " is not here");
  at->second.used = ++uses_;
  const Fd file(::open(path_of(hash).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    const ErrorInfo error = errno_error("read content " + hash, ErrorKind::kObjectLost);
    drop(hash);
    return error;
  }
  Piece piece;
  piece.total = at->second.bytes;
  if (offset >= piece.total) return piece;
  std::vector<std::byte> bytes(std::min<std::uint64_t>(bytes_max, piece.total - offset));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got =
        ::pread(file.get(), bytes.data() + have, bytes.size() - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return make_error(ErrorKind::kObjectLost, "content " + hash + " cannot be read");
    have += static_cast<std::size_t>(got);
  }
  piece.bytes = Bytes::adopt(std::move(bytes));
  return piece;
}

void ContentStore::touch(const std::string& hash) {
  if (const auto at = items_.find(hash); at != items_.end()) at->second.used = ++uses_;
}

void ContentStore::drop(const std::string& hash) {
  const auto at = items_.find(hash);
  if (at == items_.end()) return;
  ::unlink(path_of(hash).c_str());
  item_bytes_ -= at->second.bytes;
  items_.erase(at);
}

}  // namespace mobula::process
