// expect: a raw pointer cannot be sent
#include <mobula/mobula.h>

const char* f() { return "text"; }
void use() { mobula::remote<f>(); }
