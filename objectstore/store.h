// objectstore::Store, the machine of one node's shared-memory store.
//
// It decides which bytes hold which object, who has them mapped, what is fetched from where and what makes room. The
// driver (objectstore/io) creates segments, reserves their pages, copies bytes between nodes and passes descriptors.
//
// Objects are immutable once sealed. A *primary* copy was written on this node and leaves only when its owner frees it;
// a *secondary* copy was fetched and gives way, least recently used first, when room is needed. Freed objects that are
// still mapped somewhere keep their bytes until the last pin goes. Slabs make small puts free of round trips: a process
// fills a range of its own and announces objects inside it one way.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "objectstore/space.h"
#include "runtime/base/machine.h"

namespace mobula::objectstore {

struct StoreConfig {
  NodeId node;
  std::uint64_t capacity = 0;                     // bytes
  std::uint64_t segment_size = 1ULL << 30;        // of an ordinary segment; larger objects get their own
  std::uint64_t growth_step = 16ULL << 20;        // pages reserved at a time
  std::uint64_t slab_size = 1ULL << 20;           // least size of a slab
  Duration full_wait = std::chrono::seconds(3);   // how long a producer waits for room before StoreFull
  Duration seal_wait = std::chrono::seconds(10);  // how long a reader waits for an object announced as being here
  std::size_t waiting_max = 100000;               // bound of pins and slabs that wait
  std::size_t tombstones_max = 10000;             // freed objects remembered, so that a late seal does not leak
};

// ---- events (besides Received, PeerLost and Tick of machine.h) ----
// Nothing owned by this process or job is needed any more.
struct OwnerGone {
  ProcessId process;
};
struct JobGone {
  JobId job;
};
// Answer to Grow. `error`: the machine has no room; the mark stays where it was.
struct Grown {
  std::uint32_t segment = 0;
  std::uint64_t reserved = 0;
  std::optional<ErrorInfo> error;
};
// Answer to Pull. `missing`: that node has no such object. Otherwise `error` may say what went wrong on the way.
struct Pulled {
  ObjectId object;
  NodeId from;
  ProcessId owner;
  JobId job;
  bool missing = false;
  std::optional<ErrorInfo> error;
};
// Another node (or the driver) wants to read it: answered by ReadStarts, ended by ReadDone.
struct ReadWanted {
  std::uint64_t token = 0;
  ObjectId object;
};
struct ReadDone {
  std::uint64_t token = 0;
};

using StoreEvent = std::variant<Received, PeerLost, Tick, OwnerGone, JobGone, Grown, Pulled, ReadWanted, ReadDone>;

// ---- actions (besides Send) ----
struct CreateSegment {
  std::uint32_t segment = 0;
  std::uint64_t size = 0;
};
// Reserve pages up to `reserved`, if the machine has them. Answered by Grown.
struct Grow {
  std::uint32_t segment = 0;
  std::uint64_t from = 0;
  std::uint64_t reserved = 0;
};
// Fetch all of it into `into`. Answered by Pulled.
struct Pull {
  ObjectId object;
  NodeId from;
  std::uint64_t size = 0;
  Range into;
};
struct ReadStarts {
  std::uint64_t token = 0;
  bool found = false;
  Range range;  // `size` is the object's own, not rounded
  ProcessId owner;
  JobId job;
};

using StoreAction = std::variant<Send, CreateSegment, Grow, Pull, ReadStarts>;
using StoreActions = std::vector<StoreAction>;

struct StoreStats {
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;      // bytes handed out: objects and slabs
  std::uint64_t reserved = 0;  // bytes backed by pages
  std::uint64_t objects = 0;
  std::uint64_t primary_bytes = 0;
  std::uint64_t slabs = 0;
  std::uint64_t pins = 0;
  std::uint64_t pulls = 0;  // finished since start
  std::uint64_t pulled_bytes = 0;
  std::uint64_t evictions = 0;
  std::uint64_t waiting = 0;
};

// A row of `mobula list objects`.
struct ObjectRow {
  ObjectId object;
  JobId job;
  std::uint64_t size = 0;
  std::uint64_t pins = 0;
  bool primary = false;
};

class Store {
 public:
  explicit Store(const StoreConfig& config);

  void step(Instant now, std::span<const StoreEvent> events, StoreActions& out);
  Instant next_deadline() const;
  StoreStats stats() const;
  std::vector<ObjectRow> objects(std::size_t limit) const;
  void check() const;

 private:
  struct Object {
    Range range;
    std::uint64_t size = 0;
    ProcessId owner;
    JobId job;
    bool primary = false;
    bool doomed = false;  // freed; goes with the last pin
    std::uint64_t pins = 0;
    std::uint64_t last_use = 0;  // 0: not in the eviction order
  };
  struct Slab {
    ProcessId process;
    Range range;
    std::map<std::uint64_t, std::uint64_t> sealed;  // offset in the segment -> size taken by objects
  };
  struct WaitingSlab {
    ProcessId process;
    NodeId node;
    std::uint64_t request = 0;
    std::uint64_t bytes = 0;
    Instant deadline;
  };
  struct WaitingPin {
    Peer process;
    bool map = true;
  };
  // An object somebody wants and that is not here yet.
  struct Fetch {
    std::uint64_t size = 0;
    std::vector<NodeId> sources;  // still to be tried, best last
    std::vector<WaitingPin> waiting;
    std::optional<Range> range;  // room for it, once there is
    bool pulling = false;
    bool failed_source = false;  // at least one source did not have it
    std::string why;             // what the last source said
    Instant deadline;            // for the room, or for the seal
    bool awaiting_seal = false;
  };

  void handle(const Received& event);
  void handle(const PeerLost& event);
  void handle(const Tick&) {}
  void handle(const OwnerGone& event);
  void handle(const JobGone& event);
  void handle(const Grown& event);
  void handle(const Pulled& event);
  void handle(const ReadWanted& event);
  void handle(const ReadDone& event);

  void on(const Peer& from, const RequestSlab& message);
  void on(const Peer& from, const SealObject& message);
  void on(const Peer& from, const ReturnSlab& message);
  void on(const Peer& from, const PinObject& message);
  void on(const Peer& from, const UnpinObjects& message);
  void on(const FreeObjects& message);

  void free_object(ObjectId id);
  void drop(std::map<ObjectId, Object>::iterator entry);
  void pin(Object& object, ObjectId id, const Peer& process);
  void unpin(ObjectId id, std::uint64_t count);
  void touch(Object& object, ObjectId id);
  void answer_pin(ObjectId id, Object& object, const WaitingPin& waiter, bool copied);
  void fail_fetch(ObjectId id, const ErrorInfo& error);
  void start_fetch(ObjectId id, Fetch& fetch);
  void next_source(ObjectId id, Fetch& fetch);
  void object_arrived(ObjectId id, bool copied);

  // Room for `size` bytes: from free ranges, by eviction, or by asking for growth (then nullopt for now).
  std::optional<Range> make_room(std::uint64_t size);
  bool evict_one();
  void grant_slab(const WaitingSlab& waiting, const Range& range);
  void close_slab(std::map<std::uint64_t, Slab>::iterator entry);
  void serve_waiting();
  void expire(Instant now);
  ErrorInfo full_error(std::uint64_t size) const;

  StoreConfig config_;
  Instant now_;
  StoreActions* out_ = nullptr;

  Space space_;
  std::uint64_t segment_bytes_ = 0;  // sum of segment sizes
  std::uint32_t next_segment_ = 1;
  std::set<std::uint32_t> growing_;
  std::optional<ErrorInfo> growth_error_;

  std::map<ObjectId, Object> objects_;
  std::map<std::uint64_t, ObjectId> use_order_;  // last_use -> evictable secondary copies
  std::uint64_t use_clock_ = 0;
  std::map<std::uint64_t, Slab> slabs_;
  std::uint64_t next_slab_ = 1;
  std::map<ProcessId, std::map<ObjectId, std::uint64_t>> pins_;
  std::map<std::uint64_t, ObjectId> reads_;  // token -> pinned object
  std::deque<WaitingSlab> waiting_slabs_;
  std::map<ObjectId, Fetch> fetches_;
  std::set<ObjectId> tombstones_;
  std::deque<ObjectId> tombstone_order_;
  StoreStats stats_;
};

}  // namespace mobula::objectstore
