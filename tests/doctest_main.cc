// The main of every test program, compiled once: doctest's own takes seconds to compile.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>
#include <string_view>

#include "tests/skip.h"

namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE of tests/CMakeLists.txt

const char* running_test = "?";
unsigned run_count = 0;
unsigned skip_count = 0;

// Hears which test case runs; doctest tells nobody else.
struct Listener : doctest::IReporter {
  explicit Listener(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& test) override {
    running_test = test.m_name;
    ++run_count;
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

DOCTEST_REGISTER_LISTENER("skips", 1, Listener);

}  // namespace

namespace mobula::testing {

void skip(std::string_view reason) {
  ++skip_count;
  std::cout << "SKIPPED: " << running_test << ": " << reason << std::endl;
}

}  // namespace mobula::testing

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || result != 0) return result;
  return run_count > 0 && skip_count >= run_count ? kSkipped : 0;
}
