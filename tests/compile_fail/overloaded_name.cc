// Fails in the compiler's own words; the documentation shows the remedy.
// expect: error:
#include <mobula/mobula.h>

int f(int a) { return a; }
double f(double a) { return a; }
void use() { mobula::remote<f>(1); }
