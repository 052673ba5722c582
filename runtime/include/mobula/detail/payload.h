// A value as bytes: ONE contiguous blob, the same in messages and in shared memory.
//
//   header | table of buffers | stream | buffers, each at a multiple of 64 from the blob's start
//
// The stream holds everything small, in the order in which the value is walked. Arrays and tensors go to the buffers
// behind it, so that a reader in another process uses them where they are. References to objects are indices into a
// list that travels beside the blob. Encoding is two passes over the value: the first measures, the second writes into
// room that somebody gave, so that a value reaches shared memory by one copy. Nothing that is read is trusted: every
// length is compared with what is left before it is used, and memory is taken in proportion to bytes that are really
// there.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobula/detail/core.h>

namespace mobula::detail {

static_assert(std::endian::native == std::endian::little, "payloads are little-endian and copied as they are");

inline constexpr std::uint32_t kPayloadMagic = 0x3150424d;  // "MBP1": the 1 is the version
inline constexpr std::size_t kBufferAlignment = 64;
// Where big runs of plain elements begin in the stream; what operator new gives to a blob on the heap.
inline constexpr std::size_t kRunAlignment = 16;
inline constexpr std::size_t kAlignedRunBytesMin = 64;
// Pointers and containers inside each other: bounds the stack that a reader needs.
inline constexpr std::uint32_t kNestingMax = 1000;

struct PayloadHeader {
  std::uint32_t magic = kPayloadMagic;
  std::uint32_t buffer_count = 0;
  std::uint64_t fingerprint = 0;  // of the type, see fingerprint.h
  std::uint64_t stream_bytes = 0;
  std::uint32_t ref_count = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(PayloadHeader) == 32);

struct BufferEntry {
  std::uint64_t offset = 0;  // from the blob's start
  std::uint64_t bytes = 0;
};

constexpr std::size_t align_up(std::size_t offset, std::size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_invalid(std::string message) {
  ErrorInfo info;
  info.kind = ErrorKind::kInvalid;
  info.message = std::move(message);
  throw_error(std::move(info));
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_damaged(const char* what) {
  throw_invalid(std::string("the bytes of a value are damaged: ") + what);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_too_deep() {
  throw_invalid("a value is nested deeper than 1000 pointers and containers; keep long chains in a std::vector");
}

// Numbers the shared pointers of a value in the order in which they are met. A small hash table of its own: std::map
// and std::unordered_map would cost every program that includes Mobula a tenth of its compile time.
class SeenPointers {
 public:
  // The number of `pointer` as a `type`, and whether it is new; numbers start at 1.
  std::pair<std::uint64_t, bool> number(const void* pointer, const void* type) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = find(pointer, type);
    if (slot.number != 0) return {slot.number, false};
    slot = Slot{pointer, type, ++used_};
    return {used_, true};
  }
  void clear() {
    slots_.clear();
    used_ = 0;
  }

 private:
  struct Slot {
    const void* pointer = nullptr;
    const void* type = nullptr;
    std::uint64_t number = 0;  // 0: free
  };

  Slot& find(const void* pointer, const void* type) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at =
        mix(reinterpret_cast<std::uintptr_t>(pointer) ^ mix(reinterpret_cast<std::uintptr_t>(type))) & mask;
    while (slots_[at].number != 0 && (slots_[at].pointer != pointer || slots_[at].type != type)) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 16 : 2 * slots_.size()));
    for (const Slot& slot : old) {
      if (slot.number != 0) find(slot.pointer, slot.type) = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half of them used
  std::uint64_t used_ = 0;
};

// Writes a value. Used as: walk the value, ask bytes(), begin_writing(room), walk it again, finish().
class Encoder {
 public:
  bool measuring() const { return out_ == nullptr; }

  void write(const void* data, std::size_t size) {
    if (out_ != nullptr) {
      if (size > stream_bytes_ - position_) throw_changed();
      if (size != 0) std::memcpy(out_ + position_, data, size);
    }
    position_ += size;
  }

  template <class T>
  void write_plain(const T& value) {
    write(&value, sizeof(T));
  }

  // Seven bits a byte, low ones first.
  void write_varint(std::uint64_t value) {
    std::byte bytes[10];
    std::size_t size = 0;
    while (value >= 0x80) {
      bytes[size++] = static_cast<std::byte>(value | 0x80);
      value >>= 7;
    }
    bytes[size++] = static_cast<std::byte>(value);
    write(bytes, size);
  }

  // Before a run of `size` bytes of plain elements.
  void align_run(std::size_t size) {
    if (size < kAlignedRunBytesMin) return;
    static constexpr std::byte kZeros[kRunAlignment] = {};
    write(kZeros, align_up(position_, kRunAlignment) - position_);
  }

  void write_buffer(const void* data, std::size_t size) {
    if (measuring()) {
      buffers_.push_back(BufferEntry{0, size});
      return;
    }
    if (next_buffer_ == buffers_.size() || buffers_[next_buffer_].bytes != size) throw_changed();
    const BufferEntry& entry = buffers_[next_buffer_++];
    if (size != 0) std::memcpy(blob_ + entry.offset, data, size);
  }

  // An empty reference is 0; others are 1 + their index.
  void write_ref(const RefHandle& ref) {
    if (!ref) return write_varint(0);
    ++ref_count_;
    if (!measuring()) refs_.push_back(ref);
    write_varint(ref_count_);
  }

  // Of a shared pointer: its number if it was seen before in this value, else 0 and it gets the next number.
  std::uint64_t seen_before(const void* pointer, const void* type) {
    const auto [number, fresh] = shared_.number(pointer, type);
    return fresh ? 0 : number;
  }

  void enter() {
    if (++depth_ > kNestingMax) throw_too_deep();
  }
  void leave() { --depth_; }

  // After the first pass: the size of the whole blob.
  std::size_t bytes() const {
    std::size_t end = stream_offset() + position_;
    for (const BufferEntry& entry : buffers_) {
      if (entry.bytes != 0) end = align_up(end, kBufferAlignment) + static_cast<std::size_t>(entry.bytes);
    }
    return end;
  }

  // Starts the second pass; `room` is exactly bytes() long.
  void begin_writing(std::span<std::byte> room, std::uint64_t fingerprint) {
    if (room.size() != bytes()) throw_invalid("the room for a value has another size than the value");
    stream_bytes_ = position_;
    blob_ = room.data();
    PayloadHeader header;
    header.buffer_count = static_cast<std::uint32_t>(buffers_.size());
    header.fingerprint = fingerprint;
    header.stream_bytes = stream_bytes_;
    header.ref_count = ref_count_;
    std::memcpy(blob_, &header, sizeof(header));
    place_buffers();
    if (!buffers_.empty()) std::memcpy(blob_ + sizeof(header), buffers_.data(), buffers_.size() * sizeof(BufferEntry));
    out_ = blob_ + stream_offset();
    refs_.reserve(ref_count_);
    refs_expected_ = ref_count_;
    position_ = 0;
    ref_count_ = 0;
    shared_.clear();
  }

  // Ends the second pass: the references, in the order of their indices.
  std::vector<RefHandle> finish() {
    if (position_ != stream_bytes_ || next_buffer_ != buffers_.size() || ref_count_ != refs_expected_) throw_changed();
    return std::move(refs_);
  }

 private:
  std::size_t stream_offset() const { return sizeof(PayloadHeader) + buffers_.size() * sizeof(BufferEntry); }

  // Gives each buffer its place and clears the gaps, so that equal values have equal bytes.
  void place_buffers() {
    std::size_t end = stream_offset() + stream_bytes_;
    for (BufferEntry& entry : buffers_) {
      if (entry.bytes == 0) {
        entry.offset = end;
        continue;
      }
      const std::size_t start = align_up(end, kBufferAlignment);
      std::memset(blob_ + end, 0, start - end);
      entry.offset = start;
      end = start + static_cast<std::size_t>(entry.bytes);
    }
  }

  [[noreturn, gnu::cold, gnu::noinline]] static void throw_changed() {
    throw_invalid(
        "a value changed while it was encoded: another thread writes to it, or its serialize() does not walk "
        "the same members each time");
  }

  std::byte* out_ = nullptr;  // the stream; null in the first pass
  std::byte* blob_ = nullptr;
  std::size_t position_ = 0;
  std::size_t stream_bytes_ = 0;
  std::size_t next_buffer_ = 0;
  std::uint32_t ref_count_ = 0;
  std::uint32_t refs_expected_ = 0;
  std::uint32_t depth_ = 0;
  std::vector<BufferEntry> buffers_;
  std::vector<RefHandle> refs_;
  SeenPointers shared_;
};

// A buffer of a blob, where it lies. `owner` keeps it; null when the blob does not outlive the decoding.
struct BufferView {
  const std::shared_ptr<const void>* owner = nullptr;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Reads a value out of a payload, which outlives it.
class Decoder {
 public:
  // Checks the frame of the blob; a blob of another type is a SignatureMismatch that names `type`.
  Decoder(const InPayload& payload, std::uint64_t fingerprint, std::string_view type) : payload_(payload) {
    PayloadHeader header;
    if (payload.size < sizeof(header)) throw_damaged("shorter than a header");
    std::memcpy(&header, payload.data, sizeof(header));
    if (header.magic != kPayloadMagic) throw_damaged("not a value of this version of Mobula");
    if (header.fingerprint != fingerprint) throw_other_type(header.fingerprint, fingerprint, type);
    std::size_t left = payload.size - sizeof(header);
    if (header.buffer_count > left / sizeof(BufferEntry)) throw_damaged("more buffers than bytes");
    buffers_ = payload.data + sizeof(header);
    buffer_count_ = header.buffer_count;
    left -= buffer_count_ * sizeof(BufferEntry);
    if (header.stream_bytes > left) throw_damaged("the stream is cut off");
    if (header.ref_count != payload.refs.size()) throw_damaged("references are missing");
    stream_ = buffers_ + buffer_count_ * sizeof(BufferEntry);
    end_ = static_cast<std::size_t>(header.stream_bytes);
  }

  std::size_t left() const { return end_ - position_; }

  // The next `size` bytes, where they lie.
  const std::byte* take(std::size_t size) {
    if (size > left()) throw_damaged("the stream ends too early");
    const std::byte* start = stream_ + position_;
    position_ += size;
    return start;
  }

  void read(void* data, std::size_t size) {
    const std::byte* from = take(size);
    if (size != 0) std::memcpy(data, from, size);
  }

  template <class T>
  void read_plain(T& value) {
    read(&value, sizeof(T));
  }

  std::uint8_t read_byte() { return static_cast<std::uint8_t>(*take(1)); }

  std::uint64_t read_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = read_byte();
      if (shift == 63 && next > 1) throw_damaged("a number is too large");
      value |= std::uint64_t{next & 0x7fU} << shift;
      if (next < 0x80) return value;
    }
    throw_damaged("a number is too long");
  }

  // A number of elements, each of which takes at least `bytes_min` bytes of the stream.
  std::size_t read_count(std::size_t bytes_min) {
    const std::uint64_t count = read_varint();
    if (count > left() / bytes_min) throw_damaged("more elements than bytes");
    return static_cast<std::size_t>(count);
  }

  void align_run(std::size_t size) {
    if (size >= kAlignedRunBytesMin) take(align_up(position_, kRunAlignment) - position_);
  }

  BufferView read_buffer() {
    if (next_buffer_ == buffer_count_) throw_damaged("a buffer is missing");
    BufferEntry entry;
    std::memcpy(&entry, buffers_ + next_buffer_++ * sizeof(BufferEntry), sizeof(entry));
    const std::size_t start = static_cast<std::size_t>(stream_ - payload_.data) + end_;
    if (entry.offset < start || entry.offset > payload_.size || entry.bytes > payload_.size - entry.offset) {
      throw_damaged("a buffer lies outside");
    }
    return {payload_.owner != nullptr ? &payload_.owner : nullptr, payload_.data + entry.offset,
            static_cast<std::size_t>(entry.bytes)};
  }

  RefHandle read_ref() {
    const std::uint64_t index = read_varint();
    if (index == 0) return {};
    if (index > payload_.refs.size()) throw_damaged("a reference lies outside");
    return payload_.refs[static_cast<std::size_t>(index - 1)];
  }

  // Shared pointers of this value, in the order in which their contents began.
  struct Shared {
    std::shared_ptr<void> pointer;
    const void* type = nullptr;
  };
  void add_shared(std::shared_ptr<void> pointer, const void* type) { shared_.push_back({std::move(pointer), type}); }
  const std::shared_ptr<void>& shared(std::uint64_t number, const void* type) const {
    if (number == 0 || number > shared_.size()) throw_damaged("a shared pointer lies outside");
    const Shared& found = shared_[static_cast<std::size_t>(number - 1)];
    if (found.type != type) throw_damaged("a shared pointer has another type");
    return found.pointer;
  }

  void enter() {
    if (++depth_ > kNestingMax) throw_too_deep();
  }
  void leave() { --depth_; }

  // After the value: everything must have been used.
  void finish() const {
    if (left() != 0 || next_buffer_ != buffer_count_) throw_damaged("bytes are left over");
  }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] static void throw_other_type(std::uint64_t found, std::uint64_t wanted,
                                                                      std::string_view type) {
    ErrorInfo info;
    info.kind = ErrorKind::kSignatureMismatch;
    info.message = "the object holds another type than " + std::string(type) + " (fingerprint " + to_string_hex(found) +
                   ", expected " + to_string_hex(wanted) +
                   "): its maker and its reader were built from different declarations";
    throw_error(std::move(info));
  }

  const InPayload& payload_;
  const std::byte* buffers_ = nullptr;
  const std::byte* stream_ = nullptr;
  std::size_t buffer_count_ = 0;
  std::size_t next_buffer_ = 0;
  std::size_t position_ = 0;
  std::size_t end_ = 0;
  std::uint32_t depth_ = 0;
  std::vector<Shared> shared_;
};

// Counts one level of nesting of an Encoder or Decoder.
template <class Coder>
class Nested {
 public:
  explicit Nested(Coder& coder) : coder_(coder) { coder_.enter(); }
  ~Nested() { coder_.leave(); }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Coder& coder_;
};

}  // namespace mobula::detail
