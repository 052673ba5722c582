#include "runtime/core/ref_cell.h"

#include <utility>

#include "runtime/base/check.h"

namespace mobula::core {

detail::RefHandle RefTable::create(const ObjectLocator& locator) {
  auto* cell = new Cell(locator, this);
  const std::lock_guard lock(mutex_);
  const bool fresh = cells_.emplace(locator.id, cell).second;
  MOBULA_CHECK(fresh, "an object id was given out twice");
  return detail::RefHandle::from_counted(cell);
}

detail::RefHandle RefTable::create_ready(const ObjectLocator& locator, CellValue value) {
  auto* cell = new Cell(locator, this);
  const bool readable = value.readable || value.error.has_value();
  cell->value.store(std::make_shared<const CellValue>(std::move(value)));
  cell->readable.store(readable);
  cell->here.store(readable || cell->value.load()->here);
  cell->ready.store(true);
  const std::lock_guard lock(mutex_);
  const bool fresh = cells_.emplace(locator.id, cell).second;
  MOBULA_CHECK(fresh, "an object id was given out twice");
  return detail::RefHandle::from_counted(cell);
}

detail::RefHandle RefTable::acquire(const ObjectLocator& locator) {
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = cells_.try_emplace(locator.id, nullptr);
  if (fresh) {
    entry->second = new Cell(locator, this);
    if (!closed_) sink_(RefAcquired{locator});
  } else {
    entry->second->count.fetch_add(1, std::memory_order_relaxed);
  }
  return detail::RefHandle::from_counted(entry->second);
}

void RefTable::release(Cell* cell) {
  std::uint32_t count = cell->count.load(std::memory_order_relaxed);
  while (count > 1) {
    if (cell->count.compare_exchange_weak(count, count - 1, std::memory_order_acq_rel)) return;
  }
  std::unique_ptr<Cell> last;
  const std::lock_guard lock(mutex_);
  if (cell->count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  last.reset(cell);
  cells_.erase(cell->locator.id);
  if (!closed_) sink_(RefDropped{cell->locator.id});
}

bool RefTable::publish(ObjectId id, CellValue value) {
  std::shared_ptr<const CellValue> before;  // freed outside the lock
  const bool readable = value.readable || value.error.has_value();
  auto fresh = std::make_shared<const CellValue>(std::move(value));
  const std::lock_guard lock(mutex_);
  const auto found = cells_.find(id);
  if (found == cells_.end()) return false;
  Cell& cell = *found->second;
  if (cell.readable.load(std::memory_order_relaxed)) return true;  // the first answer stands
  const bool here = readable || fresh->here;
  before = cell.value.exchange(std::move(fresh));
  if (here) cell.here.store(true, std::memory_order_release);
  if (readable) cell.readable.store(true, std::memory_order_release);
  cell.ready.store(true, std::memory_order_release);
  return true;
}

void RefTable::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

std::size_t RefTable::size() const {
  const std::lock_guard lock(mutex_);
  return cells_.size();
}

}  // namespace mobula::core
