// expect: no one signature
#include <mobula/mobula.h>

void use() { mobula::remote<[](auto x) { return x; }>(1); }
