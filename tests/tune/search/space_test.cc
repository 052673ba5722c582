#include <mobula/tune/space.h>

#include <doctest/doctest.h>

#include <mobula/error.h>

using namespace mobula::tune;

TEST_CASE("values keep their type and read as what they are") {
  CHECK(Value(3).is_int());
  CHECK(Value(3U).is_int());
  CHECK(Value(0.5F).is_double());
  CHECK(Value(true).is_bool());
  CHECK(Value("adam").is_string());
  CHECK(Value(0.1).text() == "0.1");
  CHECK(Value(3).as<double>() == 3.0);
  CHECK(Value(4.0).as<int>() == 4);
  CHECK(Value("x").as<std::string>() == "x");
  CHECK_THROWS_AS(Value(4.5).as<int>("width"), mobula::Invalid);
  CHECK_THROWS_AS(Value("x").as<double>("lr"), mobula::Invalid);
  CHECK_THROWS_AS(Value(1).as<bool>(), mobula::Invalid);
  CHECK_THROWS_AS(Value(300).as<std::int8_t>(), mobula::Invalid);
  CHECK_THROWS_AS(Value(-1).as<unsigned>(), mobula::Invalid);
  CHECK_THROWS_AS(Value(~std::uint64_t{0}), mobula::Invalid);
  CHECK_THROWS_AS(Value(0x1.0p63).as<std::int64_t>(), mobula::Invalid);
}

TEST_CASE("named values keep their order and replace by name") {
  Params params{{"lr", 0.5}, {"depth", 3}, {"lr", 0.25}};
  CHECK(params.text() == "lr=0.25,depth=3");
  CHECK(params.get<int>("depth") == 3);
  CHECK(params.find("width") == nullptr);
  CHECK_THROWS_WITH_AS(params.at("width"), doctest::Contains("lr, depth"), mobula::Invalid);
}

TEST_CASE("domains that make no sense are refused in words") {
  CHECK_THROWS_AS(uniform(1, 1), mobula::Invalid);
  CHECK_THROWS_AS(uniform(2, 1), mobula::Invalid);
  CHECK_THROWS_AS(uniform(0, 1 / 0.0), mobula::Invalid);
  CHECK_THROWS_AS(loguniform(0, 1), mobula::Invalid);
  CHECK_THROWS_AS(loguniform(-1, 1), mobula::Invalid);
  CHECK_THROWS_AS(quniform(0, 1, 0), mobula::Invalid);
  CHECK_THROWS_AS(quniform(0.1, 0.4, 0.5), mobula::Invalid);
  CHECK_THROWS_AS(qloguniform(0.1, 3, 5), mobula::Invalid);
  CHECK_THROWS_AS(integers(3, 2), mobula::Invalid);
  CHECK_THROWS_AS(qintegers(1, 3, 5), mobula::Invalid);
  CHECK_THROWS_AS(logintegers(0, 3), mobula::Invalid);
  CHECK_THROWS_AS(choice({}), mobula::Invalid);
  CHECK_THROWS_AS(grid({}), mobula::Invalid);
  CHECK_THROWS_AS((Space{{"a", 1}, {"a", 2}}), mobula::Invalid);
  CHECK_THROWS_AS((Space{{"", 1}}), mobula::Invalid);
}

TEST_CASE("a space describes itself so that two can be compared") {
  const Space space{{"lr", loguniform(1e-4, 0.1)},
                    {"momentum", quniform(0, 0.9, 0.1)},
                    {"depth", integers(1, 4)},
                    {"width", choice({32, 64})},
                    {"optimizer", grid({"sgd", "adam"})},
                    {"classes", 10},
                    {"nesterov", true}};
  CHECK(space.describe() ==
        "lr = loguniform(1e-04, 0.1); momentum = quniform(0, 0.9, 0.1); depth = integers(1, 4); "
        "width = choice(32, 64); optimizer = grid(\"sgd\", \"adam\"); classes = 10; nesterov = true");
  CHECK(space.grid_size() == 2);
  CHECK(describe(qintegers(8, 64, 8)) == "qintegers(8, 64, 8)");
  CHECK(describe(logintegers(1, 64)) == "logintegers(1, 64)");
}

TEST_CASE("too large a grid is refused") {
  Space space;
  std::vector<Value> many(1001, Value(1));
  space.add("a", grid(many)).add("b", grid(many));
  CHECK_THROWS_AS(space.grid_size(), mobula::Invalid);
}
