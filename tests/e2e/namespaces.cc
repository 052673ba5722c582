#include "tests/e2e/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace mobula::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBinaryThere = "/opt/mobula/bin/mobula";
constexpr auto kLookAgain = std::chrono::milliseconds(20);
constexpr int kSwitch = CLONE_NEWNET;
constexpr int kMachine = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC;

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A child in new namespaces that runs `prepare`, says so, and then only reaps until it is killed. It dies with us.
// `prepare` returns what went wrong, or nullptr; there is one thread in this process, so it may do anything.
pid_t make_child(int namespaces, const std::function<const char*()>& prepare, std::string& error) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) {
    error = std::strerror(errno);
    return -1;
  }
  const pid_t parent = ::getpid();
  const auto child =
      static_cast<pid_t>(::syscall(SYS_clone, static_cast<unsigned long>(namespaces) | SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((namespaces & CLONE_NEWPID) == 0 && ::getppid() != parent) ::_exit(1);
    const char* wrong = prepare();
    const std::string said = wrong == nullptr ? "" : std::string(wrong) + ": " + std::strerror(errno);
    if (!said.empty() && ::write(ready[1], said.data(), said.size()) < 0) ::_exit(1);
    if (!said.empty()) ::_exit(1);
    sigset_t ended;
    ::sigemptyset(&ended);
    ::sigaddset(&ended, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &ended, nullptr);
    ::close_range(3, ~0U, 0);  // `ready` among them: that is the word
    for (;;) {
      while (::waitpid(-1, nullptr, WNOHANG) > 0) {}
      ::sigwaitinfo(&ended, nullptr);
    }
  }
  ::close(ready[1]);
  if (child < 0) {
    error = std::strerror(errno);
  } else {
    std::array<char, 256> said{};
    const ssize_t size = ::read(ready[0], said.data(), said.size());
    if (size != 0) error = size < 0 ? std::strerror(errno) : std::string(said.data(), static_cast<std::size_t>(size));
  }
  ::close(ready[0]);
  if (child > 0 && !error.empty()) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return -1;
  }
  return child;
}

const char* mount_private(const fs::path& folder) {
  std::error_code missing;
  if (!fs::is_directory(folder, missing)) return nullptr;
  return ::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") == 0 ? nullptr : "mount a tmpfs";
}

// Fails in a plain chroot, whose root folder is no mount point: what is mounted there might show outside.
const char* make_mounts_private() {
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0
             ? nullptr
             : "keep mounts to itself (in a chroot the root folder must be a mount point)";
}

const char* prepare_machine(const MachineSpec& spec) {
  if (::sethostname(spec.name.data(), spec.name.size()) != 0) return "set the host name";
  if (const char* wrong = make_mounts_private()) return wrong;
  // Home is /root for whoever runs these tests.
  for (const char* folder : {"/opt", "/tmp", "/root", "/run", "/dev/shm"}) {
    if (const char* wrong = mount_private(folder)) return wrong;
  }
  std::error_code failed;
  fs::create_directories(fs::path(kBinaryThere).parent_path(), failed);
  std::ofstream{kBinaryThere};
  if (::mount(MOBULA_BINARY_DIR "/bin/mobula", kBinaryThere, nullptr, MS_BIND, nullptr) != 0) return "bind mobula";
  for (const fs::path& folder : spec.hidden) {
    if (const char* wrong = mount_private(folder)) return wrong;
  }
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return "mount /proc";
  return ::chdir("/root") == 0 ? nullptr : "enter /root";
}

// `ip` with several commands at once, in the network of `pid`.
void ip(pid_t pid, const std::string& commands, const fs::path& scratch) {
  const fs::path batch = scratch / "ip";
  std::ofstream(batch) << commands;
  Command command({"nsenter", "-t", std::to_string(pid), "-n", "ip", "-batch", batch}, scratch / "ip.log");
  const Output output = command.wait(std::chrono::seconds(10));
  if (output.status != 0) throw std::runtime_error("ip: " + output.text);
}

void kill_and_wait(pid_t& pid) {
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  pid = -1;
}

}  // namespace

std::optional<std::string> why_no_machines() {
  if (::geteuid() != 0) return "needs root, to make network and mount namespaces";
  std::string error;
  pid_t child = make_child(kMachine, make_mounts_private, error);
  kill_and_wait(child);
  if (!error.empty()) return "this machine makes no machines of their own: " + error;
  for (const char* tool : {"ip", "nsenter"}) {
    const auto found = [tool](const char* folder) { return fs::exists(fs::path(folder) / tool); };
    if (!found("/usr/bin") && !found("/bin") && !found("/usr/sbin") && !found("/sbin")) {
      return std::string("needs the program ") + tool + ": run ./examples/setup.sh --tests";
    }
  }
  return std::nullopt;
}

bool eventually(std::chrono::seconds limit, const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const timespec pause{0, std::chrono::nanoseconds(kLookAgain).count()};
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

Command::Command(const Words& words, fs::path log) : log_(std::move(log)) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  const int failed = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot run " + words.at(0) + ": " + std::strerror(failed));
}

Command::~Command() {
  kill_and_wait(pid_);
}

std::string Command::text() const {
  return read_file(log_);
}

bool Command::ended() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return pid_ <= 0;
  pid_ = -1;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

Output Command::wait(std::chrono::seconds limit) {
  if (!eventually(limit, [this] { return ended(); })) kill_and_wait(pid_);
  return {status_, text()};
}

Machine::Machine(MachineSpec spec, fs::path scratch) : spec_(std::move(spec)), scratch_(std::move(scratch)) {
  std::string error;
  pid_ = make_child(
      kMachine, [this] { return prepare_machine(spec_); }, error);
  if (!error.empty()) throw std::runtime_error("cannot make the machine " + spec_.name + ": " + error);
}

fs::path Machine::file(const std::string& path) const {
  return fs::path("/proc") / std::to_string(pid_) / "root" / fs::path(path).relative_path();
}

Words Machine::inside(const Words& words) const {
  Words all{"nsenter", "-t", std::to_string(pid_), "-m", "-n", "-p", "-u", "-i"};
  // Nothing of the environment that the test runs in.
  for (const char* word : {"env", "-i", "-C", "/root", "HOME=/root", "LANG=C.UTF-8",
                           "MOBULA_BIN=/opt/mobula/bin/mobula", "PATH=/opt/mobula/bin:/usr/sbin:/usr/bin:/sbin:/bin"}) {
    all.emplace_back(word);
  }
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::unique_ptr<Command> Machine::start(const Words& words) {
  return std::make_unique<Command>(inside(words), scratch_ / (spec_.name + "-" + std::to_string(++commands_)));
}

Output Machine::run(const Words& words, std::chrono::seconds limit) {
  return start(words)->wait(limit);
}

void Machine::kill() {
  kill_and_wait(pid_);
}

Network::Network() {
  std::string folder = fs::temp_directory_path() / "mobula-net-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make a folder in /tmp");
  scratch_ = folder;
  std::string error;
  switch_ = make_child(
      kSwitch, [] { return nullptr; }, error);
  if (!error.empty()) throw std::runtime_error("cannot make a network: " + error);
  ip(switch_, "link add hub type bridge\nlink set hub up\nlink set lo up\n", scratch_);
}

Network::~Network() {
  machines_.clear();
  kill_and_wait(switch_);
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

Machine& Network::add(std::string name, std::vector<fs::path> hidden) {
  const std::string address = "10.77.0." + std::to_string(machines_.size() + 1);
  machines_.push_back(std::make_unique<Machine>(MachineSpec{name, address, std::move(hidden)}, scratch_));
  Machine& machine = *machines_.back();
  ip(switch_,
     "link add to-" + name + " type veth peer name eth0 netns " + std::to_string(machine.pid()) + "\nlink set to-" +
         name + " master hub up\n",
     scratch_);
  ip(machine.pid(), "link set lo up\naddr add " + address + "/24 dev eth0\nlink set eth0 up\n", scratch_);
  return machine;
}

void Network::cut(const Machine& machine) {
  ip(switch_, "link set to-" + machine.name() + " down\n", scratch_);
}

}  // namespace mobula::testing
