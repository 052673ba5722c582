// expect: a smart pointer to a base class would lose
#include <mobula/mobula.h>

struct Shape {
  virtual ~Shape() = default;
  virtual void serialize(mobula::Archive&) {}
};
void f(std::unique_ptr<Shape>) {}
void use() { mobula::remote<f>(std::make_unique<Shape>()); }
