#include "runtime/storage/record_store.h"

#include <utility>

namespace mobula::storage {
namespace {

// A private cluster ends with its one process, so there is nothing to keep.
class MemoryRecordStore final : public RecordStore {
 public:
  Result<std::vector<Record>> load() override { return std::vector<Record>{}; }
  void write(std::uint64_t sequence, bool, const std::vector<RecordWrite>&) override {
    if (persisted_) persisted_(sequence);
  }
  void set_callbacks(OnPersisted persisted, OnFailed) override { persisted_ = std::move(persisted); }
  std::size_t pending() const override { return 0; }

 private:
  OnPersisted persisted_;
};

}  // namespace

std::unique_ptr<RecordStore> memory_record_store() {
  return std::make_unique<MemoryRecordStore>();
}

}  // namespace mobula::storage
