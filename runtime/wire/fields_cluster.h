// Fields of nodes, jobs and submissions (cluster.capnp): used by messages and records.
#pragma once

#include "runtime/base/protocol/cluster.h"
#include "runtime/wire/cluster.capnp.h"
#include "runtime/wire/fields_common.h"

namespace mobula::wire::detail {

MOBULA_WIRE_ENUM(SubmissionPhase, (kPending, PENDING), (kRunning, RUNNING), (kSucceeded, SUCCEEDED), (kFailed, FAILED),
                 (kStopped, STOPPED))

MOBULA_WIRE(NodeDescription, (node, Node), (endpoint, Endpoint), (host_name, HostName), (pid, Pid), (build, Build),
            (total, Total), (labels, Labels), (is_head_node, IsHeadNode))
MOBULA_WIRE(JobDescription, (job, Job), (name, Name), (driver, Driver), (pid, Pid), (entrypoint, Entrypoint),
            (submission, Submission), (start_time_ms, StartTimeMs))
MOBULA_WIRE(SubmissionInfo, (submission, Submission), (phase, Phase), (argv, Argv), (node, Node), (job, Job),
            (exit_code, ExitCode), (message, Message), (start_time_ms, StartTimeMs), (end_time_ms, EndTimeMs))
MOBULA_WIRE(SubmitJob, (request, Request), (submission, Submission), (argv, Argv), (environment, Environment),
            (working_dir, WorkingDir), (resources, Resources))

}  // namespace mobula::wire::detail
