// expect: wrong number of arguments
#include <mobula/mobula.h>

int plus(int a, int b) { return a + b; }
void use() { mobula::remote<plus>(1); }
