// Array and Tensor: values that share, view and copy only when they must; .npy files.
#include <unistd.h>

#include <complex>
#include <cstdio>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <mobula/mobula.h>

#include "tests/include/fake_core.h"
#include "tests/include/round_trip.h"

namespace {

using mobula::Array;
using mobula::DType;
using mobula::Shape;
using mobula::Tensor;

// A folder of its own that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mobula-npy-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

// A .npy file of that version and dictionary.
std::string npy(int version, std::string dictionary, const std::string& data) {
  dictionary += '\n';
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  if (version == 2) text += std::string(2, '\0');
  return text + dictionary + data;
}

std::string message_of(const std::string& path) {
  try {
    Array<float>::load_npy(path);
  } catch (const mobula::Invalid& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("shapes, elements and indices") {
  Array<int> array({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(array.rank() == 2);
  CHECK(array.size() == 6);
  CHECK(array.bytes() == 24);
  CHECK(array(1, 2) == 6);
  CHECK(array[3] == 4);
  CHECK(array.at(0, 1) == 2);
  CHECK_THROWS_AS(array.at(2, 0), mobula::Invalid);
  CHECK_THROWS_AS(array.at(1), mobula::Invalid);
  array.at_mutable(0, 0) = 10;
  CHECK(array[0] == 10);
  CHECK(array.reshape({3, 2})(2, 1) == 6);
  CHECK_THROWS_AS(array.reshape({4}), mobula::Invalid);
  CHECK_THROWS_AS(Array<int>({2}, {1, 2, 3}), mobula::Invalid);
  CHECK_THROWS_AS(Array<int>({1ull << 40, 1ull << 40}), mobula::Invalid);
  CHECK(Array<double>({3}) == Array<double>({3}, {0, 0, 0}));
  CHECK(Array<int>().size() == 0);
  CHECK(Array<int>::from(std::vector<int>{1, 2}) == Array<int>({2}, {1, 2}));
  CHECK(Array<float>({}, {4}).size() == 1);
  CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % 64 == 0);
}

TEST_CASE("copies share until one is written to") {
  Array<int> a({2}, {1, 2});
  Array<int> b = a;
  CHECK(a.data() == b.data());
  b.mutable_data()[0] = 9;
  CHECK(a[0] == 1);
  CHECK(b[0] == 9);
  const int* before = b.data();
  b.mutable_data();
  CHECK(b.data() == before);
  Array<int> c = std::move(b);
  CHECK(c[0] == 9);
  CHECK(b.size() == 0);
  CHECK(test::round_trip(b).size() == 0);
}

TEST_CASE("what arrives is a view that keeps its pages") {
  Array<float> view;
  const std::byte* start = nullptr;
  std::size_t size = 0;
  {
    const auto payload = test::arrived(mobula::detail::encode_payload(Array<float>({3}, {1, 2, 3})));
    start = payload.data;
    size = payload.size;
    mobula::detail::decode_payload(payload, view);
    CHECK(payload.owner.use_count() == 2);
  }
  const auto* data = reinterpret_cast<const std::byte*>(view.data());
  CHECK(view.is_view());
  CHECK(data > start);
  CHECK(data < start + size);
  CHECK(view[2] == 3);
  Array<float> other = view;
  other.mutable_data()[0] = 5;
  CHECK(!other.is_view());
  CHECK(view[0] == 1);
}

TEST_CASE("at an address that does not suit it, an array is copied") {
  const auto payload = test::arrived(mobula::detail::encode_payload(Array<double>({3}, {1, 2, 3})), 1);
  Array<double> copy;
  mobula::detail::decode_payload(payload, copy);
  CHECK(!copy.is_view());
  CHECK(copy == Array<double>({3}, {1, 2, 3}));
}

TEST_CASE("get of an array is the very memory that put wrote") {
  fake::reset();
  const auto ref = mobula::put(Array<int>({1000}));
  const Array<int> first = mobula::get(ref);
  const Array<int> second = mobula::get(ref);
  CHECK(first.data() == second.data());
  CHECK(first.is_view());
}

TEST_CASE("tensors") {
  Tensor tensor(DType::kInt32, {2, 2});
  CHECK(tensor.bytes() == 16);
  static_cast<int*>(tensor.mutable_data())[3] = 7;
  const Array<int> array = tensor.as<int>();
  CHECK(array(1, 1) == 7);
  CHECK(array.data() == tensor.data());
  CHECK_THROWS_AS(tensor.as<float>(), mobula::Invalid);
  const Tensor copy = test::round_trip(tensor);
  CHECK(copy.dtype() == DType::kInt32);
  CHECK(copy.shape() == Shape{2, 2});
  CHECK(copy.as<int>() == array);
  CHECK(copy.device() == mobula::Device{});
  CHECK(test::round_trip(Tensor(DType::kBFloat16, {4})).bytes() == 8);
  CHECK(test::round_trip(Tensor()).size() == 0);
  Tensor moved = std::move(tensor);
  CHECK(test::round_trip(tensor).size() == 0);
}

TEST_CASE("arrays of every element type go through .npy files") {
  const Folder folder;
  const std::string path = folder.file("a.npy");
  const auto check = [&path](const auto& array) {
    array.save_npy(path);
    CHECK(std::decay_t<decltype(array)>::load_npy(path) == array);
    const Tensor tensor = Tensor::load_npy(path);
    CHECK(tensor.dtype() == array.dtype());
    CHECK(tensor.shape() == array.shape());
  };
  check(Array<bool>({2}, {true, false}));
  check(Array<std::int8_t>({3}, {1, 2, 3}));
  check(Array<std::uint64_t>({1, 2}, {1, 2}));
  check(Array<float>({2, 1, 2}, {1, 2, 3, 4}));
  check(Array<double>({}, {1.5}));
  check(Array<double>({0, 3}));
  check(Array<std::complex<float>>({1}, {{1, 2}}));
  check(Array<std::complex<double>>({1}, {{1, 2}}));
  CHECK_THROWS_AS(Tensor(DType::kBFloat16, {1}).save_npy(path), mobula::Invalid);
  CHECK_THROWS_AS(Array<int>().save_npy("/nonexistent/folder/a.npy"), mobula::Invalid);
}

TEST_CASE("files as NumPy writes them") {
  const Folder folder;
  const std::string path = folder.file("a.npy");
  const std::string two = std::string("\0\0\x80\x3f\0\0\0\x40", 8);  // 1 and 2
  write_file(path, npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", two));
  CHECK(Array<float>::load_npy(path) == Array<float>({2}, {1, 2}));
  write_file(path, npy(2, "{'shape': (2, 1), 'descr': '<f4', 'fortran_order': False}", two));
  CHECK(Array<float>::load_npy(path) == Array<float>({2, 1}, {1, 2}));

  write_file(path, npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", two));
  CHECK(message_of(path).find("ascontiguousarray") != std::string::npos);
  write_file(path, npy(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", two));
  CHECK(message_of(path).find("big-endian") != std::string::npos);
  write_file(path, npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", two));
  CHECK(message_of(path).find("holds float64, not float32") != std::string::npos);
  write_file(path, npy(1, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", two));
  CHECK(message_of(path).find("'|O'") != std::string::npos);
  write_file(path, npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", two));
  CHECK(message_of(path).find("records") != std::string::npos);
  write_file(path, npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", two));
  CHECK(message_of(path).find("cut off") != std::string::npos);
  write_file(path, npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,), }", two));
  CHECK(message_of(path).find("too large") != std::string::npos);
  write_file(path, npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296), }", two));
  CHECK(message_of(path).find("too large") != std::string::npos);
  write_file(path, npy(3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", two));
  CHECK(message_of(path).find("version 3") != std::string::npos);
  write_file(path, "hello, this is text");
  CHECK(message_of(path).find("not a .npy file") != std::string::npos);
  CHECK(message_of(folder.file("missing.npy")).find("cannot be opened") != std::string::npos);
  const std::string whole = npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", two);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    CHECK(!message_of(path).empty());
  }
}
