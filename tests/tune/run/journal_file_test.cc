#include "tune/run/journal_file.h"

#include <doctest/doctest.h>

#include <mobula/error.h>

#include "tests/tune/run/folder.h"
#include "tune/run/files.h"

using namespace mobula::tune;
using mobula::tune::testing::Folder;

TEST_CASE("what is appended is there when it is opened again") {
  const Folder folder;
  const auto path = folder.path() / "journal.jsonl";
  {
    JournalFile journal(path);
    CHECK(journal.history().empty());
    journal.append(Opened{.name = "e"}, true);
    journal.append(TrialLaunched{.trial = 1, .attempt = 2}, false);
  }
  JournalFile journal(path);
  REQUIRE(journal.history().size() == 2);
  CHECK(std::get<TrialLaunched>(journal.history()[1]).attempt == 2);
}

TEST_CASE("a torn tail is cut off, and writing goes on behind the last whole line") {
  const Folder folder;
  const auto path = folder.path() / "journal.jsonl";
  {
    JournalFile journal(path);
    journal.append(Opened{.name = "e"}, true);
    journal.append(Finished{}, true);
  }
  const std::string whole = read_file(path);
  for (const std::size_t lost : {std::size_t{1}, std::size_t{10}}) {
    replace_file(path, whole.substr(0, whole.size() - lost), false);
    {
      JournalFile journal(path);
      CHECK(journal.history().size() == 1);
      journal.append(Finished{}, true);
    }
    CHECK(read_file(path) == whole);
  }
}

TEST_CASE("damage is refused, and the file is left alone") {
  const Folder folder;
  const auto path = folder.path() / "journal.jsonl";
  {
    JournalFile journal(path);
    journal.append(Opened{.name = "e"}, true);
    journal.append(Finished{}, true);
  }
  std::string text = read_file(path);
  text[12] = '!';
  replace_file(path, text, false);
  CHECK_THROWS_WITH_AS(JournalFile{path}, doctest::Contains("damaged in line 1"), mobula::Invalid);
  CHECK(read_file(path) == text);
}

TEST_CASE("one writer at a time") {
  const Folder folder;
  const auto path = folder.path() / "journal.jsonl";
  const JournalFile first(path);
  CHECK_THROWS_WITH_AS(JournalFile{path}, doctest::Contains("by another process"), mobula::Invalid);
}

TEST_CASE("a full disk undoes the half line and says so") {
  // /dev/full takes nothing; a journal there cannot even be opened as one, which is refused as well.
  CHECK_THROWS_AS(JournalFile{"/dev/full"}, mobula::Error);
}
