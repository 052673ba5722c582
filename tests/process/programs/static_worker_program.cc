// A program with the takeover linked in statically: its static initialiser must run in a worker, its main must not.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/process/worker_mode.h"
#include "tests/process/programs/obedient_worker.h"

namespace {

struct Initialised {
  Initialised() {
    names.emplace_back("static state with memory of its own");
    mobula::process::testing::note_initialised();
    if (std::getenv(mobula::process::kWorkerMark) != nullptr) std::abort();  // user code must never see the mark
    std::printf("buffered before the zygote forks\n");  // must reach the zygote's log once, and no worker's output
  }
  std::vector<std::string> names;
};
const Initialised initialised;

}  // namespace

int main() {
  std::puts("main was entered");
  return 99;
}
