#include "tune/run/places.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string_view>

#include <mobula/error.h>

#include "tune/experiment/names.h"
#include "tune/run/files.h"

namespace mobula::tune {
namespace {

constexpr const char* kJournalName = "journal.jsonl";

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H-%M-%S", &parts);
  return text;
}

std::string random_prefix() {
  std::random_device device;
  std::string prefix;
  for (int digit = 0; digit < 5; ++digit) prefix += "0123456789abcdef"[device() % 16];
  return prefix;
}

std::filesystem::path storage_of(const RunOptions& options) {
  if (!options.storage.empty()) return std::filesystem::absolute(options.storage);
  if (const char* results = std::getenv("MOBULA_RESULTS"); results != nullptr && *results != '\0') {
    return std::filesystem::absolute(results);
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') refuse("HOME is not set: say where results go with .storage or MOBULA_RESULTS");
  return std::filesystem::path(home) / "mobula_results";
}

// A run that ended before its first event left an empty journal, or none: there is nothing to lose.
bool holds_experiment(const std::filesystem::path& folder) {
  std::error_code error;
  const auto size = std::filesystem::file_size(folder / kJournalName, error);
  return !error && size > 0;
}

// Dates sort as text.
std::string newest_of(const std::filesystem::path& storage, const std::string& trainable) {
  std::string newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(storage, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(trainable + "_", 0) != 0 || !holds_experiment(entry.path())) continue;
    newest = std::max(newest, name);
  }
  return newest;
}

}  // namespace

ExperimentPlace choose_place(const RunOptions& options, const std::string& trainable) {
  ExperimentPlace place;
  place.prefix = random_prefix();
  place.session = now_text();
  const auto storage = storage_of(options);
  place.name = options.name;
  if (place.name.empty() && options.resume) {
    place.name = newest_of(storage, trainable);
    if (place.name.empty()) {
      refuse("there is no experiment of '" + trainable + "' in " + storage.string() + " to resume");
    }
  }
  if (place.name.empty()) {
    place.name = trainable + "_" + place.session;
    // Two starts in one second are two experiments.
    for (int more = 2; std::filesystem::exists(storage / place.name); ++more) {
      place.name = trainable + "_" + place.session + "_" + std::to_string(more);
    }
  }
  if (!usable_name(place.name)) refuse("'" + place.name + "' is no name for a folder: at most 120 letters, no slash");
  place.folder = storage / place.name;
  const bool there = holds_experiment(place.folder);
  if (options.resume && !there) refuse("there is no experiment in " + place.folder.string() + " to resume");
  if (!options.resume && there) {
    refuse("there is an experiment in " + place.folder.string() +
           " already: resume it, remove the folder, or choose another name");
  }
  make_folders(place.folder);
  return place;
}

}  // namespace mobula::tune
