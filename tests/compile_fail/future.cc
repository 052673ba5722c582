// expect: threads, futures and condition variables belong to one process
#include <future>

#include <mobula/mobula.h>

std::future<int> f() { return {}; }
void use() { mobula::remote<f>(); }
