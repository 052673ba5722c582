// Which types count as the same encoding, and how functions are named.
#include <deque>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include <mobula/mobula.h>

namespace {

using mobula::detail::kFingerprint;

struct A {
  int x;
  std::string y;
};
struct SameAsA {
  int other;
  std::string name;
};
struct Swapped {
  std::string y;
  int x;
};
struct Branches {
  int value;
  std::vector<Branches> children;
};
struct OtherTree {
  int value;
  std::vector<OtherTree> children;
};
struct Left;
struct Right {
  std::vector<Left> lefts;
};
struct Left {
  std::vector<Right> rights;
  int x;
};
struct HoldsRefsToItself {
  mobula::ObjectRef<HoldsRefsToItself> next;
};

static_assert(kFingerprint<int> != kFingerprint<unsigned>);
static_assert(kFingerprint<int> != kFingerprint<float>);
static_assert(kFingerprint<long> == kFingerprint<long long>, "the same bytes on this machine");
static_assert(kFingerprint<A> == kFingerprint<SameAsA>, "names of members do not count");
static_assert(kFingerprint<A> != kFingerprint<Swapped>);
static_assert(kFingerprint<std::vector<int>> == kFingerprint<std::list<int>>);
static_assert(kFingerprint<std::map<int, int>> == kFingerprint<std::unordered_map<int, int>>);
static_assert(kFingerprint<std::vector<int>> != kFingerprint<std::vector<std::vector<int>>>);
static_assert(kFingerprint<std::vector<char>> != kFingerprint<std::string>);
static_assert(kFingerprint<Branches> == kFingerprint<OtherTree>);
static_assert(kFingerprint<Left> != kFingerprint<Right>);
static_assert(kFingerprint<HoldsRefsToItself> != 0);
static_assert(kFingerprint<void> != kFingerprint<int>);
static_assert(kFingerprint<mobula::Array<int>> != kFingerprint<mobula::Array<float>>);
static_assert(kFingerprint<mobula::Actor<A>> != kFingerprint<mobula::Actor<Branches>>);

using mobula::detail::Signature;
using mobula::detail::signature_fingerprint;
static_assert(signature_fingerprint<Signature<int (*)(int, std::string)>>() ==
              signature_fingerprint<Signature<int (*)(const int&, std::string&&) noexcept>>());
static_assert(signature_fingerprint<Signature<int (*)(int)>>() != signature_fingerprint<Signature<int (*)(long)>>());
static_assert(signature_fingerprint<Signature<int (*)(int)>>() != signature_fingerprint<Signature<void (*)(int)>>());
static_assert(signature_fingerprint<Signature<int (A::*)(int) const>>() ==
              signature_fingerprint<Signature<int (Branches::*)(int)>>());

}  // namespace

namespace names {
class Class {
 public:
  int method(int) const { return 0; }
};
int function(int value) {
  return value;
}
}  // namespace names

TEST_CASE("names are spelled alike by both compilers") {
  CHECK(mobula::detail::value_text<names::function>() == "names::function");
  CHECK(mobula::detail::value_text<&names::Class::method>() == "names::Class::method");
  CHECK(mobula::detail::type_text<names::Class>() == "names::Class");
  CHECK(std::string(mobula::detail::ValueName<names::function>::kText.data()) == "names::function");
}

TEST_CASE("only what other programs can name is external") {
  CHECK(mobula::detail::names_are_external(mobula::detail::value_text<names::function>()));
  CHECK(!mobula::detail::names_are_external(mobula::detail::type_text<A>()));
  CHECK(!mobula::detail::names_are_external(mobula::detail::value_text<[](int x) { return x; }>()));
}
