// Timing shared by the rows of `mobula bench`.
#pragma once

#include <chrono>

namespace mobula::cli {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// Runs `body`, which does `work` units, for about `seconds` and at least once; units a second. 0 when it returns false.
template <class Body>
double rate_of(double work, double seconds, Body body) {
  const Stopwatch watch;
  double runs = 0;
  double elapsed = 0;
  do {
    if (!body()) return 0;
    ++runs;
    elapsed = watch.seconds();
  } while (elapsed < seconds);
  return runs * work / elapsed;
}

}  // namespace mobula::cli
