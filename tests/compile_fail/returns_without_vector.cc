// expect: .returns(n) needs a function that returns std::vector<T>
#include <mobula/mobula.h>

int f() { return 1; }
void use() { mobula::remote<f>.returns(2)(); }
