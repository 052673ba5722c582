// Commands that ask the head.

#include <iostream>
#include <map>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/cli/commands.h"
#include "runtime/process/host_info.h"
#include "runtime/process/session_dir.h"

namespace mobula::cli {
namespace {

Result<QueryReply> ask(const ClusterOptions& cluster, QueryKind kind, const std::string& target) {
  auto client = Client::open(cluster);
  if (!client) return client.error();
  Query query;
  query.kind = kind;
  query.target = target;
  auto reply = (*client)->ask<QueryReply>(std::move(query));
  if (reply && reply->error) return *reply->error;
  return reply;
}

int ask_and_print(const ClusterOptions& cluster, QueryKind kind, const std::string& target,
                  const TableOptions& options) {
  auto reply = ask(cluster, kind, target);
  if (!reply) return report(reply.error(), options.json);
  return print_table(*std::move(reply), options);
}

}  // namespace

int status(const ClusterOptions& cluster, bool json) {
  auto reply = ask(cluster, QueryKind::kStatus, "");
  if (!reply) return report(reply.error(), json);
  if (json) {
    nlohmann::json out = nlohmann::json::object();
    for (const auto& row : reply->rows) out[row.at(0)] = row.at(1);
    std::cout << out.dump() << std::endl;
    return kOk;
  }
  TableOptions options;
  options.limit = 1000;
  return print_table(*std::move(reply), options);
}

int list(const ClusterOptions& cluster, const std::string& what, const TableOptions& options) {
  static const std::map<std::string, QueryKind> kinds{
      {"nodes", QueryKind::kNodes}, {"workers", QueryKind::kWorkers}, {"actors", QueryKind::kActors},
      {"tasks", QueryKind::kTasks}, {"objects", QueryKind::kObjects}, {"jobs", QueryKind::kJobs}};
  return ask_and_print(cluster, kinds.at(what), "", options);
}

int explain(const ClusterOptions& cluster, const std::string& id, bool json) {
  TableOptions options;
  options.json = json;
  options.limit = 10000;
  return ask_and_print(cluster, QueryKind::kExplain, id, options);
}

int kill(const ClusterOptions& cluster, const std::string& id, bool json) {
  TableOptions options;
  options.json = json;
  return ask_and_print(cluster, QueryKind::kKill, id, options);
}

int make_key(const ClusterOptions& cluster, const std::string& role, const std::string& out, bool json) {
  auto file = net::load_cluster_file(cluster_file_path(cluster));
  if (!file) return report(file.error(), json);
  Rng rng(random_seed());
  auto leaf = net::leaf_for(*file, role == "viewer" ? Role::kViewer : Role::kClient, {}, rng.id());
  if (!leaf) return report(leaf.error(), json);
  net::ClusterFile made;
  made.cluster = file->cluster;
  made.address = file->address;
  made.epoch = file->epoch;
  made.leaf = *leaf;
  if (Status status = net::create_cluster_file(out, made); !status) return report(status.error(), json);
  if (json) {
    std::cout << nlohmann::json{{"file", out}, {"role", role}}.dump() << std::endl;
  } else {
    std::cout << "Wrote " << out << ": a " << role << " key of cluster " << to_string(file->cluster)
              << ". Give it away as a --cluster-file; it cannot start nodes." << std::endl;
  }
  return kOk;
}

int doctor(const ClusterOptions& cluster, bool json) {
  QueryReply reply;
  reply.columns = {"node", "check", "result", "detail"};
  const std::string path = cluster_file_path(cluster);
  const auto add = [&](const std::string& check, bool fine, const std::string& detail) {
    reply.rows.push_back({"here", check, fine ? "ok" : "PROBLEM", detail});
  };
  auto file = net::load_cluster_file(path);
  add("cluster file", file.ok(),
      file ? path + ", mode 0600, " + (file->key ? "cluster key" : "leaf key") : file.error().message);
  const process::HostInfo host = process::host_info();
  add("machine", true,
      host.hostname + ", " + std::to_string(host.cpus) + " CPUs, " + std::to_string(host.memory_available >> 20) +
          " of " + std::to_string(host.memory_total >> 20) + " MiB free, kernel " + host.kernel);
  for (const auto& session : process::find_sessions(file ? file->cluster : ClusterId{})) {
    add("session", session.alive,
        session.path + ", pid " + std::to_string(session.record.pid) + ", listens on " + session.record.endpoint +
            ", " + session.record.version);
  }
  bool head_answers = false;
  if (file) {
    auto answer = ask(cluster, QueryKind::kDoctor, "");
    head_answers = answer.ok();
    add("head", answer.ok(), answer ? "answers" : answer.error().message);
    if (answer) {
      for (auto& row : answer->rows) reply.rows.push_back(std::move(row));
      reply.notes = std::move(answer->notes);
    }
  }
  TableOptions options;
  options.json = json;
  options.limit = 100000;
  const int code = print_table(std::move(reply), options);
  return code != kOk ? code : head_answers ? kOk : kHeadUnreachable;
}

}  // namespace mobula::cli
