// Encoding of hello, nodes, jobs, content, logs and questions.
#include "runtime/wire/fields_actor.h"
#include "runtime/wire/fields_cluster.h"
#include "runtime/wire/messages.h"

namespace mobula::wire::detail {

MOBULA_WIRE_ENUM(Role, (kHead, HEAD), (kNode, NODE), (kDriver, DRIVER), (kWorker, WORKER), (kClient, CLIENT),
                 (kViewer, VIEWER))
MOBULA_WIRE_ENUM(QueryKind, (kStatus, STATUS), (kNodes, NODES), (kWorkers, WORKERS), (kActors, ACTORS), (kTasks, TASKS),
                 (kObjects, OBJECTS), (kJobs, JOBS), (kExplain, EXPLAIN), (kKill, KILL), (kStop, STOP),
                 (kDoctor, DOCTOR))

MOBULA_WIRE(QueuedShape, (request, Request), (count, Count))

MOBULA_WIRE_MESSAGE(Hello, (protocol, Protocol), (role, Role), (from, From), (cluster, Cluster), (job, Job), (pid, Pid),
                    (build, Build), (features, Features), (executable, Executable), (executable_path, ExecutablePath),
                    (name, Name), (log_to_driver, LogToDriver), (libraries, Libraries))
MOBULA_WIRE_MESSAGE(HelloReply, (protocol, Protocol), (error, Error), (from, From), (cluster, Cluster), (epoch, Epoch),
                    (build, Build), (features, Features), (node, Node), (endpoint, Endpoint), (session, Session),
                    (link_key, LinkKey), (store_capacity, StoreCapacity), (node_cpus, NodeCpus))
MOBULA_WIRE_MESSAGE(RegisterNode, (description, Description), (free, Free), (actors, Actors), (jobs, Jobs))
MOBULA_WIRE_MESSAGE(NodeRegistered, (epoch, Epoch), (error, Error), (nodes, Nodes))
MOBULA_WIRE_MESSAGE(Heartbeat, (sequence, Sequence), (free, Free), (queued, Queued), (workers, Workers),
                    (store_used, StoreUsed), (loop_lag_ns, LoopLagNs), (load_permille, LoadPermille))
MOBULA_WIRE_MESSAGE(HeartbeatAck, (sequence, Sequence), (epoch, Epoch))
MOBULA_WIRE_MESSAGE(NodesChanged, (added, Added), (removed, Removed))
MOBULA_WIRE_EMPTY(NodeLeaves)
MOBULA_WIRE_DEFINE(NodeLeaves)
MOBULA_WIRE_MESSAGE(ResolveNode, (node, Node))
MOBULA_WIRE_MESSAGE(NodeResolved, (node, Node), (alive, Alive), (endpoint, Endpoint))
MOBULA_WIRE_MESSAGE(RequestLinkKey, (process, Process))
MOBULA_WIRE_MESSAGE(LinkKeyGranted, (process, Process), (key, Key))
MOBULA_WIRE_MESSAGE(LinkAccepted, (from, From))
MOBULA_WIRE_MESSAGE(RegisterJob, (job, Job))
MOBULA_WIRE_MESSAGE(JobFinished, (job, Job))
MOBULA_WIRE_MESSAGE(EndJob, (job, Job))
MOBULA_WIRE_DEFINE(SubmitJob)
MOBULA_WIRE_MESSAGE(StopSubmission, (request, Request), (submission, Submission))
MOBULA_WIRE_MESSAGE(GetSubmission, (request, Request), (submission, Submission), (wait, Wait))
MOBULA_WIRE_MESSAGE(SubmissionReply, (request, Request), (error, Error), (info, Info))
MOBULA_WIRE_MESSAGE(StartDriver, (job, Job))
MOBULA_WIRE_MESSAGE(StopDriver, (submission, Submission))
MOBULA_WIRE_MESSAGE(DriverStatus, (submission, Submission), (phase, Phase), (exit_code, ExitCode), (message, Message))
MOBULA_WIRE_MESSAGE(PutContent, (request, Request), (hash, Hash), (total, Total), (offset, Offset), (bytes, Bytes))
MOBULA_WIRE_MESSAGE(ContentStored, (request, Request), (error, Error), (have, Have))
MOBULA_WIRE_MESSAGE(GetContent, (request, Request), (hash, Hash), (offset, Offset))
MOBULA_WIRE_MESSAGE(ContentChunk, (request, Request), (error, Error), (total, Total), (offset, Offset), (bytes, Bytes))
MOBULA_WIRE_MESSAGE(LogLines, (worker, Worker), (pid, Pid), (node, Node), (name, Name), (error_stream, ErrorStream),
                    (lines, Lines), (dropped, Dropped), (job, Job))
MOBULA_WIRE_MESSAGE(ReadLog, (request, Request), (entity, Entity), (offset, Offset), (follow, Follow))
MOBULA_WIRE_MESSAGE(LogChunk, (request, Request), (error, Error), (offset, Offset), (bytes, Bytes), (end, End))
MOBULA_WIRE_MESSAGE(Query, (request, Request), (kind, Kind), (target, Target), (limit, Limit))
MOBULA_WIRE_MESSAGE(QueryReply, (request, Request), (error, Error), (columns, Columns), (rows, Rows), (notes, Notes))

}  // namespace mobula::wire::detail
