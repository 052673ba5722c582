// expect: a raw pointer cannot be sent
#include <mobula/mobula.h>

void use(double* p) { mobula::put(p); }
