// What the head does beside its machine: it keeps the files of submitted jobs, and brings questions for logs to the
// node that has them.
//
// None of it is a decision about the cluster, so none of it is in the machine: content is named by its hash, and a log
// belongs to whoever wrote it. A question whose node is not known (the workers of tasks are the nodes' business) goes
// to all nodes once; the answer is remembered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/daemon/head_daemon.h"
#include "runtime/process/content_store.h"

namespace mobula::daemon {

class HeadFiles {
 public:
  // Takes over the services of `head`, which must outlive it. `folder`: of the content.
  static Result<std::unique_ptr<HeadFiles>> open(net::Loop& loop, HeadDaemon& head, const std::string& folder);
  ~HeadFiles();
  HeadFiles(const HeadFiles&) = delete;
  HeadFiles& operator=(const HeadFiles&) = delete;

 private:
  HeadFiles(net::Loop& loop, HeadDaemon& head, process::ContentStore store)
      : loop_(loop), head_(head), store_(std::move(store)) {}
  bool handle(const Peer& from, const Message& message);
  bool refuse_job(const Peer& from, const SubmitJob& message);
  void put(const Peer& from, const PutContent& message);
  void get(const Peer& from, const GetContent& message);
  void read_log(const Peer& from, const ReadLog& message);
  void own_log(const Peer& from, const ReadLog& message);
  bool log_answered(const Peer& from, const LogChunk& message);

  // A question for a log that one node, or every node, was asked.
  struct Question {
    Peer asker;
    ReadLog read;
    std::string name;  // what nodes were asked for
    std::set<NodeId> waiting;
    std::optional<std::pair<NodeId, LogChunk>> found;
    bool search = false;  // all nodes were asked
    Instant deadline{};
  };
  void ask(NodeId node, Question question);
  void search(Question question);
  void conclude(std::uint64_t sequence);
  void answer(const Peer& to, LogChunk chunk, RequestId request);
  void fail(const Peer& to, RequestId request, ErrorInfo error);
  void sweep();

  net::Loop& loop_;
  HeadDaemon& head_;
  process::ContentStore store_;
  std::map<std::uint64_t, Question> questions_;  // bounded by kQuestionsMax
  std::uint64_t next_question_ = 0;
  std::map<std::string, NodeId> places_;  // of logs that were searched for; bounded by kPlacesMax
  bool sweeping_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::daemon
