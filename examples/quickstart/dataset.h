// Reads Fashion-MNIST as Debian's package dataset-fashion-mnist installs it: gzipped IDX files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quickstart {

inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

struct Dataset {
  std::size_t pixels = 0;            // of an image
  std::vector<std::uint8_t> images;  // one after the other
  std::vector<std::uint8_t> labels;
};

// `part`: "train" or "t10k". Throws std::runtime_error that says what is wrong with which file and what to do.
Dataset read_dataset(const std::string& folder, const std::string& part);

}  // namespace quickstart
