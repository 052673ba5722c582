#include "runtime/cli/jobs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/protocol/submission.h"
#include "runtime/base/rng.h"
#include "runtime/cli/log_stream.h"
#include "runtime/cli/output.h"
#include "runtime/cli/patient_client.h"
#include "runtime/process/archive.h"

namespace mobula::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kLook = std::chrono::milliseconds(200);  // while a job waits for a node
constexpr Duration kTellWaiting = std::chrono::seconds(3);  // before it is said that it waits
constexpr Duration kWaitSlice = std::chrono::seconds(20);   // of one question that is answered at the end
constexpr Duration kStopWait = std::chrono::seconds(30);
constexpr unsigned kStuckMax = 5;
constexpr const char* kProgramFolder = ".mobula-program";

int exit_code_of_job(const SubmissionInfo& info) {
  switch (info.phase) {
    case SubmissionPhase::kSucceeded: return kOk;
    case SubmissionPhase::kFailed: return kFailed;
    case SubmissionPhase::kStopped: return kStopped;
    case SubmissionPhase::kPending:
    case SubmissionPhase::kRunning: break;
  }
  return kNotEnded;
}

std::string command_of(const SubmissionInfo& info) {
  std::string text;
  for (const std::string& word : info.argv) text += (text.empty() ? "" : " ") + word;
  return text;
}

void print(const SubmissionInfo& info, bool json) {
  if (json) {
    nlohmann::json out{{"submission", info.submission},
                       {"state", name_of(info.phase)},
                       {"command", info.argv},
                       {"message", info.message},
                       {"start_ms", info.start_time_ms}};
    out["node"] = info.node ? nlohmann::json(to_string(info.node)) : nlohmann::json();
    out["job"] = info.job ? nlohmann::json(to_string(info.job)) : nlohmann::json();
    out["exit_code"] = is_active(info) ? nlohmann::json() : nlohmann::json(info.exit_code);
    out["end_ms"] = is_active(info) ? nlohmann::json() : nlohmann::json(info.end_time_ms);
    std::cout << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    return;
  }
  std::cout << info.submission << " " << name_of(info.phase);
  if (info.phase == SubmissionPhase::kFailed && info.exit_code >= 0) std::cout << ", exit code " << info.exit_code;
  if (!info.message.empty()) std::cout << ": " << info.message;
  std::cout << "\n  command  " << command_of(info);
  if (info.node) std::cout << "\n  node     " << to_string(info.node);
  if (info.job) std::cout << "\n  job      " << to_string(info.job);
  if (!is_active(info)) std::cout << "\n  took     " << (info.end_time_ms - info.start_time_ms) / 1000 << " s";
  std::cout << std::endl;
}

// ---- what travels

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

// Programs of the system are the node's own, and taken from there.
bool belongs_to_system(const fs::path& path) {
  constexpr std::array kFolders{"/bin/", "/sbin/", "/usr/", "/lib/"};
  const std::string text = path.string();
  return std::any_of(kFolders.begin(), kFolders.end(), [&](const char* folder) { return text.starts_with(folder); });
}

// Finds the program among our files, says what must be packed, and names it as it is called on the node.
Status place_program(std::string& program, process::PackOptions& files, bool json) {
  std::error_code error;
  const fs::path folder = files.folder.empty() ? fs::path() : fs::canonical(files.folder, error);
  const bool bare = program.find('/') == std::string::npos;
  fs::path local = bare ? folder / program : fs::path(program);
  if (bare) {
    if (!folder.empty() && is_program(local)) program = "./" + program;
    return {};  // else from the PATH of the node
  }
  if (!fs::exists(local, error) && local.is_relative() && !folder.empty()) local = folder / program;
  if (!fs::exists(local, error)) {
    return make_error(ErrorKind::kInvalid, "there is no " + program +
                                               " here: a program that is given with its path "
                                               "travels with the job. Give one that the nodes have by its bare name.");
  }
  if (!is_program(local)) {
    return make_error(ErrorKind::kInvalid, local.string() +
                                               " is no executable file: chmod +x it, or name its "
                                               "interpreter first, as in `-- python3 " +
                                               program + "`");
  }
  const fs::path real = fs::canonical(local, error);
  const fs::path inside = folder.empty() ? fs::path() : real.lexically_relative(folder);
  if (!inside.empty() && *inside.begin() != "..") {
    program = "./" + inside.string();
    return {};
  }
  if (belongs_to_system(local) || belongs_to_system(real)) return {};
  const std::string name = std::string(kProgramFolder) + "/" + real.filename().string();
  files.extra.emplace_back(name, real.string());
  program = "./" + name;
  if (!json) std::cerr << "Sending " << real.string() << " along: it lies outside the working folder.\n";
  return {};
}

Status upload(PatientClient& client, const process::Packed& packed) {
  PutContent piece;
  piece.hash = packed.hash;
  piece.total = packed.bytes;
  unsigned stuck = 0;
  std::vector<std::byte> buffer(process::kContentChunkBytes);
  for (;;) {
    auto stored = client.ask<ContentStored>(piece);
    if (!stored) return stored.error();
    if (stored->error) return *stored->error;
    if (stored->have >= packed.bytes) return {};
    // It goes on where the head says: another client may be sending the same, or the head may have begun anew.
    stuck = stored->have == piece.offset + piece.bytes.size() ? 0 : stuck + 1;
    if (stuck > kStuckMax) return make_error(ErrorKind::kTimeout, "the head does not take the files: try again");
    piece.offset = stored->have;
    const ssize_t got = ::pread(packed.file.get(), buffer.data(), buffer.size(), static_cast<off_t>(piece.offset));
    if (got <= 0) return process::errno_error("read the archive");
    piece.bytes = Bytes::copy_of(buffer.data(), static_cast<std::size_t>(got));
  }
}

Result<SubmitJob> make_job(const SubmitOptions& options) {
  SubmitJob job;
  Rng rng(random_seed());
  job.submission = "job-" + to_string(JobId{rng.id()});
  job.argv = options.command;
  for (const std::string& text : options.environment) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorKind::kInvalid, "--env takes NAME=VALUE, not \"" + text + "\"");
    }
    job.environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  const auto cpus = Quantity::from_double(options.cpus);
  if (!cpus) return make_error(ErrorKind::kInvalid, "--num-cpus takes a number from 0 up");
  job.resources.cpus = *cpus;
  job.resources.memory = options.memory;
  return job;
}

Status send_files(const SubmitOptions& options, PatientClient& client, SubmitJob& job) {
  process::PackOptions files;
  files.folder = options.working_dir;
  files.exclude = options.exclude;
  files.exclude.emplace_back(".git");
  std::error_code error;
  if (!files.folder.empty() && !fs::is_directory(files.folder, error)) {
    return make_error(ErrorKind::kInvalid, "--working-dir " + files.folder + " is no folder");
  }
  if (Status placed = place_program(job.argv.front(), files, options.json); !placed) return placed;
  if (files.folder.empty() && files.extra.empty()) return {};
  auto packed = process::pack(files);
  if (!packed) return packed.error();
  if (Status sent = upload(client, *packed); !sent) return sent;
  job.working_dir = packed->hash;
  return {};
}

// ---- asking

template <class Request>
Result<SubmissionInfo> ask_about(PatientClient& client, Request request, Duration timeout = std::chrono::seconds(15)) {
  auto reply = client.ask<SubmissionReply>(request, timeout);
  if (!reply) return reply.error();
  if (reply->error) return *reply->error;
  return reply->info;
}

// Errors about a submission mean that there is none.
int report_unknown(ErrorInfo error, bool json) {
  if (error.kind == ErrorKind::kInvalid) error.kind = ErrorKind::kObjectLost;
  return report(error, json);
}

// The head closes the connection of a viewer that wants to change something; here it can be said why.
Status may_change(const ClusterOptions& cluster) {
  const std::string path = cluster_file_path(cluster);
  auto file = net::load_cluster_file(path);
  if (!file) return file.error();
  if (file->key || !file->leaf || file->leaf->identity.role == net::Role::kClient) return {};
  return make_error(ErrorKind::kUnauthenticated,
                    path + " holds a " + net::name_of(file->leaf->identity.role) +
                        " key, which may look but not start or stop jobs: use the cluster file, or one of `mobula key "
                        "--role client`");
}

// The submission that a job's id means.
Result<std::string> submission_of(PatientClient& client, const std::string& id) {
  if (JobId job; !parse_id(id, job)) return id;
  Query query;
  query.kind = QueryKind::kJobs;
  query.limit = 100000;
  auto reply = client.ask<QueryReply>(query);
  if (!reply) return reply.error();
  for (const auto& row : reply->rows) {
    if (row.size() > 1 && row[0] == id && !row[1].empty()) return row[1];
  }
  return make_error(ErrorKind::kObjectLost,
                    "no submitted job " + id + " is known; see the column \"submission\" of `mobula list jobs`");
}

// nullopt at the deadline.
Result<std::optional<SubmissionInfo>> wait_for_end(PatientClient& client, const std::string& submission,
                                                   Instant deadline) {
  for (;;) {
    const Duration left = deadline == Instant::never() ? kWaitSlice : std::min(kWaitSlice, deadline - monotonic_now());
    if (left <= Duration::zero()) return std::optional<SubmissionInfo>();
    GetSubmission get;
    get.submission = submission;
    get.wait = true;
    auto info = ask_about(client, get, left);
    if (info && !is_active(*info)) return std::optional(*std::move(info));
    if (!info && info.error().kind != ErrorKind::kTimeout) return info.error();
    if (info) std::this_thread::sleep_for(kLook);  // answered early: too many wait
  }
}

// The log of a job from its start to its end, on our own output.
Status follow_job(PatientClient& client, const std::string& submission) {
  const Instant tell_at = monotonic_now() + kTellWaiting;
  bool told = false;
  for (;;) {
    GetSubmission get;
    get.submission = submission;
    auto info = ask_about(client, get);
    if (!info) return info.error();
    if (info->phase != SubmissionPhase::kPending) break;
    if (monotonic_now() >= tell_at && !std::exchange(told, true)) {
      std::cerr << "Waiting for a node that has room; `mobula explain " << submission << "` says what is short.\n";
    }
    std::this_thread::sleep_for(kLook);
  }
  LogStreams log(client, submission, false);
  Status done = log.follow();
  // A job that never came to a node has none, and a node that is gone took it along: the end says what happened.
  if (!done && done.error().kind == ErrorKind::kObjectLost) return {};
  return done;
}

}  // namespace

int submit(const SubmitOptions& options) {
  auto job = make_job(options);
  if (!job) return report(job.error(), options.json);
  if (Status may = may_change(options.cluster); !may) return report(may.error(), options.json);
  auto client = PatientClient::open(options.cluster);
  if (!client) return report(client.error(), options.json);
  if (Status sent = send_files(options, *client, *job); !sent) return report(sent.error(), options.json);
  auto info = ask_about(*client, *job);
  if (!info) return report(info.error(), options.json);
  const std::string& id = info->submission;
  if (options.no_wait) {
    if (options.json) {
      print(*info, true);
    } else {
      std::cout << "Submitted " << id << ".\n  mobula job status " << id << "\n  mobula job logs " << id
                << " --follow\n  mobula job stop " << id << std::endl;
    }
    return kOk;
  }
  if (!options.json) {
    std::cerr << "Submitted " << id << ". It goes on when this command is interrupted.\n";
    if (Status followed = follow_job(*client, id); !followed) return report(followed.error(), false);
  }
  auto last = wait_for_end(*client, id, Instant::never());
  if (!last) return report(last.error(), options.json);
  if (options.json) {
    print(**last, true);
  } else {
    std::cerr << id << " " << name_of((*last)->phase) << ((*last)->message.empty() ? "" : ": " + (*last)->message)
              << std::endl;
  }
  return exit_code_of_job(**last);
}

int job_status(const JobOptions& options) {
  auto client = PatientClient::open(options.cluster);
  if (!client) return report(client.error(), options.json);
  auto id = submission_of(*client, options.id);
  if (!id) return report(id.error(), options.json);
  GetSubmission get;
  get.submission = *id;
  auto info = ask_about(*client, get);
  if (!info) return report_unknown(info.error(), options.json);
  print(*info, options.json);
  return kOk;
}

int job_wait(const JobOptions& options) {
  auto client = PatientClient::open(options.cluster);
  if (!client) return report(client.error(), options.json);
  auto id = submission_of(*client, options.id);
  if (!id) return report(id.error(), options.json);
  const Instant deadline =
      options.timeout
          ? monotonic_now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*options.timeout))
          : Instant::never();
  auto info = wait_for_end(*client, *id, deadline);
  if (!info) return report_unknown(info.error(), options.json);
  if (!*info) {
    const ErrorInfo late = make_error(ErrorKind::kTimeout, *id + " has not ended; it goes on");
    report(late, options.json);
    return kNotEnded;
  }
  print(**info, options.json);
  return exit_code_of_job(**info);
}

int job_stop(const JobOptions& options) {
  if (Status may = may_change(options.cluster); !may) return report(may.error(), options.json);
  auto client = PatientClient::open(options.cluster);
  if (!client) return report(client.error(), options.json);
  auto id = submission_of(*client, options.id);
  if (!id) return report(id.error(), options.json);
  StopSubmission stop;
  stop.submission = *id;
  auto info = ask_about(*client, stop, kStopWait);
  if (!info) return report_unknown(info.error(), options.json);
  print(*info, options.json);
  return kOk;
}

int logs(const LogOptions& options) {
  auto client = PatientClient::open(options.cluster);
  if (!client) return report(client.error(), options.json);
  LogStreams streams(*client, options.id, options.json);
  Status done = streams.print(options.tail);
  if (done && options.follow) done = streams.follow();
  return done ? kOk : report(done.error(), options.json);
}

}  // namespace mobula::cli
