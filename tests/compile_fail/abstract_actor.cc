// expect: actor<T> needs a class that can be constructed
#include <mobula/mobula.h>

class T {
 public:
  virtual void m() = 0;
};
void use() { mobula::actor<T>(); }
