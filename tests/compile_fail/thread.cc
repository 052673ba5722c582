// expect: threads, futures and condition variables belong to one process
#include <thread>

#include <mobula/mobula.h>

void use() { mobula::put(std::make_unique<std::thread>()); }
