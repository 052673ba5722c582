// expect: a view (std::string_view, std::span) does not own what it shows
#include <mobula/mobula.h>

std::string_view f() { return "text"; }
void use() { mobula::remote<f>(); }
