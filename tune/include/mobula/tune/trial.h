// What a trial's function is handed: its parameters, and the way to report.
//
//   std::vector<float> train(mobula::tune::Trial& trial, const mobula::Array<float>& data) {
//     Model model(trial.get<double>("lr"), trial.get<int>("depth"));
//     for (int epoch = 0; epoch < 20; ++epoch) {
//       const double loss = model.train(data);
//       if (!trial.report({{"loss", loss}})) break;   // the scheduler has seen enough of this trial
//     }
//     return model.weights();                         // comes back to the driver, for stopped trials too
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mobula/tune/value.h>

namespace mobula::tune {

// Out of report() when a trial goes on after report() returned false. Let it pass: the trial then ends as stopped.
class TrialStopped : public std::exception {
 public:
  const char* what() const noexcept override { return "the trial was told to stop"; }
};

namespace detail {

// What the driver sends when it makes a trial's worker.
struct TrialSetup {
  std::string id{};
  std::uint32_t attempt = 0;
  Params params{};
};

enum class NewsKind : std::uint8_t { kStarted, kReport, kEnded };

// What a worker answers to exchange().
struct TrialNews {
  NewsKind kind = NewsKind::kEnded;
  std::uint64_t sequence = 0;   // counts from 1
  Metrics metrics{};            // kReport
  std::int64_t unix_ms = 0;     // kReport: when
  std::int64_t elapsed_ms = 0;  // kReport: since the attempt began
  std::string node{};           // kStarted: where it runs
  std::string address{};
  std::string host{};
  std::int64_t pid = 0;
  bool has_value = false;  // result of run(): its function returned one
  std::vector<std::byte> value{};
};

// The driver's word on the news with this number; 0: none yet.
struct TrialAnswer {
  std::uint64_t sequence = 0;
  bool stop = false;
};

class ReportChannel;

}  // namespace detail

// Use it from one thread at a time.
class Trial {
 public:
  // Of the experiment's space. Throws Invalid when there is no such parameter or it is of another type.
  template <class T>
  T get(std::string_view name) const {
    return setup_.params.get<T>(name);
  }
  const Params& params() const { return setup_.params; }
  // "18ae7_00005"
  const std::string& id() const { return setup_.id; }
  // From 1; more after its worker or node died: a trial starts from its beginning then.
  std::uint32_t attempt() const { return setup_.attempt; }

  // Tells the experiment how the trial stands; every call is one iteration. Waits for the answer: false means that the
  // trial should return now. Throws TrialStopped when it was told so before.
  bool report(const Metrics& metrics);

  Trial(detail::TrialSetup setup, std::shared_ptr<detail::ReportChannel> channel)
      : setup_(std::move(setup)), channel_(std::move(channel)) {}

 private:
  detail::TrialSetup setup_;
  std::shared_ptr<detail::ReportChannel> channel_;
};

}  // namespace mobula::tune
