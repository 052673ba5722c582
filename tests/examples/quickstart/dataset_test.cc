#include "quickstart/dataset.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <doctest/doctest.h>
#include <zlib.h>

using quickstart::Dataset;
using quickstart::read_dataset;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mobula-dataset-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void write(const std::string& name, const std::string& bytes) const {
    const gzFile file = gzopen((path_ + "/" + name).c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()));
    gzclose(file);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string word(unsigned value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

const std::string kImageMagic = word(0x803);
const std::string kLabelMagic = word(0x801);

}  // namespace

TEST_CASE("images and labels are read as they are written") {
  const Folder folder;
  folder.write("train-images-idx3-ubyte.gz", kImageMagic + word(2) + word(2) + word(3) + "abcdefghijkl");
  folder.write("train-labels-idx1-ubyte.gz", kLabelMagic + word(2) + std::string("\x07\x01", 2));
  const Dataset dataset = read_dataset(folder.path(), "train");
  CHECK(dataset.pixels == 6);
  CHECK(std::string(dataset.images.begin(), dataset.images.end()) == "abcdefghijkl");
  CHECK(dataset.labels == std::vector<std::uint8_t>{7, 1});
}

TEST_CASE("files that are no such data are refused in words") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(read_dataset(folder.path(), "train"), doctest::Contains("apt-get install"), std::runtime_error);
  const std::string labels = kLabelMagic + word(2) + std::string("\x07\x01", 2);
  folder.write("train-labels-idx1-ubyte.gz", labels);
  for (const std::string& images :
       {std::string(), std::string("junk"), word(0x801) + word(2), kImageMagic + word(2) + word(2) + word(3) + "abc",
        kImageMagic + word(2) + word(2) + word(3) + "abcdefghijklm", kImageMagic + word(0) + word(2) + word(3),
        kImageMagic + word(0xffffffff) + word(0xffffffff) + word(3),
        kImageMagic + word(900000) + word(900000) + word(3), kImageMagic + word(1) + word(2) + word(3) + "abcdef"}) {
    folder.write("train-images-idx3-ubyte.gz", images);
    CHECK_THROWS_AS(read_dataset(folder.path(), "train"), std::runtime_error);
  }
}

TEST_CASE("the real data are there and whole, where the package is installed") {
  if (!std::filesystem::exists(quickstart::kFashionMnistFolder)) return;
  const Dataset test = read_dataset(quickstart::kFashionMnistFolder, "t10k");
  CHECK(test.pixels == 784);
  CHECK(test.images.size() == 7'840'000);
  CHECK(test.labels.size() == 10'000);
  std::vector<int> counts(10);
  for (const auto label : test.labels) ++counts.at(label);
  CHECK(counts == std::vector<int>(10, 1000));
}
