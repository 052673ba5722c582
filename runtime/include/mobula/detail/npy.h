// NumPy's .npy files: a magic, a version, a Python dictionary of dtype, order and shape, then the elements.
//
// Read by a parser for just that dictionary; what it does not know is refused by name. Format: numpy.lib.format.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <mobula/detail/payload.h>
#include <mobula/dtype.h>

namespace mobula::detail {

inline constexpr std::size_t kNpyHeaderBytesMax = std::size_t{1} << 20;

struct NpyHeader {
  DType dtype{};
  Shape shape;
};

// Walks the dictionary's text. Every expect() that fails names what stood there.
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    NpyHeader header;
    bool saw_descr = false, saw_order = false, saw_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        header.dtype = dtype_of(descr());
        saw_descr = true;
      } else if (key == "fortran_order") {
        if (word() != "False") {
          fail("is in Fortran (column-major) order; save it with numpy.save(path, numpy.ascontiguousarray(a))");
        }
        saw_order = true;
      } else if (key == "shape") {
        header.shape = shape();
        saw_shape = true;
      } else {
        fail("has an unknown entry '" + std::string(key) + "' in its header");
      }
      accept(',');
    }
    if (!saw_descr || !saw_order || !saw_shape) fail("lacks descr, fortran_order or shape in its header");
    return header;
  }

  [[noreturn]] void fail(const std::string& why) const { throw_invalid("'" + path_ + "' " + why); }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(std::string("has no '") + wanted + "' where its header needs one");
  }
  std::string_view quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("has no quoted name where its header needs one");
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return name;
  }
  std::string_view descr() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') fail("holds records of several fields; save each field as an array");
    return quoted();
  }
  std::string_view word() {
    skip_blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() && ((text_[at_] | 0x20) >= 'a' && (text_[at_] | 0x20) <= 'z')) ++at_;
    return text_.substr(start, at_ - start);
  }
  Shape shape() {
    Shape extents;
    expect('(');
    while (!accept(')')) {
      if (extents.size() == kRankMax) fail("has more than 32 dimensions");
      extents.push_back(number());
      accept(',');
    }
    return extents;
  }
  std::size_t number() {
    skip_blanks();
    std::size_t value = 0;
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, std::size_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<std::size_t>(text_[at_] - '0'), &value)) {
        fail("has a dimension that is too large");
      }
    }
    if (at_ == start) fail("has no number where its shape needs one");
    return value;
  }

  DType dtype_of(std::string_view descr) const {
    if (descr.size() >= 2 && descr[0] == '>') {
      fail("is big-endian; save it with a.astype(a.dtype.newbyteorder('<'))");
    }
    if (descr.size() == 3) {
      static constexpr std::pair<std::string_view, DType> kKnown[] = {
          {"b1", DType::kBool},     {"i1", DType::kInt8},    {"i2", DType::kInt16},   {"i4", DType::kInt32},
          {"i8", DType::kInt64},    {"u1", DType::kUInt8},   {"u2", DType::kUInt16},  {"u4", DType::kUInt32},
          {"u8", DType::kUInt64},   {"f2", DType::kFloat16}, {"f4", DType::kFloat32}, {"f8", DType::kFloat64},
          {"c8", DType::kComplex64}};
      for (const auto& [name, type] : kKnown) {
        if (descr.substr(1) == name) return type;
      }
    }
    if (descr.size() == 4 && descr.substr(1) == "c16") return DType::kComplex128;
    fail("holds elements of type '" + std::string(descr) + "', which is none of bool, int, uint, float and complex");
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

// A file that closes itself; each failure names the path and the system's reason.
class NpyFile {
 public:
  NpyFile(const std::string& path, const char* mode) : path_(path), file_(std::fopen(path.c_str(), mode)) {
    if (file_ == nullptr) fail("cannot be opened");
  }
  ~NpyFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  void read(void* data, std::size_t size) {
    if (std::fread(data, 1, size, file_) != size) {
      throw_invalid("'" + path_ + "' ends too early: it is not a .npy file, or a part of one");
    }
  }
  void write(const void* data, std::size_t size) {
    if (size != 0 && std::fwrite(data, 1, size, file_) != size) fail("cannot be written");
  }
  // How much is left to read; the current position stays.
  std::uint64_t left() {
    const long here = std::ftell(file_);
    if (here < 0 || std::fseek(file_, 0, SEEK_END) != 0) fail("is not a file that can be searched");
    const long end = std::ftell(file_);
    if (std::fseek(file_, here, SEEK_SET) != 0) fail("is not a file that can be searched");
    return static_cast<std::uint64_t>(end - here);
  }
  // Errors of buffered writes show here.
  void close() {
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("cannot be written");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const int reason = errno;
    throw_invalid("'" + path_ + "' " + what + ": " + std::strerror(reason));
  }

  const std::string& path_;
  std::FILE* file_;
};

// Reads up to the first element.
inline NpyHeader read_npy_header(NpyFile& file, const std::string& path) {
  std::array<unsigned char, 8> start{};
  file.read(start.data(), start.size());
  if (std::memcmp(start.data(), "\x93NUMPY", 6) != 0) throw_invalid("'" + path + "' is not a .npy file");
  if (start[6] != 1 && start[6] != 2) {
    throw_invalid("'" + path + "' is of .npy version " + std::to_string(start[6]) + "; only 1 and 2 are known");
  }
  std::array<unsigned char, 4> length{};
  file.read(length.data(), start[6] == 1 ? 2 : 4);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < 4; ++i) bytes |= std::size_t{length[i]} << (8 * i);
  if (bytes > kNpyHeaderBytesMax) throw_invalid("'" + path + "' has a header of over 1 MiB: it is damaged");
  std::string text(bytes, '\0');
  file.read(text.data(), bytes);
  return NpyDictionary(text, path).parse();
}

inline std::string npy_descr(DType type) {
  constexpr const char* kDescr[] = {"",    "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2",
                                    "<u4", "<u8", "<f2", "",    "<f4", "<f8", "<c8", "<c16"};
  return kDescr[static_cast<std::size_t>(type)];
}

// Writes version 1, whose 64 KiB of header hold any shape that exists.
inline void write_npy(const std::string& path, DType type, const Shape& shape, const void* data, std::size_t size) {
  if (npy_descr(type).empty()) throw_invalid(std::string("NumPy has no type for ") + name_of(type));
  std::string text =
      "{'descr': '" + npy_descr(type) + "', 'fortran_order': False, 'shape': " + mobula::to_string(shape) + ", }";
  constexpr std::size_t kPrefixBytes = 10;
  text.resize(align_up(kPrefixBytes + text.size() + 1, 64) - kPrefixBytes - 1, ' ');
  text += '\n';
  std::string prefix = "\x93NUMPY";
  prefix += '\x01';
  prefix += '\0';
  prefix += static_cast<char>(text.size() & 0xff);
  prefix += static_cast<char>(text.size() >> 8);
  NpyFile file(path, "wb");
  file.write(prefix.data(), prefix.size());
  file.write(text.data(), text.size());
  file.write(data, size);
  file.close();
}

}  // namespace mobula::detail
