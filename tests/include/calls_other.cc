// A second file with internal functions of the same names as in remote_test.cc: they are other functions.
#include <mobula/mobula.h>

#include "tests/include/calls.h"

namespace {
int hidden(int value) {
  return value + 1000;
}
}  // namespace
static std::string say() {
  return "other";
}

namespace calls {
std::string other_file_says() {
  return mobula::get(mobula::remote<say>());
}
int other_file_calls_its_hidden(int value) {
  return mobula::get(mobula::remote<hidden>(value));
}
}  // namespace calls
