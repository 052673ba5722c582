// expect: a view (std::string_view, std::span) does not own what it shows
#include <mobula/mobula.h>

int f(std::span<const int> values) { return values[0]; }
void use(const std::vector<int>& v) { mobula::remote<f>(v); }
