#include "runtime/core/log_printer.h"

#include <cstdio>
#include <string>
#include <vector>

namespace mobula::core {

LogPrinter::LogPrinter(net::Loop& loop)
    : loop_(loop), out_(process::LineDedup::Config{}), err_(process::LineDedup::Config{}) {}

void LogPrinter::print(const LogLines& lines) {
  std::string prefix = "(";
  if (!lines.name.empty()) prefix += lines.name + " ";
  prefix += "pid=" + std::to_string(lines.pid) + ", node=" + to_string(lines.node).substr(0, 8) + ") ";
  const std::lock_guard lock(mutex_);
  std::vector<std::string> shown;
  process::LineDedup& dedup = lines.error_stream ? err_ : out_;
  const Instant now = monotonic_now();
  for (const std::string& line : lines.lines) dedup.add(now, lines.worker.value, prefix, line, shown);
  if (lines.dropped > 0)
    shown.push_back(prefix + "[" + std::to_string(lines.dropped) + " lines were dropped: too many]");
  write(shown, lines.error_stream);
  arm();
}

void LogPrinter::write(std::vector<std::string>& shown, bool error_stream) {
  std::FILE* file = error_stream ? stderr : stdout;
  for (const std::string& line : shown) {
    std::fwrite(line.data(), 1, line.size(), file);
    std::fputc('\n', file);
  }
  if (!shown.empty()) std::fflush(file);
  shown.clear();
}

void LogPrinter::arm() {
  const Instant next = std::min(out_.next_deadline(), err_.next_deadline());
  if (armed_ || next == Instant::never()) return;
  armed_ = true;
  loop_.call_at(next, [this] {
    const std::lock_guard lock(mutex_);
    armed_ = false;
    std::vector<std::string> shown;
    out_.tick(monotonic_now(), shown);
    write(shown, false);
    err_.tick(monotonic_now(), shown);
    write(shown, true);
    arm();
  });
}

void LogPrinter::finish() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> shown;
  out_.flush(monotonic_now(), shown);
  write(shown, false);
  err_.flush(monotonic_now(), shown);
  write(shown, true);
}

}  // namespace mobula::core
