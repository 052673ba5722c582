// Where the head's records live: RocksDB on disk for a started cluster, memory for a private one.
//
// Writes are taken in order and made durable in groups: everything that waits when the writer thread comes around
// becomes one batch and, if any of it asks for it, one sync. What is pending is bounded; above the bound write() says
// so and the head refuses new work with Overloaded instead of growing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/protocol/records.h"
#include "runtime/base/result.h"

namespace mobula::storage {

class RecordStore {
 public:
  virtual ~RecordStore() = default;

  // Everything on disk, once, before the first write.
  virtual Result<std::vector<Record>> load() = 0;

  // Queues the writes; on_persisted(sequence) follows, in order of sequence. `synced`: must survive a loss of power;
  // otherwise only the death of this process. Never blocks.
  virtual void write(std::uint64_t sequence, bool synced, const std::vector<RecordWrite>& writes) = 0;

  // Called from the store's own thread (or from write() for a memory store). Set before the first write. An error means
  // that nothing more will be persisted: the head must end.
  using OnPersisted = std::function<void(std::uint64_t sequence)>;
  using OnFailed = std::function<void(const ErrorInfo&)>;
  virtual void set_callbacks(OnPersisted persisted, OnFailed failed) = 0;

  // Writes that wait; compare with kPendingMax before taking on new work.
  virtual std::size_t pending() const = 0;
  static constexpr std::size_t kPendingMax = 100000;
};

// Opens or makes the store in `folder` (mode 0700). Another process that has it open, a file that cannot be read, or a
// store of a newer schema is an error that names the file and what to do. A torn tail of the log is dropped.
Result<std::unique_ptr<RecordStore>> open_record_store(const std::string& folder);

std::unique_ptr<RecordStore> memory_record_store();

}  // namespace mobula::storage
