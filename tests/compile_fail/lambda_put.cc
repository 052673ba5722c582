// expect: a function object (a lambda or std::function) cannot be sent
#include <mobula/mobula.h>

void use(int captured) { mobula::put([captured] { return captured; }); }
