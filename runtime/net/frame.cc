#include "runtime/net/frame.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/base/check.h"

namespace mobula::net {
namespace {

constexpr std::size_t kBlockSize = std::size_t{64} << 10;
constexpr std::size_t kSmallFrameMax = std::size_t{16} << 10;  // payload; larger frames get memory of their own
constexpr std::size_t kReadMin = std::size_t{8} << 10;         // a read of less is not worth its system call
constexpr std::size_t kFirstBuffer = std::size_t{64} << 10;
constexpr std::size_t kBigReadMax = std::size_t{1} << 20;
constexpr std::size_t kDescriptorsWaitingMax = 4 * kFrameDescriptorsMax;

ErrorInfo framing_error(std::string what) {
  return make_error(ErrorKind::kInvalid, "the other end broke the framing: " + std::move(what));
}

void put_u16(std::byte* at, std::size_t value) {
  at[0] = static_cast<std::byte>(value & 0xff);
  at[1] = static_cast<std::byte>((value >> 8) & 0xff);
}

std::size_t get_u16(const std::byte* at) {
  return std::to_integer<std::size_t>(at[0]) | std::to_integer<std::size_t>(at[1]) << 8;
}

std::size_t get_u32(const std::byte* at) {
  return get_u16(at) | get_u16(at + 2) << 16;
}

}  // namespace

std::array<std::byte, kFrameHeaderSize> encode_frame_header(const Frame& frame) {
  const std::size_t size = payload_size(frame);
  MOBULA_CHECK(size <= kFrameSizeMax, "a frame above the limit must be split by its maker");
  MOBULA_CHECK(frame.head.size() <= kFrameHeadMax);
  MOBULA_CHECK(frame.descriptors.size() <= kFrameDescriptorsMax);
  std::array<std::byte, kFrameHeaderSize> bytes{};
  put_u16(&bytes[0], size & 0xffff);
  put_u16(&bytes[2], size >> 16);
  bytes[4] = static_cast<std::byte>(frame.type);
  bytes[5] = static_cast<std::byte>(frame.descriptors.size());
  put_u16(&bytes[6], padded(frame.head.size()));
  return bytes;
}

FrameReader::FrameReader(std::size_t frame_size_max) : frame_size_max_(std::min(frame_size_max, kFrameSizeMax)) {}

Result<FrameReader::Header> FrameReader::parse_header(const std::byte* data) const {
  Header header;
  header.payload = get_u32(data);
  header.type = static_cast<FrameType>(data[4]);
  header.descriptors = std::to_integer<std::size_t>(data[5]);
  header.head = get_u16(data + 6);
  if (header.payload > frame_size_max_) {
    return framing_error("a frame of " + std::to_string(header.payload) + " bytes, above the limit of " +
                         std::to_string(frame_size_max_));
  }
  if (header.type > FrameType::kHello) {
    return framing_error("frame type " + std::to_string(static_cast<int>(header.type)) + " does not exist");
  }
  if (header.head % 8 != 0 || header.head > header.payload || header.head > kFrameHeadMax) {
    return framing_error("a head of " + std::to_string(header.head) + " bytes in a frame of " +
                         std::to_string(header.payload));
  }
  if (header.descriptors > kFrameDescriptorsMax) {
    return framing_error(std::to_string(header.descriptors) + " descriptors in a frame");
  }
  return header;
}

std::span<std::byte> FrameReader::writable() {
  if (big_) {
    const std::size_t body = header_.payload - header_.head;
    if (filled_ == body) {
      return std::span(padding_).subspan(padding_filled_, padded(body) - body - padding_filled_);
    }
    if (filled_ == capacity_) grow_big();
    std::byte* start = target_.data != nullptr ? target_.data : buffer_.get();
    return {start + filled_, std::min(capacity_ - filled_, kBigReadMax)};
  }
  // The frames cut from the block are gone: its memory is warm, use it again from the start. The copy is there because
  // use_count() orders nothing: counting up and down does, so what other threads read is read before we overwrite it.
  if (block_ && read_ == write_ && block_.use_count() == 1) {
    const auto ordered = block_;
    read_ = write_ = 0;
  }
  // What is unparsed is less than a small frame, so a new block has room for it and more.
  if (!block_ || kBlockSize - write_ < kReadMin) renew_block();
  return {block_.get() + write_, kBlockSize - write_};
}

void FrameReader::renew_block() {
  auto fresh = std::make_shared_for_overwrite<std::byte[]>(kBlockSize);
  const std::size_t rest = write_ - read_;
  if (rest > 0) std::memcpy(fresh.get(), block_.get() + read_, rest);
  block_ = std::move(fresh);
  read_ = 0;
  write_ = rest;
}

Status FrameReader::commit(std::size_t size, std::vector<Frame>& frames) {
  if (big_) return commit_big(size, frames);
  write_ += size;
  MOBULA_CHECK(write_ <= kBlockSize);
  return parse_block(frames);
}

// Cuts whole frames off the block. Stops at a big frame, which gets memory of its own, or at an unfinished one.
Status FrameReader::parse_block(std::vector<Frame>& frames) {
  while (write_ - read_ >= kFrameHeaderSize) {
    auto header = parse_header(block_.get() + read_);
    if (!header) return std::move(header).error();
    // A raw frame's body has its place, however small it is.
    const bool placed = header->type == FrameType::kRaw && raw_target_ && header->payload > header->head;
    if (header->payload > kSmallFrameMax || placed) {
      // The head must be there, because it says where the body goes.
      if (write_ - read_ - kFrameHeaderSize < header->head) return {};
      header_ = *header;
      if (Status status = begin_big(frames); !status || big_) return status;
      continue;
    }
    const std::size_t whole = kFrameHeaderSize + padded(header->payload);
    if (write_ - read_ < whole) return {};
    const std::byte* payload = block_.get() + read_ + kFrameHeaderSize;
    header_ = *header;
    Frame frame;
    frame.type = header->type;
    if (header->head > 0) frame.head = Bytes(block_, payload, header->head);
    if (header->payload > header->head) {
      frame.body = Bytes(block_, payload + header->head, header->payload - header->head);
    }
    read_ += whole;
    if (Status status = finish(std::move(frame), frames); !status) return status;
  }
  return {};
}

// The head of a big frame is complete at the start of what is unparsed; what came of its body moves to its own memory.
// Returns with big_ false when the frame is complete already.
Status FrameReader::begin_big(std::vector<Frame>& frames) {
  const std::byte* payload = block_.get() + read_ + kFrameHeaderSize;
  big_head_ = header_.head > 0 ? Bytes::copy_of(payload, header_.head) : Bytes();
  read_ += kFrameHeaderSize + header_.head;
  big_ = true;
  filled_ = 0;
  padding_filled_ = 0;
  const std::size_t body = header_.payload - header_.head;
  target_ = {};
  if (header_.type == FrameType::kRaw && raw_target_) target_ = raw_target_(big_head_, body);
  capacity_ = target_.data != nullptr ? body : 0;
  while (big_ && read_ < write_) {
    const std::span<std::byte> into = writable();
    const std::size_t size = std::min(into.size(), write_ - read_);
    std::memcpy(into.data(), block_.get() + read_, size);
    read_ += size;
    if (Status status = commit_big(size, frames); !status) return status;
  }
  // What comes after this frame starts a new one, which wants to be aligned.
  if (read_ == write_) read_ = write_ = padded(write_);
  return {};
}

void FrameReader::grow_big() {
  const std::size_t body = header_.payload - header_.head;
  capacity_ = std::min(body, std::max(kFirstBuffer, capacity_ * 4));
  // realloc moves pages instead of copying them once the buffer is large.
  void* grown = std::realloc(buffer_.release(), capacity_);
  MOBULA_CHECK(grown != nullptr, "out of memory for a frame that arrives");
  buffer_.reset(static_cast<std::byte*>(grown));
}

Status FrameReader::commit_big(std::size_t size, std::vector<Frame>& frames) {
  const std::size_t body = header_.payload - header_.head;
  if (filled_ < body) {
    filled_ += size;
  } else {
    padding_filled_ += size;
  }
  if (filled_ < body || padding_filled_ < padded(body) - body) return {};
  Frame frame;
  frame.type = header_.type;
  frame.head = std::move(big_head_);
  if (target_.data != nullptr) {
    frame.body = Bytes(std::move(target_.owner), target_.data, body);
  } else if (body > 0) {
    const std::byte* start = buffer_.get();
    frame.body = Bytes(std::shared_ptr<std::byte>(buffer_.release(), &std::free), start, body);
  }
  big_ = false;
  big_head_ = {};
  target_ = {};
  capacity_ = 0;
  return finish(std::move(frame), frames);
}

Status FrameReader::finish(Frame frame, std::vector<Frame>& frames) {
  if (header_.descriptors > descriptors_.size()) {
    return framing_error("a frame announces " + std::to_string(header_.descriptors) + " descriptors, " +
                         std::to_string(descriptors_.size()) + " came");
  }
  if (header_.descriptors > 0) {
    const auto end = descriptors_.begin() + static_cast<std::ptrdiff_t>(header_.descriptors);
    frame.descriptors.assign(std::make_move_iterator(descriptors_.begin()), std::make_move_iterator(end));
    descriptors_.erase(descriptors_.begin(), end);
  }
  frames.push_back(std::move(frame));
  return {};
}

Status FrameReader::add_descriptors(std::vector<Fd> descriptors) {
  for (Fd& descriptor : descriptors) descriptors_.push_back(std::move(descriptor));
  if (descriptors_.size() > kDescriptorsWaitingMax) return framing_error("descriptors that belong to no frame");
  return {};
}

bool FrameReader::at_boundary() const {
  return !big_ && read_ == write_;
}

}  // namespace mobula::net
