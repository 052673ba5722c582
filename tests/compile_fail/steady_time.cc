// expect: a time of a steady clock means nothing in another process
#include <chrono>

#include <mobula/mobula.h>

void use() { mobula::put(std::chrono::steady_clock::now()); }
