// Machines for tests of several nodes: each has a network, mounts, host name and processes of its own.
//
// What a machine of its own lacks must be missing here too, else a test passes because of a shared file system: home,
// /tmp, /run and /dev/shm are private and empty, and the folders named (the build tree, a data set) are hidden. Only
// the `mobula` binary is there, as after an installation. The processes' namespace makes the death of a whole machine
// one signal, and ends everything on it when the test ends, however that happens.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mobula::testing {

using Words = std::vector<std::string>;

// Why this machine cannot make namespaces; nullopt when it can.
std::optional<std::string> why_no_machines();

struct Output {
  int status = -1;   // exit status, 128 + signal, or -1: it did not end in time and was killed
  std::string text;  // standard output and error
};

// A command under way. Ends with this object at the latest.
class Command {
 public:
  Command(const Words& words, std::filesystem::path log);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  std::string text() const;  // so far
  bool ended();
  Output wait(std::chrono::seconds limit);

 private:
  std::filesystem::path log_;
  pid_t pid_ = -1;
  int status_ = -1;
};

struct MachineSpec {
  std::string name;                           // its host name
  std::string address;                        // "10.77.0.1"
  std::vector<std::filesystem::path> hidden;  // folders that are empty there
};

class Machine {
 public:
  Machine(MachineSpec spec, std::filesystem::path scratch);
  ~Machine() { kill(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const std::string& name() const { return spec_.name; }
  const std::string& address() const { return spec_.address; }
  pid_t pid() const { return pid_; }  // of its first process, as seen from here

  // A file of the machine, as it is reached from here.
  std::filesystem::path file(const std::string& path) const;

  Output run(const Words& words, std::chrono::seconds limit = std::chrono::seconds(20));
  std::unique_ptr<Command> start(const Words& words);

  // All its processes at once, as when the power fails.
  void kill();

 private:
  Words inside(const Words& words) const;

  MachineSpec spec_;
  std::filesystem::path scratch_;
  pid_t pid_ = -1;
  int commands_ = 0;
};

// A switch, with a cable to each machine.
class Network {
 public:
  Network();
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  Machine& add(std::string name, std::vector<std::filesystem::path> hidden = {});
  // Pulls the cable of that machine.
  void cut(const Machine& machine);

  const std::filesystem::path& scratch() const { return scratch_; }

 private:
  std::filesystem::path scratch_;  // outputs of commands; removed at the end
  pid_t switch_ = -1;
  std::vector<std::unique_ptr<Machine>> machines_;
};

// Looks again and again until `holds`, or the time is up; says which.
bool eventually(std::chrono::seconds limit, const std::function<bool()>& holds);

}  // namespace mobula::testing
