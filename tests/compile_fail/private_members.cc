// expect: it has private members and no serialize
#include <mobula/mobula.h>

class Closed {
 public:
  int a() const { return a_; }

 private:
  int a_ = 0;
};
int f(Closed closed) { return closed.a(); }
void use() { mobula::remote<f>(Closed()); }
