#include "scheduler/policy.h"

#include <algorithm>
#include <tuple>

namespace mobula::scheduler {
namespace {

// Below this a node is filled before the next one is begun; above it the emptier node wins.
constexpr std::uint32_t kPackBelow = 500;
constexpr std::uint64_t kLocalityGrain = 1 << 16;  // bytes that are worth no move

std::uint32_t used_permille(std::uint64_t total, std::uint64_t free) {
  if (total == 0) return 0;
  const std::uint64_t used = free >= total ? 0 : total - free;
  const std::uint64_t grain = total > (std::uint64_t{1} << 50) ? 1024 : 1;  // keeps the product within 64 bits
  return static_cast<std::uint32_t>(used / grain * 1000 / (total / grain));
}

// Greater is better, compared from left to right.
using Score = std::tuple<std::uint64_t, bool, std::uint32_t, std::int64_t, bool>;

Score score(const NodeView& view, const Wish& wish) {
  const ResourceRequest& request = wish.request;
  const bool cpu_work = request.gpus.units == 0 && request.gpu_memory == 0;
  const bool keeps_gpus_free = !cpu_work || view.total.devices.empty();
  const std::uint32_t used = utilisation(view.total, view.free);
  // Spread looks at how many live there among nodes that are not busy; packing at how full they are.
  const std::uint32_t room = used < kPackBelow ? (wish.spread ? 1000 : 1000 + used) : 1000 - std::min(used, 1000U);
  const std::int64_t few = wish.spread ? -static_cast<std::int64_t>(view.actors) : 0;
  return {bytes_on(wish.locality, view.node) / kLocalityGrain, keeps_gpus_free, room, few, view.node == wish.prefer};
}

std::string join(const std::vector<std::string>& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string label_shortage(const Labels& labels, const ResourceRequest& request) {
  for (const auto& wanted : request.labels) {
    if (std::binary_search(labels.begin(), labels.end(), wanted)) continue;
    for (const auto& [key, value] : labels) {
      if (key == wanted.first) return "label " + key + " is " + value + ", not " + wanted.second;
    }
    return "it has no label " + wanted.first + "=" + wanted.second;
  }
  return {};
}

std::string reason(const NodeView& view, const NodeResources& resources, const ResourceRequest& request,
                   const char* short_of) {
  std::string text = label_shortage(view.labels, request);
  const auto missing = shortages(resources, request);
  if (!missing.empty()) text += (text.empty() ? "" : "; ") + (short_of + join(missing));
  return text;
}

}  // namespace

std::uint32_t utilisation(const NodeResources& total, const NodeResources& free) {
  std::uint32_t most = used_permille(positive_units(total.cpus), positive_units(free.cpus));
  most = std::max(most, used_permille(total.memory, free.memory));
  std::uint64_t gpus_free = 0;
  for (const auto& device : free.devices) gpus_free += positive_units(device.share);
  const std::uint64_t gpus_total = total.devices.size() * static_cast<std::uint64_t>(Quantity::kOne);
  return std::max(most, used_permille(gpus_total, gpus_free));
}

std::uint64_t bytes_on(std::span<const std::pair<NodeId, std::uint64_t>> locality, NodeId node) {
  std::uint64_t bytes = 0;
  for (const auto& [at, size] : locality) bytes += at == node ? size : 0;
  return bytes;
}

bool labels_match(const Labels& labels, const ResourceRequest& request) {
  for (const auto& wanted : request.labels) {
    if (!std::binary_search(labels.begin(), labels.end(), wanted)) return false;
  }
  return true;
}

bool feasible(const NodeView& view, const ResourceRequest& request) {
  return labels_match(view.labels, request) && fits(view.total, request);
}

bool available(const NodeView& view, const ResourceRequest& request) {
  return fits(view.free, request) && labels_match(view.labels, request);
}

Choice choose(std::span<const NodeView> views, const Wish& wish, std::uint64_t turn) {
  Choice choice;
  Score best;
  const std::size_t start = views.empty() ? 0 : static_cast<std::size_t>(turn % views.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const NodeView& view = views[(start + i) % views.size()];
    if (!available(view, wish.request)) {
      choice.feasible = choice.feasible || feasible(view, wish.request);
      continue;
    }
    choice.feasible = true;
    if (std::find(wish.exclude.begin(), wish.exclude.end(), view.node) != wish.exclude.end()) continue;
    const Score now = score(view, wish);
    if (!choice.node || now > best) {
      choice.node = view.node;
      best = now;
    }
  }
  return choice;
}

std::string why_never(const NodeView& view, const ResourceRequest& request) {
  // Totals, so "free" in the texts would mislead.
  std::string text = reason(view, view.total, request, "needs ");
  for (std::size_t at = text.find(" free)"); at != std::string::npos; at = text.find(" free)", at)) {
    text.replace(at, 6, " in all)");
  }
  return text;
}

std::string why_not_now(const NodeView& view, const ResourceRequest& request) {
  return reason(view, view.free, request, "needs ");
}

Reasons explain(std::span<const NodeView> views, const ResourceRequest& request, bool never) {
  Reasons reasons;
  for (const auto& view : views) {
    if (reasons.size() == kMaxReasons) {
      reasons.emplace_back(NodeId{}, "and " + std::to_string(views.size() - kMaxReasons) + " more nodes");
      break;
    }
    std::string text = never || !feasible(view, request) ? why_never(view, request) : why_not_now(view, request);
    if (!never && !feasible(view, request)) text = "never: " + text;
    if (text.empty()) text = never ? "could take it" : "has room now";
    reasons.emplace_back(view.node, std::move(text));
  }
  return reasons;
}

std::string unschedulable_text(const ResourceRequest& request, const Reasons& reasons) {
  std::string text =
      "no node can ever run what asks for " + to_string(request) + "; ask for less, or add a node that has it";
  for (const auto& [node, why] : reasons) {
    text += "\n  " + (node ? "node " + to_string(node) + ": " : std::string()) + why;
  }
  return text;
}

}  // namespace mobula::scheduler
