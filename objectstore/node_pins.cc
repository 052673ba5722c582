#include "objectstore/node_pins.h"

#include <algorithm>
#include <utility>

namespace mobula::objectstore {

NodePins::Pin& NodePins::ask(const StoredValue& value, Outbox& outbox) {
  const auto [pin, is_new] = pins_.emplace(value.object.id);
  if (is_new) {
    ++asked_;
    pin.at.object = value.object.id;
    pin.owner_node = value.object.owner_node;
    outbox.add(node_, PinObject{value.object.id, value.size, value.nodes, true});
  }
  if (pin.at.refs.empty()) pin.at.refs = value.refs;
  return pin;
}

std::optional<PinnedLocation> NodePins::want(const StoredValue& value, Outbox& outbox) {
  Pin& pin = ask(value, outbox);
  if (!pin.pinned) {
    pin.wanted = true;
    return std::nullopt;
  }
  ++pin.views;
  return pin.at;
}

void NodePins::bring(const StoredValue& value, Outbox& outbox) {
  const auto [owner_node, is_new] = brings_.emplace(value.object.id);
  if (!is_new) return;
  owner_node = value.object.owner_node;
  outbox.add(node_, PinObject{value.object.id, value.size, value.nodes, false});
}

void NodePins::unwant(ObjectId object, Outbox& outbox) {
  brings_.erase(object);
  if (Pin* pin = pins_.find(object)) {
    pin->wanted = false;
    drop_views(object, 0, outbox);
  }
}

void NodePins::view_released(ObjectId object, Outbox& outbox) {
  drop_views(object, 1, outbox);
}

// A pin that was asked for and is no longer needed is kept until it is there: then it can be taken back.
void NodePins::drop_views(ObjectId object, std::uint32_t count, Outbox& outbox) {
  Pin* pin = pins_.find(object);
  if (pin == nullptr) return;
  MOBULA_CHECK(pin->views >= count, "a view was released twice");
  pin->views -= count;
  if (!pin->pinned || pin->views != 0) return;
  outbox.last<UnpinObjects>(node_).objects.push_back(object);
  pins_.erase(object);
}

void NodePins::pin_arguments(PinArguments event, Outbox& outbox, OwnerActions& actions) {
  const auto [arguments, is_new] = arguments_.emplace(event.call);
  MOBULA_CHECK(is_new, "arguments of a call are pinned once");
  arguments.values = std::move(event.values);
  for (const StoredValue& value : arguments.values) {
    Pin& pin = ask(value, outbox);
    if (pin.pinned) {
      ++pin.views;
      ++arguments.pinned;
    } else {
      pin.calls.push_back(event.call);
      ++arguments.missing;
    }
  }
  if (arguments.missing == 0) finish_arguments(event.call, actions);
}

void NodePins::finish_arguments(TaskId call, OwnerActions& actions) {
  ArgumentsPinned done;
  done.call = call;
  for (const StoredValue& value : arguments_.at(call).values) done.locations.push_back(pins_.at(value.object.id).at);
  arguments_.erase(call);
  actions.pinned.push_back(std::move(done));
}

void NodePins::drop_arguments(TaskId call, Outbox& outbox) {
  Arguments* found = arguments_.find(call);
  if (found == nullptr) return;
  const Arguments arguments = std::move(*found);
  arguments_.erase(call);
  for (const StoredValue& value : arguments.values) {
    Pin* pin = pins_.find(value.object.id);
    if (pin == nullptr) continue;
    const auto waits = std::find(pin->calls.begin(), pin->calls.end(), call);
    if (waits != pin->calls.end()) {
      pin->calls.erase(waits);
    } else if (pin->pinned) {
      drop_views(value.object.id, 1, outbox);
    }
  }
}

void NodePins::fail_arguments(TaskId call, const ErrorInfo& error, Outbox& outbox, OwnerActions& actions) {
  if (!arguments_.contains(call)) return;
  drop_arguments(call, outbox);
  actions.pinned.push_back({call, {}, error});
}

NodePins::Answer NodePins::on_pinned(const ObjectPinned& message, Outbox& outbox, OwnerActions& actions) {
  Answer answer;
  answer.error = message.error;
  if (!message.mapped) {
    const NodeId* owner_node = brings_.find(message.object);
    if (owner_node == nullptr) return {};
    answer.owner_node = *owner_node;
    brings_.erase(message.object);
    answer.brought = !message.error;
    return answer;
  }
  Pin* pin = pins_.find(message.object);
  if (pin == nullptr || pin->pinned) return {};
  --asked_;
  answer.owner_node = pin->owner_node;
  auto calls = std::exchange(pin->calls, {});
  if (message.error) {
    if (!pin->wanted) answer.error.reset();
    pins_.erase(message.object);
    for (const TaskId call : calls) fail_arguments(call, *message.error, outbox, actions);
    return answer;
  }
  pin->pinned = true;
  pin->at.segment = message.segment;
  pin->at.segment_size = message.segment_size;
  pin->at.offset = message.offset;
  pin->at.size = message.size;
  if (std::exchange(pin->wanted, false)) {
    ++pin->views;
    answer.location = pin->at;
  }
  pin->views += static_cast<std::uint32_t>(calls.size());
  for (const TaskId call : calls) {
    Arguments& arguments = arguments_.at(call);
    ++arguments.pinned;
    if (--arguments.missing == 0) finish_arguments(call, actions);
  }
  drop_views(message.object, 0, outbox);
  return answer;
}

std::string NodePins::describe(std::size_t lines_max) const {
  std::string text;
  for (const ObjectId object : pins_.sorted_keys()) {
    if (lines_max-- == 0) break;
    const Pin& pin = pins_.at(object);
    text += to_string(object) + (pin.pinned ? " pinned" : " asked for") + ": " + std::to_string(pin.views) +
            " views, " + std::to_string(pin.calls.size()) + " calls wait" + (pin.wanted ? ", read\n" : "\n");
  }
  return text;
}

void NodePins::check() const {
  std::size_t asked = 0;
  for (const ObjectId object : pins_.sorted_keys()) {
    const Pin& pin = pins_.at(object);
    if (!pin.pinned) ++asked;
    MOBULA_CHECK(!pin.pinned || pin.views > 0, "a pin that nobody uses");
    MOBULA_CHECK(!pin.pinned || (!pin.wanted && pin.calls.empty()), "someone waits for a pin that is there");
  }
  MOBULA_CHECK(asked == asked_, "pins on their way are miscounted");
  for (const TaskId call : arguments_.sorted_keys()) {
    const Arguments& arguments = arguments_.at(call);
    MOBULA_CHECK(arguments.missing > 0, "arguments that are all there were not handed on");
    MOBULA_CHECK(arguments.missing + arguments.pinned == arguments.values.size(), "arguments are miscounted");
  }
}

}  // namespace mobula::objectstore
