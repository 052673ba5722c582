#include <doctest/doctest.h>

#include <vector>

#include "scheduler/bounded.h"
#include "scheduler/policy.h"

namespace mobula::scheduler::test {

namespace {

NodeView view(std::uint64_t id, int cpu_count, int used = 0) {
  NodeView view;
  view.node = NodeId{id};
  view.total.cpus = Quantity::whole(cpu_count);
  view.free.cpus = Quantity::whole(cpu_count - used);
  return view;
}

ResourceRequest cpus(int count) {
  ResourceRequest request;
  request.cpus = Quantity::whole(count);
  return request;
}

NodeId pick(const std::vector<NodeView>& views, const Wish& wish, std::uint64_t turn = 0) {
  return choose(views, wish, turn).node;
}

}  // namespace

TEST_CASE("a node is filled to half, then the emptier one wins") {
  std::vector<NodeView> views{view(1, 8), view(2, 8, 2), view(3, 8, 6)};
  const auto request = cpus(1);
  CHECK(pick(views, {request}) == NodeId{2});
  views[1] = view(2, 8, 5);
  CHECK(pick(views, {request}) == NodeId{1});
  views[0] = view(1, 8, 7);
  CHECK(pick(views, {request}) == NodeId{2});  // 5 of 8 is emptier than 6 of 8
}

TEST_CASE("actors spread over idle nodes") {
  std::vector<NodeView> views{view(1, 8), view(2, 8), view(3, 8)};
  const auto request = cpus(1);
  for (int round = 0; round < 6; ++round) {
    const NodeId chosen = pick(views, {request, {}, NodeId{1}, {}, true});
    ++views[static_cast<std::size_t>(chosen.value - 1)].actors;
  }
  for (const auto& one : views) CHECK(one.actors == 2);
}

TEST_CASE("locality comes before load, GPUs are kept for GPU work, ties prefer the asker and then turn") {
  std::vector<NodeView> views{view(1, 8), view(2, 8), view(3, 8, 7)};
  const auto request = cpus(1);
  const Locality locality{{NodeId{3}, 10 << 20}, {NodeId{2}, 100}};
  CHECK(pick(views, {request, locality}) == NodeId{3});
  CHECK(pick(views, {request, {}, NodeId{2}}) == NodeId{2});
  CHECK(pick(views, {request}, 0) == NodeId{1});
  CHECK(pick(views, {request}, 1) == NodeId{2});
  views[0].total.devices = views[0].free.devices = {{"GPU-a", Quantity::whole(1), 1, 1}};
  CHECK(pick(views, {request}, 0) == NodeId{2});
  ResourceRequest gpu = cpus(1);
  gpu.gpus = Quantity::whole(1);
  CHECK(pick(views, {gpu}, 1) == NodeId{1});
}

TEST_CASE("excluded nodes are not chosen but count as feasible; labels must match") {
  std::vector<NodeView> views{view(1, 8), view(2, 2)};
  views[0].labels = {{"zone", "a"}};
  auto request = cpus(4);
  const std::vector<NodeId> exclude{NodeId{1}};
  const Choice choice = choose(views, {request, {}, {}, exclude}, 0);
  CHECK_FALSE(choice.node);
  CHECK(choice.feasible);
  request.labels = {{"zone", "b"}};
  CHECK_FALSE(choose(views, {request}, 0).feasible);
  const Reasons reasons = explain(views, request, true);
  REQUIRE(reasons.size() == 2);
  CHECK(reasons[0].second == "label zone is a, not b");
  CHECK(reasons[1].second == "it has no label zone=b; needs 4 CPU (2 in all)");
  CHECK(unschedulable_text(request, reasons).find("label zone is a, not b") != std::string::npos);
}

TEST_CASE("why not now names what is short and what can never be") {
  std::vector<NodeView> views{view(1, 8, 6), view(2, 2), view(3, 8)};
  const Reasons reasons = explain(views, cpus(4), false);
  CHECK(reasons[0].second == "needs 4 CPU (2 free)");
  CHECK(reasons[1].second == "never: needs 4 CPU (2 in all)");
  CHECK(reasons[2].second == "has room now");
}

TEST_CASE("reasons are bounded") {
  std::vector<NodeView> views;
  for (std::uint64_t i = 1; i <= 100; ++i) views.push_back(view(i, 1));
  const Reasons reasons = explain(views, cpus(2), true);
  CHECK(reasons.size() == kMaxReasons + 1);
  CHECK(reasons.back().second == "and 36 more nodes");
}

TEST_CASE("bounded memory forgets the oldest") {
  BoundedMemory<int, int> memory(3);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(memory.put(i, i));
  memory.put(0, 9);  // newest now
  CHECK(*memory.put(3, 3) == 1);
  CHECK(memory.size() == 3);
  memory.erase(2);
  CHECK_FALSE(memory.put(4, 4));
  CHECK(*memory.put(5, 5) == 0);
  CHECK(memory.find(0) == nullptr);
  CHECK(*memory.find(3) == 3);
}

}  // namespace mobula::scheduler::test
