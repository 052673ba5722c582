// What runs in each worker right after it was forked, and small helpers of the API functions.
#pragma once

#include <string>
#include <string_view>

namespace mobula::core {

// Called during static initialisation or later; in order of registration. Thread-safe.
void add_worker_hook(void (*function)());
void run_worker_hooks();

// "Counter" of "Counter::Counter", "Counter(int)" and "Counter".
std::string_view class_of(std::string_view display);

}  // namespace mobula::core
