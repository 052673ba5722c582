// expect: a raw pointer cannot be sent
#include <mobula/mobula.h>

struct Node {
  int value;
  Node* next;
};
int f(std::vector<Node> nodes) { return static_cast<int>(nodes.size()); }
void use() { mobula::remote<f>(std::vector<Node>()); }
