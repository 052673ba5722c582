// A program whose static initialiser never comes back.
#include <unistd.h>

#include "tests/process/programs/obedient_worker.h"

namespace {

struct Blocked {
  Blocked() {
    for (;;) ::pause();
  }
};
const Blocked blocked;

}  // namespace

int main() {
  return 99;
}
