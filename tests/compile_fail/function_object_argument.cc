// expect: a function object (a lambda or std::function) cannot be sent
#include <functional>

#include <mobula/mobula.h>

int f(std::function<int(int)> g) { return g(1); }
void use() { mobula::remote<f>([](int x) { return x; }); }
