// The one file that sees RocksDB.

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "runtime/storage/record_store.h"
#include "runtime/wire/codec.h"

namespace mobula::storage {
namespace {

// One letter a kind, then the record's own key.
std::string full_key(std::size_t kind, const std::string& key) {
  return std::string(1, static_cast<char>('A' + kind)) + key;
}

rocksdb::Options small_options() {
  rocksdb::Options options;
  options.create_if_missing = true;
  // A torn tail is what a killed process leaves; damage in the middle must not pass silently.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.max_background_jobs = 1;
  options.write_buffer_size = 4 << 20;
  options.max_write_buffer_number = 2;
  options.max_open_files = 64;
  options.keep_log_file_num = 2;
  options.max_log_file_size = 1 << 20;
  options.max_total_wal_size = 16 << 20;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(1 << 20);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

ErrorInfo open_error(const std::string& folder, const rocksdb::Status& status) {
  if (status.IsIOError() && status.ToString().find("lock") != std::string::npos) {
    return make_error(ErrorKind::kInvalid, "another head uses the store " + folder +
                                               ". Stop it (`mobula stop`) or give this one another --store.");
  }
  return make_error(
      ErrorKind::kInvalid,
      "cannot open the store " + folder + ": " + status.ToString() +
          ". Nothing was changed. Restore it from a backup, or start a new cluster with another --store.");
}

class RocksRecordStore final : public RecordStore {
 public:
  RocksRecordStore(std::string folder, std::unique_ptr<rocksdb::DB> db)
      : folder_(std::move(folder)), db_(std::move(db)) {
    writer_ = std::thread([this] { run(); });
  }

  ~RocksRecordStore() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    writer_.join();
  }

  Result<std::vector<Record>> load() override {
    std::vector<Record> records;
    rocksdb::ReadOptions options;
    options.verify_checksums = true;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      auto record = wire::decode_record(Bytes::copy_of(iterator->value().data(), iterator->value().size()));
      if (!record) {
        return make_error(ErrorKind::kInvalid,
                          "the store " + folder_ + " holds a record that cannot be read (" + record.error().message +
                              "). Restore it from a backup, or start a new cluster with another --store.");
      }
      records.push_back(*std::move(record));
    }
    if (!iterator->status().ok()) return open_error(folder_, iterator->status());
    return records;
  }

  void write(std::uint64_t sequence, bool synced, const std::vector<RecordWrite>& writes) override {
    // Encoded by the caller, so that the writer thread shares nothing with the machine.
    Group group;
    for (const RecordWrite& write : writes) {
      if (const auto* record = std::get_if<Record>(&write)) {
        const auto bytes = wire::encode_record(*record);
        MOBULA_CHECK(bytes.ok(), "a record must fit a frame: the head refuses larger requests");
        group.batch.Put(full_key(record->index(), key_of(*record)),
                        rocksdb::Slice(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
      } else {
        const auto& erase = std::get<EraseRecord>(write);
        group.batch.Delete(full_key(erase.kind, erase.key));
      }
    }
    group.synced = synced;
    group.sequence = sequence;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(group));
    }
    wake_.notify_one();
  }

  void set_callbacks(OnPersisted persisted, OnFailed failed) override {
    persisted_ = std::move(persisted);
    failed_ = std::move(failed);
  }

  std::size_t pending() const override {
    const std::lock_guard lock(mutex_);
    return queue_.size();
  }

 private:
  struct Group {
    rocksdb::WriteBatch batch;
    bool synced = false;
    std::uint64_t sequence = 0;
  };

  void run() {
    for (;;) {
      std::vector<Group> groups;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        groups.swap(queue_);
      }
      if (!commit(groups)) return;
    }
  }

  // Everything that waited is one write and at most one sync.
  bool commit(std::vector<Group>& groups) {
    rocksdb::WriteOptions options;
    rocksdb::Status status;
    std::uint64_t last = 0;
    for (const Group& group : groups) {
      options.sync = options.sync || group.synced;
      last = group.sequence;
    }
    for (std::size_t i = 0; i < groups.size() && status.ok(); ++i) {
      rocksdb::WriteOptions each = options;
      each.sync = options.sync && i + 1 == groups.size();  // a sync covers the log up to here
      status = db_->Write(each, &groups[i].batch);
    }
    if (!status.ok()) {
      if (failed_) {
        failed_(make_error(ErrorKind::kOutOfDisk, "cannot write to the store " + folder_ + ": " + status.ToString() +
                                                      ". Make room on its disk and start the head again."));
      }
      return false;
    }
    if (persisted_) persisted_(last);
    return true;
  }

  std::string folder_;
  std::unique_ptr<rocksdb::DB> db_;
  OnPersisted persisted_;
  OnFailed failed_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Group> queue_;
  bool stopping_ = false;
  std::thread writer_;
};

}  // namespace

Result<std::unique_ptr<RecordStore>> open_record_store(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return make_error(ErrorKind::kInvalid, "cannot make the store folder " + folder + ": " + std::strerror(errno) +
                                               ". Name another with --store.");
  }
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(small_options(), folder, &opened);
  if (!status.ok()) return open_error(folder, status);
  return std::unique_ptr<RecordStore>(std::make_unique<RocksRecordStore>(folder, std::unique_ptr<rocksdb::DB>(opened)));
}

}  // namespace mobula::storage
