// tune::run<f>: runs a function with many parameters on the cluster and finds the best.
//
//   auto result = mobula::tune::run<train>({.space = {{"lr", mobula::tune::loguniform(1e-4, 1e-1)}},
//                                           .metric = "accuracy",
//                                           .mode = mobula::tune::max,
//                                           .num_samples = 16,
//                                           .scheduler = mobula::tune::asha({.max_t = 20})},
//                                          data);
//   std::vector<float> weights = result.best_value();
//
// Each trial is an actor of its own, placed by the cluster. `data` are references or values that every trial gets; a
// node fetches them once. Results lie in <storage>/<name>/ in Ray Tune's layout, and an append-only journal beside them
// from which an interrupted run goes on with .resume. What a trial's function returns is copied to this machine's disk
// as the trial ends, so no later death of a node loses it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/mobula.h>
#include <mobula/tune/outcome.h>
#include <mobula/tune/run_options.h>
#include <mobula/tune/trial.h>

namespace mobula::tune {

namespace detail {

class TrialHostBase {
 public:
  explicit TrialHostBase(TrialSetup setup);
  TrialNews exchange(const TrialAnswer& answer);

 protected:
  void close();
  Trial make_trial() const { return Trial(setup_, channel_); }

 private:
  TrialSetup setup_;
  std::shared_ptr<ReportChannel> channel_;
};

// What a function returned, as the bytes that are kept on disk.
template <class T>
std::vector<std::byte> encode_value(const T& value) {
  mobula::detail::OutPayload payload = mobula::detail::encode_payload(value);
  if (!payload.refs.empty()) {
    mobula::detail::throw_invalid(
        "a trial returned references to objects, which end with their owner: return the values themselves");
  }
  return std::move(payload.bytes);
}

template <class T>
T decode_value(std::vector<std::byte> bytes) {
  mobula::detail::InPayload payload;
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  payload.data = owner->data();
  payload.size = owner->size();
  payload.owner = std::move(owner);
  T value{};
  mobula::detail::decode_payload(payload, value);
  return value;
}

template <class F>
struct TrainSignature;
template <class R, class... Data>
struct TrainSignature<R (*)(Trial&, Data...)> {
  using Value = R;
};

// The actor that a trial is. run() occupies one of its threads, exchange() the other.
template <auto Train, class... Data>
class TrialHost : public TrialHostBase {
 public:
  explicit TrialHost(TrialSetup setup) : TrialHostBase(std::move(setup)) {}

  TrialNews run(const Data&... data) {
    using R = typename TrainSignature<decltype(+Train)>::Value;
    struct Closer {
      TrialHost& host;
      ~Closer() { host.close(); }
    } closer{*this};
    Trial trial = make_trial();
    TrialNews news;
    try {
      if constexpr (std::is_void_v<R>) {
        Train(trial, data...);
      } else {
        news.value = encode_value(Train(trial, data...));
        news.has_value = true;
      }
    } catch (const TrialStopped&) {
      // It went on after it was told to stop: no value, but no failure either.
    }
    return news;
  }
  TrialNews exchange(const TrialAnswer& answer) { return TrialHostBase::exchange(answer); }
};

// One attempt of a trial, as the driver holds it. Its end ends the actor.
class Attempt {
 public:
  virtual ~Attempt() = default;
  virtual ObjectRef<TrialNews> run() = 0;
  virtual ObjectRef<TrialNews> exchange(const TrialAnswer& answer) = 0;
  virtual void kill() = 0;
};

using Launch = std::function<std::unique_ptr<Attempt>(const TrialSetup&, const mobula::Options&)>;

template <class Host, class... Data>
class ActorAttempt : public Attempt {
 public:
  ActorAttempt(const TrialSetup& setup, const mobula::Options& options, std::tuple<ObjectRef<Data>...> data)
      : actor_(actor<Host>.with(options)(setup)), data_(std::move(data)) {}
  ObjectRef<TrialNews> run() override {
    return std::apply([this](const auto&... refs) { return actor_.template call<&Host::run>(refs...); }, data_);
  }
  ObjectRef<TrialNews> exchange(const TrialAnswer& answer) override {
    return actor_.template call<&Host::exchange>(answer);
  }
  void kill() override { mobula::kill(actor_); }

 private:
  Actor<Host> actor_;
  std::tuple<ObjectRef<Data>...> data_;
};

template <auto Train, class... Data>
Launch make_launch(ObjectRef<Data>... data) {
  using Host = TrialHost<Train, Data...>;
  return [refs = std::make_tuple(std::move(data)...)](const TrialSetup& setup, const mobula::Options& needs) {
    return std::unique_ptr<Attempt>(std::make_unique<ActorAttempt<Host, Data...>>(setup, needs, refs));
  };
}

Outcome run_experiment(RunOptions options, const std::string& trainable, const Launch& launch);
std::vector<std::byte> load_value(const std::filesystem::path& trial_folder);
[[noreturn]] void throw_no_best(const Outcome& outcome);
// "train" out of "my::train", fit for a folder's name.
std::string trainable_name(std::string_view spelling);

template <class T>
ObjectRef<T> as_ref(const ObjectRef<T>& ref) {
  return ref;
}
template <class T>
ObjectRef<T> as_ref(const T& value) {
  return put(value);
}

}  // namespace detail

// The outcome, and the values that the trials returned.
template <class R>
class RunResult : public Outcome {
 public:
  explicit RunResult(Outcome outcome) : Outcome(std::move(outcome)) {}

  // Throws Invalid, with what happened to the trials, when none has a finite value of the metric.
  const TrialResult& best_trial() const {
    if (!best) detail::throw_no_best(*this);
    return trials[*best];
  }
  // What the function of `trial` returned; throws Invalid when it did not return.
  R value(const TrialResult& trial) const requires(!std::is_void_v<R>) {
    return detail::decode_value<R>(detail::load_value(trial.folder));
  }
  R best_value() const requires(!std::is_void_v<R>) { return value(best_trial()); }
};

// Train: a function `R f(mobula::tune::Trial&, Data...)`, or a captureless lambda. Ctrl-C (and SIGTERM, SIGHUP) ends
// the run early where the program has not set a handler of its own: the journal is flushed, the trials are stopped, and
// the outcome says interrupted. Throws Invalid when options make no sense or a resumed experiment is another one.
template <auto Train, class... Data>
auto run(RunOptions options, const Data&... data) {
  using R = typename detail::TrainSignature<decltype(+Train)>::Value;
  return RunResult<R>(detail::run_experiment(std::move(options),
                                             detail::trainable_name(mobula::detail::value_text<Train>()),
                                             detail::make_launch<Train>(detail::as_ref(data)...)));
}

}  // namespace mobula::tune
