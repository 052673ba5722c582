#include "tune/experiment/names.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace mobula::tune {
namespace {

constexpr std::size_t kIdentifierBytesMax = 130;
constexpr std::size_t kNameBytesMax = 120;

// Four significant digits: folder names are for reading.
std::string short_text(const Value& value) {
  if (!value.is_double()) return value.text();
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4f", value.as<double>());
  if (std::abs(value.as<double>()) < 1e-2 || std::abs(value.as<double>()) >= 1e6) {
    std::snprintf(buffer, sizeof buffer, "%.4g", value.as<double>());
  }
  return buffer;
}

bool awkward(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte < 0x20 || byte == 0x7f || std::string_view("/()<>:\"\\|?* ").find(letter) != std::string_view::npos;
}

}  // namespace

std::string trial_id(const std::string& prefix, std::uint32_t trial) {
  char number[16];
  std::snprintf(number, sizeof number, "_%05u", trial);
  return prefix + number;
}

std::string experiment_tag(std::uint32_t trial, const Params& params) {
  std::string tag = std::to_string(trial);
  char separator = '_';
  for (const auto& [name, value] : params) {
    tag += separator + name + "=" + short_text(value);
    separator = ',';
  }
  return tag;
}

std::string trial_directory(const std::string& trainable, const std::string& id, std::uint32_t trial,
                            const Params& params, const std::string& session) {
  std::string name = trainable + "_" + id + "_" + experiment_tag(trial, params);
  if (name.size() > kIdentifierBytesMax) {
    std::size_t cut = kIdentifierBytesMax;
    // Never in the middle of a UTF-8 letter.
    while (cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xc0) == 0x80) --cut;
    name.resize(cut);
  }
  std::replace_if(name.begin(), name.end(), awkward, '_');
  return name + "_" + session;
}

bool usable_name(const std::string& name) {
  if (name.empty() || name.size() > kNameBytesMax || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return letter == '/' || byte < 0x20 || byte == 0x7f;
  });
}

}  // namespace mobula::tune
