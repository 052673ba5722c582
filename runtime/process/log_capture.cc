#include "runtime/process/log_capture.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

namespace mobula::process {
namespace {

// One process that prints without end gets this much of a poll() per stream; the others are served too.
constexpr std::size_t kBytesPerPoll = 64 * 1024;
// What an ended process can have left: a full pipe and what a child of it still adds meanwhile.
constexpr std::size_t kBytesAtEnd = 1024 * 1024;
constexpr int kEventsPerPoll = 64;

}  // namespace

LineCollector::LineCollector(LogLimits limits, Sink sink)
    : limits_(limits), sink_(std::move(sink)), bucket_(limits.bytes_per_second, limits.burst_bytes) {}

void LineCollector::add(Stream stream, std::string_view bytes, Instant now) {
  std::string& partial = partial_[static_cast<std::size_t>(stream)];
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = limits_.line_bytes_max - partial.size();
    if (newline != std::string_view::npos && newline <= room) {
      partial.append(bytes.substr(0, newline));
      bytes.remove_prefix(newline + 1);
    } else if (bytes.size() >= room) {
      partial.append(bytes.substr(0, room));
      bytes.remove_prefix(room);
    } else {
      partial.append(bytes);
      return;
    }
    line(stream, partial, now);
    partial.clear();
  }
}

void LineCollector::finish(Instant now) {
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    std::string& partial = partial_[static_cast<std::size_t>(stream)];
    if (!partial.empty()) line(stream, partial, now);
    partial.clear();
  }
  if (dropped_ > 0) tell_dropped(Stream::kErr);
}

void LineCollector::line(Stream stream, std::string_view text, Instant now) {
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  if (!bucket_.take(text.size() + 1, now)) {
    ++dropped_;
    ++dropped_total_;
    return;
  }
  if (dropped_ > 0) tell_dropped(stream);
  keep(stream, text);
}

void LineCollector::tell_dropped(Stream stream) {
  const std::string note = "[mobula: " + std::to_string(dropped_) +
                           " lines dropped here, the process prints more than " +
                           std::to_string(limits_.bytes_per_second / 1024) + " KiB/s]";
  dropped_ = 0;
  keep(stream, note);
}

void LineCollector::keep(Stream stream, std::string_view text) {
  // The tail is for error messages: a long line is cut there.
  tail_.emplace_back(text.substr(0, limits_.tail_bytes / 4));
  tail_size_ += tail_.back().size() + 1;
  while (tail_.size() > limits_.tail_lines || (tail_size_ > limits_.tail_bytes && tail_.size() > 1)) {
    tail_size_ -= tail_.front().size() + 1;
    tail_.pop_front();
  }
  sink_(stream, text);
}

std::string LineCollector::tail() const {
  std::string text;
  text.reserve(tail_size_);
  for (const std::string& kept : tail_) {
    text += kept;
    text += '\n';
  }
  return text;
}

struct LogHub::Capture {
  struct Source {
    Fd pipe;
    std::optional<RotatingFile> file;
    std::uint64_t token = 0;
  };
  ProcessId process;
  std::array<Source, 2> sources;
  std::unique_ptr<LineCollector> lines;
};

LogHub::LogHub(LogLimits limits, Rotation rotation, LineCallback on_line)
    : limits_(limits), rotation_(rotation), on_line_(std::move(on_line)) {}
LogHub::~LogHub() = default;

Result<std::unique_ptr<LogHub>> LogHub::create(LogLimits limits, Rotation rotation, LineCallback on_line) {
  std::unique_ptr<LogHub> hub(new LogHub(limits, rotation, std::move(on_line)));
  hub->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!hub->epoll_) return errno_error("make an epoll descriptor");
  return hub;
}

Result<LogHub::Ends> LogHub::add(ProcessId process, const std::string& path) {
  if (captures_.contains(process)) return make_error(ErrorKind::kInvalid, "this process's output is captured already");
  auto capture = std::make_unique<Capture>();
  capture->process = process;
  std::array<Fd, 2> theirs;
  for (std::size_t i = 0; i < 2; ++i) {
    Result<Pipe> pipe = make_pipe();
    if (!pipe) return pipe.error();
    if (Status done = set_nonblocking(pipe->read.get()); !done) return done.error();
    Capture::Source& source = capture->sources[i];
    source.pipe = std::move(pipe->read);
    theirs[i] = std::move(pipe->write);
    if (path.empty()) continue;
    source.file.emplace(RotatingFile::at_first_piece(path + (i == 0 ? ".out" : ".err"), rotation_));
  }
  Capture* const raw = capture.get();
  capture->lines = std::make_unique<LineCollector>(limits_, [this, raw](Stream stream, std::string_view text) {
    if (auto& file = raw->sources[static_cast<std::size_t>(stream)].file) {
      std::string with_newline(text);
      with_newline += '\n';
      file->write(with_newline);
    }
    if (on_line_) on_line_(raw->process, stream, text);
  });
  for (Capture::Source& source : capture->sources) {
    source.token = next_token_++;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = source.token;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, source.pipe.get(), &event) != 0) {
      const ErrorInfo error = errno_error("watch a worker's output");
      for (const Capture::Source& added : capture->sources) by_token_.erase(added.token);
      return error;
    }
    by_token_[source.token] = raw;
  }
  captures_[process] = std::move(capture);
  return Ends{std::move(theirs[0]), std::move(theirs[1])};
}

// False at the end of the stream.
bool LogHub::drain(Capture& capture, Stream stream, std::size_t bytes_max, Instant now) {
  Capture::Source& source = capture.sources[static_cast<std::size_t>(stream)];
  std::array<char, 16 * 1024> buffer;
  for (std::size_t total = 0; source.pipe && total < bytes_max;) {
    const ssize_t got = ::read(source.pipe.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    total += static_cast<std::size_t>(got);
    capture.lines->add(stream, std::string_view(buffer.data(), static_cast<std::size_t>(got)), now);
  }
  return true;
}

void LogHub::poll(Instant now) {
  std::array<epoll_event, kEventsPerPoll> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t token = ready[static_cast<std::size_t>(i)].data.u64;
    const auto found = by_token_.find(token);
    if (found == by_token_.end()) continue;
    Capture& capture = *found->second;
    const Stream stream = capture.sources[0].token == token ? Stream::kOut : Stream::kErr;
    if (drain(capture, stream, kBytesPerPoll, now)) continue;
    // Nobody writes any more; closing it takes it out of the epoll descriptor.
    capture.sources[static_cast<std::size_t>(stream)].pipe.reset();
    by_token_.erase(found);
  }
}

std::string LogHub::finish(ProcessId process, Instant now) {
  const auto found = captures_.find(process);
  if (found == captures_.end()) return {};
  Capture& capture = *found->second;
  for (const Stream stream : {Stream::kOut, Stream::kErr}) drain(capture, stream, kBytesAtEnd, now);
  capture.lines->finish(now);
  std::string tail = capture.lines->tail();
  for (const Capture::Source& source : capture.sources) by_token_.erase(source.token);
  captures_.erase(found);
  return tail;
}

std::string LogHub::tail(ProcessId process) const {
  const auto found = captures_.find(process);
  return found == captures_.end() ? std::string() : found->second->lines->tail();
}

}  // namespace mobula::process
