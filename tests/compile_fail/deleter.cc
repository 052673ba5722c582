// expect: with a deleter of its own
#include <mobula/mobula.h>

struct Close {
  void operator()(int* file) const;
};
void f(std::unique_ptr<int, Close>) {}
void use() { mobula::remote<f>(std::unique_ptr<int, Close>()); }
