// expect: a pointer to an array does not know its size
#include <mobula/mobula.h>

void f(std::unique_ptr<int[]>) {}
void use() { mobula::remote<f>(std::make_unique<int[]>(3)); }
