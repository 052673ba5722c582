// expect: an argument does not convert to the parameter's type
#include <mobula/mobula.h>

int f(int a) { return a; }
void use() { mobula::remote<f>(std::string("1")); }
