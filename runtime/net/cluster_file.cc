#include "runtime/net/cluster_file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/net/address.h"
#include "runtime/net/fd.h"
#include "runtime/net/socket.h"
#include "runtime/net/unix.h"

namespace mobula::net {
namespace {

constexpr int kFormat = 1;
constexpr std::size_t kSizeMax = 64 * 1024;

ErrorInfo file_error(const std::string& path, const std::string& what) {
  return make_error(ErrorKind::kInvalid, "cluster file " + path + ": " + what);
}

std::string encode(const ClusterFile& content) {
  nlohmann::ordered_json json;
  json["mobula"] = kFormat;
  json["cluster"] = to_string(content.cluster);
  json["address"] = content.address;
  json["epoch"] = content.epoch;
  if (content.key) json["key"] = content.key->reveal_hex();
  if (content.leaf) {
    json["leaf"] = {{"identity", to_string(content.leaf->identity)}, {"key", content.leaf->key.reveal_hex()}};
  }
  return json.dump(2) + "\n";
}

// Nothing of the content gets into an error: it may hold a key.
Result<ClusterFile> decode(const std::string& path, const std::string& text) {
  const auto broken = [&path](const std::string& what) {
    return file_error(path, what + ". Copy it from the machine of the head again");
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return broken("is not JSON");
  try {
    if (json.at("mobula").get<int>() != kFormat) {
      return file_error(path, "has format " + std::to_string(json.at("mobula").get<int>()) +
                                  ", this Mobula reads format " + std::to_string(kFormat) +
                                  ". Use the same version of Mobula on all machines");
    }
    ClusterFile content;
    if (!parse_id(json.at("cluster").get<std::string>(), content.cluster) || !content.cluster) {
      return broken("has no valid cluster id");
    }
    content.address = json.at("address").get<std::string>();
    // Empty until the head has started for the first time.
    if (!content.address.empty() && !parse_host_port(content.address)) return broken("has no valid address");
    content.epoch = json.at("epoch").get<std::uint32_t>();
    if (json.contains("key")) {
      auto key = Key::from_hex(json.at("key").get<std::string>());
      if (!key) return broken("has no valid key");
      content.key = *key;
    }
    if (json.contains("leaf")) {
      auto identity = parse_identity(json.at("leaf").at("identity").get<std::string>());
      auto key = Key::from_hex(json.at("leaf").at("key").get<std::string>());
      if (!identity || !key) return broken("has no valid leaf");
      content.leaf = Leaf{*identity, *key};
    }
    if (!content.key && !content.leaf) return broken("holds no key");
    return content;
  } catch (const nlohmann::json::exception&) {
    return broken("lacks a field or has one of the wrong type");
  }
}

Status write_all(int descriptor, const std::string& path, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t size = ::write(descriptor, text.data() + written, text.size() - written);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return file_error(path, "cannot be written: " + errno_text(errno));
    written += static_cast<std::size_t>(size);
  }
  if (::fsync(descriptor) != 0) return file_error(path, "cannot be written: " + errno_text(errno));
  return {};
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A new file with mode 0600 from its first moment; O_EXCL neither follows a link nor opens what is there.
Status write_new(const std::string& path, const ClusterFile& content) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    if (errno == EEXIST) {
      return file_error(path,
                        "exists already. Name another file with --cluster-file, or remove it if its cluster is gone");
    }
    return file_error(path, "cannot be made: " + errno_text(errno));
  }
  ::fchmod(file.get(), 0600);
  Status status = write_all(file.get(), path, encode(content));
  if (!status) ::unlink(path.c_str());
  return status;
}

// What makes a file unfit to hold a key.
Status check_owner_and_mode(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return file_error(path, "is no regular file");
  if (info.st_uid != ::geteuid()) {
    return file_error(path, "belongs to another user. Make a copy of your own: install -m 600 " + path + " NEW_FILE");
  }
  if ((info.st_mode & 0077) != 0) {
    return file_error(path, "can be read by other users, so its key is no secret. Run: chmod 600 " + path +
                                "  (and start a new cluster if others could have read it)");
  }
  return {};
}

}  // namespace

std::string default_cluster_file() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    const passwd* user = ::getpwuid(::geteuid());
    home = user != nullptr ? user->pw_dir : "/";
  }
  return std::string(home) + "/.mobula/cluster.json";
}

Status create_cluster_file(const std::string& path, const ClusterFile& content) {
  const std::string folder = folder_of(path);
  struct stat info {};
  // A folder that exists may be an ordinary one (a project folder): the file's own mode protects it.
  if (::stat(folder.c_str(), &info) != 0) {
    if (Status status = make_private_folder(folder); !status) return status;
  }
  return write_new(path, content);
}

Status replace_cluster_file(const std::string& path, const ClusterFile& content) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return file_error(path, "cannot be replaced: " + errno_text(errno));
  if (Status status = check_owner_and_mode(path, info); !status) return status;
  const std::string fresh = path + "." + std::to_string(::getpid()) + ".new";
  ::unlink(fresh.c_str());
  if (Status status = write_new(fresh, content); !status) return status;
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    return file_error(path, "cannot be replaced: " + errno_text(error));
  }
  return {};
}

Result<ClusterFile> load_cluster_file(const std::string& path) {
  // O_NONBLOCK: a FIFO in its place must not hang us.
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    if (errno == ELOOP) return file_error(path, "is a symbolic link. Name the file itself");
    if (errno == ENOENT) {
      return file_error(path,
                        "does not exist. Start a cluster with `mobula start --head`, or copy the file from the "
                        "machine of its head and name it with --cluster-file");
    }
    return file_error(path, "cannot be opened: " + errno_text(errno));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error(path, "cannot be looked at: " + errno_text(errno));
  if (Status status = check_owner_and_mode(path, info); !status) return status.error();
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::read(file.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return file_error(path, "cannot be read: " + errno_text(errno));
    if (size == 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
    if (text.size() > kSizeMax) return file_error(path, "is too large for a cluster file");
  }
  return decode(path, text);
}

Result<Leaf> leaf_for(const ClusterFile& file, Role role, JobId job, std::uint64_t holder) {
  if (file.key) return make_leaf(*file.key, Identity{file.epoch, role, job, holder});
  if (file.leaf && file.leaf->identity.role == role) return *file.leaf;
  return make_error(ErrorKind::kUnauthenticated,
                    "the cluster file gives the role " +
                        std::string(file.leaf ? name_of(file.leaf->identity.role) : "of nobody") +
                        ", this needs the role " + name_of(role) + ". Use the cluster file of the head's machine");
}

}  // namespace mobula::net
