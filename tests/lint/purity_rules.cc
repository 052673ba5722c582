#include <array>
#include <set>
#include <utility>

#include "tests/lint/layers.h"
#include "tests/lint/rules.h"

namespace mobula::lint {
namespace {

struct Banned {
  std::string_view word;
  std::string_view remedy;
};

constexpr std::string_view kPassTime = "take `Instant now` as an argument; the driver reads the clock";
constexpr std::string_view kPassRandomness = "take a mobula::Rng; the driver seeds it";
constexpr std::string_view kNoThreads = "a machine is stepped by one thread at a time; the driver holds the lock";
constexpr std::string_view kNoFiles = "return an action; a driver does the I/O";

constexpr std::array kBannedHeaders = std::to_array<Banned>({
    {"thread", kNoThreads},    {"mutex", kNoThreads},     {"shared_mutex", kNoThreads},
    {"future", kNoThreads},    {"semaphore", kNoThreads}, {"condition_variable", kNoThreads},
    {"latch", kNoThreads},     {"barrier", kNoThreads},   {"stop_token", kNoThreads},
    {"coroutine", kNoThreads}, {"pthread.h", kNoThreads}, {"random", kPassRandomness},
    {"ctime", kPassTime},      {"time.h", kPassTime},     {"fstream", kNoFiles},
    {"filesystem", kNoFiles},  {"iostream", kNoFiles},    {"unistd.h", kNoFiles},
    {"fcntl.h", kNoFiles},     {"netdb.h", kNoFiles},
});

constexpr std::array kBannedWords = std::to_array<Banned>({
    {"std::thread", kNoThreads},
    {"std::jthread", kNoThreads},
    {"std::mutex", kNoThreads},
    {"std::shared_mutex", kNoThreads},
    {"std::recursive_mutex", kNoThreads},
    {"std::condition_variable", kNoThreads},
    {"std::async", kNoThreads},
    {"thread_local", kNoThreads},
    {"co_await", kNoThreads},
    {"co_yield", kNoThreads},
    {"steady_clock::now", kPassTime},
    {"system_clock::now", kPassTime},
    {"high_resolution_clock", kPassTime},
    {"clock_gettime", kPassTime},
    {"gettimeofday", kPassTime},
    {"monotonic_now", kPassTime},
    {"std::time", kPassTime},
    {"random_device", kPassRandomness},
    {"getrandom", kPassRandomness},
    {"random_seed", kPassRandomness},
    {"std::rand", kPassRandomness},
    {"std::mt19937", kPassRandomness},
    {"std::mt19937_64", kPassRandomness},
    {"std::default_random_engine", kPassRandomness},
    {"std::shuffle", kPassRandomness},
    {"std::ifstream", kNoFiles},
    {"std::ofstream", kNoFiles},
    {"std::fopen", kNoFiles},
    {"std::filesystem", kNoFiles},
    {"std::getenv", "take the setting as a constructor argument"},
});

// The few places that are the edge itself: file and banned word or header.
constexpr std::array kExceptions = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"runtime/base/time.h", "steady_clock::now"},  // monotonic_now() itself, for drivers
    {"runtime/base/time.h", "monotonic_now"},
    {"runtime/base/rng.h", "random_seed"},  // the seed that drivers draw
    {"runtime/base/rng.cc", "random_seed"},
    {"runtime/base/rng.cc", "getrandom"},
    {"runtime/base/rng.cc", "sys/random.h"},
});

bool excepted(std::string_view path, std::string_view word) {
  for (const auto& [file, allowed] : kExceptions) {
    if (path == file && word == allowed) return true;
  }
  return false;
}

void check_headers(const SourceFile& file, std::string_view layer, std::vector<Finding>& findings) {
  const std::string where = " in pure layer " + std::string(layer);
  for (const Include& include : includes_of(file)) {
    if (include.quoted || excepted(file.path, include.name)) continue;
    std::string_view remedy;
    for (const Banned& banned : kBannedHeaders) {
      if (include.name == banned.word) remedy = banned.remedy;
    }
    if (include.name.starts_with("sys/") || include.name.starts_with("netinet/") || include.name.starts_with("arpa/")) {
      remedy = kNoFiles;
    }
    if (include.name == "atomic" && layer != "base") remedy = kNoThreads;
    if (!remedy.empty())
      findings.push_back({file.path, include.line, "<" + include.name + ">" + where, std::string(remedy)});
  }
}

// `std::map<Node*, ...>` and the like: addresses differ between runs.
bool keyed_by_pointer(std::string_view line) {
  for (const std::string_view container : {"map<", "set<", "multimap<", "multiset<"}) {
    for (std::size_t at = line.find(container); at != std::string_view::npos; at = line.find(container, at + 1)) {
      int depth = 0;
      for (std::size_t i = at + container.size(); i < line.size(); ++i) {
        if (line[i] == '<' || line[i] == '(') ++depth;
        if (line[i] == '*' && depth == 0) return true;
        if (line[i] == ',' && depth == 0) break;
        if ((line[i] == '>' || line[i] == ')') && depth-- == 0) break;
      }
    }
  }
  return false;
}

}  // namespace

void check_purity(const SourceFile& file, std::vector<Finding>& findings) {
  const Layer* layer = layer_of(file.path);
  if (layer == nullptr || !layer->pure || !is_code(file.path)) return;
  check_headers(file, layer->name, findings);
  for (std::size_t i = 0; i < file.code.size(); ++i) {
    for (const Banned& banned : kBannedWords) {
      if (find_word(file.code[i], banned.word) == std::string::npos || excepted(file.path, banned.word)) continue;
      findings.push_back({file.path, i + 1, std::string(banned.word) + " in pure layer " + std::string(layer->name),
                          std::string(banned.remedy)});
    }
    if (keyed_by_pointer(file.code[i])) {
      findings.push_back({file.path, i + 1, "a container keyed by pointer in pure layer " + std::string(layer->name),
                          "key it by an id: addresses, and so the order, differ between runs"});
    }
  }
}

}  // namespace mobula::lint
