#include "runtime/process/session_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/process/rotating_file.h"

namespace mobula::process {
namespace {

namespace fs = std::filesystem;

// A folder in the making is not seen by others: it gets its name once its lock is held.
constexpr std::string_view kNewPrefix = ".new-";
constexpr std::size_t kNodeJsonBytesMax = 64 * 1024;
// A remover may take a parent away between our making it and our using it.
constexpr int kCreateAttempts = 10;
// A folder in the making that is this old was left by a crash.
constexpr std::time_t kUnfinishedSeconds = 60;

std::string user_folder() {
  return "mobula-" + std::to_string(::geteuid());
}

// A directory of ours that we may use.
bool usable(const std::string& dir) {
  struct stat info {};
  return !dir.empty() && dir.front() == '/' && ::stat(dir.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::geteuid() && ::access(dir.c_str(), W_OK | X_OK) == 0;
}

// The longest socket path of a session in `root`.
std::size_t longest_path(const std::string& root) {
  constexpr std::size_t kHexId = 16;
  return root.size() + 1 + user_folder().size() + 1 + kHexId + 1 + kHexId + std::string_view("/p/").size() + kHexId;
}

bool is_id(std::string_view name) {
  return name.size() == 16 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> names;
  DIR* open_dir = ::opendir(dir.c_str());
  if (open_dir == nullptr) return names;
  while (const dirent* entry = ::readdir(open_dir)) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(open_dir);
  std::sort(names.begin(), names.end());
  return names;
}

// True when `path` is a real directory of ours that nobody else may enter.
bool is_private(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 077U) == 0;
}

enum class LockState { kFree, kHeld, kMissing };

// When it was free, `lock` holds it exclusively.
LockState try_lock(const std::string& session, Fd& lock) {
  lock.reset(::open((session + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!lock) return LockState::kMissing;
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return LockState::kFree;
  lock.reset();
  return LockState::kHeld;
}

bool lock_is_held(const std::string& session) {
  const Fd lock(::open((session + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  // node.json goes first: without it nobody takes what is left for a node.
  ::unlink((path + "/node.json").c_str());
  fs::remove_all(path, ignored);  // does not follow symbolic links
  // The folders above, when this was their last.
  const fs::path cluster = fs::path(path).parent_path();
  if (::rmdir(cluster.c_str()) == 0) ::rmdir(cluster.parent_path().c_str());
}

std::string to_json(const NodeRecord& record) {
  return nlohmann::json{{"cluster", to_string(record.cluster)},
                        {"node", to_string(record.node)},
                        {"pid", record.pid},
                        {"endpoint", record.endpoint},
                        {"head", record.head_endpoint},
                        {"version", record.version},
                        {"log_dir", record.log_dir},
                        {"private", record.private_cluster}}
      .dump();
}

std::optional<NodeRecord> read_record(const std::string& path) {
  const std::string text = file_tail(path, kNodeJsonBytesMax);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    NodeRecord record;
    if (!parse_id(json.at("cluster").get<std::string>(), record.cluster) ||
        !parse_id(json.at("node").get<std::string>(), record.node)) {
      return std::nullopt;
    }
    record.pid = json.at("pid").get<std::int32_t>();
    record.endpoint = json.at("endpoint").get<std::string>();
    record.head_endpoint = json.value("head", "");
    record.version = json.value("version", "");
    record.log_dir = json.value("log_dir", "");
    record.private_cluster = json.value("private", false);
    return record;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Status write_file(const std::string& path, const std::string& text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return errno_error("write " + path);
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) return errno_error("write " + path, ErrorKind::kOutOfDisk);
  return {};
}

// Every session folder (finished or in the making) of this user below `root`.
std::vector<std::string> session_folders(const std::string& root) {
  std::vector<std::string> folders;
  const std::string user = root + "/" + user_folder();
  if (!is_private(user)) return folders;
  for (const std::string& cluster : names_in(user)) {
    if (!is_id(cluster) || !is_private(user + "/" + cluster)) continue;
    for (const std::string& node : names_in(user + "/" + cluster)) {
      const bool unfinished = node.starts_with(kNewPrefix);
      const std::string path = user + "/" + cluster + "/" + node;
      if ((is_id(node) || unfinished) && is_private(path)) folders.push_back(path);
    }
  }
  return folders;
}

bool is_unfinished(const std::string& folder) {
  return std::string_view(folder).substr(folder.rfind('/') + 1).starts_with(kNewPrefix);
}

bool is_old(const std::string& folder) {
  struct stat info {};
  return ::stat(folder.c_str(), &info) == 0 && std::time(nullptr) - info.st_mtime > kUnfinishedSeconds;
}

// One attempt: makes `<cluster>/.new-<node>` with lock and p/, then gives it its name.
Result<Fd> make_folder(const std::string& user, const std::string& cluster, const std::string& name) {
  for (const std::string& dir : {user, cluster}) {
    if (Status done = ensure_private_dir(dir); !done) return done.error();
  }
  const std::string making = cluster + "/" + std::string(kNewPrefix) + name;
  for (const std::string& dir : {making, making + "/p"}) {
    if (Status done = ensure_private_dir(dir); !done) return done.error();
  }
  Fd lock(::open((making + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return errno_error("lock the session folder " + making);
  if (std::rename(making.c_str(), (cluster + "/" + name).c_str()) != 0) {
    const ErrorInfo error = errno_error("make the session folder " + cluster + "/" + name);
    std::error_code ignored;
    fs::remove_all(making, ignored);
    return error;
  }
  return lock;
}

}  // namespace

Status ensure_private_dir(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    ::chmod(path.c_str(), 0700);  // whatever the umask took away
    return {};
  }
  if (errno != EEXIST) return errno_error("make the folder " + path);
  const Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!dir || ::fstat(dir.get(), &info) != 0) return errno_error("use " + path + " as a private folder");
  if (info.st_uid != ::geteuid()) {
    return make_error(ErrorKind::kInvalid, path + " belongs to user " + std::to_string(info.st_uid) +
                                               ", not to this one: set MOBULA_RUNTIME_DIR to a folder of your own");
  }
  if ((info.st_mode & 077U) != 0) {
    return make_error(ErrorKind::kInvalid, path + " is open to other users: chmod 700 it, or set MOBULA_RUNTIME_DIR");
  }
  return {};
}

std::vector<std::string> runtime_dirs() {
  if (const char* chosen = std::getenv("MOBULA_RUNTIME_DIR"); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> dirs;
  const auto add = [&dirs](const std::string& dir) {
    if (std::find(dirs.begin(), dirs.end(), dir) == dirs.end()) dirs.push_back(dir);
  };
  if (const char* named = std::getenv("XDG_RUNTIME_DIR"); named != nullptr && usable(named)) {
    if (longest_path(named) < kSocketPathBytesMax) add(named);
  }
  add("/tmp");
  // A daemon that was started from a login session may have made its folder there; this process may lack the variable.
  const std::string login = "/run/user/" + std::to_string(::geteuid());
  if (usable(login)) add(login);
  return dirs;
}

Result<SessionDir> SessionDir::create(ClusterId cluster_id, NodeId node) {
  const std::string root = runtime_dirs().front();
  if (longest_path(root) >= kSocketPathBytesMax) {
    return make_error(ErrorKind::kInvalid, "the runtime folder " + root + " makes socket paths longer than " +
                                               std::to_string(kSocketPathBytesMax) +
                                               " bytes: set MOBULA_RUNTIME_DIR to a shorter one");
  }
  const std::string user = root + "/" + user_folder();
  const std::string cluster = user + "/" + to_string(cluster_id);
  for (int attempt = 1;; ++attempt) {
    Result<Fd> lock = make_folder(user, cluster, to_string(node));
    if (lock) return SessionDir(cluster + "/" + to_string(node), std::move(*lock));
    if (attempt == kCreateAttempts || ::access(cluster.c_str(), F_OK) == 0) return lock.error();
  }
}

SessionDir::SessionDir(SessionDir&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

SessionDir& SessionDir::operator=(SessionDir&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    lock_ = std::move(other.lock_);
  }
  return *this;
}

SessionDir::~SessionDir() {
  remove();
}

void SessionDir::remove() {
  if (!path_.empty()) remove_tree(path_);
  path_.clear();
  lock_.reset();
}

void SessionDir::keep() {
  path_.clear();
  lock_.reset();
}

Status SessionDir::publish(const NodeRecord& record) {
  const std::string temporary = path_ + "/node.json.new";
  if (Status done = write_file(temporary, to_json(record)); !done) return done;
  if (std::rename(temporary.c_str(), (path_ + "/node.json").c_str()) != 0) return errno_error("publish " + path_);
  return {};
}

std::string SessionDir::process_socket(ProcessId process) const {
  return process_socket_path(path_, process);
}

std::string process_socket_path(const std::string& session, ProcessId process) {
  return session + "/p/" + to_string(process);
}

std::vector<FoundSession> find_sessions(ClusterId cluster) {
  std::vector<FoundSession> found;
  for (const std::string& root : runtime_dirs()) {
    for (const std::string& folder : session_folders(root)) {
      if (is_unfinished(folder)) continue;
      std::optional<NodeRecord> record = read_record(folder + "/node.json");
      if (!record || (cluster && record->cluster != cluster)) continue;
      found.push_back(FoundSession{folder, std::move(*record), lock_is_held(folder)});
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return found;
}

std::size_t remove_stale_sessions() {
  std::size_t removed = 0;
  for (const std::string& root : runtime_dirs()) {
    for (const std::string& folder : session_folders(root)) {
      if (is_unfinished(folder) && !is_old(folder)) continue;
      Fd lock;
      if (try_lock(folder, lock) == LockState::kHeld) continue;
      remove_tree(folder);
      ++removed;
    }
  }
  return removed;
}

}  // namespace mobula::process
