// The mobula binary: command line, head and node.

#include <CLI/CLI.hpp>

#include "runtime/daemon/daemon_main.h"

namespace {

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

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Mobula: a distributed actor runtime for machine learning"};
  app.require_subcommand(1);

  DaemonOptions daemon;
  std::vector<std::string> resources;
  std::vector<std::string> labels;
  bool head = false;
  bool single = false;
  auto* run = app.add_subcommand("daemon", "what other commands start")->group("");
  run->add_flag("--head", head);
  run->add_flag("--private", single);
  run->add_flag("--head-node", daemon.is_head_node);
  run->add_flag("--insecure", daemon.insecure);
  run->add_option("--cluster-file", daemon.cluster_file);
  run->add_option("--address", daemon.address);
  run->add_option("--node-ip-address", daemon.node_ip_address);
  run->add_option("--advertise", daemon.advertise);
  run->add_option("--port-range", daemon.port_range);
  run->add_option("--store", daemon.store);
  run->add_option("--num-cpus", daemon.cpus);
  run->add_option("--num-gpus", daemon.gpus);
  run->add_option("--memory", daemon.memory);
  run->add_option("--object-store-memory", daemon.object_store_memory);
  run->add_option("--resources", resources)->delimiter(',');
  run->add_option("--labels", labels)->delimiter(',');
  run->add_option("--log-dir", daemon.log_dir);
  run->add_option("--spill-dir", daemon.spill_dir);
  run->add_option("--driver-pid", daemon.driver_pid);
  run->add_option("--ready-fd", daemon.ready_fd);
  CLI11_PARSE(app, argc, argv);

  daemon.kind = single ? DaemonOptions::Kind::kPrivate : head ? DaemonOptions::Kind::kHead : DaemonOptions::Kind::kNode;
  for (const auto& [name, value] : pairs_of(resources)) daemon.resources.emplace_back(name, std::stod(value));
  daemon.labels = pairs_of(labels);
  return mobula::daemon::run_daemon(daemon);
}
