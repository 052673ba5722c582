// Every kind of value that may be sent, there and back, at addresses that are aligned and at others.
#include <array>
#include <chrono>
#include <complex>
#include <deque>
#include <filesystem>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <doctest/doctest.h>

#include "tests/include/round_trip.h"

namespace {

using test::round_trip;

template <class T>
void check_same(const T& value) {
  CHECK(round_trip(value) == value);
  CHECK(round_trip(value, 1) == value);
  CHECK(round_trip(value, 8) == value);
}

enum class Color : std::uint8_t { kRed = 1, kBlue = 200 };
enum Plain { kOne = 1, kMany = 100000 };
enum class Flag : bool { kOff, kOn };

struct Point {
  float x, y, z;
  friend bool operator==(const Point&, const Point&) = default;
};
static_assert(mobula::detail::kPlain<Point>);

struct Padded {
  char c;
  double d;
  friend bool operator==(const Padded&, const Padded&) = default;
};
static_assert(!mobula::detail::kPlain<Padded>, "its padding must not travel");

struct Nothing {
  friend bool operator==(const Nothing&, const Nothing&) = default;
};

struct Deep {
  int number = 0;
  Point point{};
  int grid[2][3] = {};
  char text[16] = {};
  std::string name;
  std::vector<Padded> list;
  std::optional<std::map<std::string, std::vector<int>>> table;
  std::variant<std::monostate, int, std::string> choice;
  Nothing nothing;
  friend bool operator==(const Deep&, const Deep&) = default;
};

struct Tree {
  int value = 0;
  std::vector<Tree> children;
  friend bool operator==(const Tree&, const Tree&) = default;
};

struct Linked {
  int value = 0;
  std::unique_ptr<Linked> next;
};

struct Ring {
  int value = 0;
  std::shared_ptr<Ring> next;
};

class Member {
 public:
  Member() = default;
  Member(int a, std::string b) : a_(a), b_(std::move(b)) {}
  void serialize(mobula::Archive& archive) { archive(a_, b_); }
  friend bool operator==(const Member&, const Member&) = default;

 private:
  int a_ = 0;
  std::string b_;
};

class Private {
 public:
  Private() = default;
  explicit Private(int a) : a_(a) {}
  int a() const { return a_; }

 private:
  friend struct mobula::Access;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(a_);
  }
  int a_ = 0;
};

class Split {
 public:
  Split() = default;
  explicit Split(std::vector<int> values) : values_(std::move(values)) { rebuild(); }
  void save(mobula::Archive& archive) const { archive(values_); }
  void load(mobula::Archive& archive) {
    archive(values_);
    rebuild();
  }
  long sum() const { return sum_; }

 private:
  void rebuild() {
    sum_ = 0;
    for (const int value : values_) sum_ += value;
  }
  std::vector<int> values_;
  long sum_ = 0;
};

class Silent {
 public:
  void serialize(mobula::Archive&) {}
};

// As cereal names members.
template <class T>
struct NameValuePair {
  const char* name;
  T value;
};
template <class T>
NameValuePair<T&> make_nvp(const char* name, T& value) {
  return {name, value};
}
struct Named {
  int a = 0;
  std::string b;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(make_nvp("a", a), make_nvp("b", b));
  }
};

}  // namespace

namespace foreign {
class Closed {
 public:
  Closed() = default;
  explicit Closed(int value) : a(value) {}
  virtual ~Closed() = default;
  int a = 0;
};
void serialize(mobula::Archive& archive, Closed& closed) {
  archive(closed.a);
}
}  // namespace foreign

TEST_CASE("numbers and enums") {
  check_same(0);
  check_same(-1);
  check_same(std::numeric_limits<std::int64_t>::min());
  check_same(std::numeric_limits<std::uint64_t>::max());
  check_same('x');
  check_same(true);
  check_same(false);
  check_same(std::byte{200});
  check_same(1.5f);
  check_same(std::numeric_limits<double>::infinity());
  check_same(1.25L);
  check_same(u'\u20ac');
  check_same(Color::kBlue);
  check_same(kMany);
  check_same(Flag::kOn);
  check_same(std::vector<Flag>{Flag::kOn, Flag::kOff});
}

TEST_CASE("text, paths and times") {
  check_same(std::string());
  check_same(std::string("a\0b", 3));
  check_same(std::string(100000, 'x'));
  check_same(std::wstring(L"wide"));
  check_same(std::filesystem::path("/tmp/a b"));
  check_same(std::chrono::seconds(5));
  check_same(std::chrono::duration<double, std::milli>(2.5));
  check_same(std::chrono::system_clock::time_point(std::chrono::microseconds(123456789)));
}

TEST_CASE("containers") {
  check_same(std::vector<int>{});
  check_same(std::vector<double>(1000, 0.5));
  check_same(std::vector<Point>{{1, 2, 3}, {4, 5, 6}});
  check_same(std::vector<std::string>{"", "one", std::string(300, 'y')});
  check_same(std::vector<std::vector<float>>{{}, {1}, std::vector<float>(100, 2)});
  check_same(std::array<int, 3>{1, 2, 3});
  check_same(std::array<std::string, 2>{"a", "b"});
  check_same(std::array<int, 0>{});
  check_same(std::deque<int>(100, 7));
  check_same(std::list<std::string>{"a", "b"});
  check_same(std::map<std::string, int>{{"a", 1}, {"b", 2}});
  check_same(std::multimap<int, int>{{1, 1}, {1, 2}});
  check_same(std::unordered_map<int, std::string>{{1, "a"}, {2, "b"}});
  check_same(std::set<int>{3, 1, 2});
  check_same(std::multiset<int>{1, 1});
  check_same(std::unordered_set<std::string>{"a", "b"});
  check_same(std::pair<int, std::string>{1, "a"});
  check_same(std::tuple<int, std::string, double>{1, "a", 2.5});
  check_same(std::tuple<>{});
  check_same(std::vector<std::tuple<>>(3));
  check_same(std::complex<double>(1, -2));
  check_same(std::vector<std::complex<float>>(20, {1, 2}));
}

TEST_CASE("bits of every length") {
  for (std::size_t size = 0; size < 40; ++size) {
    std::vector<bool> bits(size);
    for (std::size_t i = 0; i < size; ++i) bits[i] = i % 3 == 0;
    check_same(bits);
  }
  check_same(std::vector<std::vector<bool>>{{true}, {}, {false, true}});
}

TEST_CASE("one of several, or none") {
  check_same(std::optional<int>());
  check_same(std::optional<std::string>("a"));
  check_same(std::optional<std::optional<int>>(std::optional<int>()));
  check_same(std::variant<int, std::string, Point>(Point{1, 2, 3}));
  check_same(std::variant<int, std::string>("a"));
  check_same(std::monostate());
  check_same(std::vector<std::monostate>(5));
}

TEST_CASE("smart pointers keep what they share") {
  CHECK(round_trip(std::unique_ptr<int>()) == nullptr);
  CHECK(*round_trip(std::make_unique<std::string>("a")) == "a");
  CHECK(*round_trip(std::make_shared<const int>(7)) == 7);

  const auto one = std::make_shared<int>(1);
  const auto other = std::make_shared<int>(1);
  const auto copies = round_trip(std::vector<std::shared_ptr<int>>{one, other, one, nullptr});
  CHECK(copies[0] == copies[2]);
  CHECK(copies[0] != copies[1]);
  CHECK(copies[3] == nullptr);

  auto ring = std::make_shared<Ring>();
  ring->value = 5;
  ring->next = ring;
  const auto copy = round_trip(ring);
  CHECK(copy->value == 5);
  CHECK(copy->next == copy);
  ring->next.reset();
  copy->next.reset();

  std::vector<std::shared_ptr<int>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(i % 2 == 0 ? std::make_shared<int>(i) : many.back());
  const auto many_copies = round_trip(many);
  for (std::size_t i = 0; i < many.size(); ++i) {
    CHECK(*many_copies[i] == *many[i]);
    if (i % 2 == 1) CHECK(many_copies[i] == many_copies[i - 1]);
  }
}

TEST_CASE("aggregates with nothing written") {
  check_same(Point{1, 2, 3});
  check_same(Padded{'a', 2.5});
  check_same(Nothing{});
  check_same(std::vector<Nothing>(3));
  Deep deep;
  deep.number = 3;
  deep.grid[1][2] = 9;
  deep.text[0] = 'h';
  deep.name = "deep";
  deep.list = {{'a', 1}, {'b', 2}};
  deep.table = {{"k", {1, 2, 3}}};
  deep.choice = "s";
  check_same(deep);
  check_same(std::vector<Deep>{deep, {}, deep});
  check_same(Tree{1, {Tree{2, {}}, Tree{3, {Tree{4, {}}}}}});
}

TEST_CASE("move-only values") {
  Linked head;
  head.value = 1;
  head.next = std::make_unique<Linked>();
  head.next->value = 2;
  const Linked copy = round_trip(head);
  CHECK(copy.next->value == 2);
  CHECK(copy.next->next == nullptr);
  std::map<int, std::unique_ptr<int>> table;
  table[1] = std::make_unique<int>(5);
  CHECK(*round_trip(table).at(1) == 5);
}

TEST_CASE("serialize in each of its forms") {
  check_same(Member(1, "a"));
  check_same(std::vector<Member>{{1, "a"}, {2, "b"}});
  CHECK(round_trip(Private(7)).a() == 7);
  CHECK(round_trip(Split({1, 2, 3})).sum() == 6);
  CHECK(round_trip(foreign::Closed(4)).a == 4);
  CHECK(round_trip(std::vector<Silent>(4)).size() == 4);
  Named named;
  named.a = 3;
  named.b = "n";
  CHECK(round_trip(named).b == "n");
}

TEST_CASE("a member's serialize is used, not its members") {
  struct Odd {
    int a = 1;
    int b = 2;
    void serialize(mobula::Archive& archive) { archive(a); }
  };
  Odd odd{10, 20};
  CHECK(round_trip(odd).a == 10);
  CHECK(round_trip(odd).b == 2);
}

TEST_CASE("a decoded value replaces what was there") {
  const auto payload = test::arrived(mobula::detail::encode_payload(std::vector<std::string>{"new"}));
  std::vector<std::string> target{"old", "older"};
  mobula::detail::decode_payload(payload, target);
  CHECK(target == std::vector<std::string>{"new"});
}
