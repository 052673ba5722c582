// expect: an argument does not convert to the parameter's type
#include <mobula/mobula.h>

struct T {
  int m(int x) { return x; }
};
void use(mobula::Actor<T> actor) { actor.call<&T::m>("text"); }
