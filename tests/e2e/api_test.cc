// The public API on a private cluster of real processes: this test program is driver and worker alike.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <mobula/mobula.h>

using namespace std::chrono_literals;

namespace {

int plus(int a, int b) { return a + b; }
int fail(const std::string& why) { throw std::runtime_error(why); }
std::tuple<int, std::string> pair_of(int x) { return {x, std::to_string(x)}; }
std::vector<int> range(int n) {
  std::vector<int> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}
void nothing() {}

// Waits for tasks that are queued behind itself: with one CPU it must lend it.
int fib(int n) {
  if (n < 2) return n;
  auto a = mobula::remote<fib>(n - 1);
  auto b = mobula::remote<fib>(n - 2);
  return mobula::get(a) + mobula::get(b);
}

int die_first(int x) {
  if (mobula::current().attempt == 0) ::kill(::getpid(), SIGKILL);
  return x;
}

long sum_refs(const std::vector<mobula::ObjectRef<int>>& refs) {
  long sum = 0;
  for (int value : mobula::get(refs)) sum += value;
  return sum;
}

mobula::ObjectRef<int> make_ref(int x) { return mobula::put(x); }

double sum_array(const mobula::Array<double>& array) {
  return std::accumulate(array.data(), array.data() + array.size(), 0.0);
}

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int x) { return value_ += x; }
  int value() const { return value_; }
  int crash() {
    ::kill(::getpid(), SIGKILL);
    return 0;
  }

 private:
  int value_;
};

mobula::Runtime start() {
  mobula::InitOptions options;
  options.cpus = 2;
  options.object_store_memory = 512ULL << 20;
  return mobula::init(options);
}

}  // namespace

TEST_CASE("tasks: values, references, lambdas, several returns") {
  auto runtime = start();
  auto three = mobula::remote<plus>(1, 2);
  auto thirteen = mobula::remote<plus>(three, 10);
  CHECK(mobula::get(thirteen) == 13);
  CHECK(mobula::get(mobula::remote<[](int x) { return 2 * x; }>(5)) == 10);
  auto [number, text] = mobula::remote<pair_of>(7);
  CHECK(mobula::get(number) == 7);
  CHECK(mobula::get(text) == "7");
  mobula::get(mobula::remote<nothing>());
  auto parts = mobula::remote<range>.returns(3)(3);
  CHECK(mobula::get(parts) == std::vector<int>{0, 1, 2});
  auto ready = mobula::put(5);
  auto [done, pending] = mobula::wait({three, ready}, {.count = 2, .timeout = 5s});
  CHECK(done.size() == 2);
  CHECK(pending.empty());
}

TEST_CASE("many tasks, and tasks that wait for tasks queued behind them") {
  auto runtime = start();
  std::vector<mobula::ObjectRef<int>> refs;
  for (int i = 0; i < 2000; ++i) refs.push_back(mobula::remote<plus>(i, 1));
  const auto values = mobula::get(refs);
  CHECK(values.size() == 2000);
  CHECK(values.back() == 2000);
  CHECK(mobula::get(mobula::remote<fib>(7)) == 13);
}

TEST_CASE("an exception travels with type, message and place") {
  auto runtime = start();
  try {
    mobula::get(mobula::remote<fail>(std::string("no such luck")));
    FAIL("nothing was thrown");
  } catch (const mobula::TaskFailed& error) {
    CHECK(error.info().type == "std::runtime_error");
    CHECK(error.info().message == "no such luck");
    CHECK(error.info().pid != 0);
  }
  CHECK(mobula::get(mobula::remote<plus>(1, 1)) == 2);
}

TEST_CASE("a task whose worker dies runs again; without retries it is WorkerDied") {
  auto runtime = start();
  CHECK(mobula::get(mobula::remote<die_first>(4)) == 4);
  CHECK_THROWS_AS(mobula::get(mobula::remote<die_first>.with({.max_retries = 0})(4)), mobula::WorkerDied);
}

TEST_CASE("references inside containers and in results") {
  auto runtime = start();
  std::vector<mobula::ObjectRef<int>> refs;
  for (int i = 0; i < 500; ++i) refs.push_back(mobula::put(i));
  CHECK(mobula::get(mobula::remote<sum_refs>(refs)) == 500 * 499 / 2);
  mobula::ObjectRef<int> inner = mobula::get(mobula::remote<make_ref>(42));
  CHECK(mobula::get(inner) == 42);
}

TEST_CASE("large values: through shared memory, without a copy") {
  auto runtime = start();
  auto array = mobula::Array<double>::uninitialized({1 << 20});
  std::fill_n(array.mutable_data(), array.size(), 0.5);
  auto ref = mobula::put(array);
  CHECK(mobula::get(mobula::remote<sum_array>(ref)) == doctest::Approx(0.5 * (1 << 20)));
  const auto one = mobula::get(ref);
  const auto two = mobula::get(ref);
  CHECK(one.data() == two.data());
  // Freed when the last reference goes: many times the store's size fits through it.
  for (int i = 0; i < 100; ++i) mobula::put(array);
}

TEST_CASE("actors: order, names, kill, restart") {
  auto runtime = start();
  auto counter = mobula::actor<Counter>.with({.name = "counter"})(0);
  std::vector<mobula::ObjectRef<int>> refs;
  for (int i = 1; i <= 200; ++i) refs.push_back(counter.call<&Counter::add>(1));
  const auto values = mobula::get(refs);
  for (int i = 0; i < 200; ++i) CHECK(values[static_cast<std::size_t>(i)] == i + 1);
  auto found = mobula::find_actor<Counter>("counter");
  CHECK(mobula::get(found.call<&Counter::value>()) == 200);
  mobula::kill(counter);
  // The end takes effect when the head has heard of it: calls before that may still run, those after it never do.
  bool ended = false;
  for (int i = 0; i < 100000 && !ended; ++i) {
    try {
      mobula::get(counter.call<&Counter::add>(1), 10s);
    } catch (const mobula::ActorDied&) {
      ended = true;
    }
  }
  CHECK(ended);

  auto phoenix = mobula::actor<Counter>.with({.max_restarts = 1})(5);
  CHECK(mobula::get(phoenix.call<&Counter::add>(1)) == 6);
  CHECK_THROWS_AS(mobula::get(phoenix.call<&Counter::crash>(), 10s), mobula::Error);
  CHECK(mobula::get(phoenix.call<&Counter::add>(1), 10s) == 6);
}

TEST_CASE("what can never fit says so") {
  auto runtime = start();
  CHECK_THROWS_AS(mobula::get(mobula::remote<plus>.with({.cpus = 1000})(1, 2), 10s), mobula::Unschedulable);
}
