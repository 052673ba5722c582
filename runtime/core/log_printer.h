// Prints what a job's workers write, at its driver: prefixed, repeats across workers collapsed, rate limited.
#pragma once

#include <mutex>

#include "runtime/base/protocol/message.h"
#include "runtime/net/loop.h"
#include "runtime/process/line_dedup.h"

namespace mobula::core {

// Thread-safe. Lines of a worker's standard output go to ours, those of its error stream to ours.
class LogPrinter {
 public:
  explicit LogPrinter(net::Loop& loop);
  void print(const LogLines& lines);
  // What a repeat window still holds.
  void finish();

 private:
  void write(std::vector<std::string>& shown, bool error_stream);
  void arm();
  net::Loop& loop_;
  std::mutex mutex_;
  process::LineDedup out_;
  process::LineDedup err_;
  bool armed_ = false;
};

}  // namespace mobula::core
