#include "runtime/wire/context.h"

namespace mobula::wire::detail {

void Context::fail(std::string_view field, std::string_view what) {
  if (failed()) return;
  error_ = std::string(message_) + "." + std::string(field) + ": " + std::string(what);
}

void Context::fail_enum(std::string_view field, std::string_view type, unsigned value) {
  fail(field, std::to_string(value) + " is no " + std::string(type) + " that this version knows");
}

void Context::fail_memory(std::string_view field, std::size_t count) {
  fail(field, "a list of " + std::to_string(count) + " elements is more than a frame of " +
                  std::to_string(frame_.size()) + " bytes can hold");
}

}  // namespace mobula::wire::detail
