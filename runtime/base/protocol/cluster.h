// Nodes and the head: membership, heartbeats, the directory of nodes, jobs, shipped content, logs and questions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/bytes.h"
#include "runtime/base/protocol/actor.h"
#include "runtime/base/protocol/peer.h"
#include "runtime/base/resources.h"

namespace mobula {

struct NodeDescription {
  NodeId node;
  Endpoint endpoint;
  std::string host_name;
  std::uint64_t pid = 0;
  std::string build;
  NodeResources total;
  Labels labels;
  bool is_head_node = false;
  friend bool operator==(const NodeDescription&, const NodeDescription&) = default;
};

// node -> head, first and after every reconnect, with all it holds.
struct RegisterNode {
  NodeDescription description;
  NodeResources free;
  std::vector<ActorInfo> actors;  // alive here
  std::vector<JobId> jobs;        // that have a driver or workers here
  friend bool operator==(const RegisterNode&, const RegisterNode&) = default;
};
struct NodeRegistered {
  std::uint64_t epoch = 0;
  std::optional<ErrorInfo> error;      // declared dead earlier: end everything and start anew
  std::vector<NodeDescription> nodes;  // the others
  friend bool operator==(const NodeRegistered&, const NodeRegistered&) = default;
};

struct QueuedShape {
  ResourceRequest request;
  std::uint32_t count = 0;
  friend bool operator==(const QueuedShape&, const QueuedShape&) = default;
};

// node -> head, every heartbeat interval and when free resources changed much.
struct Heartbeat {
  std::uint64_t sequence = 0;
  NodeResources free;
  std::vector<QueuedShape> queued;  // at most 64 shapes
  std::uint32_t workers = 0;
  std::uint64_t store_used = 0;     // bytes
  std::uint64_t loop_lag_ns = 0;    // worst since the last one
  std::uint32_t load_permille = 0;  // of the CPUs
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
struct HeartbeatAck {
  std::uint64_t sequence = 0;
  std::uint64_t epoch = 0;
  friend bool operator==(const HeartbeatAck&, const HeartbeatAck&) = default;
};

// head -> nodes.
struct NodesChanged {
  std::vector<NodeDescription> added;
  std::vector<NodeId> removed;  // dead or left
  friend bool operator==(const NodesChanged&, const NodesChanged&) = default;
};
// node -> head: it leaves on purpose.
struct NodeLeaves {
  friend bool operator==(const NodeLeaves&, const NodeLeaves&) = default;
};

// process -> its node: where is this node? Answered at once, and again when the node is removed.
struct ResolveNode {
  NodeId node;
  friend bool operator==(const ResolveNode&, const ResolveNode&) = default;
};
struct NodeResolved {
  NodeId node;
  bool alive = false;
  Endpoint endpoint;
  friend bool operator==(const NodeResolved&, const NodeResolved&) = default;
};
// process -> its node: the key for a link to that process of another node, whichever its job.
struct RequestLinkKey {
  ProcessId process;
  friend bool operator==(const RequestLinkKey&, const RequestLinkKey&) = default;
};
struct LinkKeyGranted {
  ProcessId process;
  std::vector<std::uint8_t> key;
  friend bool operator==(const LinkKeyGranted&, const LinkKeyGranted&) = default;
};
// node -> process, with the accepted socket as a descriptor of the frame: authenticate and use it.
struct LinkAccepted {
  std::string from;  // address, for people
  friend bool operator==(const LinkAccepted&, const LinkAccepted&) = default;
};

// ---- jobs
// ----------------------------------------------------------------------------------------------------------------

struct JobDescription {
  JobId job;
  std::string name;
  ProcessAddress driver;
  std::uint64_t pid = 0;
  std::string entrypoint;
  std::string submission;          // id of `mobula submit`, or empty
  std::int64_t start_time_ms = 0;  // wall clock, for people
  friend bool operator==(const JobDescription&, const JobDescription&) = default;
};
// node -> head. Idempotent.
struct RegisterJob {
  JobDescription job;
  friend bool operator==(const RegisterJob&, const RegisterJob&) = default;
};
// node -> head: the driver is gone. Idempotent, repeated until EndJob arrives.
struct JobFinished {
  JobId job;
  friend bool operator==(const JobFinished&, const JobFinished&) = default;
};
// head -> nodes: end and free all that it holds, but detached actors. Idempotent.
struct EndJob {
  JobId job;
  friend bool operator==(const EndJob&, const EndJob&) = default;
};

enum class SubmissionPhase : std::uint8_t { kPending = 0, kRunning = 1, kSucceeded = 2, kFailed = 3, kStopped = 4 };

struct SubmissionInfo {
  std::string submission;  // "job-" and 16 hex digits
  SubmissionPhase phase = SubmissionPhase::kPending;
  std::vector<std::string> argv;
  NodeId node;
  JobId job;  // once its driver has joined
  std::int32_t exit_code = 0;
  std::string message;
  std::int64_t start_time_ms = 0;
  std::int64_t end_time_ms = 0;
  friend bool operator==(const SubmissionInfo&, const SubmissionInfo&) = default;
};
// client -> head. `submission` is client-made; a repeat gets the first answer. Answered by SubmissionReply.
struct SubmitJob {
  RequestId request;
  std::string submission;
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string working_dir;    // content hash of an archive, or empty
  ResourceRequest resources;  // of the driver itself
  friend bool operator==(const SubmitJob&, const SubmitJob&) = default;
};
struct StopSubmission {
  RequestId request;
  std::string submission;
  friend bool operator==(const StopSubmission&, const StopSubmission&) = default;
};
struct GetSubmission {
  RequestId request;
  std::string submission;
  bool wait = false;  // answer when it has ended
  friend bool operator==(const GetSubmission&, const GetSubmission&) = default;
};
struct SubmissionReply {
  RequestId request;
  std::optional<ErrorInfo> error;
  SubmissionInfo info;
  friend bool operator==(const SubmissionReply&, const SubmissionReply&) = default;
};
// head -> node, idempotent by submission; and its end.
struct StartDriver {
  SubmitJob job;
  friend bool operator==(const StartDriver&, const StartDriver&) = default;
};
struct StopDriver {
  std::string submission;
  friend bool operator==(const StopDriver&, const StopDriver&) = default;
};
// node -> head. Repeated until StopDriver acknowledges an end.
struct DriverStatus {
  std::string submission;
  SubmissionPhase phase = SubmissionPhase::kRunning;
  std::int32_t exit_code = 0;
  std::string message;
  friend bool operator==(const DriverStatus&, const DriverStatus&) = default;
};

// ---- shipped content (executables, working folders)
// --------------------------------------------------------------------------

// client -> head, chunk by chunk in order; the last one completes it after its SHA-256 was checked. Idempotent.
struct PutContent {
  RequestId request;
  std::string hash;  // 64 hex digits
  std::uint64_t total = 0;
  std::uint64_t offset = 0;
  Bytes bytes;
  friend bool operator==(const PutContent&, const PutContent&) = default;
};
struct ContentStored {
  RequestId request;
  std::optional<ErrorInfo> error;
  std::uint64_t have = 0;  // bytes so far; `total` when it was there already
  friend bool operator==(const ContentStored&, const ContentStored&) = default;
};
// node -> head.
struct GetContent {
  RequestId request;
  std::string hash;
  std::uint64_t offset = 0;
  friend bool operator==(const GetContent&, const GetContent&) = default;
};
struct ContentChunk {
  RequestId request;
  std::optional<ErrorInfo> error;
  std::uint64_t total = 0;
  std::uint64_t offset = 0;
  Bytes bytes;
  friend bool operator==(const ContentChunk&, const ContentChunk&) = default;
};

// ---- logs
// ------------------------------------------------------------------------------------------------------------------

// node -> (node ->) driver.
struct LogLines {
  JobId job;
  ProcessId worker;
  std::uint64_t pid = 0;
  NodeId node;
  std::string name;  // of the actor or task, for the prefix
  bool error_stream = false;
  std::vector<std::string> lines;
  std::uint64_t dropped = 0;  // lines not sent, rate limit
  friend bool operator==(const LogLines&, const LogLines&) = default;
};
// client -> head -> node. Answered by LogChunk; with `follow` again when there is more.
struct ReadLog {
  RequestId request;
  std::string entity;  // id of a worker, actor, job, submission or node
  std::uint64_t offset = 0;
  bool follow = false;
  friend bool operator==(const ReadLog&, const ReadLog&) = default;
};
struct LogChunk {
  RequestId request;
  std::optional<ErrorInfo> error;
  std::uint64_t offset = 0;  // where the next read goes on
  Bytes bytes;
  bool end = false;  // nothing more will come
  friend bool operator==(const LogChunk&, const LogChunk&) = default;
};

// ---- questions
// ----------------------------------------------------------------------------------------------------------------

enum class QueryKind : std::uint8_t {
  kStatus = 0,
  kNodes = 1,
  kWorkers = 2,
  kActors = 3,
  kTasks = 4,
  kObjects = 5,
  kJobs = 6,
  kExplain = 7,  // `target`: why does this task, lease or actor not run?
  kKill = 8,     // `target`: actor, worker or job to end
  kStop = 9,     // the daemon ends itself; head: `target` "all" ends every node too
  kDoctor = 10,
};

// client -> head -> nodes -> processes. Each answers with rows of its own; the asker joins them.
struct Query {
  RequestId request;
  QueryKind kind = QueryKind::kStatus;
  std::string target;
  std::uint32_t limit = 10000;  // rows
  friend bool operator==(const Query&, const Query&) = default;
};
struct QueryReply {
  RequestId request;
  std::optional<ErrorInfo> error;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;  // nodes that did not answer in time, rows cut, ...
  friend bool operator==(const QueryReply&, const QueryReply&) = default;
};

}  // namespace mobula
