// Runs a fuzz target without libFuzzer: over every file of its corpus, and over a fixed number of mutations of them,
// the same at every run. So each compiler and each test run exercises what fuzzing has found; -DMOBULA_FUZZER=ON with
// clang finds more.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutationsPerInput = 2000;
constexpr std::size_t kGrowthMax = 64;

using Input = std::vector<std::uint8_t>;

std::vector<Input> read_corpus(const char* folder) {
  std::map<std::string, Input> by_name;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      by_name[entry.path().filename()] = Input{std::istreambuf_iterator<char>(stream), {}};
    }
  }
  std::vector<Input> corpus = {Input{}};
  for (auto& [name, input] : by_name) corpus.push_back(std::move(input));
  return corpus;
}

Input mutated(Input input, mobula::Rng& rng) {
  const std::uint64_t kind = rng.below(4);
  if (kind == 0) input.resize(rng.below(input.size() + 1));
  if (kind == 1) input.resize(input.size() + rng.below(kGrowthMax), static_cast<std::uint8_t>(rng.next()));
  for (std::uint64_t i = 0, count = 1 + rng.below(8); i < count && !input.empty(); ++i) {
    input[rng.below(input.size())] = static_cast<std::uint8_t>(rng.next());
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Input> corpus = read_corpus(argc > 1 ? argv[1] : ".");
  mobula::Rng rng(1);
  for (const Input& input : corpus) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
    for (int i = 0; i < kMutationsPerInput; ++i) {
      const Input next = mutated(input, rng);
      LLVMFuzzerTestOneInput(next.data(), next.size());
    }
  }
  std::printf("%zu inputs, %d mutations each\n", corpus.size(), kMutationsPerInput);
  return 0;
}
