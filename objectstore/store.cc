#include "objectstore/store.h"

#include <algorithm>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::objectstore {

Store::Store(const StoreConfig& config) : config_(config) {
  stats_.capacity = config.capacity;
}

void Store::step(Instant now, std::span<const StoreEvent> events, StoreActions& out) {
  now_ = std::max(now_, now);
  out_ = &out;
  for (const StoreEvent& event : events) {
    std::visit([this](const auto& one) { handle(one); }, event);
  }
  serve_waiting();
  expire(now_);
  out_ = nullptr;
}

Instant Store::next_deadline() const {
  Instant next = Instant::never();
  for (const WaitingSlab& waiting : waiting_slabs_) next = std::min(next, waiting.deadline);
  for (const auto& [id, fetch] : fetches_) {
    if (!fetch.pulling) next = std::min(next, fetch.deadline);
  }
  return next;
}

void Store::handle(const Received& event) {
  std::visit(
      [&](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, FreeObjects>) {
          on(message);
        } else if constexpr (std::is_same_v<T, RequestSlab> || std::is_same_v<T, SealObject> ||
                             std::is_same_v<T, ReturnSlab> || std::is_same_v<T, PinObject> ||
                             std::is_same_v<T, UnpinObjects>) {
          on(event.from, message);
        }
        // Other messages are not the store's; the driver does not pass them on.
      },
      event.message);
}

// ---- slabs
// -----------------------------------------------------------------------------------------------------------

void Store::on(const Peer& from, const RequestSlab& message) {
  WaitingSlab waiting{from.process(), from.node, message.request, std::max(message.bytes, config_.slab_size),
                      now_ + config_.full_wait};
  if (message.bytes > config_.capacity || waiting_slabs_.size() >= config_.waiting_max) {
    out_->push_back(Send{from, SlabGranted{message.request, 0, 0, 0, 0, 0, full_error(message.bytes)}, 0});
    return;
  }
  waiting_slabs_.push_back(waiting);
}

void Store::grant_slab(const WaitingSlab& waiting, const Range& range) {
  const std::uint64_t slab = next_slab_++;
  slabs_.emplace(slab, Slab{waiting.process, range, {}});
  SlabGranted granted;
  granted.request = waiting.request;
  granted.slab = slab;
  granted.segment = range.segment;
  granted.segment_size = space_.segment_size(range.segment);
  granted.offset = range.offset;
  granted.size = range.size;
  out_->push_back(Send{Peer::of(waiting.process, waiting.node), granted, 0});
}

void Store::on(const Peer& from, const SealObject& message) {
  const auto found = slabs_.find(message.slab);
  if (found == slabs_.end() || found->second.process != from.process()) return;  // a slab of an earlier life
  Slab& slab = found->second;
  const std::uint64_t taken = round_up(std::max<std::uint64_t>(message.size, 1), kRangeAlignment);
  if (message.offset % kRangeAlignment != 0 || message.offset > slab.range.size ||
      taken > slab.range.size - message.offset) {
    return;  // not inside its slab: nothing of others is harmed by ignoring it
  }
  const std::uint64_t start = slab.range.offset + message.offset;
  const auto next = slab.sealed.lower_bound(start);
  if (next != slab.sealed.end() && next->first < start + taken) return;
  if (next != slab.sealed.begin() && std::prev(next)->first + std::prev(next)->second > start) return;
  if (objects_.contains(message.object)) return;  // a repeat, or a retry of a task that had sealed it already
  slab.sealed.emplace(start, taken);
  Object object;
  object.range = Range{slab.range.segment, start, taken};
  object.size = message.size;
  object.owner = message.owner;
  object.job = message.job;
  object.primary = true;
  ++stats_.objects;
  stats_.primary_bytes += taken;
  objects_.emplace(message.object, object);
  if (tombstones_.contains(message.object)) {  // freed before it was sealed
    free_object(message.object);
    fail_fetch(message.object, make_error(ErrorKind::kObjectLost, "its last reference was dropped"));
    return;
  }
  object_arrived(message.object, false);
}

void Store::on(const Peer& from, const ReturnSlab& message) {
  const auto found = slabs_.find(message.slab);
  if (found != slabs_.end() && found->second.process == from.process()) close_slab(found);
}

void Store::close_slab(std::map<std::uint64_t, Slab>::iterator entry) {
  const Slab& slab = entry->second;
  std::uint64_t cursor = slab.range.offset;
  for (const auto& [start, taken] : slab.sealed) {
    if (start > cursor) space_.release({slab.range.segment, cursor, start - cursor});
    cursor = start + taken;
  }
  const std::uint64_t end = slab.range.offset + slab.range.size;
  if (end > cursor) space_.release({slab.range.segment, cursor, end - cursor});
  slabs_.erase(entry);
}

// ---- pins
// ------------------------------------------------------------------------------------------------------------

void Store::on(const Peer& from, const PinObject& message) {
  const WaitingPin waiter{from, message.map};
  if (const auto found = objects_.find(message.object); found != objects_.end() && !found->second.doomed) {
    answer_pin(message.object, found->second, waiter, false);
    return;
  }
  const auto [entry, fresh] = fetches_.try_emplace(message.object);
  Fetch& fetch = entry->second;
  fetch.waiting.push_back(waiter);
  if (!fresh) return;
  if (fetches_.size() > config_.waiting_max) {
    fail_fetch(message.object, make_error(ErrorKind::kOverloaded, "too many objects are being fetched on this node"));
    return;
  }
  fetch.size = message.size;
  fetch.sources.assign(message.nodes.rbegin(), message.nodes.rend());
  start_fetch(message.object, fetch);
}

void Store::start_fetch(ObjectId id, Fetch& fetch) {
  const bool here = std::find(fetch.sources.begin(), fetch.sources.end(), config_.node) != fetch.sources.end();
  std::erase(fetch.sources, config_.node);
  if (!fetch.sources.empty()) {
    fetch.deadline = now_ + config_.full_wait;
    next_source(id, fetch);
  } else if (here && !tombstones_.contains(id)) {
    // Its producer announces it on another connection than the one that told our caller: it will come.
    fetch.awaiting_seal = true;
    fetch.deadline = now_ + config_.seal_wait;
  } else {
    fail_fetch(id, make_error(ErrorKind::kObjectLost, "no node holds a copy of it"));
  }
}

void Store::next_source(ObjectId id, Fetch& fetch) {
  if (fetch.sources.empty()) {
    fail_fetch(id, make_error(ErrorKind::kObjectLost, fetch.why.empty() ? "no node holds a copy of it"
                                                                        : "no copy could be fetched: " + fetch.why));
    return;
  }
  if (!fetch.range) fetch.range = make_room(fetch.size);
  if (!fetch.range) return;  // serve_waiting tries again
  fetch.pulling = true;
  const NodeId from = fetch.sources.back();
  fetch.sources.pop_back();
  out_->push_back(Pull{id, from, fetch.size, *fetch.range});
}

void Store::handle(const Pulled& event) {
  const auto found = fetches_.find(event.object);
  if (found == fetches_.end() || !found->second.pulling) return;
  Fetch& fetch = found->second;
  fetch.pulling = false;
  if (const auto here = objects_.find(event.object); here != objects_.end() && !here->second.doomed) {
    object_arrived(event.object, false);  // its producer sealed it here meanwhile
    return;
  }
  if (event.missing || event.error) {
    fetch.why = event.error ? event.error->message : "node " + to_string(event.from) + " has no copy any more";
    fetch.deadline = now_ + config_.full_wait;
    next_source(event.object, fetch);
    return;
  }
  ++stats_.pulls;
  stats_.pulled_bytes += fetch.size;
  Object object;
  object.range = *fetch.range;
  object.size = fetch.size;
  object.owner = event.owner;
  object.job = event.job;
  if (tombstones_.contains(event.object) || objects_.contains(event.object)) {
    fail_fetch(event.object, make_error(ErrorKind::kObjectLost, "its last reference was dropped"));
    return;
  }
  ++stats_.objects;
  objects_.emplace(event.object, object);
  object_arrived(event.object, true);
}

void Store::object_arrived(ObjectId id, bool copied) {
  const auto found = objects_.find(id);
  MOBULA_CHECK(found != objects_.end());
  touch(found->second, id);
  const auto fetch = fetches_.find(id);
  if (fetch == fetches_.end()) return;
  // It was sealed here while a copy was under way, or room waited for one: that room returns.
  if (fetch->second.range && !copied) {
    if (fetch->second.pulling) {
      return;  // bytes are still being written there; Pulled will settle it
    }
    space_.release(*fetch->second.range);
  }
  const std::vector<WaitingPin> waiting = std::move(fetch->second.waiting);
  fetches_.erase(fetch);
  for (const WaitingPin& waiter : waiting) answer_pin(id, found->second, waiter, copied);
}

void Store::answer_pin(ObjectId id, Object& object, const WaitingPin& waiter, bool copied) {
  touch(object, id);
  if (waiter.map) pin(object, id, waiter.process);
  ObjectPinned answer;
  answer.object = id;
  answer.segment = object.range.segment;
  answer.segment_size = space_.segment_size(object.range.segment);
  answer.offset = object.range.offset;
  answer.size = object.size;
  answer.copied = copied;
  answer.mapped = waiter.map;
  out_->push_back(Send{waiter.process, answer, 0});
}

void Store::fail_fetch(ObjectId id, const ErrorInfo& error) {
  const auto found = fetches_.find(id);
  if (found == fetches_.end()) return;
  MOBULA_CHECK(!found->second.pulling);
  if (found->second.range) space_.release(*found->second.range);
  for (const WaitingPin& waiter : found->second.waiting) {
    ObjectPinned answer;
    answer.object = id;
    answer.mapped = waiter.map;
    answer.error = error;
    out_->push_back(Send{waiter.process, answer, 0});
  }
  fetches_.erase(found);
}

void Store::pin(Object& object, ObjectId id, const Peer& process) {
  if (object.last_use != 0) {
    use_order_.erase(object.last_use);
    object.last_use = 0;
  }
  ++object.pins;
  ++stats_.pins;
  ++pins_[process.process()][id];
}

void Store::on(const Peer& from, const UnpinObjects& message) {
  const auto held = pins_.find(from.process());
  if (held == pins_.end()) return;
  for (const ObjectId id : message.objects) {
    const auto count = held->second.find(id);
    if (count == held->second.end()) continue;
    if (--count->second == 0) held->second.erase(count);
    unpin(id, 1);
  }
  if (held->second.empty()) pins_.erase(held);
}

void Store::unpin(ObjectId id, std::uint64_t count) {
  const auto found = objects_.find(id);
  MOBULA_CHECK(found != objects_.end() && found->second.pins >= count, "an object left while it was pinned");
  found->second.pins -= count;
  stats_.pins -= count;
  if (found->second.pins > 0) return;
  if (found->second.doomed) {
    drop(found);
  } else {
    touch(found->second, id);
  }
}

void Store::touch(Object& object, ObjectId id) {
  if (object.last_use != 0) use_order_.erase(object.last_use);
  object.last_use = 0;
  if (object.primary || object.doomed || object.pins > 0) return;
  object.last_use = ++use_clock_;
  use_order_.emplace(object.last_use, id);
}

// ---- freeing
// -----------------------------------------------------------------------------------------------------------

void Store::on(const FreeObjects& message) {
  for (const ObjectId id : message.objects) {
    if (tombstones_.insert(id).second) {
      tombstone_order_.push_back(id);
      if (tombstone_order_.size() > config_.tombstones_max) {
        tombstones_.erase(tombstone_order_.front());
        tombstone_order_.pop_front();
      }
    }
    free_object(id);
    const auto fetch = fetches_.find(id);
    if (fetch != fetches_.end() && !fetch->second.pulling) {
      fail_fetch(id, make_error(ErrorKind::kObjectLost, "its last reference was dropped"));
    }
  }
}

void Store::free_object(ObjectId id) {
  const auto found = objects_.find(id);
  if (found == objects_.end()) return;
  found->second.doomed = true;
  if (found->second.pins == 0) drop(found);
}

void Store::drop(std::map<ObjectId, Object>::iterator entry) {
  Object& object = entry->second;
  if (object.last_use != 0) use_order_.erase(object.last_use);
  --stats_.objects;
  if (object.primary) {
    stats_.primary_bytes -= object.range.size;
    // While its slab is open the range stays the slab's: the producer may not have moved past it, and closing returns
    // it.
    for (auto& [number, slab] : slabs_) {
      if (slab.range.segment != object.range.segment) continue;
      const auto sealed = slab.sealed.find(object.range.offset);
      if (sealed == slab.sealed.end()) continue;
      slab.sealed.erase(sealed);
      objects_.erase(entry);
      return;
    }
  }
  space_.release(object.range);
  objects_.erase(entry);
}

void Store::handle(const OwnerGone& event) {
  std::vector<ObjectId> owned;
  for (const auto& [id, object] : objects_) {
    if (object.owner == event.process) owned.push_back(id);
  }
  for (const ObjectId id : owned) free_object(id);
}

void Store::handle(const JobGone& event) {
  std::vector<ObjectId> owned;
  for (const auto& [id, object] : objects_) {
    if (object.job == event.job) owned.push_back(id);
  }
  for (const ObjectId id : owned) free_object(id);
}

void Store::handle(const PeerLost& event) {
  const ProcessId process = event.peer.process();
  if (!process) return;
  if (const auto held = pins_.find(process); held != pins_.end()) {
    const auto counts = std::move(held->second);
    pins_.erase(held);
    for (const auto& [id, count] : counts) unpin(id, count);
  }
  std::vector<std::uint64_t> open;
  for (const auto& [number, slab] : slabs_) {
    if (slab.process == process) open.push_back(number);
  }
  for (const std::uint64_t number : open) close_slab(slabs_.find(number));
  std::erase_if(waiting_slabs_, [&](const WaitingSlab& waiting) { return waiting.process == process; });
  for (auto& [id, fetch] : fetches_) {
    std::erase_if(fetch.waiting, [&](const WaitingPin& waiter) { return waiter.process == event.peer; });
  }
}

// ---- room
// ----------------------------------------------------------------------------------------------------------------

std::optional<Range> Store::make_room(std::uint64_t size) {
  if (auto range = space_.allocate(size)) return range;
  if (!growth_error_) {
    if (const auto growth = space_.growth_for(size, config_.growth_step)) {
      if (growing_.insert(growth->first).second) {
        out_->push_back(Grow{growth->first, 0, growth->second});
      }
      return std::nullopt;
    }
    const std::uint64_t left = config_.capacity - std::min(config_.capacity, segment_bytes_);
    const std::uint64_t wanted = round_up(size, kRangeAlignment);
    if (growing_.empty() && left >= wanted) {
      const std::uint64_t segment_size =
          std::max(wanted, std::min(left, config_.segment_size)) / kRangeAlignment * kRangeAlignment;
      const std::uint32_t segment = next_segment_++;
      segment_bytes_ += segment_size;
      space_.add_segment(segment, segment_size);
      out_->push_back(CreateSegment{segment, segment_size});
      const auto growth = space_.growth_for(size, config_.growth_step);
      MOBULA_CHECK(growth.has_value());
      growing_.insert(growth->first);
      out_->push_back(Grow{growth->first, 0, growth->second});
      return std::nullopt;
    }
    if (!growing_.empty()) return std::nullopt;
  }
  while (evict_one()) {
    if (auto range = space_.allocate(size)) return range;
  }
  return std::nullopt;
}

bool Store::evict_one() {
  if (use_order_.empty()) return false;
  const auto found = objects_.find(use_order_.begin()->second);
  MOBULA_CHECK(found != objects_.end() && found->second.pins == 0 && !found->second.primary);
  drop(found);
  ++stats_.evictions;
  return true;
}

void Store::handle(const Grown& event) {
  growing_.erase(event.segment);
  growth_error_ = event.error;
  if (!event.error) space_.set_reserved(event.segment, event.reserved);
}

void Store::serve_waiting() {
  while (!waiting_slabs_.empty()) {
    const auto range = make_room(waiting_slabs_.front().bytes);
    if (!range) break;
    grant_slab(waiting_slabs_.front(), *range);
    waiting_slabs_.pop_front();
  }
  std::vector<ObjectId> without_room;
  for (const auto& [id, fetch] : fetches_) {
    if (!fetch.pulling && !fetch.awaiting_seal && !fetch.range && !fetch.sources.empty()) without_room.push_back(id);
  }
  for (const ObjectId id : without_room) next_source(id, fetches_.at(id));
}

void Store::expire(Instant now) {
  while (!waiting_slabs_.empty() && waiting_slabs_.front().deadline <= now) {
    const WaitingSlab& waiting = waiting_slabs_.front();
    out_->push_back(Send{Peer::of(waiting.process, waiting.node),
                         SlabGranted{waiting.request, 0, 0, 0, 0, 0, full_error(waiting.bytes)}, 0});
    waiting_slabs_.pop_front();
    growth_error_.reset();  // the next one may ask the machine again
  }
  std::vector<ObjectId> late;
  for (const auto& [id, fetch] : fetches_) {
    if (!fetch.pulling && fetch.deadline <= now) late.push_back(id);
  }
  for (const ObjectId id : late) {
    const Fetch& fetch = fetches_.at(id);
    fail_fetch(id, fetch.awaiting_seal ? make_error(ErrorKind::kObjectLost, "its producer never finished writing it")
                                       : full_error(fetch.size));
    growth_error_.reset();
  }
}

ErrorInfo Store::full_error(std::uint64_t size) const {
  std::string text = "no room for " + std::to_string(size) +
                     " bytes in the object store: " + std::to_string(space_.used()) + " of " +
                     std::to_string(config_.capacity) +
                     " bytes are in use. Drop references that are no longer needed, or start the node with a larger "
                     "--object-store-memory.";
  if (growth_error_) text += " (" + growth_error_->message + ")";
  return make_error(ErrorKind::kStoreFull, std::move(text));
}

// ---- readers of other nodes
// ------------------------------------------------------------------------------------------------

void Store::handle(const ReadWanted& event) {
  ReadStarts answer;
  answer.token = event.token;
  const auto found = objects_.find(event.object);
  if (found != objects_.end() && !found->second.doomed && !reads_.contains(event.token)) {
    Object& object = found->second;
    if (object.last_use != 0) use_order_.erase(object.last_use);
    object.last_use = 0;
    ++object.pins;
    ++stats_.pins;
    reads_.emplace(event.token, event.object);
    answer.found = true;
    answer.range = Range{object.range.segment, object.range.offset, object.size};
    answer.owner = object.owner;
    answer.job = object.job;
  }
  out_->push_back(answer);
}

void Store::handle(const ReadDone& event) {
  const auto found = reads_.find(event.token);
  if (found == reads_.end()) return;
  const ObjectId id = found->second;
  reads_.erase(found);
  unpin(id, 1);
}

// ---- for people
// --------------------------------------------------------------------------------------------------------------

StoreStats Store::stats() const {
  StoreStats stats = stats_;
  stats.used = space_.used();
  stats.reserved = space_.reserved();
  stats.slabs = slabs_.size();
  stats.waiting = waiting_slabs_.size() + fetches_.size();
  return stats;
}

std::vector<ObjectRow> Store::objects(std::size_t limit) const {
  std::vector<ObjectRow> rows;
  for (const auto& [id, object] : objects_) {
    if (rows.size() >= limit) break;
    rows.push_back({id, object.job, object.size, object.pins, object.primary});
  }
  return rows;
}

void Store::check() const {
  space_.check();
  MOBULA_CHECK(segment_bytes_ <= config_.capacity);
  std::uint64_t bytes = 0;
  std::map<ObjectId, std::uint64_t> pins;
  for (const auto& [process, held] : pins_) {
    for (const auto& [id, count] : held) pins[id] += count;
  }
  for (const auto& [token, id] : reads_) ++pins[id];
  std::uint64_t pin_sum = 0;
  std::uint64_t primary = 0;
  std::size_t in_slabs = 0;
  for (const auto& [id, object] : objects_) {
    MOBULA_CHECK(object.pins == pins[id], "pins of an object must be those of its processes");
    MOBULA_CHECK(!object.doomed || object.pins > 0, "a freed object without pins must be gone");
    MOBULA_CHECK((object.last_use != 0) == (!object.primary && object.pins == 0));
    pin_sum += object.pins;
    bytes += object.range.size;
    if (object.primary) primary += object.range.size;
  }
  for (const auto& [number, slab] : slabs_) {
    bytes += slab.range.size;
    for (const auto& [start, taken] : slab.sealed) {
      bytes -= taken;
      ++in_slabs;
    }
  }
  for (const auto& [id, fetch] : fetches_) {
    if (fetch.range) bytes += fetch.range->size;
  }
  MOBULA_CHECK(bytes == space_.used(), "every byte handed out belongs to an object, a slab or a fetch");
  MOBULA_CHECK(pin_sum == stats_.pins && primary == stats_.primary_bytes && objects_.size() == stats_.objects);
  MOBULA_CHECK(in_slabs <= objects_.size() && tombstones_.size() == tombstone_order_.size());
}

}  // namespace mobula::objectstore
