// A node in a test: events in, the actions of that step out, check() after every step.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "scheduler/node.h"

namespace mobula::scheduler::test {

using namespace std::chrono_literals;

inline ResourceRequest cpus(double count) {
  ResourceRequest request;
  request.cpus = *Quantity::from_double(count);
  return request;
}

inline NodeResources machine(int cpu_count) {
  NodeResources resources;
  resources.cpus = Quantity::whole(cpu_count);
  resources.memory = std::uint64_t{8} << 30;
  return resources;
}

inline NodeDescription describe(std::uint64_t id, int cpu_count) {
  NodeDescription description;
  description.node = NodeId{id};
  description.endpoint = {"host" + std::to_string(id), 1000};
  description.host_name = "host" + std::to_string(id);
  description.total = machine(cpu_count);
  return description;
}

struct NodeFixture {
  explicit NodeFixture(int cpu_count = 2, NodeConfig config = {})
      : node([&] {
          if (!config.self.node) config.self = describe(1, cpu_count);
          config.prestart = 0;
          return Node(config, Rng(7), {});
        }()) {}

  NodeActions& step(std::vector<NodeEvent> events = {}) {
    actions.clear();
    node.step(now, events, actions);
    node.check();
    return actions;
  }
  NodeActions& receive(Peer from, Message message) { return step({Received{from, std::move(message)}}); }
  // Lets time pass as a driver would: a tick at every deadline. All actions of that time are kept.
  NodeActions& pass(Duration duration) {
    const Instant end = now + duration;
    NodeActions all;
    while (node.next_deadline() <= end) {
      now = std::max(now, node.next_deadline());
      step({Tick{}});
      all.insert(all.end(), actions.begin(), actions.end());
    }
    now = end;
    step({Tick{}});
    all.insert(all.end(), actions.begin(), actions.end());
    actions = std::move(all);
    return actions;
  }

  // Messages of one kind among the last actions.
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

  void head_joins(std::vector<NodeDescription> others = {}) {
    step({PeerJoined{Peer::head(), {}}});
    receive(Peer::head(), NodeRegistered{1, {}, std::move(others)});
  }
  ProcessAddress driver(std::uint64_t id, std::uint64_t job) {
    const ProcessAddress address{ProcessId{id}, self(), JobId{job}};
    Hello hello;
    hello.role = Role::kDriver;
    hello.job = address.job;
    hello.pid = id;
    step({PeerJoined{address.peer(), hello}});
    return address;
  }
  NodeActions& joins(ProcessId worker) {
    Hello hello;
    hello.role = Role::kWorker;
    hello.pid = worker.value & 0xffff;
    return step({PeerJoined{Peer::of(worker, self()), hello}});
  }
  static RequestLease request(ProcessAddress caller, std::uint64_t sequence, ResourceRequest resources = cpus(1)) {
    RequestLease message;
    message.lease = {caller.process.value, sequence};
    message.caller = caller;
    message.request = std::move(resources);
    message.runtime.executable = "abc";
    message.name = "task";
    return message;
  }
  NodeActions& ask(ProcessAddress caller, std::uint64_t sequence, ResourceRequest resources = cpus(1)) {
    return receive(caller.peer(), request(caller, sequence, std::move(resources)));
  }
  // Asks, lets the worker join if one is spawned, and returns it.
  ProcessId lease(ProcessAddress caller, std::uint64_t sequence, ResourceRequest resources = cpus(1)) {
    ask(caller, sequence, std::move(resources));
    if (const auto spawns = did<Spawn>(); !spawns.empty()) joins(spawns.front().worker);
    const auto granted = sent<LeaseGranted>();
    REQUIRE(granted.size() == 1);
    return granted.front().second.worker.process;
  }
  NodeId self() const { return node.self().node; }
  Quantity free_cpus() const { return node.stats().free.cpus; }

  Instant now{1'000'000'000};
  Node node;
  NodeActions actions;
};

}  // namespace mobula::scheduler::test
