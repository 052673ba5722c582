// The takeover: linked into libmobula.so, which exports `__libc_start_main` without a symbol version (or straight into
// a test's executable).
//
// The start code of every executable calls __libc_start_main; the dynamic linker finds ours before the C library's,
// because an executable names the C library last. Ours passes everything on; only in a process with the worker mark it
// puts another `main` in place, so that the C library still runs the executable's static initialisers first.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/process/worker_mode.h"

namespace {

using Main = int (*)(int, char**, char**);
using StartMain = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);

int main_of_worker(int argc, char** argv, char** /*environment*/) {
  return mobula::process::worker_process_main(argc, argv);
}

// In libmobula.so this is before the initialisers of every library that stands on it.
[[gnu::constructor]] void take_mark() {
  mobula::process::adopt_worker_mark();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int __libc_start_main(  // NOLINT(bugprone-reserved-identifier)
    Main user_main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  const auto real = reinterpret_cast<StartMain>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  if (real == nullptr) {
    std::fputs("mobula: the C library has no __libc_start_main; is the program linked statically?\n", stderr);
    ::_exit(127);
  }
  // Linked into the executable itself, the constructor above would come after those of user code: this comes first.
  mobula::process::adopt_worker_mark();
  const bool worker = mobula::process::started_as_worker();
  return real(worker ? main_of_worker : user_main, argc, argv, init, fini, rtld_fini, stack_end);
}
