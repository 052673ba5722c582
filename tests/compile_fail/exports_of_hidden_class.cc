// expect: other programs cannot name a class in an anonymous namespace
#include <mobula/mobula.h>

namespace {
struct T {
  int m() { return 1; }
};
}  // namespace
mobula::exports<T, &T::m> t_exports;
