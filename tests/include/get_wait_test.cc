// get, try_get, get_all, wait, put, cancel, and refs as values.
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_set>

#include <doctest/doctest.h>

#include <mobula/mobula.h>

#include "tests/include/fake_core.h"

using namespace std::chrono_literals;
using mobula::get;
using mobula::get_all;
using mobula::ObjectRef;
using mobula::put;
using mobula::remote;
using mobula::try_get;
using mobula::wait;

namespace {

int square(int x) {
  return x * x;
}
int fails() {
  throw std::runtime_error("no");
}
void nothing() {}

static_assert(std::is_same_v<decltype(put("text")), ObjectRef<std::string>>);
static_assert(std::is_same_v<decltype(put(std::string_view("text"))), ObjectRef<std::string>>);
static_assert(std::is_same_v<decltype(put(1)), ObjectRef<int>>);
static_assert(std::is_nothrow_move_constructible_v<ObjectRef<int>>);
static_assert(!std::is_copy_constructible_v<mobula::Runtime>);

}  // namespace

TEST_CASE("one, many, several types") {
  fake::reset();
  CHECK(get(put(5)) == 5);
  CHECK(get(put("text")) == "text");
  CHECK(*get(put(std::make_unique<int>(4))) == 4);
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 5; ++i) refs.push_back(remote<square>(i));
  CHECK(get(refs) == std::vector<int>{0, 1, 4, 9, 16});
  CHECK(get(refs, 1s).size() == 5);
  CHECK(get({refs[1], refs[2]}) == std::vector<int>{1, 4});
  CHECK(get(std::vector<ObjectRef<int>>{}).empty());
  const auto [a, b, c] = get(refs[3], put("b"), remote<nothing>());
  CHECK(a == 9);
  CHECK(b == "b");
  static_assert(std::is_same_v<decltype(c), const std::monostate>);
  get(std::vector<ObjectRef<void>>{remote<nothing>(), remote<nothing>()});
  CHECK_THROWS_AS(get(ObjectRef<int>()), mobula::Invalid);
  CHECK(get(std::vector{put(std::vector<bool>{true})}).at(0).at(0));
  CHECK(get(std::vector{put(true), put(false)}) == std::vector<bool>{true, false});
}

TEST_CASE("timeouts") {
  fake::reset();
  fake::hold();
  const auto slow = remote<square>(3);
  CHECK_THROWS_AS(get(slow, 1ms), mobula::Timeout);
  CHECK_THROWS_AS(get(std::vector{slow}, 1ms), mobula::Timeout);
  CHECK_THROWS_AS(get(std::tuple(slow), 1ms), mobula::Timeout);
  CHECK(try_get(slow, 1ms).error().kind == mobula::ErrorKind::kTimeout);
  fake::run();
  CHECK(get(slow, 1ms) == 9);
}

TEST_CASE("an error or a value for each ref") {
  fake::reset();
  const std::vector<ObjectRef<int>> refs{remote<square>(2), remote<fails>(), remote<square>(3)};
  const auto outcomes = get_all(refs);
  REQUIRE(outcomes.size() == 3);
  CHECK(outcomes[0].ok());
  CHECK(*outcomes[0] == 4);
  CHECK(!outcomes[1]);
  CHECK(outcomes[1].error().kind == mobula::ErrorKind::kTaskFailed);
  CHECK_THROWS_AS(outcomes[1].value(), mobula::TaskFailed);
  CHECK(outcomes[2].value() == 9);
  CHECK_THROWS_AS(get(refs), mobula::TaskFailed);
  CHECK(try_get(refs[0]).ok());
  CHECK(try_get(remote<nothing>()).ok());
  CHECK(*try_get(put(std::make_unique<int>(1))).value() == 1);
  mobula::ErrorInfo died;
  died.kind = mobula::ErrorKind::kWorkerDied;
  CHECK_THROWS_AS(get(mobula::detail::RefAccess::make<int>(fake::error_of(died))), mobula::WorkerDied);
}

TEST_CASE("wait sorts refs and keeps their order") {
  fake::reset();
  const auto a = remote<square>(1);
  const auto b = remote<square>(2);
  fake::hold();
  const auto c = remote<square>(3);
  {
    auto [ready, pending] = wait({a, c, b}, {.count = 2, .timeout = 5s});
    CHECK(ready == std::vector{a, b});
    CHECK(pending == std::vector{c});
  }
  std::vector<ObjectRef<int>> refs{c, a};
  auto [ready, pending] = wait(std::move(refs));
  CHECK(refs.empty());
  CHECK(ready == std::vector{a});
  CHECK(pending == std::vector{c});
  CHECK_THROWS_AS(wait({a}, {.count = 2}), mobula::Invalid);
  CHECK_THROWS_AS(wait({ObjectRef<int>()}), mobula::Invalid);
  fake::run();
  CHECK(wait(std::vector{c}).ready.size() == 1);
  CHECK(wait(std::vector<ObjectRef<int>>{}, {.count = 0}).ready.empty());
}

TEST_CASE("refs are values") {
  fake::reset();
  ObjectRef<int> empty;
  CHECK(!empty);
  CHECK(!empty.id());
  CHECK(empty == ObjectRef<int>());
  auto a = put(1);
  auto b = put(1);
  CHECK(a != b);
  CHECK(ObjectRef<int>(a) == a);
  CHECK(std::set<ObjectRef<int>>{a, b, a}.size() == 2);
  CHECK(std::unordered_set<ObjectRef<int>>{a, b, a}.size() == 2);
  std::map<ObjectRef<int>, int> table{{a, 1}};
  CHECK(table.at(a) == 1);
  const std::size_t before = fake::live_objects();
  b.reset();
  CHECK(!b);
  CHECK(fake::live_objects() == before - 1);
  CHECK(to_string(a) == to_string(a.id()));
}

TEST_CASE("a ref read as another type says so") {
  fake::reset();
  const auto number = put(1);
  const auto text = mobula::detail::RefAccess::make<std::string>(mobula::detail::RefAccess::handle(number));
  CHECK_THROWS_AS(get(text), mobula::SignatureMismatch);
}

TEST_CASE("cancel") {
  fake::reset();
  fake::hold();
  const auto slow = remote<square>(3);
  mobula::cancel(slow);
  CHECK_THROWS_AS(get(slow), mobula::Cancelled);
  CHECK(fake::cancelled().size() == 1);
  CHECK_THROWS_AS(mobula::cancel(ObjectRef<int>()), mobula::Invalid);
}

TEST_CASE("a Runtime moves, and ends once") {
  fake::reset();
  {
    mobula::Runtime first = mobula::init();
    CHECK(mobula::running());
    CHECK_THROWS_AS((void)mobula::init(), mobula::Invalid);
    mobula::Runtime second = std::move(first);
    CHECK(mobula::running());
    second.stop();
    CHECK(!mobula::running());
    mobula::Runtime third = mobula::init({.cpus = 2, .name_space = "x"});
    CHECK(mobula::running());
    CHECK(mobula::current().job == mobula::JobId{5});
    CHECK(mobula::nodes().size() == 1);
  }
  CHECK(!mobula::running());
}
