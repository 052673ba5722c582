// The private folder of one running node: its socket, its processes' sockets, who it is, and a lock that is held for as
// long as it lives.
//
// <runtime dir>/mobula-<uid>/<cluster id>/<node id>/ with node.sock, p/, node.json and lock; every level is 0700 and
// ours, which with peer credentials is the whole fence between users of a machine. The runtime dir is
// $MOBULA_RUNTIME_DIR, else $XDG_RUNTIME_DIR when it is usable, else /tmp. A folder whose lock is free belonged to a
// node that is gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mobula/ids.h>

#include "runtime/base/result.h"
#include "runtime/process/fd.h"

namespace mobula::process {

// Socket paths longer than this are refused (sun_path ends at 108).
inline constexpr std::size_t kSocketPathBytesMax = 100;

// What node.json says.
struct NodeRecord {
  ClusterId cluster;
  NodeId node;
  std::int32_t pid = 0;
  std::string endpoint;       // "host:port" of the node's TCP port
  std::string head_endpoint;  // "host:port" of the head it belongs to
  std::string version;
  std::string log_dir;
  bool private_cluster = false;  // started by `init` for one driver
};

class SessionDir {
 public:
  // Makes the folder with lock and p/; the node calls publish() when its socket listens.
  static Result<SessionDir> create(ClusterId cluster, NodeId node);
  ~SessionDir();  // removes it, unless moved from or kept
  SessionDir(SessionDir&&) noexcept;
  SessionDir& operator=(SessionDir&&) noexcept;

  Status publish(const NodeRecord& record);
  void remove();
  // Leaves the folder to whoever finds it stale: for tests and crashes.
  void keep();

  const std::string& path() const { return path_; }
  std::string node_socket() const { return path_ + "/node.sock"; }
  std::string process_dir() const { return path_ + "/p"; }
  std::string process_socket(ProcessId process) const;

 private:
  SessionDir(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  Fd lock_;
};

// A folder that somebody else made.
struct FoundSession {
  std::string path;
  NodeRecord record;
  bool alive = false;  // its lock is held
  std::string node_socket() const { return path + "/node.sock"; }
};

// `<session>/p/<16 hex digits>`.
std::string process_socket_path(const std::string& session, ProcessId process);

// Sessions on this machine that this user may use, published ones only; all clusters when `cluster` is zero.
// Sorted by path.
std::vector<FoundSession> find_sessions(ClusterId cluster = {});
// Removes folders whose lock is free, and the empty folders above them; returns how many sessions went.
std::size_t remove_stale_sessions();

// Makes (or checks) a folder that is ours alone: real directory, owned by this user, no access for others.
Status ensure_private_dir(const std::string& path);
// The runtime dirs that are looked at, the first is the one new sessions are made in.
std::vector<std::string> runtime_dirs();

}  // namespace mobula::process
