// current and nodes: what a program knows about where it runs.
#pragma once

#include <vector>

#include <mobula/detail/core.h>
#include <mobula/info.h>

namespace mobula {

// The task, actor, node and resources of the calling thread's code; in a driver the job and node alone. Throws
// RuntimeStopped when there is no Runtime.
inline Current current() {
  return detail::current_state();
}

// The nodes of the cluster, dead ones of the recent past included.
inline std::vector<NodeInfo> nodes() {
  return detail::list_nodes();
}

}  // namespace mobula
