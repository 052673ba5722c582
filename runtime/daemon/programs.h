// The programs that a node runs as workers: where each one's executable and libraries are on this machine, and how they
// come here when they are not.
//
// A driver's own node is told by the driver. Another node asks that one, over the transfer connections: first for the
// program's manifest (names, identities, paths), then for what it lacks. What lies at the same path with the same
// identity is not shipped; the rest is asked for by its SHA-256, checked, and kept in a private folder of the session,
// so that two programs share a library and nothing survives the node. Each program has a folder of links to its
// libraries, which the dynamic linker is given: the private paths of the driver's machine need not exist here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "objectstore/io/transfer.h"
#include "runtime/base/protocol/call.h"
#include "runtime/base/protocol/hello.h"
#include "runtime/net/loop.h"
#include "runtime/process/fd.h"
#include "runtime/process/libraries.h"
#include "runtime/process/spawner.h"

namespace mobula::daemon {

class Programs {
 public:
  static constexpr std::size_t kProgramsMax = 256;                // the one unused for longest makes room
  static constexpr std::size_t kOfferedMax = 1024;                // files that other nodes may ask for by hash
  static constexpr std::uint64_t kFileBytesMax = 4ULL << 30;      // of one file that is shipped
  static constexpr std::uint64_t kShippedBytesMax = 16ULL << 30;  // of all files that were shipped to this node
  static constexpr std::uint64_t kAnswerBytesMax = 1ULL << 20;    // of a manifest

  using Ready = std::function<void(Result<process::Executable>)>;

  // `folder` is made, 0700, when it is first needed. `transfers` must outlive this.
  Programs(net::Loop& loop, NodeId self, std::string folder, objectstore::TransferClient& transfers);
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // A driver of this node runs that program.
  void remember(const Hello& driver, process::Fd executable);
  // What workers of that kind are started from: at once when all is here, else later, on the loop.
  void prepare(const RuntimeKey& runtime, Ready ready);
  // For other nodes: a manifest, a file's hash, a file.
  std::optional<objectstore::ReadView> content(const std::string& name);

 private:
  using File = std::shared_ptr<const process::Fd>;
  template <class T>
  using Then = std::function<void(Result<T>)>;

  // Of a driver here, or as its node told us.
  struct Program {
    process::Library executable;  // its identity alone, its name and its path
    File file;                    // null: not here yet
    std::vector<process::Library> libraries;
    std::map<std::string, File> opened;  // private libraries as they were when the driver started, by identity
    std::uint64_t used = 0;
  };
  using ProgramPtr = std::shared_ptr<Program>;
  // One program with the libraries loaded later: what zygotes are made of.
  struct Variant {
    std::optional<process::Executable> executable;
    std::vector<std::pair<std::string, std::string>> stamps;  // of the machine's own files that it uses, by path
    std::vector<Ready> waiting;                               // while it is prepared
    std::uint64_t used = 0;
  };
  struct Preparation;
  struct Arrival;

  void begin(const std::shared_ptr<Preparation>& preparation);
  void go_on(const std::shared_ptr<Preparation>& preparation);
  Result<process::Executable> finish(const Preparation& preparation) const;
  void settle(const Preparation& preparation, const Result<process::Executable>& outcome);

  void find_program(const std::string& id, NodeId origin, Then<ProgramPtr> then);
  void find_executable(const ProgramPtr& program, NodeId origin, Then<File> then);
  void find_library(const ProgramPtr& program, const process::Library& library, NodeId origin, Then<std::string> then);
  void fetch_file(const process::Library& what, NodeId origin, Then<std::string> then);
  void fetch_content(const std::string& hash, const process::Library& what, NodeId origin, Then<std::string> then);
  void ask(NodeId origin, const std::string& content, Then<std::string> then);
  Result<std::string> file_name(const std::string& hash, const std::string& name) const;
  Result<std::string> keep(const process::Library& library, int file);
  void arrived(const std::string& what, const Result<std::string>& path);

  File open_offered(const process::Library& library) const;
  std::optional<std::string> answer(const std::string& name);
  void make_room();

  net::Loop& loop_;
  NodeId self_;
  std::string folder_;
  objectstore::TransferClient& transfers_;
  std::map<std::string, ProgramPtr> programs_;  // by identity; bounded by kProgramsMax
  std::map<std::string, Variant> variants_;     // by identity and loaded libraries; bounded by kProgramsMax
  std::map<std::string, std::string> shipped_;  // what came here, by line, and its path; bounded by kShippedBytesMax
  std::map<std::string, File> offered_;         // by hash; bounded by kOfferedMax
  std::map<std::string, std::vector<Then<std::string>>> asked_;  // under way, by line
  std::uint64_t shipped_bytes_ = 0;
  std::uint64_t uses_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::daemon
