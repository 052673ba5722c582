// The number and order of members that are found in plain aggregates.
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <mobula/detail/aggregate.h>
#include <mobula/mobula.h>

namespace {

using mobula::detail::kFieldCount;

struct Zero {};
struct One {
  int a;
};
struct Arrays {
  int a[3];
  char name[4096];
  double grid[2][2];
};
struct Inner {
  int a, b, c;
};
struct Nested {
  Inner first;
  int second;
  Inner third[2];
};
struct Rich {
  std::string a;
  std::vector<int> b;
  std::optional<int> c;
  std::variant<int, std::string> d;
  std::unique_ptr<int> e;
  std::shared_ptr<int> f;
  std::map<int, int> g;
  std::chrono::seconds h;
  std::filesystem::path i;
  mobula::ObjectRef<int> j;
  mobula::Array<float> k;
  mobula::Tensor l;
  std::function<int(int)> m;
  std::mutex n;
};
struct Defaults {
  int a = 1;
  std::string b = "b";
  std::vector<int> c = {1, 2};
};
struct Thirtytwo {
  int a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7;
  int c0, c1, c2, c3, c4, c5, c6, c7, d0, d1, d2, d3, d4, d5, d6, d7;
};
struct Forty {
  std::string a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9;
  std::string c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9;
};
struct Based : One {
  int b;
};
struct BasedOnEmpty : Zero {
  int b;
};
struct Constant {
  const int a = 1;
  int b = 2;
};

static_assert(kFieldCount<Zero> == 0);
static_assert(kFieldCount<One> == 1);
static_assert(kFieldCount<Arrays> == 3);
static_assert(kFieldCount<Nested> == 3);
static_assert(kFieldCount<Rich> == 14);
static_assert(kFieldCount<Defaults> == 3);
static_assert(kFieldCount<Thirtytwo> == 32);
static_assert(kFieldCount<Forty> == 40);
static_assert(kFieldCount<Constant> == 2);
static_assert(mobula::detail::AggregateWithBase<Based>);
static_assert(mobula::detail::AggregateWithBase<BasedOnEmpty>);
static_assert(!mobula::detail::AggregateWithBase<Nested>);
static_assert(!mobula::detail::AggregateWithBase<Rich>);
static_assert(mobula::detail::kPlain<Thirtytwo>);
static_assert(mobula::detail::kPlain<Nested>);
static_assert(
    std::is_same_v<mobula::detail::FieldsOf<Arrays>, mobula::detail::FieldList<int[3], char[4096], double[2][2]>>);
static_assert(std::is_same_v<mobula::detail::FieldsOf<Constant>, mobula::detail::FieldList<const int, int>>);

}  // namespace

TEST_CASE("members are visited in order, by reference") {
  Thirtytwo value{};
  mobula::detail::visit_fields(value, [](auto&... fields) {
    int next = 0;
    ((fields = next++), ...);
  });
  CHECK(value.a0 == 0);
  CHECK(value.a7 == 7);
  CHECK(value.d7 == 31);
}

TEST_CASE("a constant aggregate shows constant members") {
  const One value{5};
  mobula::detail::visit_fields(value, [](auto& a) {
    static_assert(std::is_const_v<std::remove_reference_t<decltype(a)>>);
    CHECK(a == 5);
  });
}
