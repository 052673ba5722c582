// A submitter in a test: events in, what it says and sends out, check() after every step.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "scheduler/submitter.h"
#include "tests/actions.h"

namespace mobula::scheduler::test {

using namespace std::chrono_literals;

constexpr JobId kJob{7};
constexpr NodeId kHere{1};
constexpr NodeId kThere{2};
const ProcessAddress kSelf{ProcessId{10}, kHere, kJob};
const Peer kNode = Peer::of(kHere);

inline ProcessAddress worker(std::uint64_t id, NodeId node = kHere) {
  return {ProcessId{id}, node, kJob};
}
inline TaskId task(std::uint64_t sequence) {
  return {10, sequence};
}
inline LeaseId lease(std::uint64_t sequence) {
  return {10, sequence};
}
inline ErrorInfo died() {
  return make_error(ErrorKind::kWorkerDied, "signal 9");
}

struct SubmitterFixture {
  Submitter submitter{[] {
    SubmitterConfig config;
    config.self = kSelf;
    return config;
  }()};
  Instant now{1'000'000'000};
  SubmitterActions actions;
  std::map<std::uint32_t, SpecRef> specs;

  SubmitterActions& step(std::vector<SubmitterEvent> events) {
    actions = {};
    submitter.step(now, events, actions);
    submitter.flush(now, actions);
    submitter.check();
    return actions;
  }
  SubmitterActions& receive(const Peer& from, Message message) { return step({Received{from, std::move(message)}}); }
  // Ticks at every deadline of that time; keeps what all of them said.
  SubmitterActions& pass(Duration duration) {
    const Instant end = now + duration;
    SubmitterActions all;
    while (submitter.next_deadline() <= end) {
      now = std::max(now, submitter.next_deadline());
      step({Tick{}});
      for (Send& send : actions.sends) all.sends.push_back(std::move(send));
      for (SubmitterOutput& output : actions.outputs) all.outputs.push_back(std::move(output));
    }
    now = end;
    actions = std::move(all);
    return actions;
  }

  template <class M>
  std::vector<M> sent(const Peer& to) const {
    return testing::sent_to<M>(actions.sends, to);
  }
  template <class O>
  std::vector<O> outputs() const {
    return testing::those<O>(actions.outputs);
  }
  // The tasks pushed to `to` by the last step, in order.
  std::vector<std::uint64_t> pushed(std::uint64_t to) const {
    std::vector<std::uint64_t> tasks;
    for (const PushCalls& push : sent<PushCalls>(worker(to).peer())) {
      for (const Call& call : push.calls) tasks.push_back(call.task.sequence);
    }
    return tasks;
  }
  Call last_call(std::uint64_t to) const { return sent<PushCalls>(worker(to).peer()).back().calls.back(); }
  // Each settled call: its sequence, and "" or the name of its error.
  std::vector<std::pair<std::uint64_t, std::string>> settled() const {
    std::vector<std::pair<std::uint64_t, std::string>> calls;
    for (const CallSettled& call : outputs<CallSettled>()) {
      calls.emplace_back(call.task.sequence, call.error ? name_of(call.error->kind) : "");
    }
    return calls;
  }

  SpecRef& spec(std::uint32_t number, std::int32_t max_retries = 0) {
    SpecRef& ref = specs[number];
    if (!ref.spec) {
      CallSpec made;
      made.name = "work";
      made.max_retries = max_retries;
      ref = SpecRef{number, std::make_shared<const CallSpec>(made)};
    }
    return ref;
  }
  SubmitTask submit(std::uint64_t sequence, std::int32_t max_retries = 0) {
    SubmitTask event;
    event.task = task(sequence);
    event.spec = spec(max_retries == 0 ? 1 : 2, max_retries);
    event.first_return = ObjectId{10, 100 + sequence};
    return event;
  }
  std::vector<SubmitterEvent> tasks(std::uint64_t first, std::uint64_t last, std::int32_t max_retries = 0) {
    std::vector<SubmitterEvent> events;
    for (std::uint64_t i = first; i <= last; ++i) events.emplace_back(submit(i, max_retries));
    return events;
  }
  SubmitterActions& grant(std::uint64_t sequence, std::uint64_t to, NodeId node = kHere) {
    return receive(Peer::of(node), LeaseGranted{lease(sequence), worker(to, node), {}});
  }
  static CallResult result(std::uint64_t sequence, std::uint32_t attempt = 0, std::uint64_t run_ns = 100'000) {
    CallResult done;
    done.task = task(sequence);
    done.attempt = attempt;
    done.returns.emplace_back(InlineValue{Bytes::copy_of("v"), {}});
    done.run_ns = run_ns;
    return done;
  }
  SubmitterActions& done(std::uint64_t from, std::vector<CallResult> results) {
    return receive(worker(from).peer(), CallsDone{std::move(results)});
  }
};

}  // namespace mobula::scheduler::test
