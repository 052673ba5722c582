#include "tune/run/channel.h"

#include <unistd.h>

#include <utility>

#include <mobula/tune/run.h>

namespace mobula::tune {
namespace detail {
namespace {

template <class Clock>
std::int64_t milliseconds(typename Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

TrialNews where_it_runs() {
  const auto here = current();
  TrialNews news;
  news.kind = NewsKind::kStarted;
  news.sequence = 1;
  news.node = to_string(here.node);
  news.address = here.node_address;
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) news.host = host;
  news.pid = ::getpid();
  return news;
}

}  // namespace

ReportChannel::ReportChannel(TrialNews started) : news_(std::move(started)) {}

bool ReportChannel::report(const Metrics& metrics) {
  std::unique_lock lock(mutex_);
  if (stopped_) throw TrialStopped();
  TrialNews news;
  news.kind = NewsKind::kReport;
  news.sequence = news_.sequence + 1;
  news.metrics = metrics;
  news.unix_ms = milliseconds<std::chrono::system_clock>(std::chrono::system_clock::now().time_since_epoch());
  news.elapsed_ms = milliseconds<std::chrono::steady_clock>(std::chrono::steady_clock::now() - begin_);
  // The news before was taken over by the driver: it answered them, or they were the first.
  changed_.wait(lock, [this] { return answer_.sequence >= news_.sequence; });
  const std::uint64_t number = news.sequence;
  news_ = std::move(news);
  changed_.notify_all();
  changed_.wait(lock, [this, number] { return answer_.sequence >= number; });
  stopped_ = answer_.stop;
  return !stopped_;
}

void ReportChannel::close() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = news_.sequence + 1;
  news_ = TrialNews{};
  news_.sequence = number;
  changed_.notify_all();
}

TrialNews ReportChannel::exchange(const TrialAnswer& answer) {
  std::unique_lock lock(mutex_);
  if (answer.sequence > answer_.sequence) {
    answer_ = answer;
    changed_.notify_all();
  }
  changed_.wait(lock, [this, &answer] { return news_.sequence > answer.sequence; });
  return news_;
}

TrialHostBase::TrialHostBase(TrialSetup setup)
    : setup_(std::move(setup)), channel_(std::make_shared<ReportChannel>(where_it_runs())) {}

TrialNews TrialHostBase::exchange(const TrialAnswer& answer) {
  return channel_->exchange(answer);
}

void TrialHostBase::close() {
  channel_->close();
}

}  // namespace detail

bool Trial::report(const Metrics& metrics) {
  return channel_->report(metrics);
}

}  // namespace mobula::tune
