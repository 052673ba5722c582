// Functions and classes of the tests of calls: some of them appear in two files, under one name and with other bodies.
#pragma once

#include <string>

namespace calls {
std::string other_file_says();
int other_file_calls_its_hidden(int value);
}  // namespace calls
