#include <mobula/mobula.h>

int plus(int a, int b) {
  return a + b;
}

int main(int argc, char** argv) {
  mobula::Runtime runtime = mobula::init(argc, argv);
  auto three = mobula::remote<plus>(1, 2);
  return mobula::get(three) == 3 ? 0 : 1;
}
