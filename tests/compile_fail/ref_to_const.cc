// expect: write ObjectRef<T> with a plain T
#include <mobula/mobula.h>

void use() { mobula::ObjectRef<const int> ref; }
