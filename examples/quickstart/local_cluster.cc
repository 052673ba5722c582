#include "quickstart/local_cluster.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace quickstart {
namespace {

// $MOBULA_BIN, else beside this program's folder, else what PATH finds.
std::string find_mobula() {
  if (const char* given = std::getenv("MOBULA_BIN"); given != nullptr && *given != '\0') return given;
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto above = here.parent_path();
  for (const auto& candidate : {here / "mobula", above / "mobula", above / "bin" / "mobula"}) {
    if (std::filesystem::is_regular_file(candidate, error)) return candidate.string();
  }
  return "mobula";
}

std::string read_all(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Runs the command to its end; what it prints goes to `log`. Returns its exit status, 128 + signal, or 127.
int run_command(const std::vector<std::string>& words, const std::filesystem::path& log) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    std::ofstream(log) << "cannot run " << words[0] << ": " << std::strerror(failed)
                       << " (build it, or set MOBULA_BIN)\n";
    return 127;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

LocalCluster::LocalCluster(int nodes, int cpus_each) : mobula_(find_mobula()) {
  std::string name = (std::filesystem::temp_directory_path() / "mobula-quickstart-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder " + name);
  folder_ = name;
  cluster_file_ = folder_ / "cluster";
  for (int node = 0; node < nodes; ++node) {
    std::vector<std::string> words{mobula_, "start"};
    if (node == 0) words.insert(words.end(), {"--head", "--store", (folder_ / "store").string()});
    words.insert(words.end(),
                 {"--cluster-file", cluster_file_.string(), "--log-dir",
                  (folder_ / ("log" + std::to_string(node))).string(), "--num-cpus", std::to_string(cpus_each)});
    // Without --address a node takes the head's from the cluster file.
    const auto log = folder_ / "command.log";
    if (const int status = run_command(words, log); status != 0) {
      std::string command;
      for (const auto& word : words) command += (command.empty() ? "" : " ") + word;
      const std::string text = "`" + command + "` ended with status " + std::to_string(status) + ":\n" + read_all(log);
      stop();
      throw std::runtime_error(text);
    }
  }
}

LocalCluster::~LocalCluster() {
  stop();
}

void LocalCluster::stop() noexcept {
  try {
    const auto log = folder_ / "command.log";
    if (std::filesystem::exists(cluster_file_)) {
      const int status = run_command({mobula_, "stop", "--cluster-file", cluster_file_.string()}, log);
      if (status != 0) {
        std::fprintf(stderr, "`mobula stop` ended with status %d; what it started may still run:\n%s\n", status,
                     read_all(log).c_str());
        return;  // its logs and its cluster file may be needed
      }
    }
    std::filesystem::remove_all(folder_);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stopping the cluster: %s\n", error.what());
  }
}

}  // namespace quickstart
