// Bytes of released protocols decode for ever. tests/golden/v1 holds one frame a message and one file a record, as
// protocol 1 wrote them, beside the values they must decode to (<name>.txt). A member added later may add lines to what
// is decoded; every line that is kept must be found again.
//
// MOBULA_WRITE_GOLDEN=1 writes the files of the current protocol anew: done once before a protocol is released, and for
// messages that are new, never for one that has been released.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/runtime/wire/dump.h"
#include "tests/runtime/wire/envelopes.h"

namespace mobula::test {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(MOBULA_SOURCE_DIR) / "tests/golden/v1";

bool writing() {
  return std::getenv("MOBULA_WRITE_GOLDEN") != nullptr;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path.string(), " is missing: a new message? MOBULA_WRITE_GOLDEN=1 writes it");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void check_lines(const std::string& name, const std::string& decoded) {
  std::vector<std::string> have = lines_of(decoded);
  std::sort(have.begin(), have.end());
  for (const std::string& line : lines_of(read_file(kFolder / (name + ".txt")))) {
    CHECK_MESSAGE(std::binary_search(have.begin(), have.end(), line), name, " no longer decodes to: ", line);
  }
}

Bytes read_bytes(const std::string& name) {
  return Bytes::copy_of(read_file(kFolder / (name + ".bin")));
}

TEST_CASE("frames of protocol 1 decode to what was sent") {
  for (std::size_t index = 0; index < kMessages; ++index) {
    Generator generator(index);
    const Envelope envelope = make_envelope(generator, index);
    const std::string name = name_of(envelope.message);
    if (writing()) {
      write_file(kFolder / (name + ".bin"), encode_one(envelope).text());
      write_file(kFolder / (name + ".txt"), Dump::of("envelope", envelope));
    }
    const Envelope decoded = decode_one(read_bytes(name));
    CHECK(name_of(decoded.message) == name);
    check_lines(name, Dump::of("envelope", decoded));
  }
}

const char* name_of_record(const Record& record) {
  constexpr const char* kNames[] = {"ClusterRecord", "NodeRecord", "ActorRecord", "JobRecord", "SubmissionRecord"};
  static_assert(std::size(kNames) == std::variant_size_v<Record>);
  return kNames[record.index()];
}

TEST_CASE("records of schema 1 decode to what was kept") {
  for (std::size_t index = 0; index < std::variant_size_v<Record>; ++index) {
    Generator generator(index);
    const Record record = generator.make_record(index);
    const std::string name = name_of_record(record);
    if (writing()) {
      write_file(kFolder / (name + ".bin"), wire::encode_record(record)->text());
      write_file(kFolder / (name + ".txt"), Dump::of("record", record));
    }
    const auto decoded = wire::decode_record(read_bytes(name));
    REQUIRE_MESSAGE(decoded.ok(), decoded.error().message);
    CHECK(decoded->index() == index);
    check_lines(name, Dump::of("record", *decoded));
  }
}

// Every file is one that the tests above read: none was left behind by a message that was renamed.
TEST_CASE("nothing else is kept") {
  std::vector<std::string> known;
  for (std::size_t index = 0; index < kMessages; ++index) {
    Generator generator(index);
    known.emplace_back(name_of(generator.make_message(index)));
  }
  for (std::size_t index = 0; index < std::variant_size_v<Record>; ++index) {
    Generator generator(index);
    known.emplace_back(name_of_record(generator.make_record(index)));
  }
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string stem = entry.path().stem().string();
    CHECK_MESSAGE(std::find(known.begin(), known.end(), stem) != known.end(), "no message is called ", stem);
  }
}

}  // namespace
}  // namespace mobula::test
