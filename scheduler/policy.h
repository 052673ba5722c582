// Which node for a request: the one policy that head and node share, as pure functions over a vector of node views.
//
// One scheduler, not two: a node asks "do I take it?" and the head asks "who takes it?" of the same code, so the
// answers cannot drift apart. Scores are integers and ties break by node order rotated by a counter, so equal inputs
// give equal choices. A scan of all nodes is linear on purpose: at 2,000 nodes it costs some ten microseconds, and an
// index would have to be kept true under every heartbeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobula/ids.h>

#include "runtime/base/protocol/cluster.h"
#include "runtime/base/resources.h"

namespace mobula::scheduler {

// Bytes of arguments that lie on a node.
using Locality = std::vector<std::pair<NodeId, std::uint64_t>>;
// Why each node does not take a request, for people.
using Reasons = std::vector<std::pair<NodeId, std::string>>;

inline constexpr std::size_t kMaxReasons = 64;

// What the policy knows of a node. `free` is as last heard, less what was promised since.
struct NodeView {
  NodeId node;
  NodeResources total;
  NodeResources free;
  Labels labels;
  std::uint32_t actors = 0;  // placed here
};

struct Wish {
  const ResourceRequest& request;
  std::span<const std::pair<NodeId, std::uint64_t>> locality = {};
  NodeId prefer = {};                    // wins ties: the node of the asker
  std::span<const NodeId> exclude = {};  // turned it down already, or must not be it
  bool spread = false;                   // few actors a node before full nodes first
};

struct Choice {
  NodeId node;            // zero: no node has room now
  bool feasible = false;  // some node (also an excluded one) could take it when empty
};

// Has a node with `labels` every label that is asked for?
bool labels_match(const Labels& labels, const ResourceRequest& request);
// Could it ever run there?
bool feasible(const NodeView& view, const ResourceRequest& request);
// Does it fit there now?
bool available(const NodeView& view, const ResourceRequest& request);

// `views` in any fixed order; `turn` rotates ties.
Choice choose(std::span<const NodeView> views, const Wish& wish, std::uint64_t turn);

// The most used part of a node's CPUs, GPUs and memory, in 1/1000.
std::uint32_t utilisation(const NodeResources& total, const NodeResources& free);

// Bytes of `locality` on `node`.
std::uint64_t bytes_on(std::span<const std::pair<NodeId, std::uint64_t>> locality, NodeId node);

// Why `view` cannot take it: against its totals ("never") or against what is free now. Empty when it can.
std::string why_never(const NodeView& view, const ResourceRequest& request);
std::string why_not_now(const NodeView& view, const ResourceRequest& request);

// One reason a node, at most kMaxReasons; when there are more nodes the last entry has node zero and says how many.
Reasons explain(std::span<const NodeView> views, const ResourceRequest& request, bool never);

// The text of an Unschedulable error.
std::string unschedulable_text(const ResourceRequest& request, const Reasons& reasons);

}  // namespace mobula::scheduler
