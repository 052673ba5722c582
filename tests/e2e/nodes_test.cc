// Clusters of several machines, each with a network, a file system and processes of its own (namespaces.h): what a
// newcomer does on three computers, and what happens when one of them dies or falls silent.

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/namespaces.h"
#include "tests/skip.h"

namespace mobula::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kDataset = "/usr/share/datasets";
constexpr const char* kClusterFile = "/root/cluster.json";
const fs::path kPrograms = fs::path(MOBULA_BINARY_DIR) / "bin/tests/programs";

// Machines a, b and c; only a has the build tree and the data set. Each node carries a resource named like its machine.
struct Cluster {
  explicit Cluster(int cpus = 2) : cpus_(std::to_string(cpus)) {
    const Output started =
        a.run({"mobula", "start", "--head", "--node-ip-address", a.address(), "--cluster-file", kClusterFile,
               "--num-cpus", cpus_, "--object-store-memory", "600000000", "--resources", "a=10", "--json"});
    INFO(started.text);
    REQUIRE(started.status == 0);
    head = nlohmann::json::parse(started.text).at("address");
    CHECK(head.rfind(a.address() + ":", 0) == 0);
  }

  // All that another machine is given: a copy of the cluster file, and where its address leads nowhere, another.
  void give_file(const Machine& to, const std::string& address = {}) {
    auto file = nlohmann::json::parse(std::ifstream(a.file(kClusterFile)));
    if (!address.empty()) file["address"] = address;
    std::ofstream(to.file(kClusterFile)) << file.dump();
    fs::permissions(to.file(kClusterFile), fs::perms::owner_read | fs::perms::owner_write);
  }

  void join(Machine& machine, const std::string& resources, Words more = {}) {
    Words words{"mobula",  "start",  "--cluster-file",        kClusterFile, "--num-cpus", cpus_, "--resources",
                resources, "--json", "--object-store-memory", "600000000"};
    words.insert(words.end(), more.begin(), more.end());
    const Output started = machine.run(words);
    INFO(started.text);
    REQUIRE(started.status == 0);
  }

  void join_both() {
    give_file(b);
    join(b, "b=10");
    give_file(c);
    join(c, "c=10");
  }

  Output mobula(Machine& machine, Words words) {
    words.insert(words.begin(), "mobula");
    words.insert(words.end(), {"--cluster-file", kClusterFile});
    return machine.run(words);
  }

  std::size_t count_nodes(const std::string& state) {
    const Output listed = mobula(a, {"list", "nodes", "--json", "--filter", "state=" + state});
    if (listed.status != 0) return 0;
    return nlohmann::json::parse(listed.text).at("rows").size();
  }

  Words program(const std::string& name, const Words& arguments) {
    Words words{"env", std::string("MOBULA_CLUSTER_FILE=") + kClusterFile, (kPrograms / name).string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }

  void expect_ok(const Words& words, const std::string& line, Machine& machine) {
    const Output output = machine.run(words, 60s);
    INFO(output.text);
    CHECK(output.status == 0);
    CHECK(output.text.find(line) != std::string::npos);
  }
  void expect_ok(const Words& words, const std::string& line) { expect_ok(words, line, a); }

  const std::vector<fs::path> nothing_of_ours{MOBULA_SOURCE_DIR, MOBULA_BINARY_DIR, kDataset};
  Network network;
  Machine& a = network.add("a");
  Machine& b = network.add("b", nothing_of_ours);
  Machine& c = network.add("c", nothing_of_ours);
  std::string head;

 private:
  std::string cpus_;
};

bool cannot_run() {
  const auto why = why_no_machines();
  if (why) skip(*why);
  return why.has_value();
}

}  // namespace

TEST_CASE("three machines that share nothing but a copied cluster file") {
  if (cannot_run()) return;
  Cluster cluster;
  cluster.give_file(cluster.b);
  cluster.join(cluster.b, "b=10");
  cluster.give_file(cluster.c, "127.0.0.1:9");
  cluster.join(cluster.c, "c=10", {"--address", cluster.head});
  REQUIRE(eventually(10s, [&] { return cluster.count_nodes("alive") == 3; }));

  for (Machine* machine : {&cluster.a, &cluster.b, &cluster.c}) {
    CAPTURE(machine->name());
    // The file of c names an address that leads nowhere.
    const Words address = machine == &cluster.c ? Words{"--address", cluster.head} : Words{};
    for (Words words : {Words{"status", "--json"}, Words{"list", "nodes", "--json"}, Words{"doctor", "--json"}}) {
      CAPTURE(words.front());
      words.insert(words.end(), address.begin(), address.end());
      const Output output = cluster.mobula(*machine, words);
      INFO(output.text);
      CHECK(output.status == 0);
      const auto answer = nlohmann::json::parse(output.text, nullptr, false);
      CHECK_FALSE(answer.is_discarded());
      if (words.front() == "list") CHECK(answer.value("total", 0) == 3);
      CHECK(output.text.find("PROBLEM") == std::string::npos);
    }
  }

  SUBCASE("tasks, actors, large objects, programs and libraries travel") {
    cluster.expect_ok(cluster.program("nodes_program", {"spread"}), "spread: ok");
    cluster.expect_ok(
        cluster.program("nodes_program", {"library", MOBULA_BINARY_DIR "/bin/tests/libraries/libplugin.so"}),
        "library: ok");
  }
  SUBCASE("an actor left behind answers another program, here and there") {
    for (const char* node : {"a", "b"}) {
      cluster.expect_ok(cluster.program("nodes_program", {"leave", node}), "leave: ok");
      cluster.expect_ok(cluster.program("visitor_program", {std::string("counter-") + node}), "visit: ok");
    }
  }
}

TEST_CASE("a machine that falls silent is declared dead, and its tasks run elsewhere") {
  if (cannot_run()) return;
  Cluster cluster;
  cluster.give_file(cluster.b);
  cluster.join(cluster.b, "b=10,lane=1");
  cluster.give_file(cluster.c);
  cluster.join(cluster.c, "c=10,lane=1");
  const auto driver = cluster.a.start(cluster.program("nodes_program", {"cut"}));
  const bool begun = eventually(30s, [&] { return driver->text().find("cut c now") != std::string::npos; });
  INFO(driver->text());
  REQUIRE(begun);
  cluster.network.cut(cluster.c);
  CHECK(eventually(15s, [&] { return cluster.count_nodes("alive") == 2; }));
  CHECK(cluster.count_nodes("dead") == 1);
  const Output output = driver->wait(40s);
  INFO(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.find("cut: ok") != std::string::npos);
}

TEST_CASE("the quickstart on three machines, one of which dies in the middle") {
  if (cannot_run()) return;
  if (!fs::exists(kDataset)) return skip("needs the data set: run ./examples/setup.sh");
  Cluster cluster(1);
  cluster.join_both();
  const auto driver = cluster.a.start({MOBULA_BINARY_DIR "/bin/examples/quickstart", "--cluster-file", kClusterFile,
                                       "--address", cluster.head, "--results", "/root/results", "--name", "nodes",
                                       "--trials", "6", "--epochs", "3"});
  // As soon as a trial runs on b, the machine goes.
  const std::string started = "started on " + cluster.b.address() + ":";
  const bool begun = eventually(60s, [&] { return driver->text().find(started) != std::string::npos; });
  INFO(driver->text());
  REQUIRE(begun);
  cluster.b.kill();
  const Output output = driver->wait(120s);
  INFO(output.text);
  CHECK(output.status == 0);
  CHECK(output.text.find("test accuracy: 0.") != std::string::npos);
  CHECK(output.text.find("1 restarted") != std::string::npos);
  CHECK(output.text.find("2 nodes ran trials") != std::string::npos);
  CHECK(eventually(10s, [&] { return cluster.count_nodes("alive") == 2; }));
}

}  // namespace mobula::testing
