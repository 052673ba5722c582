#include "objectstore/store.h"

#include <doctest/doctest.h>

#include <vector>

namespace mobula::objectstore {
namespace {

const Peer kReader = Peer::of(ProcessId{20}, NodeId{1});

// One node's store: what arrives, what it answers.
struct StoreFixture {
  Store store{[] {
    StoreConfig config;
    config.node = NodeId{1};
    return config;
  }()};
  Instant now{1'000'000'000};

  std::vector<ObjectPinned> pinned(const PinObject& message) {
    const StoreEvent event = Received{kReader, message};
    StoreActions actions;
    store.step(now, {&event, 1}, actions);
    store.check();
    std::vector<ObjectPinned> answers;
    for (StoreAction& action : actions) {
      auto* send = std::get_if<Send>(&action);
      if (send == nullptr || send->to != kReader) continue;
      if (auto* answer = std::get_if<ObjectPinned>(&send->message)) answers.push_back(std::move(*answer));
    }
    return answers;
  }
};

}  // namespace

// The asker tells its two kinds of question apart by it: an error without it was once taken for another's answer, and
// whoever read the object waited for ever.
TEST_CASE_FIXTURE(StoreFixture, "that no copy is left is said to whoever asked, as it was asked") {
  for (const bool map : {true, false}) {
    const auto answers = pinned(PinObject{{20, 1}, 100, {}, map});
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].mapped == map);
    REQUIRE(answers[0].error);
    CHECK(answers[0].error->kind == ErrorKind::kObjectLost);
  }
}

}  // namespace mobula::objectstore
