#include "runtime/daemon/node_drivers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/daemon/log_files.h"
#include "runtime/process/driver_run.h"
#include "runtime/process/launch.h"
#include "runtime/process/limits.h"
#include "runtime/process/session_dir.h"

namespace mobula::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDriversMax = 1024;
constexpr std::size_t kRemovalsMax = 4;
constexpr Duration kStopGrace = std::chrono::seconds(5);        // between TERM and KILL
constexpr Duration kShutdownGrace = std::chrono::seconds(1);    // the same when the daemon ends
constexpr Duration kAskAgain = std::chrono::seconds(3);         // a piece that does not come
constexpr Duration kFetchPatience = std::chrono::seconds(120);  // without any
constexpr Duration kFetchWatch = std::chrono::seconds(1);
constexpr std::size_t kBytesPerWake = 256 * 1024;
constexpr std::size_t kBytesAtEnd = 4U << 20U;
constexpr std::uint64_t kCacheBytes = std::uint64_t{1} << 30;

process::LogLimits log_limits() {
  process::LogLimits limits;
  limits.bytes_per_second = 8U << 20U;
  limits.burst_bytes = 64U << 20U;
  return limits;
}

std::string library_path() {
  std::error_code error;
  const fs::path library = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "lib";
  if (error || !fs::exists(library / "libmobula.so", error)) return {};
  return library.string();
}

}  // namespace

Result<std::unique_ptr<NodeDrivers>> NodeDrivers::open(NodeDaemon& node) {
  process::ContentLimits limits;
  limits.total_bytes_max = kCacheBytes;
  auto store = process::ContentStore::open(node.session().path() + "/content", limits);
  if (!store) return store.error();
  if (Status made = process::ensure_private_dir(node.session().path() + "/jobs"); !made) return made.error();
  std::unique_ptr<NodeDrivers> drivers(new NodeDrivers(node, *std::move(store)));
  drivers->store_.set_in_use([raw = drivers.get()](const std::string& hash) {
    return std::any_of(raw->drivers_.begin(), raw->drivers_.end(),
                       [&](const auto& entry) { return entry.second.job.working_dir == hash; });
  });
  return drivers;
}

NodeDrivers::~NodeDrivers() {
  *alive_ = false;
  for (auto& [submission, driver] : drivers_) process::signal_group(driver.process.pid(), SIGTERM);
  const Instant deadline = monotonic_now() + kShutdownGrace;
  for (auto& [submission, driver] : drivers_) {
    if (driver.process.pid() < 0) continue;
    if (!driver.process.wait(std::max(deadline - monotonic_now(), Duration::zero()))) {
      process::signal_group(driver.process.pid(), SIGKILL);
      driver.process.wait(kShutdownGrace);
    }
    read_output(driver, kBytesAtEnd);
    driver.lines->finish(monotonic_now());
    driver.process.reap();
    process::kill_sessions({driver.process.pid()});
  }
}

// ---- files

void NodeDrivers::start(const SubmitJob& job) {
  if (drivers_.contains(job.submission)) return;
  const auto refuse = [&](const std::string& why) {
    node_.post(scheduler::DriverExited{job.submission, process::kCannotStart, why});
  };
  if (!is_submission_id(job.submission)) return refuse("a submission's id is \"job-\" and 16 hex digits");
  if (drivers_.size() >= kDriversMax) {
    return refuse("this node runs " + std::to_string(kDriversMax) + " submitted programs already");
  }
  Driver& driver = drivers_[job.submission];
  driver.job = job;
  if (Status prepared = prepare(driver); !prepared) {
    drivers_.erase(job.submission);
    return refuse(prepared.error().message);
  }
  if (job.working_dir.empty() || store_.has(job.working_dir)) return launch(job.submission);
  fetch(job.working_dir);
}

Status NodeDrivers::prepare(Driver& driver) {
  driver.folder = node_.session().path() + "/jobs/" + driver.job.submission;
  for (const std::string& folder : {driver.folder, driver.folder + "/work"}) {
    if (Status made = process::ensure_private_dir(folder); !made) return made;
  }
  auto log = process::RotatingFile::open(log_path(driver.job.submission), {});
  if (!log) return log.error();
  driver.log.emplace(*std::move(log));
  driver.lines = std::make_unique<process::LineCollector>(
      log_limits(), [&file = *driver.log](process::Stream, std::string_view line) {
        std::string text(line);
        text += '\n';
        file.write(text);
      });
  return {};
}

void NodeDrivers::fetch(const std::string& hash) {
  if (fetches_.contains(hash)) return;
  fetches_[hash].progress = monotonic_now();
  ask(hash);
  watch_fetches();
}

void NodeDrivers::ask(const std::string& hash) {
  Fetch& fetch = fetches_.at(hash);
  fetch.request = {0, ++next_request_};
  fetch.asked = monotonic_now();
  node_.route(Peer::head(), GetContent{fetch.request, hash, fetch.have});
}

bool NodeDrivers::handle(const Message& message) {
  const auto* chunk = std::get_if<ContentChunk>(&message);
  if (chunk == nullptr) return false;
  const auto at = std::find_if(fetches_.begin(), fetches_.end(),
                               [&](const auto& entry) { return entry.second.request == chunk->request; });
  if (at == fetches_.end()) return true;  // asked for twice
  const std::string hash = at->first;
  if (chunk->error) {
    fetch_failed(hash, chunk->error->message);
    return true;
  }
  auto have = store_.put(hash, chunk->total, chunk->offset, chunk->bytes.span(), monotonic_now());
  if (!have) {
    fetch_failed(hash, have.error().message);
    return true;
  }
  at->second.have = *have;
  at->second.progress = monotonic_now();
  if (*have < chunk->total) {
    ask(hash);
    return true;
  }
  fetches_.erase(at);
  std::vector<std::string> ready;
  for (const auto& [submission, driver] : drivers_) {
    if (driver.job.working_dir == hash && driver.process.pid() < 0) ready.push_back(submission);
  }
  for (const std::string& submission : ready) launch(submission);
  return true;
}

void NodeDrivers::fetch_failed(const std::string& hash, const std::string& why) {
  fetches_.erase(hash);
  std::vector<std::string> waiting;
  for (const auto& [submission, driver] : drivers_) {
    if (driver.job.working_dir == hash && driver.process.pid() < 0) waiting.push_back(submission);
  }
  for (const std::string& submission : waiting) {
    finish(submission, process::kCannotStart, "its files could not be fetched from the head: " + why);
  }
}

// The head may be away, or the question lost with a link.
void NodeDrivers::watch_fetches() {
  if (watching_ || fetches_.empty()) return;
  watching_ = true;
  node_.loop().call_after(kFetchWatch, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.lock()) return;
    watching_ = false;
    const Instant now = monotonic_now();
    std::vector<std::string> hashes;
    for (const auto& [hash, fetch] : fetches_) hashes.push_back(hash);
    for (const std::string& hash : hashes) {
      const Fetch& fetch = fetches_.at(hash);
      if (now - fetch.progress > kFetchPatience) {
        fetch_failed(hash, "it did not answer");
      } else if (now - fetch.asked > kAskAgain) {
        ask(hash);
      }
    }
    node_.settle();
    watch_fetches();
  });
}

// ---- processes

void NodeDrivers::launch(const std::string& submission) {
  Driver& driver = drivers_.at(submission);
  auto pid = spawn(driver);
  if (!pid) return finish(submission, process::kCannotStart, pid.error().message);
  auto watch = process::PidWatch::open(*pid);
  if (!watch) {
    process::signal_group(*pid, SIGKILL);
    return finish(submission, process::kCannotStart, watch.error().message);
  }
  driver.process = *std::move(watch);
  driver.end = std::make_unique<net::Watch>(node_.loop(), driver.process.fd(), [this, submission] {
    on_end(std::string(submission));
    node_.settle();
  });
  driver.output_watch = std::make_unique<net::Watch>(node_.loop(), driver.output.get(), [this, submission] {
    Driver& one = drivers_.at(submission);
    // At its end the pipe stays readable for ever.
    if (!read_output(one, kBytesPerWake)) one.output_watch.reset();
  });
  node_.post(scheduler::DriverStarted{submission, static_cast<std::uint64_t>(*pid)});
}

Result<pid_t> NodeDrivers::spawn(Driver& driver) {
  auto output = process::make_pipe();
  if (!output) return output.error();
  auto report = process::make_pipe();
  if (!report) return report.error();
  for (const int fd : {output->read.get(), report->read.get()}) {
    if (Status set = process::set_nonblocking(fd); !set) return set.error();
  }
  const std::string leaf = driver.folder + "/cluster.json";
  if (Status written = write_leaf(leaf); !written) return written.error();

  process::LaunchSpec spec;
  spec.path = "/proc/self/exe";  // this binary, even when its file was replaced
  spec.argv = {"mobula", "run-driver", "--folder", driver.folder + "/work"};
  const auto add = [&spec](const char* name, std::string value) {
    spec.argv.emplace_back(name);
    spec.argv.push_back(std::move(value));
  };
  if (!driver.job.working_dir.empty()) add("--archive", store_.path_of(driver.job.working_dir));
  add("--descriptor-limit", std::to_string(process::original_descriptor_limit()));
  add("--parent", std::to_string(::getpid()));
  add("--report-fd", std::to_string(process::kExtraFd));
  spec.argv.emplace_back("--");
  spec.argv.insert(spec.argv.end(), driver.job.argv.begin(), driver.job.argv.end());

  std::vector<std::pair<std::string, std::string>> variables;
  if (const std::string library = library_path(); !library.empty()) {
    const char* inherited = std::getenv("LD_LIBRARY_PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    const std::string before = inherited == nullptr ? std::string() : std::string(inherited);
    variables.emplace_back("LD_LIBRARY_PATH", before.empty() ? library : before + ":" + library);
  }
  variables.insert(variables.end(), driver.job.environment.begin(), driver.job.environment.end());
  variables.emplace_back("MOBULA_NODE_SOCKET", node_.session().node_socket());
  variables.emplace_back("MOBULA_CLUSTER_FILE", leaf);
  variables.emplace_back("MOBULA_SUBMISSION", driver.job.submission);
  spec.environment = process::environment_with(variables);
  std::erase_if(spec.environment, [](const std::string& text) { return text.starts_with("MOBULA_ADDRESS="); });
  spec.out = output->write.get();
  spec.err = output->write.get();
  spec.extra = report->write.get();
  auto pid = process::launch(spec);
  if (!pid) return pid;
  driver.output = std::move(output->read);
  driver.report = std::move(report->read);
  return pid;
}

// For `mobula` commands that the program runs itself.
Status NodeDrivers::write_leaf(const std::string& path) const {
  const NodeDaemonConfig& config = node_.config();
  Rng rng(random_seed());
  net::ClusterFile file;
  file.cluster = config.cluster;
  file.address = net::to_string(config.head);
  file.epoch = config.key_epoch;
  file.leaf = net::make_leaf(config.key, net::Identity{config.key_epoch, net::Role::kClient, {}, rng.id()});
  return net::create_cluster_file(path, file);
}

void NodeDrivers::stop(const std::string& submission) {
  const auto at = drivers_.find(submission);
  if (at == drivers_.end() || std::exchange(at->second.stopping, true)) return;
  const pid_t pid = at->second.process.pid();
  if (pid < 0) return finish(submission, 128 + SIGTERM, "stopped before it was started");
  process::signal_group(pid, SIGTERM);
  node_.loop().call_after(kStopGrace, [this, submission, pid, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.lock()) return;
    const auto still = drivers_.find(submission);
    if (still != drivers_.end() && still->second.process.pid() == pid) process::signal_group(pid, SIGKILL);
  });
}

// False at the end of the pipe.
bool NodeDrivers::read_output(Driver& driver, std::size_t bytes_max) {
  std::array<char, 16 * 1024> buffer;
  for (std::size_t total = 0; driver.output && total < bytes_max;) {
    const ssize_t got = ::read(driver.output.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    total += static_cast<std::size_t>(got);
    driver.lines->add(process::Stream::kOut, std::string_view(buffer.data(), static_cast<std::size_t>(got)),
                      monotonic_now());
  }
  return true;
}

void NodeDrivers::on_end(const std::string& submission) {
  Driver& driver = drivers_.at(submission);
  const pid_t pid = driver.process.pid();
  const std::optional<process::ExitStatus> status = driver.process.reap();
  if (!status) return;
  process::kill_sessions({pid});  // what it left in groups of its own
  read_output(driver, kBytesAtEnd);
  driver.lines->finish(monotonic_now());
  std::string message;
  std::array<char, 4096> why;
  if (const ssize_t bytes = ::read(driver.report.get(), why.data(), why.size()); bytes > 0) {
    message.assign(why.data(), static_cast<std::size_t>(bytes));
  } else if (!status->clean()) {
    message = "ended with " + process::to_string(*status);
  }
  const std::int32_t code = !status->known ? -1 : status->signal != 0 ? 128 + status->signal : status->code;
  finish(submission, code, std::move(message));
}

void NodeDrivers::finish(const std::string& submission, std::int32_t exit_code, std::string message) {
  const auto at = drivers_.find(submission);
  remove_later(at->second.folder);
  drivers_.erase(at);
  node_.post(scheduler::DriverExited{submission, exit_code, std::move(message)});
}

// Many files take long to remove, and the loop has others to serve.
void NodeDrivers::remove_later(std::string folder) {
  if (removals_.size() >= kRemovalsMax) removals_.pop_front();  // waits for the oldest
  removals_.emplace_back([folder = std::move(folder)] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  });
}

}  // namespace mobula::daemon
