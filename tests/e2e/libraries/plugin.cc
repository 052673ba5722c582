// Loaded with mobula::load_library: a task that the executable knows nothing of.
#include <mobula/mobula.h>

namespace {

int square(int x) {
  return x * x;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int plugin_square(int x, const char* node);

// Runs square where the resource named after `node` is.
int plugin_square(int x, const char* node) {
  return mobula::get(mobula::remote<square>.with({.resources = {{node, 1}}})(x), std::chrono::seconds(20));
}
