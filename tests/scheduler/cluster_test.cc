#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/scheduler/cluster_fixture.h"

namespace mobula::scheduler::test {

namespace {

std::uint64_t seeds() {
  const char* text = std::getenv("MOBULA_TEST_SEEDS");
  return text == nullptr ? 12 : std::strtoull(text, nullptr, 10);
}

void run_all(Cluster::Options options) {
  const bool faulty = options.worker_deaths || options.link_breaks || options.node_deaths || options.head_restarts;
  std::size_t faults = 0;
  std::size_t answered = 0;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    CAPTURE(seed);
    options.seed = seed;
    Cluster cluster(options);
    CHECK(cluster.run(90s));
    CHECK(cluster.quiet(20s));
    CHECK(cluster.drain(60s));
    faults += cluster.faults_made();
    answered += cluster.answered();
  }
  CHECK(answered >= seeds() * options.drivers * options.leases_each);
  CHECK((faults > seeds()) == faulty);
}

}  // namespace

TEST_CASE("everything that is asked for is answered, and nothing is left behind") {
  run_all({});
}

TEST_CASE("also when drivers live on nodes without CPUs") {
  Cluster::Options options;
  options.zero_cpu_homes = true;
  run_all(options);
}

TEST_CASE("also when workers die and spawns fail") {
  Cluster::Options options;
  options.worker_deaths = true;
  run_all(options);
}

TEST_CASE("also when links break") {
  Cluster::Options options;
  options.zero_cpu_homes = true;
  options.link_breaks = true;
  run_all(options);
}

TEST_CASE("also when nodes die and come back as others") {
  Cluster::Options options;
  options.zero_cpu_homes = true;
  options.node_deaths = true;
  run_all(options);
}

TEST_CASE("also when the head restarts from its store") {
  Cluster::Options options;
  options.head_restarts = true;
  run_all(options);
}

TEST_CASE("also when all of it happens at once") {
  Cluster::Options options;
  options.nodes = 5;
  options.drivers = 3;
  options.zero_cpu_homes = true;
  options.worker_deaths = options.link_breaks = options.node_deaths = options.head_restarts = true;
  run_all(options);
}

TEST_CASE("two jobs on nodes without CPUs share what others have") {
  Cluster::Options options;
  options.nodes = 2;
  options.leases_each = 100'000;
  options.actors_each = 0;
  options.zero_cpu_homes = true;
  Cluster cluster(options);
  cluster.hold_for(20s, 30s);  // as long as nobody calls them back
  CHECK_FALSE(cluster.run(20s));
  const std::size_t one = cluster.granted_to(JobId{1});
  const std::size_t two = cluster.granted_to(JobId{2});
  CHECK(one > 0);
  CHECK(two > 0);
  CHECK(cluster.drain(60s));
}

}  // namespace mobula::scheduler::test
