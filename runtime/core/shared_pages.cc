#include "runtime/core/shared_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "objectstore/space.h"

namespace mobula::core {

using objectstore::kRangeAlignment;
using objectstore::round_up;

// A slab mapped for writing. Remapping costs a page fault a page, so the last few are kept for when the daemon hands
// out the same pages again.
struct SharedPages::Mapping {
  std::byte* base = nullptr;
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base != nullptr) ::munmap(base, size);
  }
};

SharedPages::SharedPages(net::Loop& loop, std::function<void(Message)> send) : loop_(loop), send_(std::move(send)) {}

SharedPages::~SharedPages() = default;  // pages stay mapped: user code may still hold views of them

Result<SlabRoom> SharedPages::allocate(std::uint64_t size) {
  const std::uint64_t needed = round_up(std::max<std::uint64_t>(size, 1), kRangeAlignment);
  const bool shared = needed <= kSharedMax;
  std::unique_lock allocating(allocating_, std::defer_lock);
  if (shared) {
    allocating.lock();
    const std::lock_guard lock(mutex_);
    if (open_.slab != 0 && open_.size - open_.used >= needed) {
      SlabRoom room{open_.mapping->base + open_.used, size, open_.slab, open_.used, false, open_.mapping};
      open_.used += needed;
      return room;
    }
  }
  std::uint64_t request = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return make_error(ErrorKind::kRuntimeStopped, "the runtime has ended");
    request = next_request_++;
    if (shared && open_.slab != 0) {
      send_(ReturnSlab{open_.slab});
      open_ = {};
    }
  }
  send_(RequestSlab{request, shared ? kSharedSlab : needed});
  std::optional<SlabGranted> granted;
  loop_.run_until([&] {
    const std::lock_guard lock(mutex_);
    const auto found = granted_.find(request);
    if (found != granted_.end()) {
      granted = std::move(found->second);
      granted_.erase(found);
    }
    return granted.has_value() || stopped_;
  });
  if (!granted) return make_error(ErrorKind::kRuntimeStopped, "the runtime has ended");
  if (granted->error) return *granted->error;
  auto mapping = map_slab(*granted);
  if (!mapping) {
    send_(ReturnSlab{granted->slab});
    return mapping.error();
  }
  if (!shared) return SlabRoom{(*mapping)->base, size, granted->slab, 0, true, *mapping};
  const std::lock_guard lock(mutex_);
  open_ = Open{granted->slab, needed, granted->size, *mapping};
  return SlabRoom{open_.mapping->base, size, open_.slab, 0, false, open_.mapping};
}

Result<std::shared_ptr<SharedPages::Mapping>> SharedPages::map_slab(const SlabGranted& granted) {
  const std::lock_guard lock(mutex_);
  for (auto entry = kept_.begin(); entry != kept_.end(); ++entry) {
    const Mapping& known = **entry;
    if (known.segment == granted.segment && known.offset == granted.offset && known.size == granted.size) {
      auto mapping = *entry;
      kept_.erase(entry);
      kept_.push_back(mapping);
      return mapping;
    }
  }
  const auto descriptor = writable_.find(granted.segment);
  if (descriptor == writable_.end()) {
    return make_error(ErrorKind::kInvalid, "the node granted a slab of a segment it never sent");
  }
  void* base = ::mmap(nullptr, granted.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                      descriptor->second.get(), static_cast<off_t>(granted.offset));
  if (base == MAP_FAILED) {
    return make_error(ErrorKind::kOutOfMemory, std::string("cannot map shared memory: ") + std::strerror(errno));
  }
  auto mapping = std::make_shared<Mapping>();
  mapping->base = static_cast<std::byte*>(base);
  mapping->segment = granted.segment;
  mapping->offset = granted.offset;
  mapping->size = granted.size;
  kept_.push_back(mapping);
  if (kept_.size() > kMappingsKept) kept_.pop_front();
  return mapping;
}

void SharedPages::seal(const SlabRoom& room, ObjectId object, JobId job, std::uint64_t size) {
  send_(SealObject{object, owner_of(object), job, room.slab, room.offset, size});
  if (room.last) send_(ReturnSlab{room.slab});
}

void SharedPages::give_back(const SlabRoom& room) {
  // Part of a shared slab is only skipped: the daemon takes it back with the slab.
  if (room.last) send_(ReturnSlab{room.slab});
}

void SharedPages::on_granted(const SlabGranted& message, net::Fd descriptor) {
  {
    const std::lock_guard lock(mutex_);
    if (descriptor) writable_[message.segment] = std::move(descriptor);
    granted_[message.request] = message;
  }
  loop_.notify();
}

void SharedPages::learn_segment(std::uint32_t segment, std::uint64_t size, net::Fd descriptor) {
  if (!descriptor) return;
  const std::lock_guard lock(mutex_);
  Readable& known = readable_[segment];
  if (known.base != nullptr) return;
  known.descriptor = std::move(descriptor);
  known.size = size;
}

Result<const std::byte*> SharedPages::readable(std::uint32_t segment, std::uint64_t offset, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto found = readable_.find(segment);
  if (found == readable_.end() || offset > found->second.size || size > found->second.size - offset) {
    return make_error(ErrorKind::kObjectLost, "the node named pages that this process was never given");
  }
  Readable& known = found->second;
  if (known.base == nullptr) {
    void* base = ::mmap(nullptr, known.size, PROT_READ, MAP_SHARED, known.descriptor.get(), 0);
    if (base == MAP_FAILED) {
      return make_error(ErrorKind::kOutOfMemory, std::string("cannot map shared memory: ") + std::strerror(errno));
    }
    known.base = static_cast<const std::byte*>(base);
  }
  return known.base + offset;
}

void SharedPages::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  loop_.notify();
}

}  // namespace mobula::core
