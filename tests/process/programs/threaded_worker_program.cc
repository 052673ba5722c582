// A program with a thread before main: it must not be forked, and still makes workers.
#include <chrono>
#include <cstdio>
#include <thread>

#include "runtime/process/worker_mode.h"
#include "tests/process/programs/obedient_worker.h"

namespace {

struct Background {
  Background() {
    mobula::process::testing::note_initialised();
    std::thread([] {
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }).detach();
  }
};
const Background background;

}  // namespace

int main() {
  std::puts("main was entered");
  return 99;
}
