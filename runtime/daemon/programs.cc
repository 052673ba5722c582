#include "runtime/daemon/programs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "runtime/process/build_id.h"
#include "runtime/process/content_store.h"
#include "runtime/process/sha256.h"

namespace mobula::daemon {
namespace {

namespace fs = std::filesystem;

// What other nodes ask for: a word, a tab, and which.
constexpr std::string_view kManifest = "program\t";  // the executable's line and the libraries' lines
constexpr std::string_view kDigest = "digest\t";     // of the file of that line
constexpr std::string_view kFile = "file\t";         // with that SHA-256

std::shared_ptr<const process::Fd> open_shared(const std::string& path) {
  process::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return nullptr;
  return std::make_shared<const process::Fd>(std::move(file));
}

bool has_identity(const std::string& path, const std::string& id) {
  const auto file = open_shared(path);
  if (!file) return false;
  const auto found = process::file_id(file->get());
  return found && *found == id;
}

// Changes when the file at that path becomes another one.
std::string stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + ":" + std::to_string(info.st_size) + ":" +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

ErrorInfo cannot_write(const std::string& path) {
  return make_error(ErrorKind::kOutOfDisk, "cannot write " + path + ": " + std::strerror(errno) +
                                               ". A node keeps the programs shipped to it in its session folder; "
                                               "XDG_RUNTIME_DIR chooses where.");
}

objectstore::ReadView view_of(std::string text) {
  const auto held = std::make_shared<const std::string>(std::move(text));
  objectstore::ReadView view;
  view.hold = held;
  view.data = reinterpret_cast<const std::byte*>(held->data());
  view.size = held->size();
  return view;
}

// Mapped for as long as somebody reads it.
std::optional<objectstore::ReadView> map_file(int file) {
  struct stat info {};
  if (::fstat(file, &info) != 0 || info.st_size <= 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (base == MAP_FAILED) return std::nullopt;
  objectstore::ReadView view;
  view.hold =
      std::shared_ptr<const void>(base, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); });
  view.data = static_cast<const std::byte*>(base);
  view.size = size;
  return view;
}

}  // namespace

// A variant on its way.
struct Programs::Preparation {
  std::string key;
  RuntimeKey runtime;
  std::vector<process::Library> loaded;
  ProgramPtr program;
  std::vector<process::Library> wanted;  // the program's, then the loaded ones
  std::vector<std::string> found;        // where the first of them are on this machine
};

// A file on its way.
struct Programs::Arrival {
  process::Fd file;
  std::string temporary;
  std::string failed;
};

Programs::Programs(net::Loop& loop, NodeId self, std::string folder, objectstore::TransferClient& transfers)
    : loop_(loop), self_(self), folder_(std::move(folder)), transfers_(transfers) {}

void Programs::remember(const Hello& driver, process::Fd executable) {
  ProgramPtr& program = programs_[driver.executable];
  if (program && !program->opened.empty()) return;  // another driver of the same program
  program = std::make_shared<Program>();
  program->used = ++uses_;
  program->executable.path = driver.executable_path;
  program->executable.name = fs::path(driver.executable_path).filename().string();
  if (auto id = process::file_id(executable.get())) program->executable.id = *std::move(id);
  program->file = std::make_shared<const process::Fd>(std::move(executable));
  for (const std::string& line : driver.libraries) {
    auto library = process::library_from(line);
    if (!library || program->libraries.size() >= process::kLibrariesMax) continue;
    // Held open, so that a rebuild while the program runs changes nothing.
    if (!process::is_system_library(*library)) {
      if (File file = open_shared(library->path)) program->opened[library->id] = std::move(file);
    }
    program->libraries.push_back(*std::move(library));
  }
  make_room();
}

void Programs::prepare(const RuntimeKey& runtime, Ready ready) {
  auto preparation = std::make_shared<Preparation>();
  preparation->runtime = runtime;
  std::string lines;
  for (const auto& [name, value] : runtime.environment) {
    if (name == process::kLibrariesVariable) lines = value;
  }
  preparation->loaded = process::libraries_from(lines);
  preparation->key = runtime.executable + "\n" + process::to_lines(preparation->loaded);
  Variant& variant = variants_[preparation->key];
  variant.used = ++uses_;
  const bool current = std::all_of(variant.stamps.begin(), variant.stamps.end(),
                                   [](const auto& file) { return stamp_of(file.first) == file.second; });
  if (variant.executable && current) return ready(*variant.executable);
  variant.executable.reset();  // a library was built again under a running program: what it was is held open
  variant.waiting.push_back(std::move(ready));
  if (variant.waiting.size() == 1) begin(preparation);
}

void Programs::begin(const std::shared_ptr<Preparation>& preparation) {
  const NodeId origin = preparation->runtime.origin;
  find_program(preparation->runtime.executable, origin, [this, preparation, origin](Result<ProgramPtr> program) {
    if (!program) return settle(*preparation, program.error());
    preparation->program = *std::move(program);
    preparation->program->used = ++uses_;
    find_executable(preparation->program, origin, [this, preparation](Result<File> file) {
      if (!file) return settle(*preparation, file.error());
      preparation->program->file = *std::move(file);
      preparation->wanted = preparation->program->libraries;
      preparation->wanted.insert(preparation->wanted.end(), preparation->loaded.begin(), preparation->loaded.end());
      go_on(preparation);
    });
  });
}

// One library after the other: the first that has to be fetched goes on from there.
void Programs::go_on(const std::shared_ptr<Preparation>& preparation) {
  if (preparation->found.size() == preparation->wanted.size()) {
    return settle(*preparation, finish(*preparation));
  }
  const process::Library library = preparation->wanted[preparation->found.size()];
  find_library(preparation->program, library, preparation->runtime.origin,
               [this, preparation](Result<std::string> path) {
                 if (!path) return settle(*preparation, path.error());
                 preparation->found.push_back(*std::move(path));
                 go_on(preparation);
               });
}

// The folder of links; its name follows from what it is, so that it can be made again.
Result<process::Executable> Programs::finish(const Preparation& preparation) const {
  process::Executable executable;
  executable.id = preparation.runtime.executable;
  executable.name = preparation.program->executable.name;
  executable.path = preparation.program->executable.path;
  executable.file = preparation.program->file;
  const std::string hash = process::sha256_hex(std::as_bytes(std::span(preparation.key)));
  executable.library_dir = folder_ + "/links/" + hash.substr(0, 16);
  std::error_code failed;
  fs::remove_all(executable.library_dir, failed);
  fs::create_directories(executable.library_dir, failed);
  for (std::size_t i = 0; i < preparation.wanted.size() && !failed; ++i) {
    const process::Library& library = preparation.wanted[i];
    const std::string& found = preparation.found[i];
    std::string path = found;
    if (!process::is_system_library(library) || found != library.path) {
      path = executable.library_dir + "/" + library.name;
      if (!fs::exists(fs::symlink_status(path))) fs::create_symlink(found, path, failed);
    }
    if (i >= preparation.program->libraries.size()) executable.libraries.push_back(path);
  }
  if (failed) {
    return make_error(ErrorKind::kOutOfDisk,
                      "cannot link the program's libraries in " + executable.library_dir + ": " + failed.message());
  }
  return executable;
}

void Programs::settle(const Preparation& preparation, const Result<process::Executable>& outcome) {
  const auto found = variants_.find(preparation.key);
  if (found == variants_.end()) return;
  Variant& variant = found->second;
  const std::vector<Ready> waiting = std::move(variant.waiting);
  variant.waiting.clear();
  if (outcome) {
    variant.executable = *outcome;
    variant.stamps.clear();
    for (std::size_t i = 0; i < preparation.wanted.size(); ++i) {
      const std::string& path = preparation.wanted[i].path;
      const bool own = preparation.found[i] == path && !process::is_system_library(preparation.wanted[i]);
      if (own) variant.stamps.emplace_back(path, stamp_of(path));
    }
    make_room();
  } else {
    variants_.erase(found);
  }
  for (const Ready& ready : waiting) ready(outcome);
}

// ---- finding
// ------------------------------------------------------------------------------------------------------------

void Programs::find_program(const std::string& id, NodeId origin, Then<ProgramPtr> then) {
  if (const auto known = programs_.find(id); known != programs_.end()) return then(known->second);
  ask(origin, std::string(kManifest) + id, [this, id, then = std::move(then)](Result<std::string> text) {
    if (!text) {
      return then(
          make_error(text.error().kind,
                     "the program " + id + " is not on this node and could not be fetched: " + text.error().message));
    }
    std::vector<process::Library> lines = process::libraries_from(*text);
    if (lines.empty()) return then(make_error(ErrorKind::kInvalid, "the manifest of program " + id + " is empty"));
    ProgramPtr& program = programs_[id];
    if (!program) {
      program = std::make_shared<Program>();
      program->executable = lines.front();
      program->libraries.assign(lines.begin() + 1, lines.end());
    }
    program->used = ++uses_;
    const ProgramPtr found = program;
    make_room();
    then(found);
  });
}

void Programs::find_executable(const ProgramPtr& program, NodeId origin, Then<File> then) {
  if (program->file) return then(program->file);
  if (has_identity(program->executable.path, program->executable.id)) {
    if (File file = open_shared(program->executable.path)) return then(std::move(file));
  }
  fetch_file(program->executable, origin, [then = std::move(then)](Result<std::string> path) {
    if (!path) return then(path.error());
    if (File file = open_shared(*path)) return then(std::move(file));
    then(make_error(ErrorKind::kOutOfDisk, "the program fetched to " + *path + " has vanished"));
  });
}

void Programs::find_library(const ProgramPtr& program, const process::Library& library, NodeId origin,
                            Then<std::string> then) {
  std::error_code ignored;
  if (process::is_system_library(library) ? fs::exists(library.path, ignored)
                                          : has_identity(library.path, library.id)) {
    return then(library.path);
  }
  if (const auto held = program->opened.find(library.id); held != program->opened.end()) {
    return then(keep(library, held->second->get()));
  }
  fetch_file(library, origin, std::move(then));
}

// ---- fetching
// ------------------------------------------------------------------------------------------------------------

void Programs::fetch_file(const process::Library& what, NodeId origin, Then<std::string> then) {
  const std::string line = process::to_line(what);
  if (const auto known = shipped_.find(line); known != shipped_.end()) return then(known->second);
  auto& waiting = asked_[line];
  waiting.push_back(std::move(then));
  if (waiting.size() > 1) return;
  ask(origin, std::string(kDigest) + line, [this, what, line, origin](Result<std::string> hash) {
    if (!hash) {
      return arrived(line, make_error(hash.error().kind, what.path + " is not on this node and could not be fetched: " +
                                                             hash.error().message));
    }
    fetch_content(*hash, what, origin, [this, line](Result<std::string> path) { arrived(line, path); });
  });
}

void Programs::arrived(const std::string& what, const Result<std::string>& path) {
  const auto found = asked_.find(what);
  if (found == asked_.end()) return;
  const std::vector<Then<std::string>> waiting = std::move(found->second);
  asked_.erase(found);
  if (path) shipped_[what] = *path;
  for (const auto& then : waiting) then(path);
}

// Where a file of that hash lies, with the name that asks for it.
Result<std::string> Programs::file_name(const std::string& hash, const std::string& name) const {
  if (!process::is_content_hash(hash)) return make_error(ErrorKind::kInvalid, "the node that has it names no SHA-256");
  const std::string folder = folder_ + "/files/" + hash;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return make_error(ErrorKind::kOutOfDisk, "cannot make " + folder + ": " + failed.message());
  return folder + "/" + name;
}

// long-function: one file from the first byte to its name, with what its two handlers share
void Programs::fetch_content(const std::string& hash, const process::Library& what, NodeId origin,
                             Then<std::string> then) {
  const auto path = file_name(hash, what.name);
  if (!path) return then(path.error());
  auto arrival = std::make_shared<Arrival>();
  arrival->temporary = *path + ".part";
  arrival->file.reset(::open(arrival->temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!arrival->file) return then(cannot_write(arrival->temporary));
  objectstore::FetchRequest request;
  request.from = origin;
  request.content = std::string(kFile) + hash;
  request.on_chunk = [this, arrival](std::uint64_t offset, std::uint64_t total, std::span<const std::byte> bytes) {
    if (!arrival->failed.empty()) return;
    if (total > kFileBytesMax || total > kShippedBytesMax - std::min(kShippedBytesMax, shipped_bytes_)) {
      arrival->failed = "it has " + std::to_string(total >> 20) + " MiB: at most " +
                        std::to_string(kFileBytesMax >> 20) + " a file and " + std::to_string(kShippedBytesMax >> 20) +
                        " a node are shipped; install it on the nodes, at the same path";
    } else if (::pwrite(arrival->file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
               static_cast<ssize_t>(bytes.size())) {
      arrival->failed = cannot_write(arrival->temporary).message;
    }
  };
  request.done = [this, arrival, hash, what, path = *path, alive = std::weak_ptr<bool>(alive_),
                  then = std::move(then)](const objectstore::FetchOutcome& outcome) {
    if (!alive.lock()) return;
    std::string wrong = arrival->failed;
    if (outcome.missing) wrong = "its node does not have it any more";
    if (outcome.error) wrong = outcome.error->message;
    if (wrong.empty()) {
      const auto have = process::sha256_of_fd(arrival->file.get());
      if (!have || *have != hash) wrong = "what arrived is not what was asked for (its SHA-256 differs)";
    }
    ::fchmod(arrival->file.get(), 0500);
    arrival->file.reset();  // nobody executes what is open for writing
    if (wrong.empty() && ::rename(arrival->temporary.c_str(), path.c_str()) != 0) wrong = cannot_write(path).message;
    if (!wrong.empty()) {
      ::unlink(arrival->temporary.c_str());
      return then(make_error(ErrorKind::kUnreachable, what.path + " could not be fetched: " + wrong));
    }
    shipped_bytes_ += outcome.total;
    then(path);
  };
  transfers_.fetch(std::move(request));
}

// A short answer of another node.
void Programs::ask(NodeId origin, const std::string& content, Then<std::string> then) {
  if (!origin || origin == self_) {
    return then(make_error(ErrorKind::kUnreachable,
                           "no driver on this node has it any more, or its file has changed "
                           "since: start the program again"));
  }
  auto text = std::make_shared<std::string>();
  objectstore::FetchRequest request;
  request.from = origin;
  request.content = content;
  request.on_chunk = [text](std::uint64_t offset, std::uint64_t total, std::span<const std::byte> bytes) {
    if (total > kAnswerBytesMax || offset + bytes.size() > total) return;
    text->resize(total);
    std::memcpy(text->data() + offset, bytes.data(), bytes.size());
  };
  request.done = [text, origin, alive = std::weak_ptr<bool>(alive_),
                  then = std::move(then)](const objectstore::FetchOutcome& outcome) {
    if (!alive.lock()) return;
    if (outcome.error) return then(*outcome.error);
    if (outcome.missing || text->empty()) {
      return then(make_error(ErrorKind::kUnreachable, "node " + to_string(origin) +
                                                          ", which it comes from, does not have it (any more), or its "
                                                          "file there has changed since: start the program again"));
    }
    then(*text);
  };
  transfers_.fetch(std::move(request));
}

// A library whose path has changed under a running program: a copy of what it was.
Result<std::string> Programs::keep(const process::Library& library, int file) {
  const std::string line = process::to_line(library);
  if (const auto known = shipped_.find(line); known != shipped_.end()) return known->second;
  const auto hash = process::sha256_of_fd(file);
  if (!hash) return hash.error();
  auto path = file_name(*hash, library.name);
  if (!path) return path.error();
  std::error_code failed;
  fs::copy_file("/proc/self/fd/" + std::to_string(file), *path, fs::copy_options::overwrite_existing, failed);
  if (failed) return make_error(ErrorKind::kOutOfDisk, "cannot copy " + library.path + ": " + failed.message());
  shipped_[line] = *path;
  return path;
}

// ---- for other nodes
// ------------------------------------------------------------------------------------------------------------

std::optional<objectstore::ReadView> Programs::content(const std::string& name) {
  if (name.starts_with(kFile)) {
    const auto found = offered_.find(name.substr(kFile.size()));
    return found == offered_.end() ? std::nullopt : map_file(found->second->get());
  }
  auto text = answer(name);
  if (!text) return std::nullopt;
  return view_of(*std::move(text));
}

std::optional<std::string> Programs::answer(const std::string& name) {
  if (name.starts_with(kManifest)) {
    const auto known = programs_.find(name.substr(kManifest.size()));
    if (known == programs_.end()) return std::nullopt;
    Program& program = *known->second;
    program.used = ++uses_;
    process::Library executable = program.executable;
    if (!process::library_from(process::to_line(executable))) executable.name = "program";
    return process::to_line(executable) + "\n" + process::to_lines(program.libraries);
  }
  if (!name.starts_with(kDigest)) return std::nullopt;
  const auto library = process::library_from(name.substr(kDigest.size()));
  File file = library ? open_offered(*library) : nullptr;
  const auto hash = file ? process::sha256_of_fd(file->get()) : Result<std::string>(ErrorInfo{});
  if (!hash) return std::nullopt;
  if (offered_.size() >= kOfferedMax) offered_.erase(offered_.begin());
  offered_[*hash] = std::move(file);
  return *hash;
}

// The path is only where to look: a file is given to who knows its identity already.
Programs::File Programs::open_offered(const process::Library& library) const {
  for (const auto& [id, program] : programs_) {
    if (program->file && program->executable.id == library.id) return program->file;
    if (const auto held = program->opened.find(library.id); held != program->opened.end()) return held->second;
  }
  File file = open_shared(library.path);
  if (!file) return nullptr;
  const auto id = process::file_id(file->get());
  return id && *id == library.id ? file : nullptr;
}

void Programs::make_room() {
  const auto oldest = [](auto& all, auto may_go, auto used) {
    auto chosen = all.end();
    for (auto entry = all.begin(); entry != all.end(); ++entry) {
      if (may_go(entry->second) && (chosen == all.end() || used(entry->second) < used(chosen->second))) chosen = entry;
    }
    return chosen;
  };
  if (programs_.size() > kProgramsMax) {
    programs_.erase(oldest(
        programs_, [](const ProgramPtr&) { return true; }, [](const ProgramPtr& program) { return program->used; }));
  }
  if (variants_.size() <= kProgramsMax) return;
  const auto variant = oldest(
      variants_, [](const Variant& one) { return one.executable.has_value(); },
      [](const Variant& one) { return one.used; });
  if (variant != variants_.end()) variants_.erase(variant);
}

}  // namespace mobula::daemon
