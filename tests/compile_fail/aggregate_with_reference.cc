// expect: this aggregate has no default constructor
#include <mobula/mobula.h>

struct Holder {
  int& a;
};
void use(int& x) { mobula::put(Holder{x}); }
