// Ctrl-C while an experiment runs: the first one asks it to end well, the second one ends the process.
#pragma once

#include <array>
#include <csignal>

namespace mobula::tune {

// Takes SIGINT, SIGTERM and SIGHUP over for its lifetime, where the program has not set a handler of its own. One at a
// time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();

 private:
  struct Taken {
    int number;
    bool taken;
    struct sigaction before;
  };
  std::array<Taken, 3> signals_;
};

}  // namespace mobula::tune
