// expect: a raw pointer cannot be sent
#include <mobula/mobula.h>

int f(int* p) { return *p; }
void use(int* p) { mobula::remote<f>(p); }
