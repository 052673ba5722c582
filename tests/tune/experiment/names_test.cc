#include "tune/experiment/names.h"

#include <doctest/doctest.h>

using namespace mobula::tune;

TEST_CASE("trials and folders are named as Ray names them") {
  const Params params{{"lr", 0.0592}, {"depth", 3}, {"optimizer", "adam"}, {"decay", 0.000123}};
  CHECK(trial_id("18ae7", 5) == "18ae7_00005");
  CHECK(trial_id("18ae7", 123456) == "18ae7_123456");
  CHECK(experiment_tag(5, params) == "5_lr=0.0592,depth=3,optimizer=adam,decay=0.000123");
  CHECK(trial_directory("train", "18ae7_00005", 5, params, "2026-01-02_03-04-05") ==
        "train_18ae7_00005_5_lr=0.0592,depth=3,optimizer=adam,decay=0.000123_2026-01-02_03-04-05");
}

TEST_CASE("folder names are short and hold nothing awkward") {
  const Params params{{"path", "/a b/<c>:\"d\"|e?*\\\n"}, {"long", std::string(300, 'x')}};
  const std::string name = trial_directory("train", "18ae7_00000", 0, params, "S");
  CHECK(name.size() == 132);
  CHECK(name.find_first_of("/()<>:\"\\|?* \n") == std::string::npos);
  // Cut between letters, never inside one.
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xc3\xa4";
  for (const char* lead : {"", "a"}) {
    const std::string cut = trial_directory("t", "i", 0, Params{{"p", lead + wide}}, "S");
    const std::string head = cut.substr(0, cut.size() - 2);
    CHECK(static_cast<unsigned char>(head.back()) == 0xa4);
  }
}

TEST_CASE("a name that a user gives is one folder") {
  CHECK(usable_name("fashion mnist-1"));
  CHECK_FALSE(usable_name(""));
  CHECK_FALSE(usable_name("."));
  CHECK_FALSE(usable_name(".."));
  CHECK_FALSE(usable_name("a/b"));
  CHECK_FALSE(usable_name("a\nb"));
  CHECK_FALSE(usable_name(std::string(200, 'a')));
}
