#include "runtime/process/build_id.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>

#include "runtime/process/sha256.h"

namespace mobula::process {
namespace {

struct Range {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  bool contains(std::uintptr_t address) const { return address >= low && address < high; }
};

struct KnownModule {
  Module module;  // `id` is "" until a module without a note had to be hashed
  std::vector<Range> segments;
  std::vector<Range> code;  // those that may be executed
};

constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::size_t kNotesMax = 64 * 1024;  // of one segment of notes that is read from a file

std::string hex_of(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

// The GNU build id among the notes of [start, start + size); "" when there is none. In a segment of alignment 8 the
// content of a note, and the next note, begin at multiples of 8 from the segment's start.
std::string build_id_in(const unsigned char* start, std::size_t size, std::size_t alignment) {
  const auto aligned = [alignment](std::size_t at) { return (at + alignment - 1) / alignment * alignment; };
  std::size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= size) {
    ElfW(Nhdr) note{};
    std::memcpy(&note, start + at, sizeof note);
    const std::size_t name_at = at + sizeof note;
    if (note.n_namesz > size - name_at) return {};
    const std::size_t content_at = aligned(name_at + note.n_namesz);
    if (content_at > size || note.n_descsz > size - content_at) return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(start + name_at, "GNU", 4) == 0) {
      return hex_of(std::span(start + content_at, note.n_descsz));
    }
    at = aligned(content_at + note.n_descsz);
  }
  return {};
}

struct Enumeration {
  std::vector<KnownModule> modules;
  bool first = true;
  unsigned long long loads = 0;
};

int add_module(dl_phdr_info* info, std::size_t /*size*/, void* context) {
  auto& all = *static_cast<Enumeration*>(context);
  all.loads = info->dlpi_adds + info->dlpi_subs;
  KnownModule known;
  known.module.main = std::exchange(all.first, false);
  known.module.path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  known.module.base = info->dlpi_addr;
  for (const ElfW(Phdr) & header : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    const std::uintptr_t low = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      known.segments.push_back({low, low + header.p_memsz});
      if ((header.p_flags & PF_X) != 0) known.code.push_back({low, low + header.p_memsz});
    } else if (header.p_type == PT_NOTE && known.module.id.empty()) {
      const std::size_t alignment = header.p_align == 8 ? 8 : 4;
      known.module.id = build_id_in(reinterpret_cast<const unsigned char*>(low), header.p_memsz, alignment);
    }
  }
  if (known.segments.empty()) return 0;
  known.module.low = known.segments.front().low;
  known.module.high = known.segments.back().high;
  const bool kernel_made = !known.module.main && known.module.path.find('/') == std::string::npos;  // the vDSO
  if (!kernel_made) all.modules.push_back(std::move(known));
  return 0;
}

int read_loads(dl_phdr_info* info, std::size_t /*size*/, void* context) {
  *static_cast<unsigned long long*>(context) = info->dlpi_adds + info->dlpi_subs;
  return 1;  // the first entry is enough
}

// All modules of this process, enumerated again when the dynamic linker's counters say that something changed.
class ModuleTable {
 public:
  static ModuleTable& instance() {
    static ModuleTable table;
    return table;
  }

  Result<CodeAddress> locate(std::uintptr_t address) {
    const std::lock_guard lock(mutex_);
    refresh();
    for (KnownModule& known : modules_) {
      const bool inside = std::any_of(known.segments.begin(), known.segments.end(),
                                      [address](const Range& range) { return range.contains(address); });
      if (!inside) continue;
      Result<std::string> id = id_of(known);
      if (!id) return id.error();
      return CodeAddress{*id, address - known.module.base};
    }
    return make_error(ErrorKind::kUnknownFunction, "a function pointer lies in no loaded module");
  }

  Result<void*> resolve(const CodeAddress& wanted) {
    const std::lock_guard lock(mutex_);
    refresh();
    const bool hashed = wanted.module.starts_with(kHashPrefix);
    for (KnownModule& known : modules_) {
      if (known.module.id.empty()) {
        if (!hashed || !id_of(known)) continue;
      }
      if (known.module.id != wanted.module) continue;
      const std::uintptr_t address = known.module.base + wanted.offset;
      const bool code = std::any_of(known.code.begin(), known.code.end(),
                                    [address](const Range& range) { return range.contains(address); });
      if (code) return reinterpret_cast<void*>(address);
      return make_error(ErrorKind::kUnknownFunction,
                        "module " + wanted.module + " has no code at offset " + std::to_string(wanted.offset));
    }
    return make_error(ErrorKind::kUnknownFunction,
                      "no module with build id " + wanted.module + " is loaded in this process (" + executable_path() +
                          "): the caller runs another build, or a library that was not shipped (load_library)");
  }

  Result<std::string> main_id() {
    const std::lock_guard lock(mutex_);
    refresh();
    for (KnownModule& known : modules_) {
      if (known.module.main) return id_of(known);
    }
    return make_error(ErrorKind::kInvalid, "the dynamic linker names no executable");
  }

  std::vector<Module> list() {
    const std::lock_guard lock(mutex_);
    refresh();
    std::vector<Module> result;
    for (const KnownModule& known : modules_) result.push_back(known.module);
    return result;
  }

 private:
  void refresh() {
    unsigned long long loads = 0;
    ::dl_iterate_phdr(read_loads, &loads);
    if (!modules_.empty() && loads == loads_) return;
    Enumeration all;
    ::dl_iterate_phdr(add_module, &all);
    for (KnownModule& known : all.modules) {
      if (!known.module.id.empty()) continue;
      for (const KnownModule& old : modules_) {
        const bool same = old.module.base == known.module.base && old.module.path == known.module.path;
        if (same) known.module.id = old.module.id;
      }
    }
    modules_ = std::move(all.modules);
    loads_ = all.loads;
  }

  static Result<std::string> id_of(KnownModule& known) {
    if (known.module.id.empty()) {
      Result<std::string> hash = sha256_of_file(known.module.main ? "/proc/self/exe" : known.module.path);
      if (!hash) return hash.error();
      known.module.id = std::string(kHashPrefix) + *hash;
    }
    return known.module.id;
  }

  std::mutex mutex_;
  std::vector<KnownModule> modules_;  // bounded by what is loaded
  unsigned long long loads_ = 0;
};

}  // namespace

Result<CodeAddress> locate(const void* function) {
  return ModuleTable::instance().locate(reinterpret_cast<std::uintptr_t>(function));
}

Result<void*> resolve(const CodeAddress& address) {
  return ModuleTable::instance().resolve(address);
}

Result<std::string> executable_id() {
  return ModuleTable::instance().main_id();
}

std::vector<Module> loaded_modules() {
  return ModuleTable::instance().list();
}

Result<Fd> executable_fd() {
  Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error("open this program's own executable (/proc/self/exe)");
  return file;
}

std::string executable_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  std::string text(path.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  constexpr std::string_view kDeleted = " (deleted)";
  if (text.ends_with(kDeleted)) text.resize(text.size() - kDeleted.size());
  return text;
}

Result<std::string> file_id(int fd) {
  ElfW(Ehdr) header{};
  const bool elf = ::pread(fd, &header, sizeof header, 0) == ssize_t{sizeof header} &&
                   std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_phentsize == sizeof(ElfW(Phdr));
  for (std::size_t i = 0; elf && i < header.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
    if (::pread(fd, &segment, sizeof segment, at) != ssize_t{sizeof segment}) break;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kNotesMax) continue;
    std::vector<unsigned char> notes(segment.p_filesz);
    if (::pread(fd, notes.data(), notes.size(), static_cast<off_t>(segment.p_offset)) !=
        static_cast<ssize_t>(notes.size())) {
      break;
    }
    std::string id = build_id_in(notes.data(), notes.size(), segment.p_align == 8 ? 8 : 4);
    if (!id.empty()) return id;
  }
  Result<std::string> hash = sha256_of_fd(fd);
  if (!hash) return hash.error();
  return std::string(kHashPrefix) + *hash;
}

Result<std::string> file_id(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error("open " + path);
  return file_id(file.get());
}

}  // namespace mobula::process
