// A head in a test: events in, the actions of that step out, check() after every step, and a store that keeps what was
// written so that a second head can be made from it.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/head.h"
#include "tests/scheduler/node_fixture.h"

namespace mobula::scheduler::test {

struct HeadFixture {
  explicit HeadFixture(HeadConfig config = {}, const HeadSnapshot& snapshot = {})
      : head(with_cluster(std::move(config)), Rng(3), snapshot) {
    step({Tick{}});
  }
  static HeadConfig with_cluster(HeadConfig config) {
    config.cluster = ClusterId{42};
    return config;
  }

  HeadActions& step(std::vector<HeadEvent> events = {}) {
    actions.clear();
    head.step(now, events, actions);
    head.check();
    std::uint64_t newest = 0;
    for (const auto& action : actions) {
      if (const auto* batch = std::get_if<Persist>(&action)) {
        newest = batch->seq;
        for (const auto& write : batch->writes) keep(write);
      }
      // What is sent never waits for a write that was not asked for before.
      if (const auto* send = std::get_if<Send>(&action)) CHECK(send->after <= std::max(newest, last_seq));
    }
    last_seq = std::max(last_seq, newest);
    return actions;
  }
  HeadActions& receive(Peer from, Message message) { return step({Received{from, std::move(message)}}); }
  HeadActions& pass(Duration duration, std::vector<NodeId> beating = {}) {
    HeadActions all;
    const Instant end = now + duration;
    while (now < end) {
      now = std::min(end, now + 250ms);
      std::vector<HeadEvent> events{Tick{}};
      for (const NodeId node : beating) events.push_back(Received{Peer::of(node), beats(node)});
      step(events);
      all.insert(all.end(), actions.begin(), actions.end());
    }
    actions = std::move(all);
    return actions;
  }
  Heartbeat beats(NodeId node) {
    Heartbeat beat;
    beat.sequence = ++beat_sequence;
    beat.free = free[node];
    return beat;
  }
  NodeId add_node(std::uint64_t id, int cpu_count, std::vector<ActorInfo> actors = {}) {
    RegisterNode message;
    message.description = describe(id, cpu_count);
    message.free = message.description.total;
    message.actors = std::move(actors);
    free[NodeId{id}] = message.free;
    receive(Peer::of(NodeId{id}), message);
    return NodeId{id};
  }
  // Old enough for "never" to be said.
  void settle(std::vector<NodeId> nodes) { pass(1500ms, std::move(nodes)); }

  template <class M>
  std::vector<std::pair<Peer, M>> sent() const {
    std::vector<std::pair<Peer, M>> found;
    for (const auto& action : actions) {
      const auto* send = std::get_if<Send>(&action);
      if (send == nullptr) continue;
      if (const auto* message = std::get_if<M>(&send->message)) found.emplace_back(send->to, *message);
    }
    return found;
  }
  template <class A>
  std::vector<A> did() const {
    std::vector<A> found;
    for (const auto& action : actions) {
      if (const auto* one = std::get_if<A>(&action)) found.push_back(*one);
    }
    return found;
  }
  void keep(const RecordWrite& write) {
    if (const auto* erase = std::get_if<EraseRecord>(&write)) {
      store.erase({erase->kind, erase->key});
      return;
    }
    const auto& record = std::get<Record>(write);
    store.insert_or_assign({static_cast<std::uint8_t>(record.index()), key_of(record)}, record);
  }
  HeadSnapshot snapshot() const {
    HeadSnapshot all;
    for (const auto& [key, record] : store) all.push_back(record);
    return all;
  }

  static ActorSpec spec(std::uint64_t sequence, std::uint64_t owner_node = 1, double placement = 1) {
    ActorSpec spec;
    spec.actor = {100, sequence};
    spec.owner = {ProcessId{100}, NodeId{owner_node}, JobId{5}};
    spec.constructor.job = JobId{5};
    spec.constructor.name = "Counter";
    spec.placement = cpus(placement);
    return spec;
  }
  HeadActions& create(ActorSpec what) {
    return receive(what.owner.peer(), CreateActor{{100, what.actor.sequence}, what});
  }
  // Where its StartActor of the last step went.
  NodeId placed_at() const {
    const auto starts = sent<StartActor>();
    return starts.empty() ? NodeId{} : NodeId{starts.back().first.id};
  }
  HeadActions& started(NodeId node, ActorId actor, std::uint64_t incarnation = 1) {
    return receive(Peer::of(node),
                   ActorStarted{actor, incarnation, {{ProcessId{actor.sequence + 1000}, node, JobId{5}}, 0}});
  }

  Instant now{1'000'000'000};
  Head head;
  HeadActions actions;
  std::uint64_t last_seq = 0;
  std::uint64_t beat_sequence = 0;
  std::map<NodeId, NodeResources> free;
  std::map<std::pair<std::uint8_t, std::string>, Record> store;
};

}  // namespace mobula::scheduler::test
