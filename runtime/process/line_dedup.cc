#include "runtime/process/line_dedup.h"

#include <algorithm>
#include <utility>

namespace mobula::process {

std::string kind_of_line(std::string_view line) {
  std::string kind;
  kind.reserve(line.size());
  bool in_number = false;
  for (const char c : line) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) kind += c;
    if (digit && !in_number) kind += '#';
    in_number = digit;
  }
  return kind;
}

LineDedup::LineDedup(Config config) : config_(config), bucket_(config.lines_per_second, config.burst_lines) {}

void LineDedup::add(Instant now, std::uint64_t source, std::string_view prefix, std::string_view line,
                    std::vector<std::string>& shown) {
  tick(now, shown);
  std::string text(prefix);
  text += line;
  if (!config_.collapse) return show(now, std::move(text), shown);

  std::string key = kind_of_line(line);
  const auto found = kinds_.find(key);
  if (found == kinds_.end()) {
    while (kinds_.size() >= config_.kinds_max) expire_front(now, shown);
    Kind kind;
    kind.sources.insert(source);
    kind.started = now;
    by_age_.emplace(now, key);
    kinds_.emplace(std::move(key), std::move(kind));
    return show(now, std::move(text), shown);
  }
  Kind& kind = found->second;
  if (kind.sources.size() == 1 && kind.sources.contains(source)) return show(now, std::move(text), shown);
  if (kind.sources.size() < kSourcesMax) kind.sources.insert(source);
  ++kind.repeats;
  kind.last = std::move(text);
}

void LineDedup::tick(Instant now, std::vector<std::string>& shown) {
  while (!by_age_.empty() && by_age_.begin()->first + config_.window <= now) expire_front(now, shown);
}

void LineDedup::flush(Instant now, std::vector<std::string>& shown) {
  while (!by_age_.empty()) expire_front(now, shown);
  if (dropped_ > 0) tell_dropped(shown);
}

Instant LineDedup::next_deadline() const {
  return by_age_.empty() ? Instant::never() : by_age_.begin()->first + config_.window;
}

void LineDedup::expire_front(Instant now, std::vector<std::string>& shown) {
  const auto kind = kinds_.find(by_age_.begin()->second);
  by_age_.erase(by_age_.begin());
  const std::uint64_t repeats = kind->second.repeats;
  std::string text = std::move(kind->second.last);
  kinds_.erase(kind);
  if (repeats == 0) return;
  if (repeats > 1) text += " [repeated " + std::to_string(repeats) + "x across workers]";
  show(now, std::move(text), shown);
}

void LineDedup::show(Instant now, std::string text, std::vector<std::string>& shown) {
  if (!bucket_.take(1, now)) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) tell_dropped(shown);
  shown.push_back(std::move(text));
}

void LineDedup::tell_dropped(std::vector<std::string>& shown) {
  shown.push_back("[mobula: " + std::to_string(dropped_) + " lines dropped here, workers print more than " +
                  std::to_string(config_.lines_per_second) + " lines/s; all of them are in the nodes' log files]");
  dropped_ = 0;
}

}  // namespace mobula::process
