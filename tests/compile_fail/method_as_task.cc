// expect: a method belongs to an actor
#include <mobula/mobula.h>

struct T {
  int m() { return 1; }
};
void use() { mobula::remote<&T::m>(); }
