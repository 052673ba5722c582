// expect: std::move(value)
#include <mobula/mobula.h>

void f(std::unique_ptr<int>) {}
void use() {
  auto pointer = std::make_unique<int>(1);
  mobula::remote<f>(pointer);
}
