// Frames: how a byte stream is cut into pieces. Pure: no sockets here, so that framing can be fuzzed alone.
//
// On the wire a frame is 8 bytes of header (little-endian), then the payload padded with zeros to 8 bytes:
//   u32 length       bytes of payload before the last padding, at most kFrameSizeMax
//   u8  type         FrameType
//   u8  descriptors  how many descriptors came along (Unix sockets only)
//   u16 head         bytes of the payload's head, a multiple of 8, at most kFrameHeadMax
// The payload is the head (padded) followed by the body. A head lets bulk data carry a few words about itself without
// being copied next to them, on either side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/result.h"
#include "runtime/net/fd.h"

namespace mobula::net {

inline constexpr std::size_t kFrameSizeMax = std::size_t{16} << 20;  // of the payload
inline constexpr std::size_t kFrameHeadMax = 4096;
inline constexpr std::size_t kFrameHeaderSize = 8;
inline constexpr std::size_t kFrameDescriptorsMax = 16;

enum class FrameType : std::uint8_t {
  kMessages = 0,  // a list of messages, see runtime/wire
  kRaw = 1,       // a chunk of an object: the head says which
  kHello = 2,     // the first frame each way
};

// What is sent and what arrives. When it arrives, head and body start at addresses that are multiples of 8, and small
// frames share one buffer: whoever keeps a few bytes for long copies them.
struct Frame {
  FrameType type = FrameType::kMessages;
  Bytes head;  // on arrival its size is a multiple of 8: padding stays visible
  Bytes body;
  std::vector<Fd> descriptors;  // Unix links only
};

constexpr std::size_t padded(std::size_t size) {
  return (size + 7) & ~std::size_t{7};
}
inline std::size_t payload_size(const Frame& frame) {
  return padded(frame.head.size()) + frame.body.size();
}

std::array<std::byte, kFrameHeaderSize> encode_frame_header(const Frame& frame);

// Where the body of a raw frame goes, instead of a buffer of the reader's own. `data` is null: a buffer of its own.
struct RawTarget {
  std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
};
using RawTargetFn = std::function<RawTarget(const Bytes& head, std::size_t body_size)>;

// Cuts what arrives into frames. Use: read into writable(), then commit() how much came, until the stream ends.
// Memory grows only as bytes arrive: a header that announces 16 MiB costs 64 KiB until there are more.
class FrameReader {
 public:
  explicit FrameReader(std::size_t frame_size_max = kFrameSizeMax);

  void set_raw_target(RawTargetFn fn) { raw_target_ = std::move(fn); }

  // Where the next bytes go; never empty.
  std::span<std::byte> writable();
  // `size` bytes were written there. Completed frames are appended to `frames`. An error is final.
  Status commit(std::size_t size, std::vector<Frame>& frames);
  // Descriptors that arrived with the bytes that are committed next.
  Status add_descriptors(std::vector<Fd> descriptors);
  // True when the stream may end here without loss.
  bool at_boundary() const;

 private:
  struct Header {
    std::size_t payload = 0;
    std::size_t head = 0;
    std::size_t descriptors = 0;
    FrameType type = FrameType::kMessages;
  };
  Result<Header> parse_header(const std::byte* data) const;
  Status parse_block(std::vector<Frame>& frames);
  Status begin_big(std::vector<Frame>& frames);
  void grow_big();
  Status commit_big(std::size_t size, std::vector<Frame>& frames);
  Status finish(Frame frame, std::vector<Frame>& frames);
  void renew_block();

  std::size_t frame_size_max_;
  RawTargetFn raw_target_;

  // Small frames: one block they share, [read_, write_) is not parsed yet.
  std::shared_ptr<std::byte[]> block_;
  std::size_t read_ = 0;
  std::size_t write_ = 0;

  // The big frame that is arriving, if any: head and body each in memory of their own.
  bool big_ = false;
  Header header_;
  Bytes big_head_;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }  // NOLINT(cppcoreguidelines-no-malloc)
  };
  std::unique_ptr<std::byte, Free> buffer_;  // malloc'ed, so that it grows without copying; null with a raw target
  RawTarget target_;
  std::size_t capacity_ = 0;            // bytes of body that there is room for
  std::size_t filled_ = 0;              // bytes of body that are there
  std::array<std::byte, 8> padding_{};  // what follows the body of a big frame
  std::size_t padding_filled_ = 0;

  std::vector<Fd> descriptors_;
};

}  // namespace mobula::net
