#include "runtime/process/archive.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <span>

namespace mobula::process {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArchiveMagic = "mobula archive 1";
constexpr std::size_t kHeaderBytes = 11;
constexpr std::size_t kCopyBytes = 256 * 1024;
constexpr std::uint64_t kArchiveMiB = std::uint64_t{1} << 20;

std::string in_quotes(const std::string& path) {
  return "\"" + path + "\"";
}

ErrorInfo refuse_archive(const std::string& why) {
  return make_error(ErrorKind::kInvalid, why);
}

// ---- packing

struct Entry {
  ArchiveEntry kind = ArchiveEntry::kFile;
  std::string path;
  std::string source;  // of a file
  std::string target;  // of a link
  std::uint64_t bytes = 0;
};

class Lister {
 public:
  explicit Lister(const PackOptions& options) : options_(options) {}

  Status list() {
    if (!options_.folder.empty()) {
      if (Status listed = list_folder("", 1); !listed) return listed;
    }
    for (const auto& [path, source] : options_.extra) {
      if (Status added = add_extra(path, source); !added) return added;
    }
    std::uint64_t sum = 0;
    for (const Entry& entry : entries_) sum += entry.bytes;
    if (sum > options_.limits.bytes_max) return too_large(sum);
    return {};
  }
  std::vector<Entry>& entries() { return entries_; }

 private:
  bool excluded(const std::string& path, const std::string& name) const {
    return std::any_of(options_.exclude.begin(), options_.exclude.end(), [&](const std::string& glob) {
      return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0 || ::fnmatch(glob.c_str(), path.c_str(), 0) == 0;
    });
  }

  Status list_folder(const std::string& inside, std::size_t depth) {
    const fs::path folder = inside.empty() ? fs::path(options_.folder) : fs::path(options_.folder) / inside;
    std::error_code error;
    std::vector<std::string> names;
    for (const fs::directory_entry& one : fs::directory_iterator(folder, error)) {
      names.push_back(one.path().filename().string());
    }
    if (error) return refuse_archive("cannot read the folder " + folder.string() + ": " + error.message());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const std::string path = inside.empty() ? name : inside + "/" + name;
      if (excluded(path, name)) continue;
      if (Status added = add(path, folder / name, depth); !added) return added;
    }
    return {};
  }

  Status add(const std::string& path, const fs::path& source, std::size_t depth) {
    if (path.size() > options_.limits.path_bytes_max || depth > options_.limits.depth_max) {
      return refuse_archive("the path " + in_quotes(path) +
                            " is longer or deeper than may travel: leave it out with --exclude");
    }
    if (entries_.size() >= options_.limits.entries_max) {
      return refuse_archive("the working folder has more than " + std::to_string(options_.limits.entries_max) +
                            " files: leave some out with --exclude, or name a smaller --working-dir");
    }
    struct stat info {};
    if (::lstat(source.c_str(), &info) != 0) return errno_error("read " + source.string());
    Entry entry;
    entry.path = path;
    if (S_ISDIR(info.st_mode)) {
      entry.kind = ArchiveEntry::kFolder;
      entries_.push_back(std::move(entry));
      return list_folder(path, depth + 1);
    }
    if (S_ISLNK(info.st_mode)) {
      std::error_code error;
      entry.kind = ArchiveEntry::kLink;
      entry.target = fs::read_symlink(source, error).string();
      if (error || !stays_inside(path, entry.target)) {
        return refuse_archive("the link " + in_quotes(path) + " leads out of the working folder, to " +
                              in_quotes(entry.target) + ": put a copy in its place, or leave it out with --exclude");
      }
      entry.bytes = entry.target.size();
    } else if (S_ISREG(info.st_mode)) {
      entry.kind = (info.st_mode & S_IXUSR) != 0 ? ArchiveEntry::kProgram : ArchiveEntry::kFile;
      entry.source = source.string();
      entry.bytes = static_cast<std::uint64_t>(info.st_size);
    } else {
      return {};  // sockets, pipes and devices mean nothing elsewhere
    }
    entries_.push_back(std::move(entry));
    return {};
  }

  Status add_extra(const std::string& path, const std::string& source) {
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      const std::string parent = path.substr(0, slash);
      const bool there =
          std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.path == parent; });
      if (!there) entries_.push_back(Entry{ArchiveEntry::kFolder, parent, {}, {}, 0});
    }
    struct stat info {};
    if (::stat(source.c_str(), &info) != 0) return errno_error("read " + source);
    if (!S_ISREG(info.st_mode)) return refuse_archive(source + " is no file");
    entries_.push_back(Entry{ArchiveEntry::kProgram, path, source, {}, static_cast<std::uint64_t>(info.st_size)});
    return {};
  }

  ErrorInfo too_large(std::uint64_t sum) const {
    const Entry* largest = &entries_.front();
    for (const Entry& entry : entries_) {
      if (entry.bytes > largest->bytes) largest = &entry;
    }
    return refuse_archive("the files are " + std::to_string(sum / kArchiveMiB) + " MiB together, at most " +
                          std::to_string(options_.limits.bytes_max / kArchiveMiB) + " MiB may travel (the largest is " +
                          in_quotes(largest->path) + ", " + std::to_string(largest->bytes / kArchiveMiB) +
                          " MiB): leave data out with --exclude and read it where the nodes can reach it");
  }

  const PackOptions& options_;
  std::vector<Entry> entries_;
};

class ArchiveWriter {
 public:
  explicit ArchiveWriter(int fd) : fd_(fd) {}

  bool write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  bool write(std::span<const std::byte> bytes) {
    hash_.add(bytes);
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
  }
  bool header(ArchiveEntry kind, std::string_view path, std::uint64_t body) {
    std::string text(1, static_cast<char>(kind));
    for (unsigned shift = 0; shift < 16; shift += 8) text += static_cast<char>((path.size() >> shift) & 0xffU);
    for (unsigned shift = 0; shift < 64; shift += 8) text += static_cast<char>((body >> shift) & 0xffU);
    return write(text) && write(path);
  }
  std::uint64_t bytes() const { return bytes_; }
  std::string hash() { return hash_.hex(); }

 private:
  int fd_;
  std::uint64_t bytes_ = 0;
  Sha256 hash_;
};

Status pack_file(ArchiveWriter& out, const Entry& entry) {
  const Fd file(::open(entry.source.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error("read " + entry.source);
  if (!out.header(entry.kind, entry.path, entry.bytes)) return errno_error("write the archive", ErrorKind::kOutOfDisk);
  std::vector<std::byte> buffer(kCopyBytes);
  std::uint64_t left = entry.bytes;
  while (left > 0) {
    const ssize_t got = ::read(file.get(), buffer.data(), std::min<std::uint64_t>(buffer.size(), left));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("read " + entry.source);
    if (got == 0) return refuse_archive(entry.source + " was changed while it was read: submit again");
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(got));
    if (!out.write(bytes)) return errno_error("write the archive", ErrorKind::kOutOfDisk);
    left -= static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<Fd> unnamed_file() {
  std::error_code error;
  std::string pattern = (fs::temp_directory_path(error) / "mobula-archive-XXXXXX").string();
  Fd file(::mkostemp(pattern.data(), O_CLOEXEC));
  if (!file) return errno_error("make a temporary file in " + fs::path(pattern).parent_path().string());
  ::unlink(pattern.c_str());
  return file;
}

}  // namespace

Result<Packed> pack(const PackOptions& options) {
  Lister lister(options);
  if (Status listed = lister.list(); !listed) return listed.error();
  Result<Fd> file = unnamed_file();
  if (!file) return file.error();
  ArchiveWriter out(file->get());
  bool written = out.write(kArchiveMagic);
  for (const Entry& entry : lister.entries()) {
    if (entry.kind == ArchiveEntry::kFile || entry.kind == ArchiveEntry::kProgram) {
      if (Status done = pack_file(out, entry); !done) return done.error();
      continue;
    }
    written = written && out.header(entry.kind, entry.path, entry.bytes) && out.write(entry.target);
  }
  written = written && out.header(ArchiveEntry::kEnd, "", lister.entries().size());
  if (!written) return errno_error("write the archive", ErrorKind::kOutOfDisk);
  if (out.bytes() > options.limits.bytes_max) {
    return refuse_archive("the archive is larger than the " + std::to_string(options.limits.bytes_max / kArchiveMiB) +
                          " MiB that may travel: leave files out with --exclude");
  }
  Packed packed;
  packed.file = std::move(*file);
  packed.bytes = out.bytes();
  packed.hash = out.hash();
  packed.entries = lister.entries().size();
  return packed;
}

// ---- what may be unpacked

bool is_plain_path(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    begin = end + 1;
  }
  return true;
}

bool stays_inside(std::string_view path, std::string_view target) {
  if (target.empty() || target.front() == '/' || target.find('\0') != std::string_view::npos) return false;
  auto depth = std::count(path.begin(), path.end(), '/');
  // A part that is a link itself may lead to another depth, so ".." after a name cannot be judged.
  bool named = false;
  for (std::size_t begin = 0; begin <= target.size();) {
    const std::size_t end = std::min(target.find('/', begin), target.size());
    const std::string_view part = target.substr(begin, end - begin);
    if (part == "..") {
      if (named || --depth < 0) return false;
    } else if (!part.empty() && part != ".") {
      named = true;
    }
    begin = end + 1;
  }
  return true;
}

// ---- unpacking

namespace {

class Unpacker {
 public:
  Unpacker(int archive, Fd root, const ArchiveLimits& limits)
      : archive_(archive), root_(std::move(root)), limits_(limits), buffer_(kCopyBytes) {}

  Status run() {
    struct stat info {};
    if (::fstat(archive_, &info) != 0 || !S_ISREG(info.st_mode)) return refuse_archive("the archive is no file");
    size_ = static_cast<std::uint64_t>(info.st_size);
    if (size_ > limits_.bytes_max) return refuse_archive("the archive is larger than may be unpacked");
    std::string magic(kArchiveMagic.size(), '\0');
    if (!take(magic) || magic != kArchiveMagic)
      return refuse_archive("this is no archive of `mobula submit`, or one of another version");
    for (;;) {
      bool end = false;
      if (Status done = entry(end); !done) return done;
      if (end) return make_links();
    }
  }

 private:
  bool take(std::string& into) {
    std::size_t have = 0;
    while (have < into.size()) {
      const ssize_t got = ::pread(archive_, into.data() + have, into.size() - have, static_cast<off_t>(at_));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      have += static_cast<std::size_t>(got);
      at_ += static_cast<std::uint64_t>(got);
    }
    return true;
  }

  static std::uint64_t number(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  Status entry(bool& end) {
    std::string header(kHeaderBytes, '\0');
    if (!take(header)) return refuse_archive("the archive ends too early");
    const auto kind = static_cast<ArchiveEntry>(header[0]);
    const std::uint64_t path_bytes = number(std::string_view(header).substr(1, 2));
    const std::uint64_t body = number(std::string_view(header).substr(3, 8));
    if (kind == ArchiveEntry::kEnd) {
      end = true;
      if (path_bytes != 0 || body != entries_ || at_ != size_)
        return refuse_archive("the archive's end does not fit it");
      return {};
    }
    if (++entries_ > limits_.entries_max) return refuse_archive("the archive has too many entries");
    if (path_bytes > limits_.path_bytes_max) return refuse_archive("a path in the archive is too long");
    std::string path(path_bytes, '\0');
    if (!take(path)) return refuse_archive("the archive ends too early");
    if (Status fine = check_path(path); !fine) return fine;
    if (body > size_ - at_) return refuse_archive("the archive ends within " + in_quotes(path));
    switch (kind) {
      case ArchiveEntry::kFolder: return make_folder(path, body);
      case ArchiveEntry::kFile: return make_file(path, body, 0600);
      case ArchiveEntry::kProgram: return make_file(path, body, 0700);
      case ArchiveEntry::kLink: return note_link(path, body);
      case ArchiveEntry::kEnd: break;
    }
    return refuse_archive("the archive has an entry of an unknown kind, " + in_quotes(path));
  }

  // Its parent must be a folder that this archive made: so no part of it is a link, and nothing leads outside.
  Status check_path(const std::string& path) const {
    if (!is_plain_path(path)) return refuse_archive("the archive has a path that leads out of it, " + in_quotes(path));
    if (static_cast<std::size_t>(std::count(path.begin(), path.end(), '/')) >= limits_.depth_max) {
      return refuse_archive("the archive has a path that is too deep, " + in_quotes(path));
    }
    const std::size_t slash = path.rfind('/');
    if (slash != std::string::npos && !folders_.contains(path.substr(0, slash))) {
      return refuse_archive("the archive has " + in_quotes(path) + " outside every folder of its own");
    }
    return {};
  }

  Status make_folder(const std::string& path, std::uint64_t body) {
    if (body != 0) return refuse_archive("the archive has a folder with content, " + in_quotes(path));
    if (::mkdirat(root_.get(), path.c_str(), 0700) != 0) return errno_error("unpack " + path);
    folders_.insert(path);
    return {};
  }

  Status make_file(const std::string& path, std::uint64_t body, mode_t mode) {
    const Fd file(::openat(root_.get(), path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file) return errno_error("unpack " + path);
    while (body > 0) {
      const ssize_t got =
          ::pread(archive_, buffer_.data(), std::min<std::uint64_t>(buffer_.size(), body), static_cast<off_t>(at_));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return refuse_archive("the archive ends within " + in_quotes(path));
      std::span<const std::byte> rest = std::span(buffer_).first(static_cast<std::size_t>(got));
      while (!rest.empty()) {
        const ssize_t written = ::write(file.get(), rest.data(), rest.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return errno_error("unpack " + path, ErrorKind::kOutOfDisk);
        rest = rest.subspan(static_cast<std::size_t>(written));
      }
      at_ += static_cast<std::uint64_t>(got);
      body -= static_cast<std::uint64_t>(got);
    }
    return {};
  }

  Status note_link(const std::string& path, std::uint64_t body) {
    if (body > limits_.path_bytes_max) return refuse_archive("a link in the archive is too long, " + in_quotes(path));
    std::string target(body, '\0');
    if (!take(target)) return refuse_archive("the archive ends too early");
    if (!stays_inside(path, target)) {
      return refuse_archive("the archive has a link that leads out of it, " + in_quotes(path) + " to " +
                            in_quotes(target));
    }
    links_.emplace_back(path, std::move(target));
    return {};
  }

  Status make_links() {
    for (const auto& [path, target] : links_) {
      if (::symlinkat(target.c_str(), root_.get(), path.c_str()) != 0) return errno_error("unpack " + path);
    }
    return {};
  }

  int archive_;
  Fd root_;
  const ArchiveLimits& limits_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t entries_ = 0;
  std::set<std::string> folders_;                           // bounded by entries_max
  std::vector<std::pair<std::string, std::string>> links_;  // likewise
};

}  // namespace

Status unpack(int archive, const std::string& folder, const ArchiveLimits& limits) {
  Fd root(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!root || ::fstat(root.get(), &info) != 0) return errno_error("unpack into " + folder);
  if (info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return refuse_archive("archives are unpacked into private folders only, and " + folder + " is open to others");
  }
  return Unpacker(archive, std::move(root), limits).run();
}

}  // namespace mobula::process
