// expect: needs a default constructor
#include <mobula/mobula.h>

class Closed {
 public:
  explicit Closed(int) {}
  void serialize(mobula::Archive&) {}
};
int f(Closed) { return 0; }
void use() { mobula::remote<f>(Closed(1)); }
