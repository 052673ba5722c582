#include "tune/experiment/journal.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace mobula::tune;

namespace {

std::vector<JournalEvent> one_of_each() {
  Opened opened{"exp",
                "train",
                "loss",
                Mode::kMin,
                ~std::uint64_t{0},
                16,
                "lr = uniform(0, 1)",
                "fifo()",
                "18ae7",
                "2026-01-02_03-04-05"};
  Params params{{"lr", 0.1}, {"whole", 3.0}, {"depth", 3}, {"opt", "ad\"am\n"}, {"flag", true}};
  Verdict verdict{Decision::kStop, 1, 2, 9, -0.73, 12};
  return {opened,
          Resumed{20, true},
          TrialCreated{0, params, "dir"},
          TrialLaunched{0, 1, Place{"00ff", "127.0.0.1:5", "host", 42}},
          TrialReported{0, 1, 7, Metrics{{"loss", 1.0 / 3.0}, {"n", 5}}, 1'700'000'000'123, 4567, verdict},
          TrialOver{0, TrialStatus::kStopped, true},
          TrialBroke{0, 2, true, false, "bad \xff bytes"},
          Finished{}};
}

std::string text_of(const std::vector<JournalEvent>& events) {
  std::string text;
  for (std::size_t i = 0; i < events.size(); ++i) text += encode_line(i + 1, events[i]);
  return text;
}

}  // namespace

TEST_CASE("every event comes back as it was") {
  auto events = one_of_each();
  std::get<TrialBroke>(events[6]).error = "bad";
  const auto journal = decode_journal(text_of(events));
  REQUIRE(journal.ok());
  CHECK(journal->events == events);
  CHECK(journal->valid_bytes == text_of(events).size());
}

TEST_CASE("bytes that are no UTF-8 are replaced, not refused") {
  const auto journal = decode_journal(text_of(one_of_each()));
  REQUIRE(journal.ok());
  CHECK(std::get<TrialBroke>(journal->events[6]).error == "bad \xef\xbf\xbd bytes");
}

TEST_CASE("NaN and the infinities survive") {
  const double infinity = std::numeric_limits<double>::infinity();
  TrialReported report{0, 1, 1, Metrics{{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}}, 0, 0, {}};
  const auto journal = decode_journal(encode_line(1, report));
  REQUIRE(journal.ok());
  const auto& back = std::get<TrialReported>(journal->events[0]).metrics;
  CHECK(std::isnan(back.get<double>("a")));
  CHECK(back.get<double>("b") == infinity);
  CHECK(back.get<double>("c") == -infinity);
}

TEST_CASE("lines are JSON with a fixed form") {
  // Golden: written by this release, read by every later one.
  CHECK(encode_line(3, TrialCreated{7, Params{{"lr", 0.5}, {"opt", "sgd"}}, "d"}) ==
        R"({"v":1,"seq":3,"event":"created","trial":7,"params":{"lr":0.5,"opt":"sgd"},"directory":"d",)"
        R"("crc":"0948d261"})"
        "\n");
  CHECK(encode_line(4, TrialReported{7, 1, 2, Metrics{{"loss", 0.25}}, 1000, 20, Verdict{}}) ==
        R"({"v":1,"seq":4,"event":"reported","trial":7,"attempt":1,"iteration":2,"metrics":{"loss":0.25},)"
        R"("unix_ms":1000,"elapsed_ms":20,"decision":0,"bracket":0,"rung":-1,"milestone":0.0,"cutoff":0.0,"peers":0,)"
        R"("crc":"c7f0757b"})"
        "\n");
}

TEST_CASE("a torn tail is cut off at every byte; the rest stands") {
  auto events = one_of_each();
  const std::string text = text_of(events);
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto journal = decode_journal(std::string_view(text).substr(0, size));
    REQUIRE(journal.ok());
    CHECK(journal->valid_bytes <= size);
    CHECK(text_of(events).substr(0, journal->valid_bytes) == text.substr(0, journal->valid_bytes));
    // Nothing whole is lost.
    CHECK(text.substr(journal->valid_bytes, size - journal->valid_bytes).find('\n') == std::string::npos);
  }
}

TEST_CASE("a last line that is whole in length but wrong is torn too; one before it is damage") {
  const std::string text = text_of(one_of_each());
  std::string tail = text;
  tail[text.size() - 5] ^= 1;
  auto journal = decode_journal(tail);
  REQUIRE(journal.ok());
  CHECK(journal->events.size() == 7);
  for (const std::size_t position : {std::size_t{3}, std::size_t{40}, text.size() / 2}) {
    std::string bad = text;
    bad[position] = static_cast<char>(bad[position] ^ 4);
    const auto refused = decode_journal(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("damaged in line") != std::string::npos);
  }
}

TEST_CASE("a missing line is damage") {
  const auto events = one_of_each();
  const auto refused = decode_journal(encode_line(1, events[0]) + encode_line(3, events[1]));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("line 2") != std::string::npos);
}

TEST_CASE("what a newer version wrote is named as such") {
  // {"v":2,...} and an unknown event, each with a checksum that fits.
  for (const char* line : {R"({"v":2,"seq":1,"event":"finished","crc":"681f4851"})"
                           "\n",
                           R"({"v":1,"seq":1,"event":"paused","crc":"278da643"})"
                           "\n"}) {
    const auto refused = decode_journal(line);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("newer Mobula") != std::string::npos);
  }
  const auto empty = decode_journal("");
  REQUIRE(empty.ok());
  CHECK(empty->events.empty());
}
