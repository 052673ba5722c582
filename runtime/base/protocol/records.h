// What the head keeps on disk: one record a thing, keyed by kind and id. The storage driver encodes them with the wire
// codec; the machine sees structs.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/protocol/cluster.h"

namespace mobula {

inline constexpr std::uint32_t kStoreSchema = 1;

// One a store.
struct ClusterRecord {
  std::uint32_t schema = kStoreSchema;
  ClusterId cluster;
  std::uint64_t epoch = 0;  // of the last head that started; each start adds one
  Endpoint listen;          // taken again at a restart
  Endpoint advertised;
  friend bool operator==(const ClusterRecord&, const ClusterRecord&) = default;
};
// Keyed by node. A removed node stays as a tombstone for a while.
struct NodeRecord {
  NodeDescription description;
  bool dead = false;
  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};
// Keyed by actor.
struct ActorRecord {
  ActorSpec spec;
  ActorInfo info;
  RequestId request;  // that created it, so that a repeat gets the same answer
  std::int32_t restarts = 0;
  friend bool operator==(const ActorRecord&, const ActorRecord&) = default;
};
// Keyed by job.
struct JobRecord {
  JobDescription job;
  bool ended = false;
  std::int64_t end_time_ms = 0;
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};
// Keyed by submission.
struct SubmissionRecord {
  SubmitJob job;
  SubmissionInfo info;
  friend bool operator==(const SubmissionRecord&, const SubmissionRecord&) = default;
};

using Record = std::variant<ClusterRecord, NodeRecord, ActorRecord, JobRecord, SubmissionRecord>;

struct EraseRecord {
  std::uint8_t kind = 0;  // index in Record
  std::string key;        // as key_of gives it
  friend bool operator==(const EraseRecord&, const EraseRecord&) = default;
};

using RecordWrite = std::variant<Record, EraseRecord>;

// Unique within its kind.
std::string key_of(const Record& record);

}  // namespace mobula
