// A program that ends before main: workers of it can never start, and the error must carry what it said.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/process/worker_mode.h"
#include "tests/process/programs/obedient_worker.h"

namespace {

struct Broken {
  Broken() {
    std::fputs("the static initialiser found no configuration\n", stderr);
    if (mobula::process::started_as_worker()) ::_exit(3);
  }
};
const Broken broken;

}  // namespace

int main() {
  return 99;
}
