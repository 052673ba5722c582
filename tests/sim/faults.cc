// What goes wrong in the first phase of a run: at random times, each kind at a rate of its own.
#include <algorithm>
#include <cmath>

#include "tests/sim/world.h"

namespace mobula::sim {
namespace {

// More nodes, more of everything that happens to one.
Duration for_cluster(Duration mean, std::size_t nodes) {
  return mean * 4 / static_cast<std::int64_t>(std::clamp<std::size_t>(nodes, 4, 400));
}

}  // namespace

void World::start_faults() {
  faulty_ = true;
  const auto has = [this](const char* what) { return options.faults.contains(what); };
  if (has("worker")) fault("worker", for_cluster(2s, options.nodes), &World::kill_a_worker);
  if (has("node")) fault("node", for_cluster(15s, options.nodes), &World::kill_a_node);
  if (has("link")) fault("link", for_cluster(1500ms, options.nodes), &World::break_a_link);
  if (has("cut")) fault("cut", for_cluster(12s, options.nodes), &World::cut_a_node);
  if (has("delay")) fault("delay", for_cluster(4s, options.nodes), &World::slow_a_node);
  if (options.workloads.contains("churn")) churn();
}

void World::fault(const char* what, Duration mean, void (World::*act)()) {
  const Duration wait(faults_rng_.between(mean.count() / 10, 2 * mean.count()));
  time.after(wait, [this, what, mean, act] {
    if (!faulty_) return;
    ++faults_;
    (this->*act)();
    fault(what, mean, act);
  });
}

void World::kill_a_worker() {
  std::vector<ProcessId> workers;
  for (const auto& [id, process] : processes_) {
    if (!process->driver) workers.push_back(id);
  }
  if (!workers.empty()) ends(workers[faults_rng_.below(workers.size())], false, "it was killed");
}

void World::kill_a_node() {
  std::vector<NodeId> candidates;
  for (const auto& [id, node] : nodes_) {
    if (!node.home) candidates.push_back(id);
  }
  if (candidates.empty()) return;
  kill_node(candidates[faults_rng_.below(candidates.size())], "it was killed");
  time.after(Duration(faults_rng_.between(500'000'000, 8'000'000'000)), [this] { add_node(false); });
}

void World::break_a_link() {
  const auto link = network.some_link(faults_rng_);
  if (link) network.break_link(link->first, link->second);
}

// Long enough to be declared dead, for nodes that may be.
void World::cut_a_node() {
  auto at = nodes_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(faults_rng_.below(nodes_.size())));
  const std::int64_t longest = at->second.home ? 700'000'000 : 7'000'000'000;
  network.cut(at->first, now() + Duration(faults_rng_.between(100'000'000, longest)));
}

void World::slow_a_node() {
  auto at = nodes_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(faults_rng_.below(nodes_.size())));
  network.slow(at->first, Duration(faults_rng_.between(5'000'000, 300'000'000)),
               now() + Duration(faults_rng_.between(200'000'000, 3'000'000'000)));
}

void World::heal() {
  faulty_ = false;
  healed_at_ = now();
  network.heal();
}

// Nodes join and die all the time, as in a cluster of machines that are lent.
void World::churn() {
  time.after(Duration(faults_rng_.between(1'000'000'000, 5'000'000'000)), [this] {
    if (!faulty_) return;
    if (nodes_.size() < options.nodes + std::max<std::size_t>(2, options.nodes / 2)) {
      const NodeId id = add_node(false);
      time.after(Duration(faults_rng_.between(2'000'000'000, 20'000'000'000)), [this, id] {
        if (faulty_) kill_node(id, "its time was up");
      });
    }
    churn();
  });
}

}  // namespace mobula::sim
