#include "objectstore/owner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/result.h"

namespace mobula::objectstore {
namespace {

ErrorInfo freed_error(ObjectId object) {
  return make_error(ErrorKind::kObjectLost, "object " + to_string(object) +
                                                " was freed: no reference to it was left in the cluster. Keep its "
                                                "ObjectRef for as long as it is needed");
}

bool any_refs(const std::vector<CallValue>& values) {
  return std::any_of(values.begin(), values.end(), [](const CallValue& value) { return !refs_of(value).empty(); });
}

}  // namespace

Owner::Owner(const ProcessAddress& self) : self_(self), borrows_(self.process), node_pins_(self.node) {}

void Owner::step(Instant, std::span<OwnerEvent> events, OwnerActions& actions) {
  actions_ = &actions;
  for (OwnerEvent& event : events) {
    const std::size_t cleared = actions.cleared.size();
    std::visit([this](auto& concrete) { on(concrete); }, event);
    for (std::size_t i = cleared; i < actions.cleared.size(); ++i) {
      Handoff* handoff = handoffs_.find(actions.cleared[i].call);
      if (handoff == nullptr) continue;
      handoff->sent = true;
      if (handoff->until_cleared) end_handoff(actions.cleared[i].call);
    }
  }
  actions_ = nullptr;
}

void Owner::flush(OwnerActions& actions) {
  borrows_.finish_step(outbox_);
  outbox_.flush(actions.sends);
}

// ---- holds
// ------------------------------------------------------------------------------------------------------------------

ObjectLocator Owner::locator(ObjectId object, const Object& entry) const {
  if (own(object)) return ObjectLocator{object, self_.node, self_.job};
  return ObjectLocator{object, entry.owner_node, entry.owner_job};
}

void Owner::hold(const ObjectLocator& object, Hold kind, bool lazy) {
  Object* entry = objects_.find(object.id);
  if (entry == nullptr) {
    // An own object that is unknown was freed: reads of it say so.
    if (own(object.id)) return;
    entry = &objects_.emplace(object.id).first;
    entry->owner_node = object.owner_node;
    entry->owner_job = object.owner_job;
  }
  if (!own(object.id)) borrows_.hold(object, lazy, outbox_);
  switch (kind) {
    case Hold::kLocal: ++entry->local; break;
    case Hold::kPin: ++entry->pins; break;
    case Hold::kContained: ++entry->contained; break;
  }
}

void Owner::drop(ObjectId object, Hold kind) {
  Object* entry = objects_.find(object);
  if (entry == nullptr) return;
  std::uint32_t& count = kind == Hold::kLocal ? entry->local : kind == Hold::kPin ? entry->pins : entry->contained;
  if (count == 0) return;
  --count;
  maybe_free(object, *entry);
}

void Owner::maybe_free(ObjectId object, Object& entry) {
  if (entry.local != 0 || entry.pins != 0 || entry.contained != 0 || entry.lent) return;
  if (own(object)) {
    free_own(object);
    return;
  }
  if (entry.wants != 0) node_pins_.unwant(object, outbox_);
  const State state = std::move(entry.state);
  objects_.erase(object);
  static const std::vector<ObjectLocator> kNone;
  const auto* value = std::get_if<InlineValue>(&state);
  const auto* stored = std::get_if<Stored>(&state);
  borrows_.drop(object, value != nullptr ? value->refs : stored != nullptr ? stored->refs : kNone, outbox_, *actions_);
}

void Owner::free_own(ObjectId object) {
  Object& entry = objects_.at(object);
  if (entry.wants != 0) node_pins_.unwant(object, outbox_);
  if (entry.handle) actions_->handles.push_back({object});
  if (entry.awaited) {
    for (const Peer& peer : awaiting_.at(object)) {
      outbox_.last<ObjectsResolved>(peer).objects.push_back({object, freed_error(object)});
    }
    awaiting_.erase(object);
  }
  const State state = std::move(entry.state);
  objects_.erase(object);
  ++freed_;
  if (const auto* value = std::get_if<InlineValue>(&state)) {
    for (const ObjectLocator& ref : value->refs) drop(ref.id, Hold::kContained);
  } else if (const auto* stored = std::get_if<Stored>(&state)) {
    free_copies(object, stored->nodes);
    for (const ObjectLocator& ref : stored->refs) drop(ref.id, Hold::kContained);
  }
}

void Owner::free_copies(ObjectId object, const std::vector<NodeId>& nodes) {
  for (const NodeId node : nodes) outbox_.last<FreeObjects>(Peer::of(node)).objects.push_back(object);
}

void Owner::on(RefAcquired& event) {
  hold(event.object, Hold::kLocal, calls_running_ > 0);
}
void Owner::on(RefDropped& event) {
  drop(event.object, Hold::kLocal);
}

void Owner::on(Pin& event) {
  auto [objects, is_new] = pins_[static_cast<std::size_t>(event.kind)].emplace(event.key);
  if (!is_new) return;
  objects.reserve(event.objects.size());
  for (const ObjectLocator& object : event.objects) {
    // Unknown own objects are not counted, here or at Unpin.
    if (own(object.id) && !objects_.contains(object.id)) continue;
    objects.push_back(object.id);
    hold(object, Hold::kPin, calls_running_ > 0);
  }
}

void Owner::on(Unpin& event) {
  auto& pins = pins_[static_cast<std::size_t>(event.kind)];
  std::vector<ObjectId>* found = pins.find(event.key);
  if (found == nullptr) return;
  const auto objects = std::move(*found);
  pins.erase(event.key);
  for (const ObjectId object : objects) drop(object, Hold::kPin);
}

// ---- values
// -----------------------------------------------------------------------------------------------------------------

Owner::State Owner::to_state(CallValue value) {
  if (auto* inline_value = std::get_if<InlineValue>(&value)) return std::move(*inline_value);
  auto& stored = std::get<StoredValue>(value);
  return Stored{stored.size, std::move(stored.nodes), std::move(stored.refs)};
}

const std::vector<ObjectLocator>& Owner::inside(const Object& entry) const {
  static const std::vector<ObjectLocator> kNone;
  if (const auto* value = std::get_if<InlineValue>(&entry.state)) return value->refs;
  if (const auto* stored = std::get_if<Stored>(&entry.state)) return stored->refs;
  return kNone;
}

void Owner::on(Declare& event) {
  for (std::uint32_t i = 0; i < event.count; ++i) {
    auto [entry, is_new] = objects_.emplace(return_id(event.first, i));
    MOBULA_CHECK(is_new, "an object id was given out twice");
    entry.local = 1;
    entry.maker = event.task.sequence;
  }
}

void Owner::on(DeclareHandle& event) {
  auto [entry, is_new] = objects_.emplace(event.object);
  MOBULA_CHECK(is_new, "an object id was given out twice");
  entry.local = 1;
  entry.handle = true;
  settle(event.object, entry, InlineValue{});
}

void Owner::put(ObjectId object, State state) {
  auto [entry, is_new] = objects_.emplace(object);
  MOBULA_CHECK(is_new, "an object id was given out twice");
  entry.local = 1;
  settle(object, entry, std::move(state));
}

void Owner::on(PutInline& event) {
  put(event.object, std::move(event.value));
}
void Owner::on(PutStored& event) {
  put(event.object, Stored{event.size, {self_.node}, std::move(event.refs)});
}

void Owner::settle(ObjectId object, Object& entry, State state) {
  entry.state = std::move(state);
  entry.maker = 0;
  if (own(object)) {
    for (const ObjectLocator& ref : inside(entry)) hold(ref, Hold::kContained, calls_running_ > 0);
  }
  announce(object, entry);
}

void Owner::on(StoreResults& event) {
  const std::vector<ObjectLocator> foreign = foreign_of(event.values);
  const bool confirms_to_itself = event.executor.process() == self_.process && any_refs(event.values);
  free_leftovers(event);
  std::shared_ptr<const ErrorInfo> error;
  if (event.error) error = std::make_shared<const ErrorInfo>(std::move(*event.error));
  for (std::uint32_t i = 0; i < event.count; ++i) {
    const ObjectId object = return_id(event.first, i);
    Object* entry = objects_.find(object);
    if (error) {
      if (entry != nullptr && !ready(*entry)) settle(object, *entry, error);
      continue;
    }
    if (i >= event.values.size()) continue;
    if (entry == nullptr) {
      // Nobody refers to it any more: the result is dropped on arrival.
      if (const auto* stored = std::get_if<StoredValue>(&event.values[i])) free_copies(object, stored->nodes);
    } else if (!ready(*entry)) {
      // Held by the sender until HandoffDone, but nobody else: borrowed at once.
      for (const ObjectLocator& ref : refs_of(event.values[i])) {
        if (!own(ref.id)) borrows_.hold(ref, false, outbox_);
      }
      settle(object, *entry, to_state(std::move(event.values[i])));
    }
  }
  if (!foreign.empty() || confirms_to_itself) borrows_.take_over(event.task, event.executor, foreign, outbox_);
}

void Owner::free_leftovers(const StoreResults& event) {
  for (const NodeId node : event.left_on) {
    for (std::uint32_t i = 0; i < event.count; ++i) {
      const auto* stored = i < event.values.size() ? std::get_if<StoredValue>(&event.values[i]) : nullptr;
      const bool wanted =
          stored != nullptr && std::find(stored->nodes.begin(), stored->nodes.end(), node) != stored->nodes.end();
      if (!wanted) free_copies(return_id(event.first, i), {node});
    }
  }
}

void Owner::on(DiscardResults& event) {
  for (const CallValue& value : event.values) {
    const auto* stored = std::get_if<StoredValue>(&value);
    if (stored == nullptr) continue;
    const Object* entry = objects_.find(stored->object.id);
    const Stored* kept = entry == nullptr ? nullptr : std::get_if<Stored>(&entry->state);
    const bool pending = entry != nullptr && !ready(*entry);
    if (pending) continue;  // another attempt may have put it into the same store
    for (const NodeId node : stored->nodes) {
      if (kept != nullptr && std::find(kept->nodes.begin(), kept->nodes.end(), node) != kept->nodes.end()) continue;
      outbox_.last<FreeObjects>(Peer::of(node)).objects.push_back(stored->object.id);
    }
  }
  const bool to_itself = event.executor.process() == self_.process && any_refs(event.values);
  // A repeat of results that are being taken over: their confirmation is on its way.
  if (borrows_.taking_over(event.task, event.executor)) return;
  if (to_itself || !foreign_of(event.values).empty())
    outbox_.last<HandoffDone>(event.executor).tasks.push_back(event.task);
}

std::vector<ObjectLocator> Owner::foreign_of(const std::vector<CallValue>& values) const {
  std::vector<ObjectLocator> foreign;
  for (const CallValue& value : values) {
    for (const ObjectLocator& ref : refs_of(value)) {
      if (!own(ref.id)) foreign.push_back(ref);
    }
  }
  return foreign;
}

StoredValue Owner::stored_value(ObjectId object, const Object& entry) const {
  const auto& stored = std::get<Stored>(entry.state);
  return StoredValue{locator(object, entry), stored.size, stored.nodes, stored.refs};
}

Outcome Owner::outcome_of(ObjectId object, const Object& entry) const {
  if (const auto* value = std::get_if<InlineValue>(&entry.state)) return *value;
  if (std::holds_alternative<Stored>(entry.state)) return stored_value(object, entry);
  return *std::get<std::shared_ptr<const ErrorInfo>>(entry.state);
}

TaskId Owner::maker_of(ObjectId object) const {
  const Object* entry = objects_.find(object);
  return entry == nullptr || entry->maker == 0 ? TaskId{} : TaskId{self_.process.value, entry->maker};
}

// ---- readers
// ----------------------------------------------------------------------------------------------------------------

void Owner::give_ready(ObjectId object, std::variant<InlineValue, PinnedLocation, ReadyOnly, ErrorInfo> outcome) {
  actions_->ready.push_back({object, std::move(outcome)});
}

void Owner::announce(ObjectId object, Object& entry) {
  std::uint8_t wants = std::exchange(entry.wants, std::uint8_t{0});
  if (own(object) && entry.local != 0 && !entry.handle) wants |= kWantsReady;
  if (wants != 0) answer(object, entry, wants);
  if (!entry.awaited) return;
  entry.awaited = false;
  const auto peers = std::move(awaiting_.at(object));
  awaiting_.erase(object);
  for (const Peer& peer : peers) {
    outbox_.last<ObjectsResolved>(peer).objects.push_back({object, outcome_of(object, entry)});
  }
}

void Owner::answer(ObjectId object, Object& entry, std::uint8_t wants) {
  if ((wants & kWantsCall) != 0) actions_->resolved.push_back({object, outcome_of(object, entry)});
  constexpr std::uint8_t kProgram = kWantsReady | kWantsBring | kWantsValue;
  if ((wants & kProgram) == 0) return;
  if (const auto* value = std::get_if<InlineValue>(&entry.state)) {
    give_ready(object, *value);
    return;
  }
  if (const auto* error = std::get_if<std::shared_ptr<const ErrorInfo>>(&entry.state)) {
    give_ready(object, **error);
    return;
  }
  const auto& nodes = std::get<Stored>(entry.state).nodes;
  const bool here = std::find(nodes.begin(), nodes.end(), self_.node) != nodes.end();
  if ((wants & kWantsReady) != 0 || ((wants & kWantsBring) != 0 && here)) give_ready(object, ReadyOnly{here});
  if ((wants & kWantsBring) != 0 && !here) {
    entry.wants |= kWantsBring;
    node_pins_.bring(stored_value(object, entry), outbox_);
  }
  if ((wants & kWantsValue) != 0) {
    if (auto location = node_pins_.want(stored_value(object, entry), outbox_)) {
      give_ready(object, std::move(*location));
    } else {
      entry.wants |= kWantsValue;
    }
  }
}

void Owner::on(Want& event) {
  const ObjectId object = event.object.id;
  Object* entry = objects_.find(object);
  if (entry == nullptr) {
    give_ready(object, freed_error(object));
    return;
  }
  const std::uint8_t want = event.mode == WantMode::kReady   ? kWantsReady
                            : event.mode == WantMode::kBring ? kWantsBring
                                                             : kWantsValue;
  if (ready(*entry)) {
    answer(object, *entry, want);
    return;
  }
  entry->wants |= want;
  if (!own(object)) ask_owner(object, *entry);
}

void Owner::on(Unwant& event) {
  Object* entry = objects_.find(event.object);
  if (entry == nullptr) return;
  entry->wants &= kWantsCall;
  node_pins_.unwant(event.object, outbox_);
}

void Owner::on(ViewReleased& event) {
  node_pins_.view_released(event.object, outbox_);
}

void Owner::on(Resolve& event) {
  const ObjectId object = event.object.id;
  Object* entry = objects_.find(object);
  if (entry == nullptr) {
    actions_->resolved.push_back({object, freed_error(object)});
  } else if (ready(*entry)) {
    actions_->resolved.push_back({object, outcome_of(object, *entry)});
  } else {
    entry->wants |= kWantsCall;
    if (!own(object)) ask_owner(object, *entry);
  }
}

void Owner::ask_owner(ObjectId object, Object& entry) {
  if (entry.asked) return;
  entry.asked = true;
  outbox_.last<ResolveObjects>(Peer::of(owner_of(object), entry.owner_node)).objects.push_back(object);
}

void Owner::fail_wants(ObjectId object, Object& entry, const ErrorInfo& error) {
  const std::uint8_t wants = std::exchange(entry.wants, std::uint8_t{0});
  if ((wants & kWantsCall) != 0) actions_->resolved.push_back({object, error});
  if ((wants & ~kWantsCall) != 0) {
    node_pins_.unwant(object, outbox_);
    give_ready(object, error);
  }
}

// ---- calls executed here
// --------------------------------------------------------------------------------------------------

void Owner::on(PinArguments& event) {
  node_pins_.pin_arguments(std::move(event), outbox_, *actions_);
}
void Owner::on(DropArguments& event) {
  node_pins_.drop_arguments(event.call, outbox_);
}
void Owner::on(CallBegan&) {
  ++calls_running_;
}

void Owner::on(CallEnding& event) {
  MOBULA_CHECK(calls_running_ > 0, "a call ended that did not begin");
  --calls_running_;
  if (!event.refs.empty()) {
    // Held until the receiver has borrowed them. What the receiver owns needs that only until the answer is out: a
    // release of ours must not overtake it. To itself it also confirms, so that nothing lies between sending and
    // receiving.
    if (handoffs_.contains(event.call)) end_handoff(event.call);  // of an earlier attempt
    Handoff& handoff = handoffs_[event.call];
    handoff.caller = event.caller.process();
    handoff.until_cleared = handoff.caller != self_.process;
    for (const ObjectLocator& ref : event.refs) {
      if (owner_of(ref.id) != handoff.caller) handoff.until_cleared = false;
      if (own(ref.id) && !objects_.contains(ref.id)) continue;
      handoff.objects.push_back(ref.id);
      hold(ref, Hold::kPin, true);
    }
  }
  borrows_.end_call(event.call, outbox_, *actions_);
}

}  // namespace mobula::objectstore
