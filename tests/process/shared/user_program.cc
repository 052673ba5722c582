// A user's program, linked to worker_library.cc's library by whatever compiler and linker takeover_test has at hand.
#include <cstdio>
#include <vector>

extern "C" void mobula_test_register(int (*function)());
extern "C" bool mobula_test_is_worker();

namespace {

int seven() {
  return 7;
}

struct Initialised {
  Initialised() {
    values.push_back(1);
    mobula_test_register(&seven);
  }
  std::vector<int> values;
};
const Initialised initialised;

}  // namespace

int main() {
  std::puts(mobula_test_is_worker() ? "main was entered in a worker" : "main runs");
  return 3;
}
