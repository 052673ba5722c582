// Submitted jobs and logs through the front door: the `mobula` command, on real processes.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

extern char** environ;

namespace mobula::testing::jobs {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

const std::string kMobula = std::string(MOBULA_BINARY_DIR) + "/bin/mobula";
const std::string kProgram = std::string(MOBULA_BINARY_DIR) + "/bin/tests/programs/jobs_program";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// True once `holds` does.
bool eventually(const std::function<bool()>& holds, std::chrono::seconds limit = 30s) {
  const auto deadline = Clock::now() + limit;
  while (!holds()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

bool lives(pid_t pid) {
  // A zombie whose parent has not looked yet has ended.
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  const auto bracket = stat.rfind(')');
  return bracket != std::string::npos && bracket + 2 < stat.size() && stat[bracket + 2] != 'Z';
}

struct Done {
  int code = -1;
  std::string out;
  std::string err;
};

// A command under way; its output goes to files, so that nothing of it can block.
class Running {
 public:
  Running(const Words& words, const fs::path& scratch, const Words& variables) {
    static int number = 0;
    out_ = scratch / ("out-" + std::to_string(++number));
    err_ = scratch / ("err-" + std::to_string(number));
    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!std::string(*entry).starts_with("MOBULA_")) environment.push_back(*entry);
    }
    for (const std::string& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
    environment.push_back(nullptr);
    REQUIRE(::posix_spawnp(&pid_, argv.front(), &actions, nullptr, argv.data(), environment.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Running() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return text_of(out_); }
  Done wait(std::chrono::seconds limit = 60s) {
    int status = 0;
    const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, limit);
    if (!ended) {
      FAIL_CHECK("a command did not end: " << text_of(err_));
      return {};
    }
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out_), text_of(err_)};
  }

 private:
  fs::path out_;
  fs::path err_;
  pid_t pid_ = -1;
};

// A head and a node of their own, in a folder that goes with the test.
class Cluster {
 public:
  Cluster() {
    char pattern[] = "/tmp/mobula-jobs-XXXXXX";
    scratch_ = ::mkdtemp(pattern);
    fs::create_directories(scratch_ / "run");
    ::chmod((scratch_ / "run").c_str(), 0700);
    start();
  }
  ~Cluster() {
    run({"stop"});
    for (const pid_t pid : pids_) {
      if (lives(pid)) ::kill(pid, SIGKILL);
    }
    std::error_code ignored;
    fs::remove_all(scratch_, ignored);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  void start() {
    const Done done = run({"start", "--head", "--num-cpus", "2", "--object-store-memory", "64MB", "--json"});
    INFO(done.out << done.err);
    REQUIRE(done.code == 0);
    const auto json = nlohmann::json::parse(done.out);
    node_ = json["node"].get<std::string>();
    logs_ = json["logs"].get<std::string>();
    head_pid_ = json["pids"][0].get<pid_t>();
    node_pid_ = json["pids"][1].get<pid_t>();
    pids_.push_back(head_pid_);
    pids_.push_back(node_pid_);
  }

  Words variables() const {
    return {"MOBULA_RUNTIME_DIR=" + (scratch_ / "run").string(),
            "MOBULA_CLUSTER_FILE=" + (scratch_ / "c.json").string()};
  }
  std::unique_ptr<Running> begin(Words words) const {
    words.insert(words.begin(), kMobula);
    return std::make_unique<Running>(words, scratch_, variables());
  }
  Done run(const Words& words) const { return begin(words)->wait(); }
  nlohmann::json ask(Words words) const {
    words.emplace_back("--json");
    const Done done = run(words);
    INFO(done.out << done.err);
    const auto json = nlohmann::json::parse(done.out, nullptr, false);
    REQUIRE(json.is_object());
    return json;
  }
  // Submits without waiting; the id.
  std::string submit(const Words& command, const Words& options = {}) const {
    Words words{"submit", "--no-wait", "--json"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    const Done done = run(words);
    INFO(done.out << done.err);
    REQUIRE(done.code == 0);
    return nlohmann::json::parse(done.out)["submission"].get<std::string>();
  }
  std::string state(const std::string& id) const { return ask({"job", "status", id})["state"]; }

  // A file of the working folder that tests submit.
  std::string folder() const { return (scratch_ / "work").string(); }
  void write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    const fs::path path = fs::path(folder()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
  }
  const fs::path& scratch() const { return scratch_; }
  const fs::path& logs() const { return logs_; }
  const std::string& node() const { return node_; }
  pid_t head_pid() const { return head_pid_; }
  pid_t node_pid() const { return node_pid_; }

 private:
  fs::path scratch_;
  fs::path logs_;
  std::string node_;
  pid_t head_pid_ = -1;
  pid_t node_pid_ = -1;
  std::vector<pid_t> pids_;
};

// The number that a job printed behind "<name> ".
pid_t number_in(const std::string& text, const std::string& name) {
  const auto at = text.find(name + " ");
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + name.size() + 1);
}

constexpr const char* kLongJob =
    "#!/bin/sh\n"
    "sleep 1000 &\n"
    "echo self $$ child $! started\n"
    "wait\n";

}  // namespace

TEST_CASE("a program travels with its files and variables; its output and its end come back") {
  const Cluster cluster;
  cluster.write("run.sh",
                "#!/bin/sh\n"
                "cat deep/data.txt; echo E=$E arg=$1; echo to-stderr >&2\n"
                "stat -c 'mode %a' .\n"
                "test -e .git || echo no-git\n"
                "test -e left.out || echo left-out\n"
                "ulimit -n\n"
                "\"$CLI\" status >/dev/null && echo may-ask\n"
                "\"$CLI\" key --role viewer --out k.json 2>/dev/null || echo has-no-key\n"
                "exit ${CODE:-0}\n",
                0755);
  cluster.write("deep/data.txt", "the data\n");
  cluster.write(".git/config", "x");
  cluster.write("left.out", "x");
  const Words common{"submit", "--working-dir", cluster.folder(), "--exclude",     "*.out",
                     "--env",  "E=a,b c",       "--env",          "CLI=" + kMobula};
  Words words = common;
  words.insert(words.end(), {"--", "./run.sh", "--flag"});
  Done done = cluster.run(words);
  INFO(done.out << done.err);
  CHECK(done.code == 0);
  for (const char* part : {"the data\n", "E=a,b c arg=--flag\n", "to-stderr\n", "mode 700\n", "no-git\n", "left-out\n",
                           "may-ask\n", "has-no-key\n"}) {
    CHECK_MESSAGE(contains(done.out, part), part);
  }
  CHECK(contains(done.err, "succeeded"));

  words = common;
  words.insert(words.end(), {"--env", "CODE=3", "--json", "--", "run.sh"});
  done = cluster.run(words);
  CHECK(done.code == 1);
  const auto info = nlohmann::json::parse(done.out);
  CHECK(info["state"] == "failed");
  CHECK(info["exit_code"] == 3);
  const std::string id = info["submission"];
  CHECK(cluster.run({"job", "wait", id}).code == 1);
  CHECK(contains(cluster.run({"job", "status", id}).out, "exit code 3"));
  CHECK(contains(cluster.run({"job", "logs", id}).out, "the data\n"));
  CHECK(cluster.run({"logs", id, "--tail", "1"}).out == "has-no-key\n");
}

TEST_CASE("a driver of the library joins its node; its job and its workers are found") {
  const Cluster cluster;
  const Done done = cluster.run({"submit", "--", kProgram});
  INFO(done.out << done.err);
  REQUIRE(done.code == 0);
  CHECK(contains(done.err, "Sending " + kProgram + " along"));
  const auto word_after = [&](const std::string& name) {
    const auto at = done.out.find(name + " ") + name.size() + 1;
    return done.out.substr(at, done.out.find('\n', at) - at);
  };
  const std::string job = word_after("job");
  const auto info = cluster.ask({"job", "status", job});
  CHECK(info["job"] == job);
  CHECK(info["state"] == "succeeded");
  CHECK(info["node"] == cluster.node());
  const auto rows = cluster.ask({"list", "jobs"})["rows"];
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["submission"] == info["submission"]);
  CHECK(contains(cluster.run({"logs", job}).out, "worker " + word_after("worker")));
  CHECK(contains(cluster.run({"logs", word_after("worker"), "--follow"}).out, "line of the task 7\n"));

  CHECK(contains(cluster.run({"logs", "head"}).out, "event=ready"));
  CHECK(contains(cluster.run({"logs", cluster.node()}).out, "event=ready"));
  CHECK(cluster.run({"submit", "--", kProgram, "4"}).code == 1);

  // A daemon's log turns over when it has grown, and whoever follows it goes on in the new file.
  const fs::path log = cluster.logs() / "head.log";
  fs::resize_file(log, std::uintmax_t{17} << 20);
  CHECK(eventually([&] { return fs::exists(log.string() + ".1") && fs::file_size(log) < (1U << 20U); }));
}

TEST_CASE("a job outlives the command that submitted it; it is followed and stopped with all its processes") {
  const Cluster cluster;
  cluster.write("long.sh", kLongJob, 0755);
  const auto shell = cluster.begin({"submit", "--working-dir", cluster.folder(), "--", "long.sh"});
  REQUIRE(eventually([&] { return contains(shell->out(), "started"); }));
  const std::string id = cluster.ask({"list", "jobs"})["rows"][0]["submission"];
  ::kill(shell->pid(), SIGKILL);
  CHECK(shell->wait().code == 128 + SIGKILL);
  CHECK(cluster.state(id) == "running");
  CHECK(cluster.run({"job", "wait", id, "--timeout", "0.2"}).code == 7);

  const auto follow = cluster.begin({"logs", id, "--follow"});
  REQUIRE(eventually([&] { return contains(follow->out(), "started"); }));
  const pid_t self = number_in(follow->out(), "self");
  const pid_t child = number_in(follow->out(), "child");
  CHECK(lives(self));
  CHECK(lives(child));
  const Done stopped = cluster.run({"job", "stop", id});
  CHECK(stopped.code == 0);
  CHECK(contains(stopped.out, "stopped"));
  CHECK(follow->wait().code == 0);
  CHECK(eventually([&] { return !lives(self) && !lives(child); }));
  CHECK(cluster.run({"job", "wait", id}).code == 6);
  CHECK(cluster.run({"job", "stop", id}).code == 0);  // again: it has ended
  // Its folder is gone, its output stays.
  CHECK(eventually([&] {
    for (const auto& entry : fs::recursive_directory_iterator(cluster.scratch() / "run")) {
      if (entry.path().filename() == id) return false;
    }
    return true;
  }));
  CHECK(contains(cluster.run({"logs", id}).out, "started"));
}

TEST_CASE("a job that ignores SIGTERM is killed") {
  const Cluster cluster;
  const std::string id = cluster.submit({"sh", "-c", "trap '' TERM; echo self $$; while :; do sleep 0.1; done"});
  REQUIRE(eventually([&] { return number_in(cluster.run({"logs", id}).out, "self") > 0; }));
  const pid_t self = number_in(cluster.run({"logs", id}).out, "self");
  CHECK(cluster.run({"job", "stop", id}).code == 0);
  CHECK_FALSE(lives(self));
  CHECK(cluster.state(id) == "stopped");
}

TEST_CASE("mistakes are named, with the remedy and a code") {
  const Cluster cluster;
  const std::string unknown = "job-0000000000000000";
  for (const Words& words : std::vector<Words>{{"job", "status", unknown},
                                               {"job", "wait", unknown},
                                               {"job", "stop", unknown},
                                               {"job", "logs", unknown},
                                               {"job", "status", "00000000000000ff"},
                                               {"logs", "00000000000000ff"},
                                               {"logs", "00000000000000ff:0000000000000001", "--follow"},
                                               {"logs", "nonsense/../../etc/passwd"}}) {
    const Done done = cluster.run(words);
    CHECK_MESSAGE(done.code == 5, words.back() << ": " << done.err);
    CHECK_MESSAGE(contains(done.err, "mobula list"), done.err);
  }
  CHECK(cluster.run({"submit"}).code == 2);
  CHECK(cluster.run({"job"}).code == 2);
  const auto refused = [&](const Words& words) {
    const Done done = cluster.run(words);
    CHECK(done.code == 1);
    return done.err;
  };
  CHECK(contains(refused({"submit", "--working-dir", "/no/such", "--", "true"}), "is no folder"));
  CHECK(contains(refused({"submit", "--env", "nothing", "--", "true"}), "NAME=VALUE"));
  CHECK(contains(refused({"submit", "--", "./no-such"}), "by its bare name"));
  CHECK(contains(refused({"submit", "--", "no-such-program"}), "not on the PATH of this node"));
  cluster.write("plain", "text");
  CHECK(contains(refused({"submit", "--working-dir", cluster.folder(), "--", "./plain"}), "chmod +x"));
  fs::create_symlink("/etc", cluster.folder() + "/etc");
  CHECK(contains(refused({"submit", "--working-dir", cluster.folder(), "--", "true"}), "--exclude"));
  fs::remove(cluster.folder() + "/etc");
  cluster.write("huge", "");
  fs::resize_file(cluster.folder() + "/huge", std::uintmax_t{600} << 20);
  const std::string cap = refused({"submit", "--working-dir", cluster.folder(), "--", "true"});
  CHECK(contains(cap, "at most 512 MiB"));
  CHECK(contains(cap, "\"huge\""));
  CHECK(contains(refused({"submit", "--num-cpus", "100", "--", "true"}), "CPU"));
  CHECK(cluster.run({"submit", "--address", "127.0.0.1:1", "--", "true"}).code == 3);
  // A viewer may look, not submit.
  const std::string viewer = (cluster.scratch() / "viewer.json").string();
  REQUIRE(cluster.run({"key", "--role", "viewer", "--out", viewer}).code == 0);
  const Done looked = cluster.run({"submit", "--cluster-file", viewer, "--", "true"});
  CHECK(looked.code == 4);
  CHECK(contains(looked.err, "may look but not start"));
  CHECK(cluster.run({"logs", "head", "--cluster-file", viewer}).code == 0);
}

TEST_CASE("jobs wait for room, and are stopped while they wait") {
  const Cluster cluster;
  const std::string first = cluster.submit({"sleep", "1000"}, {"--num-cpus", "2"});
  REQUIRE(eventually([&] { return cluster.state(first) == "running"; }));
  const std::string second = cluster.submit({"echo", "ran"}, {"--num-cpus", "1"});
  const std::string third = cluster.submit({"echo", "ran"}, {"--num-cpus", "1"});
  CHECK(cluster.state(second) == "pending");
  CHECK(contains(cluster.run({"logs", second}).err, "has not been started"));
  CHECK(cluster.run({"job", "stop", third}).code == 0);
  CHECK(cluster.state(third) == "stopped");
  CHECK(cluster.run({"job", "stop", first}).code == 0);
  CHECK(cluster.run({"job", "wait", second}).code == 0);
  CHECK(cluster.run({"logs", second}).out == "ran\n");
}

TEST_CASE("a job goes on while the head is away, and whoever waits for it hears of its end") {
  Cluster cluster;
  const std::string go = (cluster.scratch() / "go").string();
  const std::string id = cluster.submit({"sh", "-c", "echo up; while ! test -e \"$GO\"; do sleep 0.05; done; echo on"},
                                        {"--env", "GO=" + go});
  REQUIRE(eventually([&] { return contains(cluster.run({"logs", id}).out, "up"); }));
  const auto wait = cluster.begin({"job", "wait", id});
  const auto follow = cluster.begin({"logs", id, "--follow"});
  REQUIRE(eventually([&] { return contains(follow->out(), "up"); }));
  ::kill(cluster.head_pid(), SIGKILL);
  REQUIRE(eventually([&] { return !lives(cluster.head_pid()); }));
  std::ofstream{go};
  cluster.start();
  CHECK(wait->wait().code == 0);
  const Done log = follow->wait();
  CHECK(log.code == 0);
  CHECK(log.out == "up\non\n");
}

TEST_CASE("a job ends with its node, and says so") {
  Cluster cluster;
  const std::string id = cluster.submit({"sh", "-c", "echo self $$; exec sleep 1000"});
  REQUIRE(eventually([&] { return number_in(cluster.run({"logs", id}).out, "self") > 0; }));
  const pid_t self = number_in(cluster.run({"logs", id}).out, "self");
  ::kill(cluster.node_pid(), SIGKILL);
  const Done wait = cluster.run({"job", "wait", id});
  CHECK(wait.code == 1);
  CHECK(contains(wait.out, "the node it ran on is gone"));
  CHECK(eventually([&] { return !lives(self); }));
}

TEST_CASE("stop ends running jobs and leaves nothing behind but logs") {
  Cluster cluster;
  cluster.write("long.sh", kLongJob, 0755);
  const std::string id = cluster.submit({"long.sh"}, {"--working-dir", cluster.folder()});
  REQUIRE(eventually([&] { return number_in(cluster.run({"logs", id}).out, "child") > 0; }));
  const std::string log = cluster.run({"logs", id}).out;
  CHECK(cluster.run({"stop"}).code == 0);
  CHECK_FALSE(lives(cluster.node_pid()));
  CHECK_FALSE(lives(number_in(log, "self")));
  CHECK(eventually([&] { return !lives(number_in(log, "child")); }));
  CHECK(fs::is_empty(cluster.scratch() / "run"));
  // What it has printed, and how it ended, is still known to the cluster when it is back.
  cluster.start();
  CHECK(cluster.state(id) == "failed");
  CHECK(cluster.run({"logs", id}).out == log);
}

}  // namespace mobula::testing::jobs
