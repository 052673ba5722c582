// Walks every message, role and receiver, and pins what matters: who may change a cluster.
#include <doctest/doctest.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/protocol/roles.h"

namespace mobula {
namespace {

constexpr std::array kRoles = {Role::kHead, Role::kNode, Role::kDriver, Role::kWorker, Role::kClient, Role::kViewer};
constexpr std::array kReceivers = {Receiver::kHead, Receiver::kNode, Receiver::kProcess, Receiver::kClient};

template <std::size_t... I>
std::vector<Message> every_message(std::index_sequence<I...>) {
  return {Message(std::variant_alternative_t<I, AnyMessage>())...};
}
std::vector<Message> every_message() {
  return every_message(std::make_index_sequence<std::variant_size_v<AnyMessage>>());
}

// Names of what `role` may send to `receiver`.
std::set<std::string> allowed(Role role, Receiver receiver) {
  std::set<std::string> names;
  for (const Message& message : every_message()) {
    if (may_send(role, receiver, message)) names.insert(name_of(message));
  }
  return names;
}

std::vector<Role> who_may(const char* name, Receiver receiver) {
  std::vector<Role> roles;
  for (const Role role : kRoles) {
    if (allowed(role, receiver).count(name) != 0) roles.push_back(role);
  }
  return roles;
}

using Names = std::set<std::string>;

TEST_CASE("every message has a name of its own and somebody who may send it") {
  Names names;
  for (const Message& message : every_message()) {
    INFO(name_of(message));
    names.insert(name_of(message));
    bool sent = false;
    for (const Role role : kRoles) {
      for (const Receiver receiver : kReceivers) {
        sent = sent || may_send(role, receiver, message);
        CHECK(may_send(role, receiver, message) == senders_of(message, receiver).has(role));
      }
    }
    CHECK(sent);
  }
  CHECK(names.size() == std::variant_size_v<AnyMessage>);
}

TEST_CASE("a viewer asks and nothing else") {
  CHECK(allowed(Role::kViewer, Receiver::kHead) == Names{"Hello", "GetSubmission", "ReadLog", "Query"});
  CHECK(allowed(Role::kViewer, Receiver::kNode) == Names{"Hello", "ReadLog", "Query"});
  for (const QueryKind kind : {QueryKind::kKill, QueryKind::kStop}) {
    Query query;
    query.kind = kind;
    CHECK_FALSE(may_send(Role::kViewer, Receiver::kHead, query));
    CHECK_FALSE(may_send(Role::kViewer, Receiver::kNode, query));
    CHECK(may_send(Role::kClient, Receiver::kHead, query));
    CHECK(may_send(Role::kHead, Receiver::kNode, query));
  }
}

TEST_CASE("a client submits and asks, and poses as nobody") {
  CHECK(allowed(Role::kClient, Receiver::kHead) ==
        Names{"Hello", "SubmitJob", "StopSubmission", "GetSubmission", "PutContent", "ReadLog", "Query"});
  CHECK(allowed(Role::kClient, Receiver::kNode) == Names{"Hello", "ReadLog", "Query"});
}

TEST_CASE("processes reach the head through their node, with what is theirs") {
  const Names driver = allowed(Role::kDriver, Receiver::kHead);
  CHECK(driver == Names{"CreateActor", "KillActor", "WatchActor", "UnwatchActor", "FindActor", "Query", "QueryReply"});
  CHECK(driver == allowed(Role::kWorker, Receiver::kHead));
  CHECK(allowed(Role::kDriver, Receiver::kNode).count("WorkerBlocked") == 0);
  CHECK(allowed(Role::kDriver, Receiver::kNode).count("ActorStarted") == 0);
}

TEST_CASE("only the head commands nodes, and only nodes report to it") {
  for (const char* name : {"StartActor", "StopActor", "EndJob", "StartDriver", "StopDriver", "NodesChanged"}) {
    CHECK_MESSAGE(who_may(name, Receiver::kNode) == std::vector{Role::kHead}, name);
  }
  for (const char* name : {"RegisterNode", "Heartbeat", "NodeLeaves", "FindNode", "RegisterJob", "JobFinished"}) {
    CHECK_MESSAGE(who_may(name, Receiver::kHead) == std::vector{Role::kNode}, name);
  }
}

TEST_CASE("who relays for whom") {
  const NodeId node{7};
  const Peer process = Peer::of(ProcessId{1}, node);
  const Peer other = Peer::of(ProcessId{2}, node);
  const auto from_to = [](Peer from, Peer to, Message message) {
    Envelope envelope;
    envelope.from = from;
    envelope.to = to;
    envelope.message = std::move(message);
    return envelope;
  };
  const Peer gate = Peer::of(node);
  // A process speaks for itself, by name or not, and not for another.
  CHECK(may_pass(Role::kDriver, process, Receiver::kNode, from_to({}, Peer::head(), CreateActor{})));
  CHECK(may_pass(Role::kDriver, process, Receiver::kNode, from_to(process, Peer::head(), CreateActor{})));
  CHECK_FALSE(may_pass(Role::kDriver, process, Receiver::kNode, from_to(other, Peer::head(), CreateActor{})));
  CHECK_FALSE(may_pass(Role::kDriver, process, Receiver::kNode, from_to(Peer::head(), {}, StartActor{})));
  // Its node relays to the head and to another node; what a process may not say stays refused.
  CHECK(may_pass(Role::kNode, gate, Receiver::kHead, from_to(process, {}, CreateActor{})));
  CHECK(may_pass(Role::kNode, gate, Receiver::kNode, from_to(process, {}, RequestLease{})));
  CHECK_FALSE(may_pass(Role::kNode, gate, Receiver::kHead, from_to(process, {}, RegisterNode{})));
  CHECK(may_pass(Role::kNode, gate, Receiver::kHead, from_to({}, {}, RegisterNode{})));
  // A node does not pose as the head or as a client to other daemons; to its processes it passes on what those say.
  CHECK_FALSE(may_pass(Role::kNode, gate, Receiver::kNode, from_to(Peer::head(), {}, StartActor{})));
  CHECK_FALSE(may_pass(Role::kNode, gate, Receiver::kHead, from_to(Peer::client(1), {}, SubmitJob{})));
  CHECK(may_pass(Role::kNode, gate, Receiver::kProcess, from_to(Peer::head(), {}, ActorUpdate{})));
  CHECK(may_pass(Role::kNode, gate, Receiver::kProcess, from_to(Peer::client(1), {}, Query{})));
  // A node passes on what another node says to a process.
  CHECK(may_pass(Role::kNode, gate, Receiver::kNode, from_to(Peer::of(NodeId{8}), process, LeaseGranted{})));
  // The head passes a client's question on.
  CHECK(may_pass(Role::kHead, Peer::head(), Receiver::kNode, from_to(Peer::client(1), {}, Query{})));
  CHECK(may_pass(Role::kHead, Peer::head(), Receiver::kNode, from_to({}, process, ActorCreated{})));
  // A client relays nothing.
  CHECK_FALSE(may_pass(Role::kClient, Peer::client(1), Receiver::kHead, from_to(gate, {}, RegisterNode{})));
}

TEST_CASE("peers read well") {
  CHECK(to_string(Peer{}) == "none");
  CHECK(to_string(Peer::head()) == "head");
  CHECK(to_string(Peer::of(NodeId{0xab})) == "node 00000000000000ab");
  CHECK(to_string(Peer::of(ProcessId{1}, NodeId{2})) == "process 0000000000000001");
  CHECK(to_string(Peer::client(12)) == "client 12");
}

}  // namespace
}  // namespace mobula
