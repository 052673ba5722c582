// A command's connection to the head: one request at a time, each with a deadline.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/protocol/message.h"
#include "runtime/base/result.h"
#include "runtime/net/cluster_file.h"
#include "runtime/net/link.h"
#include "runtime/net/loop.h"

namespace mobula::cli {

// What every command takes to find its cluster. Empty: MOBULA_ADDRESS, MOBULA_CLUSTER_FILE, the default file.
struct ClusterOptions {
  std::string address;
  std::string cluster_file;
};
std::string cluster_file_path(const ClusterOptions& options);

class Client {
 public:
  // Unreachable when nothing answers there, Unauthenticated when the key is refused; both say what to do.
  static Result<std::unique_ptr<Client>> open(const ClusterOptions& options);
  ~Client();

  // Sends a request and waits for the message of type Reply that names it.
  template <class Reply, class Request>
  Result<Reply> ask(Request request, Duration timeout = std::chrono::seconds(10)) {
    request.request = RequestId{identity_, ++last_request_};
    const RequestId id = request.request;
    auto answer = wait_for(std::move(request), timeout, [id](const Message& message) {
      const auto* reply = std::get_if<Reply>(&message);
      return reply != nullptr && reply->request == id;
    });
    if (!answer) return answer.error();
    return std::get<Reply>(std::move(*answer));
  }

  const std::string& address() const { return address_; }
  const ClusterId& cluster() const { return cluster_; }

 private:
  Client() = default;
  Result<Message> wait_for(Message request, Duration timeout, const std::function<bool(const Message&)>& wanted);

  net::Loop loop_;
  std::shared_ptr<net::Link> link_;
  std::string address_;
  ClusterId cluster_;
  std::uint64_t identity_ = 0;
  std::uint64_t last_request_ = 0;
  struct Inbox;
  std::shared_ptr<Inbox> inbox_;
};

}  // namespace mobula::cli
