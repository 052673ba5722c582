// Actors: making, calling, naming, passing on and killing them.
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>

#include <doctest/doctest.h>

#include <mobula/mobula.h>

#include "tests/include/fake_core.h"

using mobula::Actor;
using mobula::actor;
using mobula::get;
using mobula::ObjectRef;
using mobula::put;
using mobula::remote;

namespace shop {

class Base {
 public:
  int inherited(int x) const { return x + 100; }
};

// Neither copyable nor movable.
class Counter : public Base {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int x) {
    const std::lock_guard lock(mutex_);
    return value_ += x;
  }
  int total() const noexcept { return value_; }
  void reset() { value_ = 0; }
  const std::string& label() const { return label_; }
  void relabel(std::string_view label) { label_ = label; }
  std::tuple<int, std::string> both() { return {value_, label_}; }
  std::vector<int> range(int n) {
    std::vector<int> values;
    for (int i = 0; i < n; ++i) values.push_back(value_ + i);
    return values;
  }
  std::unique_ptr<int> box(std::unique_ptr<int> value) { return value; }
  int overloaded(int x) { return x; }
  int overloaded(std::string x) { return static_cast<int>(x.size()); }
  int fails() { throw std::out_of_range("no"); }

 private:
  std::mutex mutex_;
  int value_;
  std::string label_ = "none";
};

struct Settings {
  int a = 0;
  std::string b;
  int sum() { return a + static_cast<int>(b.size()); }
};

class Made {
 public:
  Made() : how_("default") {}
  explicit Made(const std::string& text) : how_("text " + text) {}
  explicit Made(ObjectRef<int> ref) : how_("ref " + std::to_string(get(ref))) {}
  Made(int a, std::vector<ObjectRef<int>> refs)
      : how_("mixed " + std::to_string(a) + " " + std::to_string(refs.size())) {}
  Made(ObjectRef<int> ref, int value) : how_("ref and value " + std::to_string(get(ref) + value)) {}
  std::string how() { return how_; }

 private:
  std::string how_;
};

class Broken {
 public:
  Broken() { throw std::runtime_error("cannot start"); }
  int call() { return 1; }
};

int add_through(Actor<Counter> counter, int x) {
  return get(counter.call<&Counter::add>(x));
}
Actor<Counter> make_counter(int start) {
  return actor<Counter>(start);
}
struct Handles {
  std::vector<Actor<Counter>> counters;
};
int sum_all(const Handles& handles) {
  int sum = 0;
  for (const auto& counter : handles.counters) sum += get(counter.call<&Counter::total>());
  return sum;
}

mobula::exports<Counter, &Counter::add, &Counter::total> counter_exports;

class OnlyExported {
 public:
  int method(int x) { return x; }
};
mobula::exports<OnlyExported, &OnlyExported::method> only_exported_exports;

}  // namespace shop

using shop::Counter;

TEST_CASE("make and call") {
  fake::reset();
  Actor<Counter> counter = actor<Counter>(10);
  ObjectRef<int> fifteen = counter.call<&Counter::add>(5);
  CHECK(get(fifteen) == 15);
  CHECK(get(counter.call<&Counter::total>()) == 15);
  CHECK(get(counter.call<&Counter::add>(fifteen)) == 30);
  get(counter.call<&Counter::reset>());
  CHECK(get(counter.call<&Counter::total>()) == 0);
  get(counter.call<&Counter::relabel>("abc"));
  CHECK(get(counter.call<&Counter::label>()) == "abc");
  const auto [value, label] = get(counter.call<&Counter::both>());
  CHECK(value == 0);
  CHECK(label == "abc");
  CHECK(get(counter.call<&Counter::inherited>(1)) == 101);
  CHECK(*get(counter.call<&Counter::box>(std::make_unique<int>(3))) == 3);
  CHECK(get(counter.call<static_cast<int (Counter::*)(int)>(&Counter::overloaded)>(4)) == 4);
  CHECK(get(counter.call<static_cast<int (Counter::*)(std::string)>(&Counter::overloaded)>("four")) == 4);
  CHECK(get(counter.call_split<&Counter::range>(3, 3)) == std::vector<int>{0, 1, 2});
  CHECK_THROWS_AS(get(counter.call<&Counter::fails>()), mobula::TaskFailed);
}

TEST_CASE("options of actors and of calls") {
  fake::reset();
  auto counter =
      actor<Counter>.with({.cpus = 0, .name = "counter", .max_restarts = 2, .max_concurrency = 4, .detached = true})(1);
  CHECK(fake::last_options().name == "counter");
  CHECK(fake::last_options().max_restarts == 2);
  CHECK(fake::last_options().max_concurrency == 4);
  CHECK(fake::last_options().detached);
  CHECK(fake::last_options().resources.cpus == 0.0);
  CHECK(get(counter.with({.name = "first call"}).call<&Counter::add>(1)) == 2);
  CHECK(fake::last_options().name == "first call");
  CHECK(get(counter.with({.max_task_retries = 3}).call_split<&Counter::range>(2, 2)).size() == 2);
  CHECK(fake::last_options().max_task_retries == 3);
}

TEST_CASE("what an actor may be made of") {
  fake::reset();
  const auto how = [](const Actor<shop::Made>& made) { return get(made.call<&shop::Made::how>()); };
  CHECK(how(actor<shop::Made>()) == "default");
  CHECK(how(actor<shop::Made>("abc")) == "text abc");
  CHECK(how(actor<shop::Made>(put("abc"))) == "text abc");
  CHECK(how(actor<shop::Made>(put(4))) == "ref 4");
  CHECK(how(actor<shop::Made>(put(4), std::vector{put(1), put(2)})) == "mixed 4 2");
  CHECK(how(actor<shop::Made>(put(4), put(5))) == "ref and value 9");
  CHECK(get(actor<shop::Settings>(3, "four").call<&shop::Settings::sum>()) == 7);
}

TEST_CASE("a constructor that throws shows at the calls") {
  fake::reset();
  const auto broken = actor<shop::Broken>();
  CHECK_THROWS_AS(get(broken.call<&shop::Broken::call>()), mobula::ActorDied);
}

TEST_CASE("handles travel and are compared by their actor") {
  fake::reset();
  const auto counter = actor<Counter>(1);
  CHECK(get(remote<shop::add_through>(counter, 4)) == 5);
  const Actor<Counter> made = get(remote<shop::make_counter>(7));
  CHECK(get(made.call<&Counter::total>()) == 7);
  CHECK(get(remote<shop::sum_all>(shop::Handles{{counter, made}})) == 12);
  CHECK(get(put(counter)) == counter);
  CHECK(counter != made);
  CHECK(get(remote<shop::add_through>(put(counter), 1)) == 6);
  std::set<Actor<Counter>> ordered{counter, made, counter};
  std::unordered_set<Actor<Counter>> hashed{counter, made, counter};
  CHECK(ordered.size() == 2);
  CHECK(hashed.size() == 2);
}

TEST_CASE("names, and empty handles") {
  fake::reset();
  const auto counter = actor<Counter>.with({.name = "c"})(3);
  CHECK(mobula::find_actor<Counter>("c") == counter);
  CHECK(actor<Counter>.with({.name = "c", .get_if_exists = true})(9) == counter);
  CHECK_THROWS_AS(mobula::find_actor<Counter>("missing"), mobula::ActorDied);
  Actor<Counter> empty;
  CHECK(!empty);
  CHECK(!empty.id());
  CHECK_THROWS_AS(empty.call<&Counter::total>(), mobula::Invalid);
  CHECK_THROWS_AS(empty.with({}), mobula::Invalid);
  CHECK_THROWS_AS(mobula::kill(empty), mobula::Invalid);
  CHECK(!get(put(empty)));
}

TEST_CASE("kill") {
  fake::reset();
  const auto counter = actor<Counter>(1);
  mobula::kill(counter);
  CHECK_THROWS_AS(get(counter.call<&Counter::total>()), mobula::ActorDied);
}

TEST_CASE("methods are registered under their class, exported ones too") {
  bool add = false;
  bool only_exported = false;
  for (const auto* function : fake::functions()) {
    if (std::string(function->symbol) == "shop::Counter::add") {
      add = true;
      CHECK(std::string(function->class_name) == "shop::Counter");
      CHECK(function->external);
      CHECK(function->kind == mobula::detail::FunctionKind::kMethod);
    }
    only_exported = only_exported || std::string(function->symbol) == "shop::OnlyExported::method";
  }
  CHECK(add);
  CHECK(only_exported);
}
