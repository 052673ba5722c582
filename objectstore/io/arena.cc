#include "objectstore/io/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace mobula::objectstore {
namespace {

ErrorInfo full(const std::string& what) {
  return make_error(ErrorKind::kStoreFull, what + ": " + std::strerror(errno));
}

}  // namespace

Arena::Arena(std::function<std::uint64_t()> room) : room_(std::move(room)) {}

Arena::~Arena() {
  for (auto& [number, segment] : segments_) {
    if (segment.base != nullptr) ::munmap(segment.base, segment.size);
    if (segment.writable >= 0) ::close(segment.writable);
    if (segment.readable >= 0) ::close(segment.readable);
  }
}

Status Arena::create_segment(std::uint32_t number, std::uint64_t size) {
  MOBULA_CHECK(!segments_.contains(number));
  Segment segment;
  segment.size = size;
  segment.writable = ::memfd_create("mobula-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (segment.writable < 0) return full("cannot create shared memory");
  if (::ftruncate(segment.writable, static_cast<off_t>(size)) != 0 ||
      ::fcntl(segment.writable, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ErrorInfo error = full("cannot size shared memory");
    ::close(segment.writable);
    return error;
  }
  // A second open of the same file, read only: what consumers get can never be mapped for writing.
  const std::string path = "/proc/self/fd/" + std::to_string(segment.writable);
  segment.readable = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* base = segment.readable < 0
                   ? MAP_FAILED
                   : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment.writable, 0);
  if (base == MAP_FAILED) {
    ErrorInfo error = full("cannot map shared memory");
    if (segment.readable >= 0) ::close(segment.readable);
    ::close(segment.writable);
    return error;
  }
  segment.base = static_cast<std::byte*>(base);
  segments_.emplace(number, segment);
  return {};
}

Status Arena::grow(std::uint32_t number, std::uint64_t reserved) {
  const auto found = segments_.find(number);
  MOBULA_CHECK(found != segments_.end() && reserved <= found->second.size);
  Segment& segment = found->second;
  if (reserved <= segment.reserved) return {};
  const std::uint64_t more = reserved - segment.reserved;
  if (const std::uint64_t room = room_(); room < more + kHeadroom) {
    return make_error(ErrorKind::kStoreFull, "the machine has only " + std::to_string(room >> 20) +
                                                 " MiB of memory left, of which " + std::to_string(kHeadroom >> 20) +
                                                 " MiB are kept free");
  }
  int outcome = 0;
  do {
    outcome = ::fallocate(segment.writable, 0, static_cast<off_t>(segment.reserved), static_cast<off_t>(more));
  } while (outcome != 0 && errno == EINTR);
  if (outcome != 0) return full("cannot reserve shared memory");
  segment.reserved = reserved;
  return {};
}

int Arena::writable_descriptor(std::uint32_t number) const {
  const auto found = segments_.find(number);
  return found == segments_.end() ? -1 : found->second.writable;
}

int Arena::readable_descriptor(std::uint32_t number) const {
  const auto found = segments_.find(number);
  return found == segments_.end() ? -1 : found->second.readable;
}

std::byte* Arena::address(const Range& range) const {
  const auto found = segments_.find(range.segment);
  MOBULA_CHECK(found != segments_.end() && range.offset + range.size <= found->second.reserved);
  return found->second.base + range.offset;
}

}  // namespace mobula::objectstore
