// expect: a union cannot be sent
#include <mobula/mobula.h>

union Either {
  int a;
  float b;
};
void use() { mobula::put(Either{}); }
