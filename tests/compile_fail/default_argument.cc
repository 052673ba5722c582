// expect: default arguments do not count
#include <mobula/mobula.h>

int plus(int a, int b = 2) { return a + b; }
void use() { mobula::remote<plus>(1); }
