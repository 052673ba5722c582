#include "runtime/net/transport.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/net/frame.h"
#include "runtime/net/socket.h"

namespace mobula::net {
namespace {

constexpr std::size_t kControlSize = CMSG_SPACE(sizeof(int) * 2 * kFrameDescriptorsMax);

IoResult failed(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return {IoResult::State::kWouldBlock, 0, {}};
  return {IoResult::State::kError, 0, errno_text(error)};
}

class PlainTransport : public Transport {
 public:
  explicit PlainTransport(Fd socket) : socket_(std::move(socket)) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    unix_ =
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.ss_family == AF_UNIX;
  }

  int descriptor() const override { return socket_.get(); }
  bool has_buffered() const override { return false; }
  bool carries_descriptors() const override { return unix_; }
  void shutdown() override {}

  IoResult read(std::span<std::byte> into, std::vector<Fd>& descriptors) override {
    iovec part{into.data(), into.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<std::byte, kControlSize> control;
    if (unix_) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
    }
    const ssize_t size = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0) return failed(errno);
    if (message.msg_controllen > 0) take_descriptors(message, descriptors);
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return {IoResult::State::kError, 0, "descriptors were lost: too many came, or this process is out of them"};
    }
    if (size == 0) return {IoResult::State::kEnd, 0, {}};
    return {IoResult::State::kDone, static_cast<std::size_t>(size), {}};
  }

  IoResult write(std::span<const iovec> parts, std::span<const Fd> descriptors) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    alignas(cmsghdr) std::array<std::byte, kControlSize> control;
    if (!descriptors.empty()) {
      MOBULA_CHECK(unix_ && descriptors.size() <= kFrameDescriptorsMax);
      std::array<int, kFrameDescriptorsMax> numbers{};
      for (std::size_t i = 0; i < descriptors.size(); ++i) numbers[i] = descriptors[i].get();
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
      std::memset(control.data(), 0, message.msg_controllen);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
      std::memcpy(CMSG_DATA(header), numbers.data(), sizeof(int) * descriptors.size());
    }
    const ssize_t size = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) return failed(errno);
    return {IoResult::State::kDone, static_cast<std::size_t>(size), {}};
  }

 private:
  static void take_descriptors(msghdr& message, std::vector<Fd>& descriptors) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int number = -1;
        std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        descriptors.emplace_back(number);
      }
    }
  }

  Fd socket_;
  bool unix_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(Fd socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

}  // namespace mobula::net
