// What drivers and workers do: mains and functions, as coroutines.
#include <algorithm>
#include <sstream>

#include "runtime/base/result.h"
#include "tests/sim/world.h"

namespace mobula::sim {
namespace {

constexpr std::size_t kRoundMax = 400;  // calls of a driver at once

InlineValue text_value(const std::string& text, std::vector<ObjectLocator> refs = {}) {
  return {Bytes::copy_of(text), std::move(refs)};
}

std::string text_of(const core::Execute& call, std::size_t index) {
  const auto* value = index < call.arguments.size() ? std::get_if<InlineValue>(&call.arguments[index]) : nullptr;
  return value == nullptr ? std::string() : std::string(value->bytes.text());
}

// The references in the arguments; each is held until the call ends.
std::vector<ObjectLocator> take_refs(Process& self, const core::Execute& call) {
  std::vector<ObjectLocator> refs;
  for (const ArgumentOut& argument : call.arguments) {
    const auto* value = std::get_if<InlineValue>(&argument);
    const auto& inside = value != nullptr ? value->refs : std::get<PinnedLocation>(argument).refs;
    refs.insert(refs.end(), inside.begin(), inside.end());
  }
  for (const ObjectLocator& ref : refs) self.acquire(ref);
  return refs;
}

core::CallFinished finished_of(const core::Execute& call) {
  core::CallFinished finished;
  finished.task = call.task;
  finished.attempt = call.attempt;
  if (call.constructor) finished.actor = call.actor;
  return finished;
}

// A call of an actor from one caller may never run before an earlier one of the same caller.
void check_order(Process& self, const core::Execute& call) {
  std::uint64_t& newest = self.heard[{call.caller.process, call.actor}];
  if (call.task.sequence <= newest) {
    self.world.violation("calls of one caller run out of order, or twice, in actor " + to_string(call.actor),
                         {self.address.peer(), call.caller.peer()});
  }
  newest = call.task.sequence;
}

std::size_t calls_of_round(Process& self, const std::string& kind) {
  const std::size_t slots = std::size_t{self.world.options.nodes} * self.world.options.workers;
  if (kind == "nested") return std::min(kRoundMax, slots + 2);
  if (kind == "jobs") return std::min(kRoundMax, 3 * slots);
  return std::min<std::size_t>(kRoundMax, 4 + self.world.rng.below(3 * slots));
}

// One call of a round of `kind`; what it returns is held, and may be given to a later one.
ObjectLocator submit_one(Process& self, const std::string& kind, const std::vector<ObjectLocator>& held) {
  Rng& rng = self.world.rng;
  if (kind == "nested") return self.submit("nest", {text_value(std::to_string(1 + rng.below(2)))});
  const std::int64_t most = kind == "jobs" ? 150'000 : rng.chance(1, 20) ? 200'000 : 5'000;
  std::vector<ArgumentIn> arguments;
  const bool stored = kind == "fanout" && rng.chance(1, 6);
  arguments.emplace_back(text_value(std::to_string(rng.between(20, most)) + (stored ? " stored" : "")));
  while (kind == "fanout" && !held.empty() && rng.chance(1, 3)) {
    const ObjectLocator& other = held[rng.below(held.size())];
    if (rng.chance(1, 2)) {
      arguments.emplace_back(other);
    } else {
      arguments.emplace_back(text_value("ref", {other}));
    }
  }
  return self.submit("leaf", std::move(arguments));
}

// Rounds of tasks: all are submitted, then all are read.
Script drive_tasks(Process& self, std::string name, std::string kind) {
  World& world = self.world;
  for (bool fresh = false;;) {
    std::vector<ObjectLocator> held;
    if (kind == "fanout" && world.rng.chance(1, 2)) {
      const ObjectLocator object = self.make_object();
      const std::uint64_t size = 70'000 + world.rng.below(1'000'000);
      const bool put = co_await self.seal(object.id, size);
      if (!put) world.violation("no room in shared memory", {self.address.peer()});
      self.put_sealed(object, size);
      held.push_back(object);
    }
    const std::size_t puts = held.size();
    const std::size_t count = calls_of_round(self, kind);
    for (std::size_t i = 0; i < count; ++i) held.push_back(submit_one(self, kind, held));
    for (std::size_t i = 0; i < held.size(); ++i) {
      const Read read = co_await self.get(held[i], false);
      if (i < puts) continue;
      world.answered(self, read, fresh);
      if (!read.error) ++world.progress[name];
    }
    for (const ObjectLocator& object : held) self.release(object.id);
    if (fresh) co_return;
    if (kind != "jobs") co_await self.sleep(Duration(world.rng.between(0, 400'000'000)));
    if (world.working()) continue;
    while (!world.healed_for_long()) co_await self.sleep(1s);
    fresh = true;
  }
}

// Rings of actors: a token goes from each to the next.
Script drive_ring(Process& self, std::string name) {
  World& world = self.world;
  for (bool fresh = false;;) {
    std::vector<std::pair<ActorId, ObjectLocator>> ring;
    const std::size_t size = 2 + world.rng.below(4);
    std::vector<ObjectLocator> handles;
    std::string ids;
    for (std::size_t i = 0; i < size; ++i) {
      ring.push_back(self.create_actor(static_cast<std::int32_t>(world.rng.below(3)),
                                       static_cast<std::int32_t>(world.rng.below(4))));
      handles.push_back(ring.back().second);
      ids += " " + to_string(ring.back().first);
    }
    std::vector<ObjectLocator> results;
    const std::size_t rounds = 1 + world.rng.below(12);
    for (std::size_t i = 0; i < rounds; ++i) {
      results.push_back(self.call(ring[0].first, ring[0].second, "pass", {text_value("0" + ids, handles)}));
      if (world.rng.chance(1, 3)) co_await self.sleep(Duration(world.rng.between(0, 20'000'000)));
    }
    for (const ObjectLocator& result : results) {
      const Read read = co_await self.get(result, false);
      world.answered(self, read, fresh);
      if (!read.error) ++world.progress[name];
      self.release(result.id);
    }
    for (const auto& [actor, handle] : ring) {
      if (world.rng.chance(1, 3)) self.post(core::EndActor{actor, true});
      self.release(handle.id);
    }
    if (fresh) co_return;
    co_await self.sleep(Duration(world.rng.between(0, 500'000'000)));
    if (world.working()) continue;
    while (!world.healed_for_long()) co_await self.sleep(1s);
    fresh = true;
  }
}

}  // namespace

Script run_driver(Process& self, std::string name) {
  const std::string kind = name.substr(0, name.find('-'));
  if (kind == "ring") return drive_ring(self, name);
  return drive_tasks(self, name, kind == "churn" ? "fanout" : kind);
}

// long-function: one body for all functions, as they share how a call ends
Script run_call(Process& self, core::Execute call) {
  World& world = self.world;
  const std::vector<ObjectLocator> refs = take_refs(self, call);
  core::CallFinished finished = finished_of(call);
  const Instant started = world.now();
  std::istringstream words(text_of(call, 0));
  std::vector<ObjectLocator> made;  // results of calls of its own
  bool stored = false;
  if (call.spec->name == "leaf") {
    std::int64_t micros = 0;
    std::string flag;
    words >> micros >> flag;
    stored = flag == "stored";
    co_await self.sleep(std::chrono::microseconds(micros));
    if (!refs.empty() && world.rng.chance(1, 2)) {
      const Read read = co_await self.get(refs[world.rng.below(refs.size())], true);
      finished.error = read.error;
    }
  } else if (call.spec->name == "nest") {
    int depth = 0;
    words >> depth;
    const std::size_t children = depth > 0 ? 2 : 0;
    for (std::size_t i = 0; i < children; ++i) {
      made.push_back(self.submit("nest", {text_value(std::to_string(depth - 1))}, call.task));
    }
    co_await self.sleep(Duration(world.rng.between(50'000, 3'000'000)));
  } else if (call.spec->name == "pass") {
    check_order(self, call);
    std::size_t place = 0;
    std::vector<ActorId> ring;
    words >> place;
    for (std::string word; words >> word;) {
      ActorId actor;
      const auto colon = word.find(':');
      parse_hex(word.substr(0, colon), actor.maker);
      parse_hex(word.substr(colon + 1), actor.sequence);
      ring.push_back(actor);
    }
    co_await self.sleep(Duration(world.rng.between(20'000, 2'000'000)));
    if (++place < ring.size()) {
      std::string text = std::to_string(place);
      for (const ActorId& actor : ring) text += " " + to_string(actor);
      made.push_back(self.call(ring[place], refs[place], "pass", {text_value(text, refs)}, call.task));
    }
  }
  for (const ObjectLocator& object : made) {
    const Read read = co_await self.get(object, true);
    if (read.error && !finished.error) finished.error = read.error;
    self.release(object.id);
  }
  if (finished.error) {
    finished.error = make_error(ErrorKind::kTaskFailed, "what it needed failed: " + finished.error->message);
  }
  for (std::uint32_t i = 0; i < call.returns && !finished.error; ++i) {
    const ObjectId object = return_id(call.first_return, i);
    const std::uint64_t size = 70'000 + world.rng.below(300'000);
    const bool sealed = stored && co_await self.seal(object, size);
    if (sealed) {
      finished.results.emplace_back(StoredResult{size, {}});
    } else {
      finished.results.emplace_back(text_value(to_string(object)));
    }
  }
  for (const ArgumentOut& argument : call.arguments) {
    if (const auto* pinned = std::get_if<PinnedLocation>(&argument)) self.post(core::ViewReleased{pinned->object});
  }
  for (const ObjectLocator& ref : refs) self.release(ref.id);
  finished.run_ns = static_cast<std::uint64_t>((world.now() - started).count());
  self.finish(std::move(finished));
}

void World::start_driver(const std::string& name, NodeId node) {
  nodes_.at(node).home = true;
  const ProcessAddress address{ProcessId{rng.id()}, node, JobId{rng.id()}};
  RuntimeKey runtime;
  runtime.executable = "program";
  runtime.origin = node;
  Process& process = start_process(address, runtime, true);
  drivers_.emplace_back(name, address.process);
  process.run(run_driver(process, name));
}

void World::start_drivers() {
  std::vector<std::string> names;
  for (const char* workload : kWorkloads) {
    if (!options.workloads.contains(workload)) continue;
    if (workload == std::string("jobs")) {
      names.insert(names.end(), {"jobs-a", "jobs-b"});
    } else {
      names.emplace_back(workload);
    }
  }
  // At most half of the nodes have drivers, so that the others may die.
  std::vector<NodeId> homes;
  for (const auto& [id, node] : nodes_) {
    if (homes.size() < std::max<std::size_t>(1, options.nodes / 2)) homes.push_back(id);
  }
  for (std::size_t i = 0; i < names.size(); ++i) start_driver(names[i], homes[i % homes.size()]);
}

}  // namespace mobula::sim
