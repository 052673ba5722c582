#include "runtime/cli/log_stream.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include <nlohmann/json.hpp>

namespace mobula::cli {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(300);
constexpr std::size_t kTailBytesMax = 64U << 20U;

// Cuts all but the last `lines` lines away.
void keep_tail(std::string& text, std::size_t lines) {
  std::size_t begin = text.size();
  if (begin > 0 && text[begin - 1] == '\n') --begin;
  for (; lines > 0 && begin != std::string::npos && begin > 0; --lines) {
    begin = text.rfind('\n', begin - 1);
    if (begin == std::string::npos) return;  // fewer than that
    if (lines == 1) break;
  }
  text.erase(0, begin < text.size() ? begin + 1 : begin);
}

}  // namespace

LogStreams::LogStreams(PatientClient& client, const std::string& id, bool json) : client_(client), json_(json) {
  streams_.push_back({id, false, 0, false});
  if (!id.starts_with("job-") && id != "head") streams_.push_back({id + ".err", true, 0, false});
}

Result<std::string> LogStreams::read(Stream& stream, bool wait) {
  auto chunk = client_.ask<LogChunk>(ReadLog{{}, stream.entity, stream.place, wait});
  if (!chunk) return chunk.error();
  if (chunk->error) return *chunk->error;
  stream.place = chunk->offset;
  stream.ended = chunk->end;
  return std::string(chunk->bytes.text());
}

void LogStreams::write(const Stream& stream, const std::string& text) const {
  if (text.empty()) return;
  if (json_) {
    const nlohmann::json line{{"stream", stream.error_stream ? "err" : "out"}, {"text", text}};
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    return;
  }
  std::ostream& out = stream.error_stream ? std::cerr : std::cout;
  out << text << std::flush;
}

Status LogStreams::print(std::optional<std::size_t> tail) {
  for (Stream& stream : streams_) {
    std::string held;
    for (;;) {
      auto text = read(stream, false);
      if (!text) return text.error();
      if (tail) {
        held += *text;
        if (held.size() > kTailBytesMax) keep_tail(held, *tail);
      } else {
        write(stream, *text);
      }
      if (stream.ended || text->empty()) break;
    }
    if (!tail) continue;
    keep_tail(held, *tail);
    write(stream, held);
  }
  return {};
}

Status LogStreams::follow() {
  for (;;) {
    const auto open = std::count_if(streams_.begin(), streams_.end(), [](const Stream& one) { return !one.ended; });
    if (open == 0) return {};
    const Instant before = monotonic_now();
    bool any = false;
    for (Stream& stream : streams_) {
      if (stream.ended) continue;
      // A node holds the question until there is something; with two streams neither may wait for the other.
      auto text = read(stream, open == 1);
      if (!text) return text.error();
      any = any || !text->empty();
      write(stream, *text);
    }
    if (!any && monotonic_now() - before < kPause) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace mobula::cli
