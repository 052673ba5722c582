// expect: an aggregate with a const member cannot be filled
#include <mobula/mobula.h>

struct Fixed {
  const int a = 1;
};
void use() { mobula::put(Fixed{}); }
