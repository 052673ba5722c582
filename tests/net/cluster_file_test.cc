#include "runtime/net/cluster_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mobula::net {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/mobula-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

ClusterFile example() {
  ClusterFile file;
  file.cluster = ClusterId{0xc0ffee};
  file.address = "10.1.2.3:6380";
  file.epoch = 4;
  file.key = Key::random();
  return file;
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  ::stat(path.c_str(), &info);
  return info.st_mode & 07777;
}

bool says(const ErrorInfo& error, const std::string& path, const std::string& what) {
  return error.message.find(path) != std::string::npos && error.message.find(what) != std::string::npos;
}

TEST_CASE("written and read back, private whatever the umask") {
  const TemporaryFolder folder;
  const mode_t umask_before = ::umask(0);
  const std::string path = folder / "new/cluster.json";
  const ClusterFile file = example();
  CHECK(create_cluster_file(path, file).ok());
  ::umask(umask_before);
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(folder / "new") == 0700);
  const auto loaded = load_cluster_file(path);
  REQUIRE(loaded.ok());
  CHECK(loaded->cluster == file.cluster);
  CHECK(loaded->address == file.address);
  CHECK(loaded->epoch == 4);
  CHECK(*loaded->key == *file.key);

  const auto again = create_cluster_file(path, file);
  REQUIRE_FALSE(again.ok());
  CHECK(says(again.error(), path, "exists already"));

  ClusterFile moved = file;
  moved.address = "[fd00::1]:99";
  CHECK(replace_cluster_file(path, moved).ok());
  CHECK(load_cluster_file(path)->address == "[fd00::1]:99");
  CHECK(mode_of(path) == 0600);
}

TEST_CASE("a file with a leaf gives that role only") {
  const TemporaryFolder folder;
  ClusterFile file = example();
  const Key cluster_key = *file.key;
  const Identity client{4, Role::kClient, {}, 99};
  file.leaf = make_leaf(cluster_key, client);
  file.key.reset();
  const std::string path = folder / "client.json";
  REQUIRE(create_cluster_file(path, file).ok());
  const auto loaded = load_cluster_file(path);
  REQUIRE(loaded.ok());
  CHECK_FALSE(loaded->key.has_value());
  const auto leaf = leaf_for(*loaded, Role::kClient, {}, 1);
  REQUIRE(leaf.ok());
  CHECK(leaf->identity == client);
  CHECK(leaf->key == identity_key(cluster_key, client));
  const auto node = leaf_for(*loaded, Role::kNode, {}, 1);
  REQUIRE_FALSE(node.ok());
  CHECK(node.error().kind == ErrorKind::kUnauthenticated);
  ClusterFile whole = example();
  CHECK(leaf_for(whole, Role::kNode, {}, 1)->identity == Identity{4, Role::kNode, {}, 1});
}

TEST_CASE("what cannot keep a secret is refused, with the remedy") {
  const TemporaryFolder folder;
  const std::string path = folder / "cluster.json";
  REQUIRE(create_cluster_file(path, example()).ok());
  SUBCASE("open to the group or the world") {
    for (const mode_t mode : {0640U, 0604U, 0620U, 0666U}) {
      REQUIRE(::chmod(path.c_str(), mode) == 0);
      const auto loaded = load_cluster_file(path);
      REQUIRE_FALSE(loaded.ok());
      CHECK(says(loaded.error(), path, "chmod 600"));
    }
  }
  SUBCASE("a symbolic link") {
    const std::string link = folder / "link.json";
    REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
    const auto loaded = load_cluster_file(link);
    REQUIRE_FALSE(loaded.ok());
    CHECK(says(loaded.error(), link, "symbolic link"));
    CHECK_FALSE(create_cluster_file(link, example()).ok());
    CHECK_FALSE(replace_cluster_file(link, example()).ok());
    const std::string dangling = folder / "dangling.json";
    REQUIRE(::symlink((folder / "nowhere").c_str(), dangling.c_str()) == 0);
    CHECK_FALSE(create_cluster_file(dangling, example()).ok());
    CHECK_FALSE(std::filesystem::exists(folder / "nowhere"));
  }
  SUBCASE("of another user") {
    if (::geteuid() == 0) {
      REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
      const auto loaded = load_cluster_file(path);
      REQUIRE_FALSE(loaded.ok());
      CHECK(says(loaded.error(), path, "another user"));
    }
  }
  SUBCASE("a folder, a FIFO, nothing") {
    CHECK_FALSE(load_cluster_file(folder / ".").ok());
    const std::string fifo = folder / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(says(load_cluster_file(fifo).error(), fifo, "no regular file"));
    const auto missing = load_cluster_file(folder / "missing.json");
    CHECK(says(missing.error(), "missing.json", "mobula start --head"));
  }
}

TEST_CASE("broken content is refused without repeating it") {
  const TemporaryFolder folder;
  const std::string secret = Key::random().reveal_hex();
  int number = 0;
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), "\"" + secret + "\"",
        R"({"mobula": 1, "key": ")" + secret + "\"}",
        R"({"mobula": 2, "cluster": "00000000000000c1", "address": "h:1", "epoch": 1, "key": ")" + secret + "\"}",
        R"({"mobula": 1, "cluster": "zz", "address": "h:1", "epoch": 1, "key": ")" + secret + "\"}",
        R"({"mobula": 1, "cluster": "00000000000000c1", "address": "h", "epoch": 1, "key": ")" + secret + "\"}",
        R"({"mobula": 1, "cluster": "00000000000000c1", "address": "h:1", "epoch": "x", "key": ")" + secret + "\"}",
        R"({"mobula": 1, "cluster": "00000000000000c1", "address": "h:1", "epoch": 1, "key": ")" + secret + "0\"}",
        std::string(R"({"mobula": 1, "cluster": "00000000000000c1", "address": "h:1", "epoch": 1})"),
        R"({"mobula": 1, "cluster": "00000000000000c1", "address": "h:1", "epoch": 1, "leaf": ")" + secret + "\"}",
        std::string(100'000, ' ')}) {
    CAPTURE(number);
    const std::string path = folder / (std::to_string(number++) + ".json");
    std::ofstream(path) << text;
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    const auto loaded = load_cluster_file(path);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().message.find(path) != std::string::npos);
    CHECK(loaded.error().message.find(secret.substr(0, 8)) == std::string::npos);
  }
}

TEST_CASE("the default path lies in the home") {
  const char* home = std::getenv("HOME");
  if (home != nullptr) CHECK(default_cluster_file() == std::string(home) + "/.mobula/cluster.json");
}

}  // namespace
}  // namespace mobula::net
