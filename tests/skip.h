// Skipping a test by name when the machine cannot run it (no namespaces, no GPU), so that nobody takes it for passed.
//
//     TEST_CASE("three nodes in three network namespaces") {
//       if (!can_make_namespaces()) return mobula::testing::skip("needs root to make network namespaces");
//
// A program all of whose chosen test cases were skipped ends with 77, which ctest shows as "Skipped".
#pragma once

#include <string_view>

namespace mobula::testing {

// Prints the running test case's name and the reason. Defined in doctest_main.cc.
void skip(std::string_view reason);

}  // namespace mobula::testing
