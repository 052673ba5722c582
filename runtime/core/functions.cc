#include "runtime/core/functions.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "runtime/process/build_id.h"

namespace mobula::core {
namespace {

// Filled during static initialisation and by load_library: function-local, so that it exists before any other static.
struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<detail::Invoker, const detail::FunctionRecord*> by_invoker;
  std::multimap<std::string_view, const detail::FunctionRecord*> external;
  std::unordered_map<const detail::FunctionRecord*, FunctionKey> keys;
  std::map<std::pair<std::string, std::uint64_t>, const detail::FunctionRecord*> found;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: used by threads that outlive statics
  return *instance;
}

ErrorInfo unknown(const FunctionKey& key, const std::string& name) {
  std::string text = "this worker's program has no function " + (name.empty() ? key.symbol : name);
  text += key.module.empty() ? "" : " of module " + key.module;
  text +=
      ". Its executable is " + process::executable_path() +
      ". Functions and actors of another program can be called only if they have external linkage and their class or "
      "function is exported there with mobula::exports; or ship the library with mobula::load_library(path).";
  return make_error(ErrorKind::kUnknownFunction, std::move(text));
}

}  // namespace

FunctionKey key_of(const detail::FunctionRecord& record) {
  Registry& all = registry();
  {
    const std::shared_lock lock(all.mutex);
    const auto found = all.keys.find(&record);
    if (found != all.keys.end()) return found->second;
  }
  FunctionKey key;
  // A function pointer and an object pointer have one representation on this platform (POSIX dlsym relies on it).
  if (auto at = process::locate(reinterpret_cast<const void*>(record.invoker))) {
    key.module = at->module;
    key.offset = at->offset;
  }
  if (record.external) key.symbol = record.symbol;
  key.fingerprint = record.fingerprint;
  const std::unique_lock lock(all.mutex);
  return all.keys.emplace(&record, std::move(key)).first->second;
}

Result<const detail::FunctionRecord*> find_function(const FunctionKey& key, const std::string& name) {
  Registry& all = registry();
  const std::pair<std::string, std::uint64_t> place{key.module, key.offset};
  {
    const std::shared_lock lock(all.mutex);
    const auto found = all.found.find(place);
    if (found != all.found.end() && found->second->fingerprint == key.fingerprint) return found->second;
  }
  const detail::FunctionRecord* record = nullptr;
  if (!key.module.empty()) {
    if (auto address = process::resolve({key.module, key.offset})) {
      const std::shared_lock lock(all.mutex);
      // Only what was registered can be called: an offset alone is not trusted.
      const auto found = all.by_invoker.find(reinterpret_cast<detail::Invoker>(*address));
      if (found != all.by_invoker.end()) record = found->second;
    }
  }
  if (record == nullptr && !key.symbol.empty()) {
    const std::shared_lock lock(all.mutex);
    const auto [begin, end] = all.external.equal_range(key.symbol);
    for (auto entry = begin; entry != end; ++entry) {
      if (record == nullptr || entry->second->fingerprint == key.fingerprint) record = entry->second;
    }
  }
  if (record == nullptr) return unknown(key, name);
  if (record->fingerprint != key.fingerprint) {
    return make_error(ErrorKind::kSignatureMismatch,
                      "the caller and this worker's program were built with different declarations of " +
                          (name.empty() ? key.symbol : name) + " (fingerprints " + to_string_hex(key.fingerprint) +
                          " and " + to_string_hex(record->fingerprint) + "). Build both against the same declaration.");
  }
  if (!key.module.empty()) {
    const std::unique_lock lock(all.mutex);
    all.found.emplace(place, record);
  }
  return record;
}

}  // namespace mobula::core

namespace mobula::detail {

void register_function(const FunctionRecord* record) noexcept {
  core::Registry& all = core::registry();
  const std::unique_lock lock(all.mutex);
  all.by_invoker.emplace(record->invoker, record);
  if (record->external) all.external.emplace(record->symbol, record);
}

}  // namespace mobula::detail
