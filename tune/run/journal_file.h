// The journal on disk: one process writes it, whole lines only.
//
// When what is safe: every line is handed to the system at once, so the death of the driver loses nothing. fdatasync
// follows at once for lines that open, make, end or fail something, and for reports at the latest after the
// experiment's sync interval: the death of the whole machine loses at most that much of the reports of trials that run
// again anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "tune/experiment/journal.h"

namespace mobula::tune {

class JournalFile {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{4} << 30;

  // Opens or makes the file, reads it, cuts off a torn tail. Throws Invalid when it is damaged or another process has
  // it open, OutOfDisk when there is no room.
  explicit JournalFile(const std::filesystem::path& path);
  ~JournalFile();
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  // What it held when it was opened.
  const std::vector<JournalEvent>& history() const { return history_; }
  // Throws OutOfDisk or Invalid; the file is then as it was before.
  void append(const JournalEvent& event, bool sync);
  void sync();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t sequence_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<JournalEvent> history_;
};

}  // namespace mobula::tune
