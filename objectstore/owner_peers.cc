// The part of the owner that talks to other processes and nodes.
#include <algorithm>
#include <string>
#include <utility>

#include "objectstore/owner.h"
#include "runtime/base/result.h"

namespace mobula::objectstore {
namespace {

ErrorInfo lost_error(ObjectId object) {
  return make_error(ErrorKind::kObjectLost, "the last copy of object " + to_string(object) +
                                                " is gone with the node that had it. Make it again");
}

ErrorInfo freed_by_owner(ObjectId object) {
  return make_error(ErrorKind::kObjectLost, "object " + to_string(object) +
                                                " was freed by its owner before this process held it. Keep an "
                                                "ObjectRef in its owner, or pass the reference itself");
}

}  // namespace

void Owner::on(Received& event) {
  std::visit(
      [this, &event](auto& message) {
        if constexpr (requires { receive(event.from, message); }) receive(event.from, message);
      },
      event.message);
}

// ---- as owner
// -----------------------------------------------------------------------------------------------------------------

void Owner::receive(const Peer& from, ResolveObjects& message) {
  for (const ObjectId object : message.objects) {
    if (!own(object)) continue;
    Object* entry = objects_.find(object);
    if (entry == nullptr) {
      outbox_.last<ObjectsResolved>(from).objects.push_back({object, freed_by_owner(object)});
    } else if (ready(*entry)) {
      Outcome outcome = outcome_of(object, *entry);
      if (!message.value && outcome.index() == 0) outcome = InlineValue{};
      outbox_.last<ObjectsResolved>(from).objects.push_back({object, std::move(outcome)});
    } else {
      auto& peers = awaiting_[object];
      if (std::find(peers.begin(), peers.end(), from) == peers.end()) peers.push_back(from);
      entry->awaited = true;
    }
  }
}

void Owner::receive(const Peer& from, BorrowObjects& message) {
  ObjectsBorrowed reply;
  reply.round = message.round;
  for (const ObjectId object : message.objects) {
    Object* entry = own(object) ? objects_.find(object) : nullptr;
    if (entry == nullptr) {
      reply.gone.push_back(object);
      continue;
    }
    entry->lent = true;
    auto& borrowers = borrowers_[object];
    const auto known = std::find_if(borrowers.begin(), borrowers.end(),
                                    [&from](const Borrower& borrower) { return borrower.peer == from; });
    if (known == borrowers.end()) {
      borrowers.push_back({from, message.round});
    } else {
      known->round = std::max(known->round, message.round);
    }
    reply.objects.push_back(object);
  }
  outbox_.add(from, std::move(reply));
}

void Owner::receive(const Peer& from, ReleaseObjects& message) {
  for (const ObjectId object : message.objects) {
    const auto* borrowers = borrowers_.find(object);
    if (borrowers == nullptr) continue;
    const auto known = std::find_if(borrowers->begin(), borrowers->end(),
                                    [&from](const Borrower& borrower) { return borrower.peer == from; });
    if (known == borrowers->end() || known->round > message.round) continue;
    remove_borrower(object, from.process());
  }
}

void Owner::remove_borrower(ObjectId object, ProcessId process) {
  auto* borrowers = borrowers_.find(object);
  if (borrowers == nullptr) return;
  std::erase_if(*borrowers, [process](const Borrower& borrower) { return borrower.peer.process() == process; });
  if (!borrowers->empty()) return;
  borrowers_.erase(object);
  Object& entry = objects_.at(object);
  entry.lent = false;
  maybe_free(object, entry);
}

void Owner::receive(const Peer& from, HandoffDone& message) {
  for (const TaskId task : message.tasks) {
    Handoff* found = handoffs_.find(task);
    if (found != nullptr && found->caller == from.process()) end_handoff(task);
  }
}

void Owner::end_handoff(TaskId task) {
  const auto objects = std::move(handoffs_.at(task).objects);
  handoffs_.erase(task);
  for (const ObjectId object : objects) drop(object, Hold::kPin);
}

void Owner::receive(const Peer&, ObjectLocation& message) {
  if (!own(message.object)) return;
  Object* entry = objects_.find(message.object);
  Stored* stored = entry == nullptr ? nullptr : std::get_if<Stored>(&entry->state);
  if (stored == nullptr) {
    // A copy of what was freed meanwhile.
    if (message.present && entry == nullptr) free_copies(message.object, {message.node});
    return;
  }
  const auto place = std::find(stored->nodes.begin(), stored->nodes.end(), message.node);
  if (message.present && place == stored->nodes.end()) {
    stored->nodes.push_back(message.node);
  } else if (!message.present && place != stored->nodes.end() && stored->nodes.size() > 1) {
    stored->nodes.erase(place);
  }
}

// ---- as borrower
// --------------------------------------------------------------------------------------------------------------

void Owner::receive(const Peer&, ObjectsResolved& message) {
  for (ObjectResolved& resolved : message.objects) {
    Object* entry = objects_.find(resolved.object);
    if (entry == nullptr || own(resolved.object) || !entry->asked || ready(*entry)) continue;
    entry->asked = false;
    if (auto* error = std::get_if<ErrorInfo>(&resolved.outcome)) {
      settle(resolved.object, *entry, std::make_shared<const ErrorInfo>(std::move(*error)));
    } else if (auto* value = std::get_if<InlineValue>(&resolved.outcome)) {
      settle(resolved.object, *entry, std::move(*value));
    } else {
      settle(resolved.object, *entry, to_state(std::move(std::get<StoredValue>(resolved.outcome))));
    }
  }
}

void Owner::receive(const Peer& from, ObjectsBorrowed& message) {
  for (const ObjectId object : borrows_.on_borrowed(from, message, outbox_, *actions_)) {
    Object* entry = objects_.find(object);
    if (entry == nullptr || ready(*entry)) continue;
    settle(object, *entry, std::make_shared<const ErrorInfo>(freed_by_owner(object)));
  }
}

// ---- the store of this node
// -------------------------------------------------------------------------------------------------

void Owner::receive(const Peer&, ObjectPinned& message) {
  NodePins::Answer answer = node_pins_.on_pinned(message, outbox_, *actions_);
  const ObjectId object = message.object;
  Object* entry = objects_.find(object);
  Stored* stored = entry == nullptr ? nullptr : std::get_if<Stored>(&entry->state);
  if (message.copied && !message.error) {
    if (stored != nullptr && std::find(stored->nodes.begin(), stored->nodes.end(), self_.node) == stored->nodes.end()) {
      stored->nodes.push_back(self_.node);
    }
    if (own(object)) {
      if (entry == nullptr) free_copies(object, {self_.node});
    } else {
      // The owner of an argument is known by its value only; its node is where calls reach it.
      const NodeId owner_node = entry != nullptr ? entry->owner_node : answer.owner_node;
      if (owner_node) borrows_.report_copy(object, owner_node, self_.node, outbox_);
    }
  }
  if (answer.error) {
    if (entry != nullptr) copy_failed(object, *answer.error);
    return;
  }
  if (answer.location) {
    if (entry != nullptr) entry->wants &= static_cast<std::uint8_t>(~kWantsValue);
    give_ready(object, std::move(*answer.location));
  }
  if (answer.brought && entry != nullptr && (entry->wants & kWantsBring) != 0) {
    entry->wants &= static_cast<std::uint8_t>(~kWantsBring);
    give_ready(object, ReadyOnly{true});
  }
}

// The copies were not where they were said to be. A foreign object's owner may know better; ask it once.
void Owner::copy_failed(ObjectId object, const ErrorInfo& error) {
  Object& entry = objects_.at(object);
  if (error.kind == ErrorKind::kObjectLost && !own(object) && !entry.asked_again) {
    entry.asked_again = true;
    entry.asked = false;
    entry.state = std::monostate{};
    ask_owner(object, entry);
    return;
  }
  fail_wants(object, entry, error);
}

// ---- trouble
// --------------------------------------------------------------------------------------------------------------------

void Owner::on(CutOff& event) {
  for (const ObjectId object : objects_.sorted_keys()) {
    if (Object* entry = objects_.find(object)) fail_wants(object, *entry, event.why);
  }
}

void Owner::on(PeerTroubled& event) {
  if (event.stage == PeerTrouble::kBroken) borrows_.link_broken(event.peer.process());
  if (event.stage == PeerTrouble::kGone) process_gone(event.peer, event.why);
}

void Owner::on(PeerUsable& event) {
  for (const TaskId call : handoffs_.sorted_keys()) {
    const Handoff& handoff = handoffs_.at(call);
    if (handoff.caller != event.peer.process() || handoff.until_cleared || !handoff.sent) continue;
    HandoffUnconfirmed again{call, event.peer, {}};
    for (const ObjectId object : handoff.objects) again.refs.push_back(locator(object, objects_.at(object)));
    actions_->unconfirmed.push_back(std::move(again));
  }
  borrows_.repeat(event.peer, outbox_);
  if (!borrows_.borrows_from(event.peer.process())) return;
  for (const ObjectId object : objects_.sorted_keys()) {
    if (owner_of(object) != event.peer.process()) continue;
    Object& entry = objects_.at(object);
    if (entry.asked && !ready(entry)) {
      outbox_.last<ResolveObjects>(event.peer).objects.push_back(object);
    }
  }
}

void Owner::process_gone(const Peer& peer, const ErrorInfo& why) {
  const ProcessId process = peer.process();
  for (const TaskId task : handoffs_.sorted_keys()) {
    Handoff* handoff = handoffs_.find(task);
    if (handoff != nullptr && handoff->caller == process) end_handoff(task);
  }
  for (const ObjectId object : borrowers_.sorted_keys()) remove_borrower(object, process);
  for (const ObjectId object : awaiting_.sorted_keys()) {
    auto& peers = awaiting_.at(object);
    std::erase(peers, peer);
    if (!peers.empty()) continue;
    awaiting_.erase(object);
    objects_.at(object).awaited = false;
  }
  const bool owned_some = borrows_.borrows_from(process);
  borrows_.owner_gone(process, outbox_, *actions_);
  if (!owned_some) return;
  for (const ObjectId object : objects_.sorted_keys()) {
    if (owner_of(object) != process) continue;
    Object* entry = objects_.find(object);
    if (entry == nullptr || ready(*entry)) continue;
    ErrorInfo error = why;
    error.kind = ErrorKind::kOwnerDied;
    error.message = "the process that owned object " + to_string(object) + " is gone: " + why.message;
    settle(object, *entry, std::make_shared<const ErrorInfo>(std::move(error)));
  }
}

void Owner::on(NodeGone& event) {
  std::vector<Peer> processes;  // that lived there
  for (const ObjectId object : objects_.sorted_keys()) {
    Object* entry = objects_.find(object);
    if (entry == nullptr) continue;
    if (!own(object) && entry->owner_node == event.node) processes.push_back(Peer::of(owner_of(object), event.node));
    Stored* stored = std::get_if<Stored>(&entry->state);
    if (stored == nullptr || std::erase(stored->nodes, event.node) == 0) continue;
    if (!stored->nodes.empty() || !own(object)) continue;
    const auto refs = std::move(stored->refs);
    entry->state = std::make_shared<const ErrorInfo>(lost_error(object));
    fail_wants(object, *entry, lost_error(object));
    for (const ObjectLocator& ref : refs) drop(ref.id, Hold::kContained);
  }
  for (const ObjectId object : borrowers_.sorted_keys()) {
    for (const Borrower& borrower : borrowers_.at(object)) {
      if (borrower.peer.node == event.node) processes.push_back(borrower.peer);
    }
  }
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  for (const Peer& peer : processes) {
    process_gone(peer, make_error(ErrorKind::kWorkerDied, "its node " + to_string(event.node) + " is gone"));
  }
}

// ---- for people and tests
// ---------------------------------------------------------------------------------------------------

OwnerStats Owner::stats() const {
  return OwnerStats{objects_.size(), borrows_.size(), node_pins_.size(), borrowers_.size(), freed_};
}

std::string Owner::describe(std::size_t lines_max) const {
  std::string text;
  for (const ObjectId object : objects_.sorted_keys()) {
    if (lines_max-- == 0) break;
    const Object& entry = objects_.at(object);
    text += to_string(object) + (ready(entry) ? " ready" : " pending") + ": " + std::to_string(entry.local) +
            " local, " + std::to_string(entry.pins) + " calls, " + std::to_string(entry.contained) + " containers";
    if (const auto* borrowers = borrowers_.find(object)) {
      for (const Borrower& borrower : *borrowers) text += ", process " + to_string(borrower.peer.process());
    }
    text += "\n";
  }
  return text + node_pins_.describe(5);
}

bool Owner::idle() const {
  return objects_.empty() && borrowers_.empty() && awaiting_.empty() && handoffs_.empty() && pins_[0].empty() &&
         pins_[1].empty() && pins_[2].empty() && borrows_.idle() && node_pins_.idle() && calls_running_ == 0;
}

void Owner::check() const {
  for (const ObjectId object : objects_.sorted_keys()) {
    const Object& entry = objects_.at(object);
    const bool held = entry.local != 0 || entry.pins != 0 || entry.contained != 0 || entry.lent;
    MOBULA_CHECK(held, "an object that nothing holds");
    MOBULA_CHECK(entry.lent == borrowers_.contains(object), "borrowers are out of step");
    MOBULA_CHECK(entry.awaited == awaiting_.contains(object), "waiting processes are out of step");
    MOBULA_CHECK(!entry.awaited || !ready(entry), "somebody waits for what is ready");
    MOBULA_CHECK(own(object) || borrows_.known(object), "a foreign object whose owner does not know");
    MOBULA_CHECK(own(object) || !entry.lent, "only owners lend");
    MOBULA_CHECK((entry.wants & kWantsCall) == 0 || !ready(entry), "a call waits for what is ready");
  }
  for (const ObjectId object : borrowers_.sorted_keys()) {
    MOBULA_CHECK(objects_.contains(object) && !borrowers_.at(object).empty(), "borrowers of nothing");
  }
  borrows_.check();
  node_pins_.check();
}

}  // namespace mobula::objectstore
