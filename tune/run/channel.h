// Where a trial's thread and the driver's calls meet inside the worker.
//
// The driver always has one exchange() call open, which carries its answer to the last news and comes back with the
// next: reports reach it in one hop, nothing is polled, and the end of the worker ends the open call, so a death shows
// at once. report() waits for the answer: a trial never runs ahead of a decision to stop it, and no queue can grow.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include <mobula/tune/trial.h>

namespace mobula::tune::detail {

class ReportChannel {
 public:
  // `started`: the first news.
  explicit ReportChannel(TrialNews started);

  // Of the trial's thread.
  bool report(const Metrics& metrics);
  void close();

  // Of the driver. Waits for news with a higher number than the answer's.
  TrialNews exchange(const TrialAnswer& answer);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  TrialNews news_;
  TrialAnswer answer_;
  bool stopped_ = false;
};

}  // namespace mobula::tune::detail
