// The smallest libmobula.so there can be, for takeover_test: the takeover, and a worker main that says what it saw.
#include <cstdio>
#include <cstdlib>

#include "runtime/process/build_id.h"
#include "runtime/process/worker_mode.h"

namespace {

int initialisations = 0;
int (*program_function)() = nullptr;

// Prints one line: initialisations of the program, whether the mark was seen, and the program's function by its address
// as (module, offset) and back.
int report(int /*control_fd*/) {
  const auto address = mobula::process::locate(reinterpret_cast<const void*>(program_function));
  if (!address) return 1;
  const auto back = mobula::process::resolve(*address);
  const bool same = back.ok() && *back == reinterpret_cast<void*>(program_function);
  std::printf("initialised %d, mark %s, function %d %s\n", initialisations,
              std::getenv(mobula::process::kWorkerMark) != nullptr ? "left" : "gone", program_function(),
              same ? "found again" : "lost");
  return 42;
}

const bool registered = (mobula::process::set_worker_main(&report), true);

}  // namespace

extern "C" __attribute__((visibility("default"))) void mobula_test_register(int (*function)());
extern "C" __attribute__((visibility("default"))) bool mobula_test_is_worker();

void mobula_test_register(int (*function)()) {
  ++initialisations;
  program_function = function;
}

bool mobula_test_is_worker() {
  return mobula::process::started_as_worker();
}
