// Fails in the compiler's own words; the documentation shows the remedy.
// expect: error:
#include <mobula/mobula.h>

void use(int captured) { mobula::remote<[captured](int x) { return x + captured; }>(1); }
