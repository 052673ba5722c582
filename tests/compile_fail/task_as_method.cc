// expect: a free function is a task
#include <mobula/mobula.h>

struct T {};
int f() { return 1; }
void use(mobula::Actor<T> actor) { actor.call<f>(); }
