// expect: this method is of another class than the actor
#include <mobula/mobula.h>

struct T {};
struct Other {
  int m() { return 1; }
};
void use(mobula::Actor<T> actor) { actor.call<&Other::m>(); }
