// What encoding and decoding cost: nanoseconds and bytes a message, alone and in a list of 100.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/wire/codec.h"

namespace mobula {
namespace {

constexpr int kRounds = 5;
constexpr auto kRound = std::chrono::milliseconds(40);

// Best of a few rounds, in nanoseconds a call of `work`.
double best_ns(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    std::size_t calls = 0;
    auto end = start;
    while (end - start < kRound) {
      for (int i = 0; i < 16; ++i) work();
      calls += 16;
      end = Clock::now();
    }
    best = std::min(best, std::chrono::duration<double, std::nano>(end - start).count() / static_cast<double>(calls));
  }
  return best;
}

void measure(const char* name, const Message& message, std::size_t count) {
  std::vector<Envelope> envelopes(count);
  for (Envelope& envelope : envelopes) envelope.message = message;
  const Bytes frame = wire::encode(envelopes).value();
  std::vector<std::byte> buffer;
  const double appended = best_ns([&] {
    buffer.clear();
    MOBULA_CHECK(wire::append(envelopes, buffer).ok());
  });
  const double encoded = best_ns([&] { MOBULA_CHECK(wire::encode(envelopes).ok()); });
  std::vector<Envelope> out;
  const double decoded = best_ns([&] { MOBULA_CHECK(wire::decode(frame, out).ok()); });
  const double n = static_cast<double>(count);
  std::printf("%-34s x%-4zu %9.1f ns append %9.1f ns encode %9.1f ns decode %8zu bytes\n", name, count, appended / n,
              encoded / n, decoded / n, frame.size() / count);
}

PushCalls push_of(std::size_t calls, std::size_t value_bytes) {
  PushCalls push;
  push.lease = {1, 2};
  push.calls.resize(calls);
  std::uint64_t sequence = 0;
  for (Call& call : push.calls) {
    call.task = {1, ++sequence};
    call.first_return = {1, ++sequence};
    call.arguments.emplace_back(InlineValue{Bytes::adopt(std::vector<std::byte>(value_bytes)), {}});
  }
  return push;
}

CallsDone done_of(std::size_t results, std::size_t value_bytes) {
  CallsDone done;
  done.results.resize(results);
  for (CallResult& result : done.results) {
    result.task = {1, 7};
    result.returns.emplace_back(InlineValue{Bytes::adopt(std::vector<std::byte>(value_bytes)), {}});
  }
  return done;
}

PushCalls push_of_refs(std::size_t count) {
  PushCalls push = push_of(1, 8);
  auto& value = std::get<InlineValue>(push.calls[0].arguments[0]);
  for (std::uint64_t i = 0; i < count; ++i) value.refs.push_back({{9, i}, NodeId{1}, JobId{2}});
  return push;
}

}  // namespace
}  // namespace mobula

int main() {
  using namespace mobula;
  const WorkerBlocked small{LeaseId{1, 2}};
  measure("WorkerBlocked", small, 1);
  measure("WorkerBlocked", small, 100);
  measure("PushCalls, 1 call of 16 bytes", push_of(1, 16), 1);
  measure("PushCalls, 1 call of 16 bytes", push_of(1, 16), 100);
  measure("PushCalls, 100 calls of 16 bytes", push_of(100, 16), 1);
  measure("CallsDone, 1 result of 16 bytes", done_of(1, 16), 1);
  measure("CallsDone, 100 results of 16 bytes", done_of(100, 16), 1);
  measure("CallsDone, 1 result of 64 KiB", done_of(1, 64 * 1024), 1);
  measure("PushCalls, 10000 refs", push_of_refs(10000), 1);
  measure("Heartbeat", Heartbeat{}, 1);
}
