// Cells: what a process knows of each object it refers to. All handles to one object in one process share its cell.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include <mobula/detail/core.h>

#include "runtime/base/bytes.h"
#include "runtime/core/engine/engine_io.h"

namespace mobula::core {

class RefTable;

// A ready object: bytes that can be read, "it is ready elsewhere", or an error. Immutable once published.
struct CellValue {
  Bytes bytes;                      // inline value, or the pinned pages (kept by their owner)
  std::vector<ObjectLocator> refs;  // references inside it
  std::optional<ErrorInfo> error;
  bool readable = false;  // `bytes` hold the value
  bool here = false;      // the value is on this node
};

}  // namespace mobula::core

// The count is of handles of this process. Only decremented to zero under the table's lock, so a cell that a look-up
// finds cannot be on its way out.
struct mobula::detail::RefHandle::Cell {
  Cell(const ObjectLocator& at, mobula::core::RefTable* in) : locator(at), table(in) {}
  const ObjectLocator locator;
  mobula::core::RefTable* const table;  // never destroyed: handles may outlive the runtime
  std::atomic<std::uint32_t> count{1};
  // Null until ready; ready values replace each other at most once (ready elsewhere, then readable). Written under the
  // table's lock, read without it.
  std::atomic<std::shared_ptr<const mobula::core::CellValue>> value;
  std::atomic<bool> ready{false};
  std::atomic<bool> here{false};      // readable, or its value is on this node
  std::atomic<bool> readable{false};  // a value that can be read here, or an error
};

namespace mobula::core {

using Cell = detail::RefHandle::Cell;

// Thread-safe. Says the first and the last reference of an object to `events`, in the order in which they happened.
class RefTable {
 public:
  using Sink = std::function<void(Event)>;
  explicit RefTable(Sink sink) : sink_(std::move(sink)) {}

  // One reference to an object that this process just made: no RefAcquired is said.
  detail::RefHandle create(const ObjectLocator& locator);
  // The same with a value from the start.
  detail::RefHandle create_ready(const ObjectLocator& locator, CellValue value);
  // One more reference to any object.
  detail::RefHandle acquire(const ObjectLocator& locator);
  void release(Cell* cell);
  // Publishes what the engine says; false when nobody refers to it any more.
  bool publish(ObjectId id, CellValue value);
  // After it, releases are silent: the runtime has stopped.
  void close();
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  Sink sink_;
  bool closed_ = false;
  std::unordered_map<ObjectId, Cell*> cells_;
};

}  // namespace mobula::core
