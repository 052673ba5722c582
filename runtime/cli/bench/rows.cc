#include "runtime/cli/bench/rows.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobula/mobula.h>

#include "runtime/cli/bench/stopwatch.h"

namespace mobula::cli {
namespace {

constexpr int kBatch = 1000;
constexpr std::size_t kLarge = std::size_t{64} << 20;
constexpr double kLargeGiB = 64.0 / 1024;
constexpr std::uint32_t kManyReturns = 3000;
constexpr int kManyObjects = 10'000;
constexpr int kManyTasks = 100'000;

int one() {
  return 1;
}

int count_all(const std::vector<ObjectRef<int>>& refs) {
  int count = 0;
  for (const int value : get(refs)) count += value;
  return count;
}

std::vector<int> many_values() {
  return std::vector<int>(kManyReturns, 1);
}

class Server {
 public:
  int ping() { return 1; }
};

// `count` calls, spread over the servers.
void call_all(const std::vector<Actor<Server>>& servers, int count) {
  std::vector<ObjectRef<int>> refs;
  refs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    refs.push_back(servers[static_cast<std::size_t>(i) % servers.size()].call<&Server::ping>());
  }
  get(refs);
}

std::vector<Actor<Server>> make_servers(int count) {
  std::vector<Actor<Server>> servers;
  std::vector<ObjectRef<int>> first;
  for (int i = 0; i < count; ++i) {
    servers.push_back(actor<Server>());
    first.push_back(servers.back().call<&Server::ping>());
  }
  get(first);
  return servers;
}

// ---- calls ---------------------------------------------------------------------------------------------------------

double tasks_sync(double seconds) {
  get(remote<one>());
  return rate_of(1, seconds, [] { return get(remote<one>()) == 1; });
}

double tasks_async(double seconds) {
  get(remote<one>());
  return rate_of(kBatch, seconds, [] {
    std::vector<ObjectRef<int>> refs;
    for (int i = 0; i < kBatch; ++i) refs.push_back(remote<one>());
    get(refs);
    return true;
  });
}

double actor_sync(double seconds) {
  const auto servers = make_servers(1);
  return rate_of(1, seconds, [&] { return get(servers[0].call<&Server::ping>()) == 1; });
}

double actor_async(double seconds, int count) {
  const auto servers = make_servers(count);
  return rate_of(kBatch, seconds, [&] {
    call_all(servers, kBatch);
    return true;
  });
}

double many_to_many(double seconds) {
  const auto servers = make_servers(2);
  const auto round = [&] {
    std::vector<ObjectRef<void>> clients{remote<call_all>(servers, kBatch), remote<call_all>(servers, kBatch)};
    get(clients);
    return true;
  };
  round();
  return rate_of(2.0 * kBatch, seconds, round);
}

double wait_for_many(double seconds) {
  get(remote<one>());
  return rate_of(1, seconds, [] {
    std::vector<ObjectRef<int>> refs;
    for (int i = 0; i < kBatch; ++i) refs.push_back(remote<one>());
    while (!refs.empty()) refs = wait(std::move(refs)).pending;
    return true;
  });
}

double actor_cycle(double seconds) {
  return rate_of(1, seconds, [] {
    const auto server = actor<Server>();
    get(server.call<&Server::ping>());
    kill(server);
    return true;
  });
}

// ---- values --------------------------------------------------------------------------------------------------------

double get_calls(double seconds) {
  const auto small = put(1);
  return rate_of(1, seconds, [&] { return get(small) == 1; });
}

double put_calls(double seconds) {
  return rate_of(1, seconds, [] {
    put(1);
    return true;
  });
}

double put_large(double seconds) {
  const std::vector<std::uint8_t> large(kLarge, 1);
  put(large);
  return rate_of(kLargeGiB, seconds, [&] {
    put(large);
    return true;
  });
}

double get_large(double seconds) {
  const auto large = put(Array<std::uint8_t>({kLarge}));
  return rate_of(kLargeGiB, seconds, [&] { return get(large).size() == kLarge; });
}

// ---- wide calls: seconds for one -----------------------------------------------------------------------------------

double many_arguments(double) {
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < kManyObjects; ++i) refs.push_back(put(1));
  const Stopwatch watch;
  if (get(remote<count_all>(refs)) != kManyObjects) return 0;
  return watch.seconds();
}

double many_returns(double) {
  const Stopwatch watch;
  const std::vector<ObjectRef<int>> refs = remote<many_values>.returns(kManyReturns)();
  get(refs);
  return watch.seconds();
}

double many_gets(double) {
  std::vector<ObjectRef<std::vector<double>>> refs;
  for (int i = 0; i < kManyObjects; ++i) refs.push_back(put(std::vector<double>(1)));
  const Stopwatch watch;
  get(refs);
  return watch.seconds();
}

double many_tasks(double) {
  const Stopwatch watch;
  std::vector<ObjectRef<int>> refs;
  refs.reserve(kManyTasks);
  for (int i = 0; i < kManyTasks; ++i) refs.push_back(remote<one>());
  get(refs);
  return watch.seconds();
}

std::optional<Runtime> runtime;  // NOLINT: rows are plain functions

}  // namespace

std::span<const BenchRow> bench_rows() {
  static constexpr const char* kSocket = "Unix socket round trip";
  static constexpr const char* kCopy = "copy into warm shared memory";
  static constexpr std::array<BenchRow, 16> rows = {{
      {"single client tasks sync", "1/s", kSocket, false, tasks_sync},
      {"single client tasks async", "1/s", kSocket, false, tasks_async},
      {"1:1 actor calls sync", "1/s", kSocket, false, actor_sync},
      {"1:1 actor calls async", "1/s", kSocket, false, [](double seconds) { return actor_async(seconds, 1); }},
      {"1:n actor calls async", "1/s", kSocket, false, [](double seconds) { return actor_async(seconds, 2); }},
      {"n:n actor calls async", "1/s", kSocket, false, many_to_many},
      {"single client get calls", "1/s", nullptr, false, get_calls},
      {"single client put calls", "1/s", nullptr, false, put_calls},
      {"single client put gigabytes", "GiB/s", kCopy, false, put_large},
      {"single client get gigabytes", "GiB/s", kCopy, false, get_large},
      {"single client wait 1k refs", "1/s", kSocket, false, wait_for_many},
      {"actor create, call, kill", "1/s", "process spawn and exit", false, actor_cycle},
      {"task with 10k ref arguments", "s", nullptr, false, many_arguments},
      {"task with 3k returns", "s", nullptr, false, many_returns},
      {"get of 10k objects", "s", nullptr, false, many_gets},
      {"100k queued tasks", "s", kSocket, true, many_tasks},
  }};
  return rows;
}

double start_up_once() {
  const Stopwatch watch;
  const Runtime own = init();
  get(remote<one>());
  return watch.seconds();
}

void join_for_bench(const std::string& cluster_file) {
  runtime.emplace(init({.cluster_file = cluster_file}));
  get(remote<one>());
}

void leave_after_bench() {
  runtime.reset();
}

}  // namespace mobula::cli
