// A user's program on several machines, for nodes_test: each mode checks one thing and prints "<mode>: ok".
#include <unistd.h>

#include <dlfcn.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <mobula/mobula.h>

#include "tests/e2e/libraries/shelf.h"
#include "tests/e2e/programs/counter.h"

using namespace mobula::literals;
using namespace std::chrono_literals;

namespace {

const mobula::exports<shop::Counter, &shop::Counter::add, &shop::Counter::sum, &shop::Counter::changed> exported;

using Bytes = mobula::Array<std::uint8_t>;
constexpr auto kLong = 20s;
constexpr std::size_t kLarge = 64_MiB;

void check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("it does not hold that " + what);
}

// The nodes carry resources named like their machines.
mobula::Options on(const std::string& node) {
  mobula::Options options;
  options.resources = {{node, 1}};
  return options;
}

std::string host() {
  std::string name(64, '\0');
  ::gethostname(name.data(), name.size());
  return name.c_str();
}

bool can_read(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "(unset)" : value;
}

int tall(int boards) {
  return shelf_height(boards);
}

int add_through(const mobula::Actor<shop::Counter>& counter, int x) {
  return mobula::get(counter.call<&shop::Counter::add>(x), kLong);
}

Bytes filled(std::uint8_t value) {
  auto array = Bytes::uninitialized({kLarge});
  std::fill_n(array.mutable_data(), array.size(), value);
  return array;
}

// Makes a large value of a large value.
Bytes doubled(const Bytes& from) {
  auto array = Bytes::uninitialized({from.size()});
  for (std::size_t i = 0; i < from.size(); ++i) array.mutable_data()[i] = static_cast<std::uint8_t>(2 * from.data()[i]);
  return array;
}

long sum(const Bytes& array) {
  return std::accumulate(array.data(), array.data() + array.size(), 0L);
}

void spread(const std::string& program) {
  for (const char* node : {"a", "b", "c"}) {
    check(mobula::get(mobula::remote<host>.with(on(node))(), kLong) == node, std::string("a task ran on ") + node);
    const bool here = node == std::string("a");
    check(mobula::get(mobula::remote<can_read>.with(on(node))(program), kLong) == here, "only this machine has me");
    check(mobula::get(mobula::remote<tall>.with(on(node))(3), kLong) == 120, "the private library came along");
    check(mobula::get(mobula::remote<variable>.with(on(node))(std::string("LD_LIBRARY_PATH")), kLong) == "(unset)",
          "what the loader was told stays hidden from programs");
  }
  auto counter = mobula::actor<shop::Counter>.with(on("b"))(100);
  check(mobula::get(counter.call<&shop::Counter::add>(1), kLong) == 101, "the driver calls an actor on b");
  check(mobula::get(mobula::remote<add_through>.with(on("c"))(counter, 10), kLong) == 111,
        "a task on c calls the actor on b");
  check(mobula::get(counter.call<&shop::Counter::add>(0), kLong) == 111, "and it is the same actor");

  const auto here = mobula::put(filled(1));
  const auto there = mobula::remote<doubled>.with(on("b"))(here);
  check(mobula::get(mobula::remote<sum>.with(on("c"))(there), kLong) == 2L * kLarge, "64 MiB travel a, b, c");
  check(sum(mobula::get(there, kLong)) == 2L * kLarge, "and back to the driver");
}

void library(const std::string& path) {
  mobula::load_library(path);
  const auto square = reinterpret_cast<int (*)(int, const char*)>(::dlsym(RTLD_DEFAULT, "plugin_square"));
  check(square != nullptr, "the library is loaded here");
  for (const char* node : {"a", "b", "c"}) check(square(7, node) == 49, std::string("its task ran on ") + node);
}

// A detached actor on that node, for other programs.
void leave(const std::string& node) {
  mobula::Options options = on(node);
  options.name = "counter-" + node;
  options.detached = true;
  auto counter = mobula::actor<shop::Counter>.with(options)(1000);
  check(mobula::get(counter.call<&shop::Counter::add>(1), kLong) == 1001, "the actor answers");
}

class Board {
 public:
  void note(const std::string& where) { ++seen_[where]; }
  int seen(const std::string& where) const {
    const auto found = seen_.find(where);
    return found == seen_.end() ? 0 : found->second;
  }

 private:
  std::map<std::string, int> seen_;
};

class Holder {
 public:
  std::string where() const { return host(); }
};

// The first attempt never ends: its machine is cut off under it.
std::string until_cut(const mobula::Actor<Board>& board) {
  const std::string here = host();
  mobula::get(board.call<&Board::note>(here), kLong);
  if (mobula::current().attempt == 0) ::sleep(600);
  return here;
}

// Waits until that machine has begun, then for the end elsewhere.
void cut() {
  auto board = mobula::actor<Board>.with(on("a"))();
  mobula::Options both;
  both.resources = {{"b", 1}, {"lane", 1}};
  auto holder = mobula::actor<Holder>.with(both)();
  check(mobula::get(holder.call<&Holder::where>(), kLong) == "b", "the lane on b is taken");
  mobula::Options lane;
  lane.resources = {{"lane", 1}};
  auto moved = mobula::remote<until_cut>.with(lane)(board);
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (mobula::get(board.call<&Board::seen>(std::string("c")), kLong) == 0) {
    check(std::chrono::steady_clock::now() < deadline, "the task began on c");
  }
  mobula::kill(holder);
  std::puts("cut c now");
  std::fflush(stdout);
  check(mobula::get(moved, 40s) == "b", "the task ran again on b");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  const std::map<std::string, std::function<void()>> modes{
      {"spread", [&] { spread(argv[0]); }},
      {"library", [&] { library(argument); }},
      {"leave", [&] { leave(argument); }},
      {"cut", [] { cut(); }},
  };
  try {
    mobula::InitOptions options;
    options.name_space = "shop";
    const mobula::Runtime runtime = mobula::init(argc, argv, options);
    modes.at(mode)();
  } catch (const std::exception& error) {
    std::printf("%s: %s\n", mode.c_str(), error.what());
    return 1;
  }
  std::printf("%s: ok\n", mode.c_str());
  return 0;
}
