// The cluster file: all that a node, a driver or a command needs to find a cluster and to be let in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <mobula/ids.h>

#include "runtime/base/result.h"
#include "runtime/net/keys.h"

namespace mobula::net {

struct ClusterFile {
  ClusterId cluster;
  std::string address;       // HOST:PORT of the head
  std::uint32_t epoch = 1;   // of the key
  std::optional<Key> key;    // the cluster key, or
  std::optional<Leaf> leaf;  // one identity only (`mobula key --role ...`)
};

// $HOME/.mobula/cluster.json (the home of the password file when HOME is not set).
std::string default_cluster_file();

// Makes a new file, mode 0600 whatever the umask; its folder too (0700) when missing. An existing file is an error that
// names it.
Status create_cluster_file(const std::string& path, const ClusterFile& content);
// Puts new content in the place of an existing file of ours, at once or not at all.
Status replace_cluster_file(const std::string& path, const ClusterFile& content);
// Refuses a file that is a symbolic link, belongs to another user, or can be read by others; says how to mend it.
Result<ClusterFile> load_cluster_file(const std::string& path);

// The identity to connect with. From a cluster key any role can be derived; a file that holds a leaf gives that leaf,
// or kUnauthenticated when another role is needed.
Result<Leaf> leaf_for(const ClusterFile& file, Role role, JobId job, std::uint64_t holder);

}  // namespace mobula::net
