#include "runtime/daemon/node_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace mobula::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFollowersMax = 256;  // more are answered at once and ask again
constexpr Duration kLook = std::chrono::milliseconds(200);
constexpr Duration kPrune = std::chrono::minutes(10);
// Of ended workers and drivers in the log folder; the oldest go first.
constexpr std::size_t kLogFilesMax = 4000;
constexpr std::uint64_t kLogBytesMax = std::uint64_t{4} << 30;
constexpr auto kLogKeep = std::chrono::hours(1);  // what was written lately may still be

}  // namespace

Result<std::unique_ptr<NodeFiles>> NodeFiles::open(NodeDaemon& node) {
  auto drivers = NodeDrivers::open(node);
  if (!drivers) return drivers.error();
  std::unique_ptr<NodeFiles> files(new NodeFiles(node, *std::move(drivers)));
  NodeServices services;
  services.handle = [raw = files.get()](const Peer& from, const Message& message) {
    return raw->handle(from, message);
  };
  services.start_driver = [raw = files.get()](const SubmitJob& job) { raw->drivers_->start(job); };
  services.stop_driver = [raw = files.get()](const std::string& submission) { raw->drivers_->stop(submission); };
  node.set_services(std::move(services));
  files->prune();
  return files;
}

NodeFiles::~NodeFiles() {
  *alive_ = false;
  node_.set_services({});
}

bool NodeFiles::handle(const Peer& from, const Message& message) {
  if (from.kind != PeerKind::kHead) return false;
  const auto* read = std::get_if<ReadLog>(&message);
  if (read == nullptr) return drivers_->handle(message);
  const bool hold = read->follow && followers_.size() < kFollowersMax;
  if (answer(*read, hold)) return true;
  followers_.push_back(Follower{*read, monotonic_now() + kFollowHold});
  look_again();
  return true;
}

// ---- logs

Result<process::LogPiece> NodeFiles::read(const ReadLog& read, bool& ended) const {
  const LogName name = LogName::parse(read.entity);
  std::string path;
  ended = false;
  const bool own = name.id == to_string(node_.config().node);
  if (own || is_submission_id(name.id)) {
    if (name.error_stream) {  // both streams lie in one file
      ended = true;
      return process::LogPiece{{}, read.offset, true};
    }
    if (own) return read_daemon_log(read.offset);
    ended = !drivers_->running(name.id);
    path = drivers_->log_path(name.id);
  } else {
    ProcessId worker;
    if (!parse_id(name.id, worker)) return make_error(ErrorKind::kInvalid, "\"" + name.id + "\" has no log on a node");
    ended = !node_.has_worker(worker);
    path = node_.log_dir() + "/worker-" + to_string(worker) + (name.error_stream ? ".err" : ".out");
  }
  return process::read_log(path, read.offset, kLogChunkBytes);
}

bool NodeFiles::answer(const ReadLog& read, bool hold) {
  LogChunk chunk;
  chunk.request = read.request;
  bool ended = false;
  auto piece = this->read(read, ended);
  if (!piece) {
    chunk.error = piece.error();
    chunk.end = true;
  } else {
    if (hold && !ended && piece->at_end && piece->bytes.empty()) return false;
    chunk.offset = piece->next;
    chunk.bytes = Bytes::copy_of(piece->bytes);
    chunk.end = piece->at_end && ended;
  }
  node_.route(Peer::head(), std::move(chunk));
  return true;
}

// Runs while somebody waits.
void NodeFiles::look_again() {
  if (followers_.empty() || std::exchange(looking_, true)) return;
  node_.loop().call_after(kLook, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.lock()) return;
    looking_ = false;
    const Instant now = monotonic_now();
    std::erase_if(followers_, [&](const Follower& one) { return answer(one.read, now < one.until); });
    node_.settle();
    look_again();
  });
}

// A node that lives for long starts many workers, each with files.
void NodeFiles::prune() {
  struct Old {
    fs::file_time_type time;
    fs::path path;
    std::uint64_t bytes = 0;
  };
  std::vector<Old> logs;
  std::uint64_t total = 0;
  std::error_code error;
  const auto recent = fs::file_time_type::clock::now() - kLogKeep;
  for (const fs::directory_entry& entry : fs::directory_iterator(node_.log_dir(), error)) {
    const std::string name = entry.path().filename().string();
    ProcessId worker;
    if (name.starts_with("worker-")) {
      if (!parse_id(std::string_view(name).substr(7, 16), worker) || node_.has_worker(worker)) continue;
    } else if (!is_submission_id(name.substr(0, 20)) || drivers_->running(name.substr(0, 20))) {
      continue;
    }
    std::error_code gone;
    Old one{entry.last_write_time(gone), entry.path(), entry.file_size(gone)};
    if (gone) continue;
    total += one.bytes;
    logs.push_back(std::move(one));
  }
  std::sort(logs.begin(), logs.end(), [](const Old& a, const Old& b) { return a.time < b.time; });
  std::size_t left = logs.size();
  for (const Old& one : logs) {
    if ((left <= kLogFilesMax && total <= kLogBytesMax) || one.time > recent) break;
    fs::remove(one.path, error);
    total -= one.bytes;
    --left;
  }
  node_.loop().call_after(kPrune, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.lock()) prune();
  });
}

}  // namespace mobula::daemon
