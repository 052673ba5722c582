#include "runtime/daemon/head_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/daemon/log_files.h"
#include "runtime/process/log_reader.h"

namespace mobula::daemon {
namespace {

constexpr std::size_t kQuestionsMax = 4096;
constexpr std::size_t kPlacesMax = 4096;
constexpr Duration kAnswerWait = kFollowHold + std::chrono::seconds(5);
constexpr Duration kSearchWait = std::chrono::seconds(3);
constexpr Duration kSweep = std::chrono::milliseconds(500);
constexpr std::size_t kArgumentsMax = 4096;
constexpr std::size_t kVariablesMax = 1024;
constexpr std::size_t kTextBytesMax = 512 * 1024;  // of all arguments and variables together

std::optional<std::string> mistake_in(const SubmitJob& job) {
  if (!is_submission_id(job.submission)) return "a submission's id is \"job-\" and 16 hex digits";
  if (job.argv.empty() || job.argv.front().empty()) return "a submission needs a program to run";
  if (job.argv.size() > kArgumentsMax) return "at most " + std::to_string(kArgumentsMax) + " arguments may be given";
  if (job.environment.size() > kVariablesMax) return "at most " + std::to_string(kVariablesMax) + " --env may be given";
  std::size_t bytes = 0;
  const auto fine = [&bytes](const std::string& text) {
    bytes += text.size();
    return text.find('\0') == std::string::npos;
  };
  bool all_fine = true;
  for (const std::string& argument : job.argv) all_fine = fine(argument) && all_fine;
  for (const auto& [name, value] : job.environment) {
    all_fine = fine(name) && fine(value) && all_fine;
    if (name.empty() || name.find('=') != std::string::npos) return "\"" + name + "\" cannot name a variable";
  }
  if (!all_fine) return "arguments and variables may hold no zero byte";
  if (bytes > kTextBytesMax) return "arguments and variables are too long: put them into a file of the working folder";
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<HeadFiles>> HeadFiles::open(net::Loop& loop, HeadDaemon& head, const std::string& folder) {
  auto store = process::ContentStore::open(folder, {});
  if (!store) return store.error();
  std::unique_ptr<HeadFiles> files(new HeadFiles(loop, head, *std::move(store)));
  files->store_.set_in_use([&head](const std::string& hash) { return head.machine().needs_content(hash); });
  HeadServices services;
  services.handle = [raw = files.get()](const Peer& from, const Message& message) {
    return raw->handle(from, message);
  };
  head.set_services(std::move(services));
  return files;
}

HeadFiles::~HeadFiles() {
  *alive_ = false;
  head_.set_services({});
}

bool HeadFiles::handle(const Peer& from, const Message& message) {
  if (const auto* submit = std::get_if<SubmitJob>(&message)) return refuse_job(from, *submit);
  if (const auto* content = std::get_if<PutContent>(&message)) {
    put(from, *content);
  } else if (const auto* wanted = std::get_if<GetContent>(&message)) {
    get(from, *wanted);
  } else if (const auto* read = std::get_if<ReadLog>(&message)) {
    read_log(from, *read);
  } else if (const auto* chunk = std::get_if<LogChunk>(&message)) {
    return log_answered(from, *chunk);
  } else {
    return false;
  }
  return true;
}

// ---- submissions and their files

// True when it was refused: what is wrong with it would only be found on a node.
bool HeadFiles::refuse_job(const Peer& from, const SubmitJob& message) {
  std::optional<std::string> why = mistake_in(message);
  if (!why && !message.working_dir.empty()) {
    if (!store_.has(message.working_dir)) why = "the files of this submission are not at the head: submit it again";
    store_.touch(message.working_dir);
  }
  if (!why) return false;
  head_.send(from, SubmissionReply{message.request, make_error(ErrorKind::kInvalid, *why), {}});
  return true;
}

void HeadFiles::put(const Peer& from, const PutContent& message) {
  ContentStored stored;
  stored.request = message.request;
  auto have = store_.put(message.hash, message.total, message.offset, message.bytes.span(), monotonic_now());
  if (have) {
    stored.have = *have;
  } else {
    stored.error = have.error();
  }
  head_.send(from, std::move(stored));
}

void HeadFiles::get(const Peer& from, const GetContent& message) {
  ContentChunk chunk;
  chunk.request = message.request;
  chunk.offset = message.offset;
  auto piece = store_.read(message.hash, message.offset, process::kContentChunkBytes);
  if (piece) {
    chunk.total = piece->total;
    chunk.bytes = std::move(piece->bytes);
  } else {
    chunk.error = piece.error();
  }
  head_.send(from, std::move(chunk));
}

// ---- logs

void HeadFiles::answer(const Peer& to, LogChunk chunk, RequestId request) {
  chunk.request = request;
  head_.send(to, std::move(chunk));
}

void HeadFiles::fail(const Peer& to, RequestId request, ErrorInfo error) {
  LogChunk chunk;
  chunk.error = std::move(error);
  chunk.end = true;
  answer(to, std::move(chunk), request);
}

void HeadFiles::read_log(const Peer& from, const ReadLog& message) {
  const LogName wanted = LogName::parse(message.entity);
  if (wanted.id == "head") return own_log(from, message);
  const scheduler::LogPlace place = head_.machine().log_place(wanted.id);
  if (place.error) return fail(from, message.request, *place.error);
  if (questions_.size() >= kQuestionsMax) {
    return fail(from, message.request, make_error(ErrorKind::kOverloaded, "too many logs are being read: try again"));
  }
  Question question;
  question.asker = from;
  question.read = message;
  question.name = LogName{place.name, wanted.error_stream}.text();
  const auto known = places_.find(question.name);
  const NodeId node = place.node ? place.node : known != places_.end() ? known->second : NodeId{};
  // A node that is gone may have left its files to another one of its machine.
  if (node && head_.machine().find_node(node) != nullptr) return ask(node, std::move(question));
  search(std::move(question));
}

void HeadFiles::own_log(const Peer& from, const ReadLog& message) {
  LogChunk chunk;
  auto piece = read_daemon_log(message.offset);
  if (!piece) return fail(from, message.request, piece.error());
  chunk.offset = piece->next;
  chunk.bytes = Bytes::copy_of(piece->bytes);
  chunk.end = !message.follow && piece->at_end;
  answer(from, std::move(chunk), message.request);
}

void HeadFiles::ask(NodeId node, Question question) {
  question.deadline = monotonic_now() + kAnswerWait;
  question.waiting.insert(node);
  ReadLog passed = question.read;
  passed.request = {0, ++next_question_};
  passed.entity = question.name;
  questions_.emplace(next_question_, std::move(question));
  head_.send(Peer::of(node), std::move(passed));
  sweep();
}

void HeadFiles::search(Question question) {
  const std::vector<NodeId> nodes = head_.machine().live_nodes();
  question.search = true;
  question.deadline = monotonic_now() + kSearchWait;
  question.waiting.insert(nodes.begin(), nodes.end());
  ReadLog passed = question.read;
  passed.request = {0, ++next_question_};
  passed.entity = question.name;
  passed.follow = false;  // all must answer before one is chosen
  questions_.emplace(next_question_, std::move(question));
  for (const NodeId node : nodes) head_.send(Peer::of(node), passed);
  if (nodes.empty()) return conclude(next_question_);
  sweep();
}

bool HeadFiles::log_answered(const Peer& from, const LogChunk& message) {
  if (from.kind != PeerKind::kNode || message.request.maker != 0) return false;
  const auto at = questions_.find(message.request.sequence);
  if (at == questions_.end() || at->second.waiting.erase(NodeId{from.id}) == 0) return true;
  Question& question = at->second;
  if (!question.search) {
    answer(question.asker, message, question.read.request);
    questions_.erase(at);
    return true;
  }
  // A node that still writes it counts for more than one that merely has the file.
  if (!message.error && (!question.found || (question.found->second.end && !message.end))) {
    question.found.emplace(NodeId{from.id}, message);
  }
  if (question.waiting.empty()) conclude(message.request.sequence);
  return true;
}

void HeadFiles::conclude(std::uint64_t sequence) {
  const auto at = questions_.find(sequence);
  const Question question = std::move(at->second);
  questions_.erase(at);
  if (!question.search) {
    return fail(question.asker, question.read.request,
                make_error(ErrorKind::kTimeout, "the node that has this log does not answer; see `mobula list nodes`"));
  }
  if (!question.found) {
    return fail(question.asker, question.read.request,
                make_error(ErrorKind::kObjectLost, "no node has a log of \"" + question.name +
                                                       "\"; `mobula list workers|actors|jobs|nodes` shows ids"));
  }
  if (places_.size() >= kPlacesMax) places_.clear();
  places_[question.name] = question.found->first;
  LogChunk chunk = question.found->second;
  if (question.read.follow && chunk.bytes.empty() && !chunk.end) {
    Question again;
    again.asker = question.asker;
    again.read = question.read;
    again.name = question.name;
    return ask(question.found->first, std::move(again));
  }
  answer(question.asker, std::move(chunk), question.read.request);
}

// Runs while questions are out.
void HeadFiles::sweep() {
  if (std::exchange(sweeping_, true)) return;
  loop_.call_after(kSweep, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.lock()) return;
    sweeping_ = false;
    std::vector<std::uint64_t> late;
    for (const auto& [sequence, question] : questions_) {
      if (question.deadline <= monotonic_now()) late.push_back(sequence);
    }
    for (const std::uint64_t sequence : late) conclude(sequence);
    head_.flush();
    if (!questions_.empty()) sweep();
  });
}

}  // namespace mobula::daemon
