// The zygote: the user's process right after static initialisation, single-threaded, that forks workers on request.
//
// It does nothing else: no allocation-heavy work, no thread, no Mobula runtime. Its children inherit loaded libraries
// and initialised statics, which is why a worker starts in about a millisecond also when its exec would take a second.
#pragma once

#include <string>

#include "runtime/process/spawn_protocol.h"

namespace mobula::process {

// Why this process cannot be forked safely: threads that no library's fork handler takes care of, or a sanitizer. ""
// when it can.
std::string why_not_fork();

// Answers requests on `socket` until it closes (then kills all workers and never returns) or until this process is
// itself a worker, set up and released: the result is its control socket.
int serve_zygote(int socket, const std::string& load_failure);

// Turns this process into the worker that `request` describes and waits for the go byte. Never returns on failure.
int become_worker(SpawnRequest request);

}  // namespace mobula::process
