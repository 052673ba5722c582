// Printing a log that lies on a node: its streams, from where one stopped, until it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/patient_client.h"

namespace mobula::cli {

class LogStreams {
 public:
  // Workers and actors have two streams, everything else has one; what has no second says so itself.
  LogStreams(PatientClient& client, const std::string& id, bool json);

  // Prints what is there; with `tail` only the last lines of it.
  Status print(std::optional<std::size_t> tail);
  // Then what comes, until the log ends.
  Status follow();

 private:
  struct Stream {
    std::string entity;
    bool error_stream = false;
    std::uint64_t place = 0;
    bool ended = false;  // nothing more will come
  };
  Result<std::string> read(Stream& stream, bool wait);
  void write(const Stream& stream, const std::string& text) const;

  PatientClient& client_;
  bool json_;
  std::vector<Stream> streams_;
};

}  // namespace mobula::cli
