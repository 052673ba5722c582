#include "tune/run/interrupt.h"

#include <cerrno>

namespace mobula::tune {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

extern "C" void mobula_tune_interrupt(int) {
  interrupt_seen = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() : signals_{{{SIGINT, false, {}}, {SIGTERM, false, {}}, {SIGHUP, false, {}}}} {
  interrupt_seen = 0;
  for (Taken& entry : signals_) {
    if (::sigaction(entry.number, nullptr, &entry.before) != 0) continue;
    if ((entry.before.sa_flags & SA_SIGINFO) != 0 || entry.before.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = mobula_tune_interrupt;
    ::sigemptyset(&ours.sa_mask);
    // Back to the default after the first one, so that a second ends a process that does not listen.
    ours.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    entry.taken = ::sigaction(entry.number, &ours, nullptr) == 0;
  }
}

InterruptGuard::~InterruptGuard() {
  for (const Taken& entry : signals_) {
    if (entry.taken) ::sigaction(entry.number, &entry.before, nullptr);
  }
}

bool InterruptGuard::interrupted() {
  return interrupt_seen != 0;
}

}  // namespace mobula::tune
