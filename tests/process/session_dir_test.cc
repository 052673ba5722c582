#include "runtime/process/session_dir.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

namespace fs = std::filesystem;

// Sessions of a test lie in a folder of its own.
class RuntimeDir {
 public:
  RuntimeDir() { ::setenv("MOBULA_RUNTIME_DIR", scratch_.path().c_str(), 1); }
  ~RuntimeDir() { ::unsetenv("MOBULA_RUNTIME_DIR"); }
  std::string user() const { return scratch_.path() + "/mobula-" + std::to_string(::geteuid()); }
  const std::string& root() const { return scratch_.path(); }

 private:
  ScratchDir scratch_;
};

NodeRecord record_of(ClusterId cluster, NodeId node) {
  NodeRecord record;
  record.cluster = cluster;
  record.node = node;
  record.pid = ::getpid();
  record.endpoint = "127.0.0.1:4242";
  record.head_endpoint = "127.0.0.1:4241";
  record.version = "0.1";
  return record;
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
}

constexpr ClusterId kCluster{0xc1};

}  // namespace

TEST_CASE("a session is private, found while it lives, and leaves nothing behind") {
  RuntimeDir runtime;
  {
    auto session = SessionDir::create(kCluster, NodeId{7});
    REQUIRE_MESSAGE(session.ok(), (session.ok() ? std::string() : session.error().message));
    CHECK(session->path() == runtime.user() + "/00000000000000c1/0000000000000007");
    for (const std::string& dir : {runtime.user(), session->path(), session->process_dir()}) {
      CHECK(mode_of(dir) == 0700U);
    }
    CHECK(session->process_socket(ProcessId{0xabc}) == session->path() + "/p/0000000000000abc");
    CHECK(find_sessions().empty());  // not yet published
    REQUIRE(session->publish(record_of(kCluster, NodeId{7})).ok());
    const auto found = find_sessions(kCluster);
    REQUIRE(found.size() == 1);
    CHECK(found[0].alive);
    CHECK(found[0].record.endpoint == "127.0.0.1:4242");
    CHECK(found[0].record.node == NodeId{7});
    CHECK(found[0].node_socket() == session->node_socket());
    CHECK(find_sessions(ClusterId{0xc2}).empty());
    CHECK(remove_stale_sessions() == 0);
    CHECK(find_sessions().size() == 1);
  }
  CHECK(fs::is_empty(runtime.root()));
}

TEST_CASE("several nodes of several clusters live side by side") {
  RuntimeDir runtime;
  auto a = SessionDir::create(kCluster, NodeId{1});
  auto b = SessionDir::create(kCluster, NodeId{2});
  auto c = SessionDir::create(ClusterId{0xc2}, NodeId{3});
  REQUIRE(a->publish(record_of(kCluster, NodeId{1})).ok());
  REQUIRE(b->publish(record_of(kCluster, NodeId{2})).ok());
  REQUIRE(c->publish(record_of(ClusterId{0xc2}, NodeId{3})).ok());
  CHECK(find_sessions().size() == 3);
  CHECK(find_sessions(kCluster).size() == 2);
  a->remove();
  CHECK(find_sessions(kCluster).size() == 1);
  SessionDir moved = std::move(*b);
  CHECK(find_sessions(kCluster).size() == 1);
}

TEST_CASE("what a crashed node left is stale, and goes") {
  RuntimeDir runtime;
  auto crashed = SessionDir::create(kCluster, NodeId{1});
  REQUIRE(crashed->publish(record_of(kCluster, NodeId{1})).ok());
  const std::string path = crashed->path();
  std::ofstream(path + "/p/0000000000000009") << "a socket's place";
  crashed->keep();
  auto alive = SessionDir::create(kCluster, NodeId{2});
  REQUIRE(alive->publish(record_of(kCluster, NodeId{2})).ok());

  auto found = find_sessions();
  REQUIRE(found.size() == 2);
  CHECK_FALSE(found[0].alive);
  CHECK(found[1].alive);
  CHECK(remove_stale_sessions() == 1);
  CHECK_FALSE(fs::exists(path));
  CHECK(find_sessions().size() == 1);
}

TEST_CASE("a folder in the making is nobody's to remove") {
  RuntimeDir runtime;
  const std::string making = runtime.user() + "/00000000000000c1/.new-0000000000000001";
  fs::create_directories(making);
  for (const std::string& dir : {runtime.user(), runtime.user() + "/00000000000000c1", making}) {
    ::chmod(dir.c_str(), 0700);
  }
  CHECK(remove_stale_sessions() == 0);
  CHECK(fs::exists(making));
}

TEST_CASE("a folder that is not ours alone is refused with the remedy") {
  RuntimeDir runtime;
  SUBCASE("open to others") {
    fs::create_directory(runtime.user());
    ::chmod(runtime.user().c_str(), 0755);
    const auto session = SessionDir::create(kCluster, NodeId{1});
    REQUIRE_FALSE(session.ok());
    CHECK(session.error().message.find("open to other users") != std::string::npos);
  }
  SUBCASE("a symbolic link") {
    fs::create_directory(runtime.root() + "/elsewhere");
    ::chmod((runtime.root() + "/elsewhere").c_str(), 0700);
    fs::create_directory_symlink(runtime.root() + "/elsewhere", runtime.user());
    CHECK_FALSE(SessionDir::create(kCluster, NodeId{1}).ok());
    CHECK(fs::is_empty(runtime.root() + "/elsewhere"));
  }
  SUBCASE("somebody else's") {
    if (::geteuid() == 0) {
      fs::create_directory(runtime.user());
      ::chmod(runtime.user().c_str(), 0700);
      REQUIRE(::chown(runtime.user().c_str(), 12345, 12345) == 0);
      const auto session = SessionDir::create(kCluster, NodeId{1});
      REQUIRE_FALSE(session.ok());
      CHECK(session.error().message.find("belongs to user 12345") != std::string::npos);
    }
  }
  CHECK(find_sessions().empty());
}

TEST_CASE("a runtime folder whose sockets would have too long names is refused") {
  RuntimeDir runtime;
  const std::string deep = runtime.root() + "/" + std::string(60, 'x');
  fs::create_directory(deep);
  ::setenv("MOBULA_RUNTIME_DIR", deep.c_str(), 1);
  const auto session = SessionDir::create(kCluster, NodeId{1});
  REQUIRE_FALSE(session.ok());
  CHECK(session.error().message.find("MOBULA_RUNTIME_DIR") != std::string::npos);
}

TEST_CASE("a record that is junk is no session") {
  RuntimeDir runtime;
  auto session = SessionDir::create(kCluster, NodeId{1});
  for (const char* const text : {"", "{", "[]", "{\"cluster\": 5}", "{\"cluster\": \"zz\", \"node\": \"1\"}"}) {
    std::ofstream(session->path() + "/node.json") << text;
    CHECK(find_sessions().empty());
  }
}

TEST_CASE("the runtime folder is the login session's when it is usable") {
  ScratchDir scratch;
  ::setenv("XDG_RUNTIME_DIR", scratch.path().c_str(), 1);
  CHECK(runtime_dirs().front() == scratch.path());
  ::setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
  CHECK(runtime_dirs().front() == "/tmp");
  ::setenv("XDG_RUNTIME_DIR", (scratch.path() + "/" + std::string(60, 'x')).c_str(), 1);
  CHECK(runtime_dirs().front() == "/tmp");
  ::unsetenv("XDG_RUNTIME_DIR");
  CHECK(runtime_dirs().front() == "/tmp");
}

}  // namespace mobula::process::testing
