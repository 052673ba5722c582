// expect: Array<T> holds bool, integers
#include <mobula/mobula.h>

void use() { mobula::Array<std::string> array; }
