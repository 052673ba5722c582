// The mobula binary: command line, head and node.

#include <CLI/CLI.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/jobs.h"

namespace {

using namespace mobula::cli;  // NOLINT(google-build-using-namespace): this file is the commands' wiring
using mobula::daemon::DaemonOptions;

// "k=v,k=v" and repeated options alike.
std::vector<std::pair<std::string, std::string>> pairs_of(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw CLI::ValidationError(text, "give it as name=value");
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return pairs;
}

void add_node(CLI::App* app, DaemonOptions& daemon, std::vector<std::string>& resources,
              std::vector<std::string>& labels) {
  app->add_option("--address", daemon.address, "HOST:PORT of the head to join");
  app->add_option("--cluster-file", daemon.cluster_file, "cluster file (default: ~/.mobula/cluster.json)");
  app->add_option("--node-ip-address", daemon.node_ip_address, "address to listen on (default: loopback)");
  app->add_option("--advertise", daemon.advertise, "address that others are told instead");
  app->add_option("--port-range", daemon.port_range, "ports to choose from, A-B (default: the kernel's choice)");
  app->add_option("--store", daemon.store, "folder of the head's records");
  app->add_option("--num-cpus", daemon.cpus, "CPUs to offer (default: the machine's)");
  app->add_option("--num-gpus", daemon.gpus, "GPUs to offer");
  app->add_option("--memory", daemon.memory, "bytes of memory to offer")->transform(CLI::AsSizeValue(false));
  app->add_option("--object-store-memory", daemon.object_store_memory, "bytes of shared memory for objects")
      ->transform(CLI::AsSizeValue(false));
  app->add_option("--resources", resources, "custom resources, name=number,...")->delimiter(',');
  app->add_option("--labels", labels, "node labels, name=value,...")->delimiter(',');
  app->add_option("--log-dir", daemon.log_dir, "folder for logs");
  app->add_option("--spill-dir", daemon.spill_dir, "folder for objects that do not fit memory");
  app->add_flag("--insecure", daemon.insecure, "no secret: anybody who reaches the port may run code (loopback only)");
}

void resolve_pairs(DaemonOptions& daemon, const std::vector<std::string>& resources,
                   const std::vector<std::string>& labels) {
  for (const auto& [name, value] : pairs_of(resources)) {
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (end == value.c_str() || *end != '\0')
      throw CLI::ValidationError("--resources " + name, "give it as name=number");
    daemon.resources.emplace_back(name, number);
  }
  daemon.labels = pairs_of(labels);
}

struct Commands {
  CLI::App app{"Mobula: a distributed actor runtime for machine learning"};
  int code = kOk;
  ClusterOptions cluster;
  TableOptions table;
  bool json = false;

  StartOptions start_options;
  void start() {
    auto* command = app.add_subcommand("start", "start a head and a node beside it, or a node that joins");
    command->footer(
        "Example: mobula start --head --num-cpus 4\n         mobula start --address 10.0.0.1:6379 --cluster-file "
        "cluster.json");
    command->add_flag("--head", start_options.head, "run the head here");
    command->add_option("--port", start_options.port,
                        "the head's port (default: the store's, then the kernel's choice)");
    command->add_flag("--block", start_options.block, "stay in the foreground; end the daemons when ended");
    command->add_flag("--json", start_options.json);
    add_node(command, start_options.daemon, start_options.resources, start_options.labels);
    command->callback([this] {
      DaemonOptions checked;
      resolve_pairs(checked, start_options.resources, start_options.labels);
      if (start_options.head && !start_options.daemon.address.empty()) {
        throw CLI::ValidationError("--address", "joins another head: it does not go with --head");
      }
      code = mobula::cli::start(start_options);
    });
  }

  StopOptions stop_options;
  void stop() {
    auto* command = app.add_subcommand("stop", "end this cluster's daemons on this machine");
    command->footer("Example: mobula stop --cluster-file cluster.json");
    command->add_flag("--all", stop_options.all, "every cluster of this user");
    command->add_flag("--json", stop_options.json);
    add_cluster_options(command, stop_options.cluster);
    command->callback([this] { code = mobula::cli::stop(stop_options); });
  }

  CLI::App* question(const char* name, const char* text, const char* example) {
    auto* command = app.add_subcommand(name, text);
    command->footer(std::string("Example: mobula ") + example);
    add_cluster_options(command, cluster);
    command->add_flag("--json", json, "JSON instead of a table");
    return command;
  }

  std::string what;
  std::string id;
  std::string role;
  std::string out;
  void questions() {
    question("status", "what the cluster has and does", "status")->callback([this] { code = status(cluster, json); });
    auto* rows = question("list", "rows of what there is", "list actors --filter state=alive --sort name");
    rows->add_option("what", what)
        ->required()
        ->check(CLI::IsMember({"nodes", "workers", "actors", "tasks", "objects", "jobs"}));
    rows->add_option("--filter", table.filters, "COLUMN=VALUE; may be repeated");
    rows->add_option("--sort", table.sort, "column");
    rows->add_option("--limit", table.limit, "rows to print")->capture_default_str();
    rows->callback([this] {
      table.json = json;
      code = mobula::cli::list(cluster, what, table);
    });
    auto* why =
        question("explain", "why a task, lease or actor does not run", "explain 0123456789abcdef:0000000000000001");
    why->add_option("id", id)->required();
    why->callback([this] { code = explain(cluster, id, json); });
    auto* end = question("kill", "end an actor, worker or job", "kill 0123456789abcdef:0000000000000001");
    end->add_option("id", id)->required();
    end->callback([this] { code = mobula::cli::kill(cluster, id, json); });
    auto* key = question("key", "make a file with a lesser key", "key --role viewer --out viewer.json");
    key->add_option("--role", role)->required()->check(CLI::IsMember({"client", "viewer"}));
    key->add_option("--out", out)->required();
    key->callback([this] { code = make_key(cluster, role, out, json); });
    question("doctor", "what is bound where, file modes, versions, reachability", "doctor")->callback([this] {
      code = doctor(cluster, json);
    });
  }

  BenchOptions bench_options;
  BenchPartOptions part;
  void benches() {
    auto* command = app.add_subcommand("bench", "measure a running cluster against the limits of this machine");
    command->footer("Example: mobula bench --rows 'actor|Unix' --seconds 3 --json");
    command->add_option("--rows", bench_options.rows, "only what this regular expression finds (ECMAScript)");
    command->add_option("--seconds", bench_options.seconds, "of each row, its three rounds together")
        ->check(CLI::Range(0.03, 3600.0))
        ->capture_default_str();
    command->add_flag("--json", bench_options.json, "a JSON line for each row");
    command->callback([this] { code = bench(bench_options); });
    auto* one = app.add_subcommand("bench-part", "one measurement in a process of its own")->group("");
    one->add_option("--limit", part.limit);
    one->add_option("--seconds", part.seconds);
    one->add_flag("--start-up", part.start_up);
    one->callback([this] { code = bench_part(part); });
  }

  DaemonOptions daemon;
  std::vector<std::string> resources;
  std::vector<std::string> labels;
  bool head = false;
  bool single = false;
  void daemons() {
    auto* command = app.add_subcommand("daemon", "what other commands start")->group("");
    command->add_flag("--head", head);
    command->add_flag("--private", single);
    command->add_flag("--head-node", daemon.is_head_node);
    command->add_option("--driver-pid", daemon.driver_pid);
    command->add_option("--ready-fd", daemon.ready_fd);
    add_node(command, daemon, resources, labels);
    command->callback([this] {
      daemon.kind = single ? DaemonOptions::Kind::kPrivate
                    : head ? DaemonOptions::Kind::kHead
                           : DaemonOptions::Kind::kNode;
      resolve_pairs(daemon, resources, labels);
      code = mobula::daemon::run_daemon(daemon);
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  Commands commands;
  commands.app.require_subcommand(1);
  commands.app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the head cannot be reached, 4 refused, 5 not found; for jobs "
      "also 6 it was stopped, 7 it has not ended in time.");
  commands.start();
  commands.stop();
  commands.questions();
  add_job_commands(commands.app, commands.code);
  commands.benches();
  commands.daemons();
  try {
    commands.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = commands.app.exit(error);
    return code == 0 ? kOk : kUsage;
  }
  return commands.code;
}
