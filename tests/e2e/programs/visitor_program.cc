// Another program than nodes_program: it calls the actor that that one left behind, by its name, with a declaration of
// its own.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <mobula/mobula.h>

namespace shop {

// None of this runs here: what counts is how the methods are declared.
class Counter {
 public:
  int add(int) { throw std::logic_error("not here"); }
  long sum(const mobula::Array<std::uint8_t>&) const { throw std::logic_error("not here"); }
  int hidden(int) const { throw std::logic_error("not here"); }      // not exported there
  int changed(double) const { throw std::logic_error("not here"); }  // takes an int there
};

}  // namespace shop

namespace {

using namespace mobula::literals;
using namespace std::chrono_literals;

constexpr auto kLong = 20s;

void check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("it does not hold that " + what);
}

template <class Error, class Function>
void refused(Function function, const std::string& word) {
  try {
    function();
  } catch (const Error& error) {
    check(std::string(error.what()).find(word) != std::string::npos,
          "'" + std::string(error.what()) + "' says " + word);
    return;
  }
  check(false, "it is refused, naming " + word);
}

void visit(const std::string& name) {
  auto counter = mobula::find_actor<shop::Counter>(name, "shop");
  const int before = mobula::get(counter.call<&shop::Counter::add>(0), kLong);
  check(mobula::get(counter.call<&shop::Counter::add>(5), kLong) == before + 5, "an actor of another job answers");
  // Larger than a message: the actor fetches it from us, who are of another job than it.
  auto array = mobula::Array<std::uint8_t>::uninitialized({1_MiB});
  std::fill_n(array.mutable_data(), array.size(), std::uint8_t{3});
  check(mobula::get(counter.call<&shop::Counter::sum>(mobula::put(array)), kLong) == 3L * 1_MiB, "it reads our object");
  refused<mobula::UnknownFunction>([&] { mobula::get(counter.call<&shop::Counter::hidden>(1), kLong); }, "hidden");
  refused<mobula::SignatureMismatch>([&] { mobula::get(counter.call<&shop::Counter::changed>(1), kLong); }, "changed");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const mobula::Runtime runtime = mobula::init(argc, argv);
    visit(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::printf("visit: %s\n", error.what());
    return 1;
  }
  std::puts("visit: ok");
  return 0;
}
