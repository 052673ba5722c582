// Calls and values as they look inside one process: what the machines of a process (submitter, executor, owner) and the
// threads of its runtime hand to each other. Nothing here travels.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/call.h"

namespace mobula {

// A call spec that the runtime has interned: equal specs have equal numbers, numbers count 1, 2, 3, ... within the
// process. The number is also the one of DefineSpec on every link of this process.
struct SpecRef {
  std::uint32_t number = 0;
  std::shared_ptr<const CallSpec> spec;
};

// An argument as the caller has it: a value, or a reference that must be ready before the call is pushed.
using ArgumentIn = std::variant<InlineValue, ObjectLocator>;

// A value in the shared memory of this node, pinned for this process. Everyone who is handed one gives it back once, by
// ViewReleased.
struct PinnedLocation {
  ObjectId object;
  std::uint32_t segment = 0;
  std::uint64_t segment_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::vector<ObjectLocator> refs;  // references inside it
  friend bool operator==(const PinnedLocation&, const PinnedLocation&) = default;
};

// An argument as the executing worker gets it.
using ArgumentOut = std::variant<InlineValue, PinnedLocation>;

// A result that the executing worker has sealed in its node's store, under the id of the return.
struct StoredResult {
  std::uint64_t size = 0;
  std::vector<ObjectLocator> refs;
  friend bool operator==(const StoredResult&, const StoredResult&) = default;
};
using ResultIn = std::variant<InlineValue, StoredResult>;

// What became of an object, as far as a process needs to know.
using Outcome = std::variant<InlineValue, StoredValue, ErrorInfo>;

inline const std::vector<ObjectLocator>& refs_of(const CallValue& value) {
  return value.index() == 0 ? std::get<0>(value).refs : std::get<1>(value).refs;
}

// The id of return `index` of a call.
inline ObjectId return_id(ObjectId first, std::uint32_t index) {
  return ObjectId{first.maker, first.sequence + index};
}

}  // namespace mobula
