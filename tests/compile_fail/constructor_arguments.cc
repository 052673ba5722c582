// expect: T cannot be constructed of these arguments
#include <mobula/mobula.h>

class T {
 public:
  explicit T(int) {}
};
void use() { mobula::actor<T>(1, 2); }
