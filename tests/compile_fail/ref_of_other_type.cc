// expect: holds another type than the parameter
#include <mobula/mobula.h>

int f(int a) { return a; }
void use(mobula::ObjectRef<std::string> ref) { mobula::remote<f>(ref); }
