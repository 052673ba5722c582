#include "tune/experiment/journal.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace mobula::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kCrcMark = ",\"crc\":\"";
constexpr std::size_t kSuffixSize = kCrcMark.size() + 8 + 2;  // mark, eight digits, quote and brace

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t index = 0; index < 256; ++index) {
    std::uint32_t word = index;
    for (int bit = 0; bit < 8; ++bit) word = (word >> 1) ^ ((word & 1) != 0 ? 0xedb88320U : 0U);
    table[index] = word;
  }
  return table;
}

std::string crc_text(std::string_view text) {
  static constexpr auto kTable = make_crc_table();
  std::uint32_t crc = ~0U;
  for (const char letter : text) crc = kTable[(crc ^ static_cast<unsigned char>(letter)) & 0xff] ^ (crc >> 8);
  char buffer[9];
  std::snprintf(buffer, sizeof buffer, "%08x", ~crc);
  return buffer;
}

// JSON has no NaN and no infinity: those travel as {"real":"nan"}.
Json real_to_json(double value) {
  if (std::isfinite(value)) return value;
  return Json{{"real", Value(value).text()}};
}

double real_from_json(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const auto text = json.at("real").get<std::string>();
  if (text == "nan") return std::nan("");
  return text == "inf" ? HUGE_VAL : -HUGE_VAL;
}

Json to_json(const Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, double>) {
          return real_to_json(held);
        } else {
          return held;
        }
      },
      value.data());
}

Value value_from_json(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_string()) return json.get<std::string>();
  return real_from_json(json);
}

Json to_json(const NamedValues& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = to_json(value);
  return json;
}

NamedValues values_from_json(const Json& json) {
  NamedValues values;
  for (const auto& [name, value] : json.items()) values.set(name, value_from_json(value));
  return values;
}

struct Encode {
  Json& json;

  void operator()(const Opened& e) const {
    json["event"] = "opened";
    json["name"] = e.name;
    json["trainable"] = e.trainable;
    json["metric"] = e.metric;
    json["mode"] = e.mode == Mode::kMax ? "max" : "min";
    json["seed"] = e.seed;
    json["samples"] = e.samples;
    json["space"] = e.space;
    json["scheduler"] = e.scheduler;
    json["prefix"] = e.prefix;
    json["session"] = e.session;
  }
  void operator()(const Resumed& e) const {
    json["event"] = "resumed";
    json["samples"] = e.samples;
    json["retry_errored"] = e.retry_errored;
  }
  void operator()(const TrialCreated& e) const {
    json["event"] = "created";
    json["trial"] = e.trial;
    json["params"] = to_json(e.params);
    json["directory"] = e.directory;
  }
  void operator()(const TrialLaunched& e) const {
    json["event"] = "launched";
    json["trial"] = e.trial;
    json["attempt"] = e.attempt;
    json["node"] = e.place.node;
    json["address"] = e.place.address;
    json["host"] = e.place.host;
    json["pid"] = e.place.pid;
  }
  void operator()(const TrialReported& e) const {
    json["event"] = "reported";
    json["trial"] = e.trial;
    json["attempt"] = e.attempt;
    json["iteration"] = e.iteration;
    json["metrics"] = to_json(e.metrics);
    json["unix_ms"] = e.unix_ms;
    json["elapsed_ms"] = e.elapsed_ms;
    json["decision"] = static_cast<int>(e.verdict.decision);
    json["bracket"] = e.verdict.bracket;
    json["rung"] = e.verdict.rung;
    json["milestone"] = real_to_json(e.verdict.milestone);
    json["cutoff"] = real_to_json(e.verdict.cutoff);
    json["peers"] = e.verdict.peers;
  }
  void operator()(const TrialOver& e) const {
    json["event"] = "ended";
    json["trial"] = e.trial;
    json["status"] = name_of(e.status);
    json["has_value"] = e.has_value;
  }
  void operator()(const TrialBroke& e) const {
    json["event"] = "failed";
    json["trial"] = e.trial;
    json["attempt"] = e.attempt;
    json["by_user_code"] = e.by_user_code;
    json["final"] = e.final;
    json["error"] = e.error;
  }
  void operator()(const Finished&) const { json["event"] = "finished"; }
};

template <class T>
T field(const Json& json, const char* name) {
  return json.at(name).get<T>();
}

Opened decode_opened(const Json& json) {
  Opened e;
  e.name = field<std::string>(json, "name");
  e.trainable = field<std::string>(json, "trainable");
  e.metric = field<std::string>(json, "metric");
  e.mode = field<std::string>(json, "mode") == "max" ? Mode::kMax : Mode::kMin;
  e.seed = field<std::uint64_t>(json, "seed");
  e.samples = field<std::uint64_t>(json, "samples");
  e.space = field<std::string>(json, "space");
  e.scheduler = field<std::string>(json, "scheduler");
  e.prefix = field<std::string>(json, "prefix");
  e.session = field<std::string>(json, "session");
  return e;
}

TrialReported decode_reported(const Json& json) {
  TrialReported e;
  e.trial = field<std::uint32_t>(json, "trial");
  e.attempt = field<std::uint32_t>(json, "attempt");
  e.iteration = field<std::int64_t>(json, "iteration");
  e.metrics = values_from_json(json.at("metrics"));
  e.unix_ms = field<std::int64_t>(json, "unix_ms");
  e.elapsed_ms = field<std::int64_t>(json, "elapsed_ms");
  e.verdict.decision = static_cast<Decision>(field<int>(json, "decision"));
  e.verdict.bracket = field<std::int32_t>(json, "bracket");
  e.verdict.rung = field<std::int32_t>(json, "rung");
  e.verdict.milestone = real_from_json(json.at("milestone"));
  e.verdict.cutoff = real_from_json(json.at("cutoff"));
  e.verdict.peers = field<std::uint32_t>(json, "peers");
  return e;
}

TrialLaunched decode_launched(const Json& json) {
  TrialLaunched e;
  e.trial = field<std::uint32_t>(json, "trial");
  e.attempt = field<std::uint32_t>(json, "attempt");
  e.place.node = field<std::string>(json, "node");
  e.place.address = field<std::string>(json, "address");
  e.place.host = field<std::string>(json, "host");
  e.place.pid = field<std::int64_t>(json, "pid");
  return e;
}

TrialOver decode_over(const Json& json) {
  TrialOver e;
  e.trial = field<std::uint32_t>(json, "trial");
  const auto status = field<std::string>(json, "status");
  e.status = status == name_of(TrialStatus::kStopped) ? TrialStatus::kStopped : TrialStatus::kCompleted;
  e.has_value = field<bool>(json, "has_value");
  return e;
}

TrialBroke decode_broke(const Json& json) {
  return TrialBroke{field<std::uint32_t>(json, "trial"), field<std::uint32_t>(json, "attempt"),
                    field<bool>(json, "by_user_code"), field<bool>(json, "final"), field<std::string>(json, "error")};
}

std::optional<JournalEvent> decode_event(const Json& json) {
  const auto name = field<std::string>(json, "event");
  if (name == "opened") return decode_opened(json);
  if (name == "resumed") return Resumed{field<std::uint64_t>(json, "samples"), field<bool>(json, "retry_errored")};
  if (name == "created") {
    return TrialCreated{field<std::uint32_t>(json, "trial"), values_from_json(json.at("params")),
                        field<std::string>(json, "directory")};
  }
  if (name == "launched") return decode_launched(json);
  if (name == "reported") return decode_reported(json);
  if (name == "ended") return decode_over(json);
  if (name == "failed") return decode_broke(json);
  if (name == "finished") return Finished{};
  return std::nullopt;
}

// The text that the checksum covers, or nothing when the line is not whole.
std::optional<std::string_view> checked_part(std::string_view line) {
  if (line.size() <= kSuffixSize) return std::nullopt;
  const std::string_view body = line.substr(0, line.size() - kSuffixSize);
  if (line.substr(body.size()) != std::string(kCrcMark) + crc_text(body) + "\"}") return std::nullopt;
  return body;
}

ErrorInfo damaged(std::size_t line, const std::string& what) {
  return make_error(ErrorKind::kInvalid, "the journal is damaged in line " + std::to_string(line) + ": " + what +
                                             ". Take a copy from elsewhere, or cut the file off before that line "
                                             "to go on from there");
}

Result<JournalEvent> decode_line(std::string_view body, std::size_t line) {
  try {
    const Json json = Json::parse(std::string(body) + "}");
    if (field<int>(json, "v") != kVersion) {
      return make_error(ErrorKind::kInvalid, "line " + std::to_string(line) + " of the journal has version " +
                                                 json.at("v").dump() + ": it was written by a newer Mobula; use that");
    }
    if (field<std::uint64_t>(json, "seq") != line) return damaged(line, "a line is missing before it");
    auto event = decode_event(json);
    if (!event) {
      return make_error(ErrorKind::kInvalid, "line " + std::to_string(line) + " of the journal has the event " +
                                                 json.at("event").dump() +
                                                 ": it was written by a newer Mobula; use that");
    }
    return *std::move(event);
  } catch (const Json::exception& error) {
    return damaged(line, error.what());
  }
}

}  // namespace

std::string encode_line(std::uint64_t sequence, const JournalEvent& event) {
  Json json;
  json["v"] = kVersion;
  json["seq"] = sequence;
  std::visit(Encode{json}, event);
  std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  line.pop_back();
  line += std::string(kCrcMark) + crc_text(line) + "\"}\n";
  return line;
}

Result<Journal> decode_journal(std::string_view text) {
  Journal journal;
  while (journal.valid_bytes < text.size()) {
    const std::string_view rest = text.substr(journal.valid_bytes);
    const std::size_t end = rest.find('\n');
    const std::size_t line = journal.events.size() + 1;
    const auto body = end == std::string_view::npos ? std::nullopt : checked_part(rest.substr(0, end));
    if (!body) {
      // Lines are written in order, so only the last write can be torn.
      const bool last = end == std::string_view::npos || end + 1 == rest.size();
      if (last) break;
      return damaged(line, "its checksum does not fit");
    }
    auto event = decode_line(*body, line);
    if (!event.ok()) return std::move(event).error();
    journal.events.push_back(*std::move(event));
    journal.valid_bytes += end + 1;
  }
  return journal;
}

}  // namespace mobula::tune
