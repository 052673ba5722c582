#include "quickstart/dataset.h"

#include <array>
#include <memory>
#include <stdexcept>

#include <zlib.h>

namespace quickstart {
namespace {

constexpr std::size_t kDimensionMax = 1'000'000;
constexpr std::size_t kBytesMax = 1'000'000'000;

struct Closer {
  void operator()(gzFile file) const { gzclose(file); }
};

// An IDX file of bytes: 0, 0, 8 (unsigned bytes), the number of dimensions, each dimension in four bytes, the bytes.
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) {
      throw std::runtime_error("cannot read " + path +
                               ": install the data with `apt-get install dataset-fashion-mnist`");
    }
  }

  std::vector<std::size_t> read_header(std::size_t dimensions) {
    std::array<std::uint8_t, 4> word{};
    read(word.data(), word.size());
    if (word[0] != 0 || word[1] != 0 || word[2] != 8 || word[3] != dimensions) fail("is no IDX file of bytes");
    std::vector<std::size_t> sizes;
    for (std::size_t index = 0; index < dimensions; ++index) {
      read(word.data(), word.size());
      std::size_t size = 0;
      for (const std::uint8_t byte : word) size = size << 8 | byte;
      if (size == 0 || size > kDimensionMax) fail("has a dimension that cannot be");
      sizes.push_back(size);
    }
    return sizes;
  }

  std::vector<std::uint8_t> read_rest(std::size_t size) {
    if (size > kBytesMax) fail("is too large");
    std::vector<std::uint8_t> bytes(size);
    read(bytes.data(), size);
    std::uint8_t more = 0;
    if (gzread(file_.get(), &more, 1) != 0) fail("goes on after its end");
    return bytes;
  }

 private:
  void read(std::uint8_t* to, std::size_t size) {
    if (gzread(file_.get(), to, static_cast<unsigned>(size)) != static_cast<int>(size)) fail("ends too early");
  }
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(path_ + " " + what +
                             ": reinstall it with `apt-get install --reinstall dataset-fashion-mnist`");
  }

  std::string path_;
  std::unique_ptr<gzFile_s, Closer> file_;
};

}  // namespace

Dataset read_dataset(const std::string& folder, const std::string& part) {
  Dataset dataset;
  IdxFile images(folder + "/" + part + "-images-idx3-ubyte.gz");
  const auto sizes = images.read_header(3);
  dataset.pixels = sizes[1] * sizes[2];
  dataset.images = images.read_rest(sizes[0] * dataset.pixels);
  IdxFile labels(folder + "/" + part + "-labels-idx1-ubyte.gz");
  const auto count = labels.read_header(1);
  dataset.labels = labels.read_rest(count[0]);
  if (count[0] != sizes[0]) throw std::runtime_error(folder + "/" + part + ": there are not as many labels as images");
  return dataset;
}

}  // namespace quickstart
