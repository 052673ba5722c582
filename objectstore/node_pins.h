// What this process has pinned, or asked to be brought, in the store of its own node.
//
// A pin costs a round trip to the daemon, so all users of an object in this process share one: views that were handed
// out are counted here, and only the last one to go unpins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "objectstore/owner_io.h"
#include "runtime/base/id_map.h"
#include "runtime/base/outbox.h"

namespace mobula::objectstore {

class NodePins {
 public:
  explicit NodePins(NodeId node) : node_(Peer::of(node)) {}

  // The program wants to read it: a location at once (counted as handed out), or Answer later.
  std::optional<PinnedLocation> want(const StoredValue& value, Outbox& outbox);
  void bring(const StoredValue& value, Outbox& outbox);
  void unwant(ObjectId object, Outbox& outbox);
  void view_released(ObjectId object, Outbox& outbox);

  void pin_arguments(PinArguments event, Outbox& outbox, OwnerActions& actions);
  void drop_arguments(TaskId call, Outbox& outbox);

  // What ObjectPinned means for the program: `location` (handed out) answers want, `brought` answers bring, `error`
  // both.
  struct Answer {
    std::optional<PinnedLocation> location;
    bool brought = false;
    std::optional<ErrorInfo> error;
    NodeId owner_node;  // of the object; zero when nobody asked for it
  };
  Answer on_pinned(const ObjectPinned& message, Outbox& outbox, OwnerActions& actions);

  // The node still owes an answer.
  bool asking() const { return asked_ > 0; }
  bool idle() const { return pins_.empty() && brings_.empty() && arguments_.empty(); }
  std::size_t size() const { return pins_.size(); }
  // A line for each pin, at most `lines_max`. For people.
  std::string describe(std::size_t lines_max) const;
  void check() const;

 private:
  struct Pin {
    bool pinned = false;
    bool wanted = false;      // by the program
    std::uint32_t views = 0;  // handed out, or put aside for a call
    PinnedLocation at;
    NodeId owner_node;
    std::vector<TaskId> calls;  // wait for it; once for each argument
  };
  struct Arguments {
    std::vector<StoredValue> values;
    std::size_t missing = 0;
    std::size_t pinned = 0;  // put aside so far
  };

  Pin& ask(const StoredValue& value, Outbox& outbox);
  void drop_views(ObjectId object, std::uint32_t count, Outbox& outbox);
  void finish_arguments(TaskId call, OwnerActions& actions);
  void fail_arguments(TaskId call, const ErrorInfo& error, Outbox& outbox, OwnerActions& actions);

  Peer node_;
  std::size_t asked_ = 0;  // pins that are not there yet
  IdMap<ObjectId, Pin> pins_;
  IdMap<ObjectId, NodeId> brings_;  // the node of the owner
  IdMap<TaskId, Arguments> arguments_;
};

}  // namespace mobula::objectstore
