// expect: a mutex belongs to one process
#include <mutex>

#include <mobula/mobula.h>

struct Shared {
  int value;
  std::mutex mutex;
};
int f(const Shared& shared) { return shared.value; }
void use(const mobula::ObjectRef<Shared>& ref) { mobula::remote<f>(ref); }
void get(const mobula::ObjectRef<Shared>& ref) { mobula::put(std::unique_ptr<Shared>()); }
