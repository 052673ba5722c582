// Tasks: what may be called, with what, and what comes back.
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <mobula/mobula.h>

#include "tests/include/calls.h"
#include "tests/include/fake_core.h"

using mobula::get;
using mobula::ObjectRef;
using mobula::put;
using mobula::remote;
using namespace mobula::literals;

int plus(int a, int b) {
  return a + b;
}
int overloaded(int a) {
  return a;
}
std::string overloaded(const std::string& a) {
  return a + "!";
}
template <class T>
T twice(T value) {
  return value + value;
}

namespace {

int hidden(int value) {
  return value + 1;
}
void nothing() {}
double half(double value) noexcept {
  return value / 2;
}
std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : std::string(between)) + part;
  return text;
}
std::unique_ptr<int> pass_on(std::unique_ptr<int> value) {
  return value;
}
std::size_t take(std::vector<int>&& values) {
  return values.size();
}
std::size_t look(const std::vector<int>& values) {
  return values.size();
}
int through_ref(ObjectRef<int> ref) {
  return get(ref) * 10;
}
int sum_nested(const std::map<std::string, std::vector<ObjectRef<int>>>& table) {
  int sum = 0;
  for (const auto& [name, refs] : table) {
    for (const auto& ref : refs) sum += get(ref);
  }
  return sum;
}
ObjectRef<int> gives_ref(int value) {
  return put(value);
}
int from_ref_to_ref(const ObjectRef<int>& ref) {
  return get(ref);
}
std::tuple<int, std::string, ObjectRef<int>> several(int value) {
  return {value, std::to_string(value), put(value)};
}
std::pair<int, int> pair_of(int value) {
  return {value, value};
}
std::vector<int> count_to(int n) {
  std::vector<int> values;
  for (int i = 0; i < n; ++i) values.push_back(i);
  return values;
}
const std::string& named() {
  static const std::string name = "named";
  return name;
}
int fails(int) {
  throw std::runtime_error("it broke");
}
std::tuple<int, int> fails_twice() {
  throw std::logic_error("both");
}
int nested(int depth) {
  return depth == 0 ? 0 : 1 + get(remote<nested>(depth - 1));
}
struct Config {
  int epochs = 1;
  std::string name;
  ObjectRef<std::vector<float>> weights;
};
std::size_t use(const Config& config) {
  return get(config.weights).size() + static_cast<std::size_t>(config.epochs);
}
std::size_t big(const mobula::Array<float>& array) {
  return array.size();
}
int default_argument(int a, int b = 5) {
  return a + b;
}

struct Functor {
  int operator()(int value) const { return value * 3; }
};

int before_main = get(remote<plus>(20, 22));

}  // namespace
static std::string say() {
  return "this";
}

TEST_CASE("functions of all kinds") {
  fake::reset();
  CHECK(before_main == 42);
  CHECK(get(remote<plus>(1, 2)) == 3);
  CHECK(get(remote<hidden>(1)) == 2);
  CHECK(get(remote<half>(3)) == 1.5);
  CHECK(get(remote<[](int x) { return 2 * x; }>(5)) == 10);
  CHECK(get(remote<static_cast<int (*)(int)>(overloaded)>(4)) == 4);
  CHECK(get(remote<static_cast<std::string (*)(const std::string&)>(overloaded)>("a")) == "a!");
  CHECK(get(remote<twice<int>>(4)) == 8);
  CHECK(get(remote<twice<std::string>>("a")) == "aa");
  CHECK(get(remote<Functor{}>(4)) == 12);
  CHECK(get(remote<&plus>(1, 2)) == 3);
  CHECK(get(remote<named>()) == "named");
  CHECK(get(remote<default_argument>(1, 2)) == 3);
  constexpr auto f = remote<plus>;
  CHECK(get(f(3, 4)) == 7);
}

TEST_CASE("internal functions of one name in two files are two functions") {
  CHECK(get(remote<hidden>(1)) == 2);
  CHECK(calls::other_file_calls_its_hidden(1) == 1001);
  CHECK(get(remote<say>()) == "this");
  CHECK(calls::other_file_says() == "other");
}

TEST_CASE("functions are registered before main, once each") {
  int found = 0;
  for (const auto* function : fake::functions()) {
    CHECK(static_cast<bool>(function->invoker));
    if (std::string_view(function->symbol) == "nested" || std::string_view(function->symbol).ends_with("::nested"))
      ++found;
  }
  CHECK(found == 1);
}

TEST_CASE("results") {
  fake::reset();
  ObjectRef<void> done = remote<nothing>();
  get(done);
  std::tuple<ObjectRef<int>, ObjectRef<std::string>, ObjectRef<ObjectRef<int>>> three = remote<several>(7);
  const auto [number, text, ref] = get(three);
  CHECK(number == 7);
  CHECK(text == "7");
  CHECK(get(ref) == 7);
  ObjectRef<std::pair<int, int>> pair = remote<pair_of>(3);
  CHECK(get(pair).second == 3);
  std::vector<ObjectRef<int>> split = remote<count_to>.returns(3)(3);
  CHECK(get(split) == std::vector<int>{0, 1, 2});
  ObjectRef<std::vector<int>> whole = remote<count_to>(3);
  CHECK(get(whole).size() == 3);
  CHECK(get(remote<count_to>.with({.name = "c"}).returns(1)(1)) == std::vector<int>{0});
  CHECK(fake::last_options().name == "c");
  std::vector<ObjectRef<int>> wrong = remote<count_to>.returns(2)(3);
  CHECK_THROWS_AS(get(wrong[0]), mobula::TaskFailed);
  CHECK_THROWS_AS(get(wrong[1]), mobula::TaskFailed);
}

TEST_CASE("arguments convert as in a plain call") {
  fake::reset();
  CHECK(get(remote<half>(3)) == 1.5);
  short small = 4;
  CHECK(get(remote<plus>(small, 'a')) == 101);
  const std::string comma = ",";
  CHECK(get(remote<join>(std::vector<std::string>{"a", "b"}, comma)) == "a,b");
  CHECK(get(remote<join>(std::vector<std::string>{"a", "b"}, ", ")) == "a, b");
  CHECK(get(remote<join>(std::vector<std::string>{"a", "b"}, std::string_view("-"))) == "a-b");
  CHECK(get(remote<twice<std::string>>(std::string_view("ab"))) == "abab");
  const std::vector<int> values{1, 2, 3};
  CHECK(get(remote<look>(values)) == 3);
  CHECK(get(remote<take>(std::vector<int>{1, 2})) == 2);
}

TEST_CASE("moved arguments are gone") {
  fake::reset();
  auto pointer = std::make_unique<int>(5);
  CHECK(*get(remote<pass_on>(std::move(pointer))) == 5);
  CHECK(pointer == nullptr);
  std::vector<int> values{1, 2};
  CHECK(get(remote<take>(std::move(values))) == 2);
  CHECK(values.empty());
}

TEST_CASE("refs are resolved at the top and stay refs inside") {
  fake::reset();
  const auto three = remote<plus>(1, 2);
  CHECK(get(remote<plus>(three, 10)) == 13);
  CHECK(get(remote<plus>(three, three)) == 6);
  CHECK(get(remote<through_ref>(three)) == 30);
  CHECK(get(remote<sum_nested>(std::map<std::string, std::vector<ObjectRef<int>>>{{"a", {three, put(4)}}})) == 7);
  CHECK(get(remote<join>(put(std::vector<std::string>{"x", "y"}), put("+"))) == "x+y");
  ObjectRef<ObjectRef<int>> outer = remote<gives_ref>(8);
  CHECK(get(get(outer)) == 8);
  CHECK(get(remote<from_ref_to_ref>(outer)) == 8);
  CHECK(get(remote<use>(Config{2, "c", put(std::vector<float>(5))})) == 7);
  CHECK_THROWS_AS(remote<plus>(ObjectRef<int>(), 1), mobula::Invalid);
}

TEST_CASE("large arguments go through the store, once") {
  fake::reset();
  CHECK(get(remote<big>(mobula::Array<float>({100000}))) == 100000);
  CHECK(fake::puts() == 1);
  CHECK(get(remote<big>(mobula::Array<float>({10}))) == 10);
  CHECK(fake::puts() == 1);
}

TEST_CASE("options reach the library") {
  fake::reset();
  auto bound = remote<plus>.with({.cpus = 2,
                                  .gpus = 0.5,
                                  .gpu_memory = 4_GiB,
                                  .memory = 1_MiB,
                                  .resources = {{"license", 1}},
                                  .labels = {{"zone", "a"}},
                                  .name = "sum",
                                  .max_retries = 7,
                                  .retry_exceptions = true,
                                  .fail_when_overloaded = true,
                                  .environment = {{"A", "b"}}});
  CHECK(get(bound(1, 2)) == 3);
  const auto& options = fake::last_options();
  CHECK(options.resources.cpus == 2.0);
  CHECK(options.resources.gpus == 0.5);
  CHECK(options.resources.gpu_memory == std::uint64_t{4} << 30);
  CHECK(options.resources.memory == std::uint64_t{1} << 20);
  CHECK(options.resources.custom.at(0).first == "license");
  CHECK(options.resources.labels.at(0).second == "a");
  CHECK(options.name == "sum");
  CHECK(options.max_retries == 7);
  CHECK(options.retry_exceptions);
  CHECK(options.fail_when_overloaded);
  CHECK(options.environment.size() == 1);
  get(remote<plus>(1, 2));
  CHECK(!fake::last_options().resources.cpus.has_value());
  CHECK(fake::last_options().max_retries == 3);
}

TEST_CASE("exceptions come back, also through tasks that needed the result") {
  fake::reset();
  const auto broken = remote<fails>(1);
  try {
    get(broken);
    FAIL("it should have thrown");
  } catch (const mobula::TaskFailed& error) {
    CHECK(error.info().message == "it broke");
    CHECK(error.info().type == "std::runtime_error");
  }
  CHECK_THROWS_AS(get(remote<plus>(broken, 1)), mobula::TaskFailed);
  const auto [a, b] = remote<fails_twice>();
  CHECK_THROWS_AS(get(a), mobula::TaskFailed);
  CHECK_THROWS_AS(get(b), mobula::TaskFailed);
}

TEST_CASE("tasks call tasks") {
  fake::reset();
  CHECK(get(remote<nested>(5)) == 5);
}

TEST_CASE("nothing depends on the alignment of what arrives") {
  fake::reset();
  fake::deliver_misaligned(true);
  CHECK(get(remote<plus>(1, 2)) == 3);
  CHECK(get(remote<big>(mobula::Array<float>({1000}))) == 1000);
  CHECK(get(remote<join>(std::vector<std::string>(50, "a"), "")).size() == 50);
}

TEST_CASE("objects go when their last ref goes") {
  fake::reset();
  const std::size_t before = fake::live_objects();
  {
    const auto three = remote<plus>(1, 2);
    const auto outer = put(std::vector<ObjectRef<int>>{three, three});
    const auto tuple = remote<several>(1);
    CHECK(fake::live_objects() > before);
  }
  CHECK(fake::live_objects() == before);
}
