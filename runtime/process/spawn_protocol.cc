#include "runtime/process/spawn_protocol.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

namespace mobula::process {
namespace {

constexpr std::uint32_t kMagic = 0x4d4f425a;  // "MOBZ"
constexpr std::size_t kDescriptorsPerPacketMax = 3;

enum class PacketKind : std::uint16_t { kFork = 1, kHello = 2, kForked = 3, kForkFailed = 4, kExited = 5 };

// Native byte order: both ends are on one machine.
class Writer {
 public:
  explicit Writer(PacketKind kind) {
    number(kMagic);
    number(kSpawnProtocolVersion);
    number(kind);
  }
  template <class T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    const std::size_t at = bytes_.size();
    bytes_.resize(at + value.size());
    if (!value.empty()) std::memcpy(bytes_.data() + at, value.data(), value.size());
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Reads past the end give zeros and empty texts, and ok() says so.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value{};
    if (bytes_.size() < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<std::uint32_t>();
    if (bytes_.size() < size) {
      fail();
      return {};
    }
    std::string value(size, '\0');
    if (size > 0) std::memcpy(value.data(), bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }
  // Every element takes at least 4 bytes, which bounds what a wrong count can make us allocate.
  std::size_t count() {
    const auto value = number<std::uint32_t>();
    if (value > bytes_.size() / 4) fail();
    return ok_ ? value : 0;
  }
  bool ok() const { return ok_; }

 private:
  void fail() {
    ok_ = false;
    bytes_ = {};
  }
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

PacketOutcome outcome_of_errno() {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return PacketOutcome::kWouldBlock;
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return PacketOutcome::kClosed;
  return PacketOutcome::kFailed;
}

PacketOutcome send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsPerPacketMax)> control{};
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return PacketOutcome::kDone;
    if (errno != EINTR) return outcome_of_errno();
  }
}

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<Fd> descriptors;
};

PacketOutcome receive_packet(int socket, Packet& packet) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsPerPacketMax)> control{};
  packet.bytes.resize(kSpawnPacketBytesMax);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return outcome_of_errno();
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      packet.descriptors.emplace_back(fd);
    }
  }
  if (got == 0) return PacketOutcome::kClosed;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return PacketOutcome::kFailed;
  packet.bytes.resize(static_cast<std::size_t>(got));
  return PacketOutcome::kDone;
}

// The common header; a foreign version is reported through `version`.
bool read_header(Reader& reader, std::uint16_t& version, PacketKind& kind) {
  const auto magic = reader.number<std::uint32_t>();
  version = reader.number<std::uint16_t>();
  kind = reader.number<PacketKind>();
  return reader.ok() && magic == kMagic;
}

Writer encode(const SpawnRequest& request) {
  Writer writer(PacketKind::kFork);
  writer.number(request.worker.value);
  writer.number(static_cast<std::uint32_t>(request.environment.size()));
  for (const auto& [name, value] : request.environment) {
    writer.text(name);
    writer.text(value);
  }
  writer.number(static_cast<std::uint32_t>(request.unset.size()));
  for (const std::string& name : request.unset) writer.text(name);
  writer.text(request.working_dir);
  writer.text(request.title);
  writer.number(request.oom_score);
  writer.number(request.descriptor_limit);
  return writer;
}

bool decode(Reader& reader, SpawnRequest& request) {
  request.worker = ProcessId{reader.number<std::uint64_t>()};
  const std::size_t variables = reader.count();
  for (std::size_t i = 0; i < variables && reader.ok(); ++i) {
    std::string name = reader.text();
    std::string value = reader.text();
    request.environment.emplace_back(std::move(name), std::move(value));
  }
  const std::size_t removed = reader.count();
  for (std::size_t i = 0; i < removed && reader.ok(); ++i) request.unset.push_back(reader.text());
  request.working_dir = reader.text();
  request.title = reader.text();
  request.oom_score = reader.number<std::int32_t>();
  request.descriptor_limit = reader.number<std::uint64_t>();
  return reader.ok();
}

struct MessageEncoder {
  Writer operator()(const SpawnHello& hello) const {
    Writer writer(PacketKind::kHello);
    writer.number(hello.pid);
    writer.number(static_cast<std::uint8_t>(hello.can_fork));
    writer.text(hello.why_not);
    writer.text(hello.failure);
    return writer;
  }
  Writer operator()(const SpawnForked& forked) const {
    Writer writer(PacketKind::kForked);
    writer.number(forked.worker.value);
    writer.number(forked.pid);
    return writer;
  }
  Writer operator()(const SpawnForkFailed& failed) const {
    Writer writer(PacketKind::kForkFailed);
    writer.number(failed.worker.value);
    writer.number(failed.error);
    return writer;
  }
  Writer operator()(const SpawnExited& exited) const {
    Writer writer(PacketKind::kExited);
    writer.number(exited.worker.value);
    writer.number(exited.pid);
    writer.number(exited.wait_status);
    return writer;
  }
};

bool decode(Reader& reader, PacketKind kind, Packet& packet, ZygoteMessage& message) {
  switch (kind) {
    case PacketKind::kHello: {
      SpawnHello hello;
      hello.pid = reader.number<std::int32_t>();
      hello.can_fork = reader.number<std::uint8_t>() != 0;
      hello.why_not = reader.text();
      hello.failure = reader.text();
      message = std::move(hello);
      return reader.ok();
    }
    case PacketKind::kForked: {
      SpawnForked forked;
      forked.worker = ProcessId{reader.number<std::uint64_t>()};
      forked.pid = reader.number<std::int32_t>();
      if (!packet.descriptors.empty()) forked.pidfd = std::move(packet.descriptors.front());
      message = std::move(forked);
      return reader.ok();
    }
    case PacketKind::kForkFailed: {
      SpawnForkFailed failed;
      failed.worker = ProcessId{reader.number<std::uint64_t>()};
      failed.error = reader.number<std::int32_t>();
      message = failed;
      return reader.ok();
    }
    case PacketKind::kExited: {
      SpawnExited exited;
      exited.worker = ProcessId{reader.number<std::uint64_t>()};
      exited.pid = reader.number<std::int32_t>();
      exited.wait_status = reader.number<std::int32_t>();
      message = exited;
      return reader.ok();
    }
    case PacketKind::kFork: break;
  }
  return false;
}

}  // namespace

Status check_size(const SpawnRequest& request) {
  const std::size_t size = encode(request).bytes().size();
  if (size <= kSpawnPacketBytesMax) return {};
  return make_error(ErrorKind::kInvalid, "the environment of a worker is " + std::to_string(size) + " bytes, above " +
                                             std::to_string(kSpawnPacketBytesMax) +
                                             ": pass large values as arguments or in a file");
}

PacketOutcome send_request(int socket, const SpawnRequest& request) {
  const int descriptors[] = {request.control.get(), request.out.get(), request.err.get()};
  return send_packet(socket, encode(request).bytes(), descriptors);
}

PacketOutcome receive_request(int socket, SpawnRequest& request) {
  Packet packet;
  if (const PacketOutcome got = receive_packet(socket, packet); got != PacketOutcome::kDone) return got;
  Reader reader(packet.bytes);
  std::uint16_t version = 0;
  PacketKind kind{};
  if (!read_header(reader, version, kind) || version != kSpawnProtocolVersion || kind != PacketKind::kFork ||
      packet.descriptors.size() != kDescriptorsPerPacketMax || !decode(reader, request)) {
    return PacketOutcome::kFailed;
  }
  request.control = std::move(packet.descriptors[0]);
  request.out = std::move(packet.descriptors[1]);
  request.err = std::move(packet.descriptors[2]);
  return PacketOutcome::kDone;
}

PacketOutcome send_message(int socket, const ZygoteMessage& message) {
  const Writer writer = std::visit(MessageEncoder{}, message);
  if (const auto* forked = std::get_if<SpawnForked>(&message); forked != nullptr && forked->pidfd) {
    const int pidfd = forked->pidfd.get();
    return send_packet(socket, writer.bytes(), std::span(&pidfd, 1));
  }
  return send_packet(socket, writer.bytes(), {});
}

PacketOutcome receive_message(int socket, ZygoteMessage& message) {
  Packet packet;
  if (const PacketOutcome got = receive_packet(socket, packet); got != PacketOutcome::kDone) return got;
  Reader reader(packet.bytes);
  std::uint16_t version = 0;
  PacketKind kind{};
  if (!read_header(reader, version, kind)) return PacketOutcome::kFailed;
  if (version != kSpawnProtocolVersion) {
    // Only the header is common to all versions.
    SpawnHello foreign;
    foreign.version = version;
    foreign.can_fork = false;
    message = std::move(foreign);
    return PacketOutcome::kDone;
  }
  return decode(reader, kind, packet, message) ? PacketOutcome::kDone : PacketOutcome::kFailed;
}

}  // namespace mobula::process
