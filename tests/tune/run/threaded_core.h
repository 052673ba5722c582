// A cluster in one process for tests of tune::run: the functions of mobula/detail/core.h with a thread for each actor
// call, nodes with CPUs that can be killed, and real encoding. See threaded_core.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mobula::tune::testing {

// Forgets everything; then there are `nodes` nodes of `cpus` CPUs each.
void start_cluster(std::size_t nodes, double cpus);
// Its actors die, their open calls fail with ActorDied.
void kill_node(std::size_t node);
// Actors alive now, and made so far.
std::size_t actors_alive();
std::size_t actors_made();
// The most that lived on one node at once.
std::size_t actors_on_node_max();
// From the next actor on, making one fails as Unschedulable.
void refuse_actors(bool on);

}  // namespace mobula::tune::testing
