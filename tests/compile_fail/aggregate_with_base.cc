// expect: an aggregate with a base class needs
#include <mobula/mobula.h>

struct Base {
  int a;
};
struct Derived : Base {
  int b;
};
void use() { mobula::put(Derived{}); }
