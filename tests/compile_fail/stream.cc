// expect: a stream belongs to one process
#include <fstream>

#include <mobula/mobula.h>

void f(std::ofstream) {}
void use() { mobula::remote<f>(std::ofstream()); }
