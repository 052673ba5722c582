// expect: a type with virtual functions is not sent member by member
#include <mobula/mobula.h>

struct Shape {
  virtual ~Shape() = default;
};
Shape f() { return {}; }
void use() { mobula::remote<f>(); }
