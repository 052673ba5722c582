// expect: a parameter of type T& would only change a copy
#include <mobula/mobula.h>

void f(int& x) { ++x; }
void use(int& x) { mobula::remote<f>(x); }
