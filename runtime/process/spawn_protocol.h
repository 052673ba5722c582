// What the daemon and a zygote say to each other over their SOCK_SEQPACKET pair: one message a packet, descriptors
// beside it.
//
// Not Cap'n Proto: the zygote runs in the user's process before anything of Mobula has started and must stay
// single-threaded and small. The daemon's binary and the library in the user's program may be of different builds,
// so the zygote's hello carries a version, and a packet of another version is refused by name.
//
// daemon -> zygote: Fork (with 3 descriptors).   zygote -> daemon: Hello once, then Forked (with a pidfd) or ForkFailed
// for each Fork in order, and Exited for each worker that ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/ids.h>

#include "runtime/base/result.h"
#include "runtime/process/fd.h"

namespace mobula::process {

inline constexpr std::uint16_t kSpawnProtocolVersion = 1;
// Bound of one packet: a worker's extra environment above this is refused by name.
inline constexpr std::size_t kSpawnPacketBytesMax = 64 * 1024;
// The daemon writes it on a worker's control socket once cgroup and limits are set; before it no user code runs.
inline constexpr char kGoByte = 'g';
// Exit status of a worker whose setup failed (its stderr says why).
inline constexpr int kSetupFailedStatus = 121;

using Environment = std::vector<std::pair<std::string, std::string>>;

// What a worker is to become. Descriptors travel beside the packet in this order.
struct SpawnRequest {
  ProcessId worker;
  Environment environment;             // set on top of the zygote's
  std::vector<std::string> unset;      // taken out of it
  std::string working_dir;             // "": the zygote's
  std::string title;                   // what `ps` shows, at most 15 bytes are kept; "": the executable's
  std::int32_t oom_score = 0;          // see set_oom_score
  std::uint64_t descriptor_limit = 0;  // soft RLIMIT_NOFILE; 0: as inherited
  Fd control;                          // the worker's end of its link to the daemon (stream)
  Fd out;
  Fd err;
};

struct SpawnHello {
  std::uint16_t version = kSpawnProtocolVersion;
  std::int32_t pid = 0;
  bool can_fork = true;  // false: the process takes one Fork and becomes that worker itself
  std::string why_not;   // for people, when it cannot
  std::string failure;   // for people: it cannot serve at all (a library that does not load)
};
struct SpawnForked {
  ProcessId worker;
  std::int32_t pid = 0;
  Fd pidfd;  // may be empty on old kernels
};
struct SpawnForkFailed {
  ProcessId worker;
  std::int32_t error = 0;  // errno
};
struct SpawnExited {
  ProcessId worker;
  std::int32_t pid = 0;
  std::int32_t wait_status = 0;  // as waitpid gives it
};
using ZygoteMessage = std::variant<SpawnHello, SpawnForked, SpawnForkFailed, SpawnExited>;

// kWouldBlock: nothing was sent or is there; kClosed: the other end is gone.
enum class PacketOutcome : std::uint8_t { kDone, kWouldBlock, kClosed, kFailed };

// An error when the request is larger than kSpawnPacketBytesMax.
Status check_size(const SpawnRequest& request);
PacketOutcome send_request(int socket, const SpawnRequest& request);
PacketOutcome receive_request(int socket, SpawnRequest& request);
PacketOutcome send_message(int socket, const ZygoteMessage& message);
PacketOutcome receive_message(int socket, ZygoteMessage& message);

}  // namespace mobula::process
