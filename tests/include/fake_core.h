// Strings to pull on the stand-in for libmobula.so: see fake_core.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <mobula/detail/core.h>

namespace fake {

// Forgets all objects, actors and counters; registered functions stay.
void reset();

// While held, tasks and calls are queued instead of run at once; run() runs what is queued and ends the holding.
void hold();
void run();

// Blobs are delivered at addresses that are 1 modulo 64: nothing may count on alignment.
void deliver_misaligned(bool on);

std::size_t live_objects();
std::size_t puts();
std::size_t submitted();
std::vector<mobula::ObjectId> cancelled();
const mobula::detail::CallOptions& last_options();
const mobula::detail::FunctionRecord* last_function();
std::span<const mobula::detail::FunctionRecord* const> functions();
// The bytes of a ready object.
std::vector<std::byte> bytes_of(const mobula::detail::RefHandle& ref);
// An object with exactly these bytes.
mobula::detail::RefHandle object_of(std::vector<std::byte> bytes, std::vector<mobula::detail::RefHandle> refs = {});
// An object that holds an error.
mobula::detail::RefHandle error_of(mobula::ErrorInfo error);

}  // namespace fake
