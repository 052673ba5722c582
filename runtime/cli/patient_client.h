// A client for commands that take long: when the head goes away it waits for it to come back, since the job that is
// watched goes on without it.
#pragma once

#include <memory>
#include <thread>
#include <utility>

#include "runtime/cli/client.h"

namespace mobula::cli {

class PatientClient {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(30);  // without a head
  static constexpr Duration kPause = std::chrono::milliseconds(500);
  static constexpr int kClosedMax = 2;  // times, by one request

  // The first connection is not waited for: a head that is not there at all is told at once.
  static Result<PatientClient> open(const ClusterOptions& cluster) {
    auto client = Client::open(cluster);
    if (!client) return client.error();
    return PatientClient(cluster, *std::move(client));
  }

  // Only for requests that may be repeated, as all of these may.
  template <class Reply, class Request>
  Result<Reply> ask(const Request& request, Duration timeout = std::chrono::seconds(15)) {
    const Instant give_up = monotonic_now() + kPatience;
    for (int closed = 0;;) {
      ErrorInfo error;
      if (client_) {
        auto reply = client_->ask<Reply>(request, timeout);
        if (reply || reply.error().kind != ErrorKind::kUnreachable) return reply;
        error = reply.error();
        client_.reset();
        // Heads that answer connections and close them at this very request do not like it.
        if (++closed > kClosedMax) return error;
      } else if (auto again = Client::open(cluster_)) {
        client_ = *std::move(again);
        continue;
      } else {
        error = again.error();
      }
      if (error.kind != ErrorKind::kUnreachable || monotonic_now() >= give_up) return error;
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  PatientClient(ClusterOptions cluster, std::unique_ptr<Client> client)
      : cluster_(std::move(cluster)), client_(std::move(client)) {}
  ClusterOptions cluster_;
  std::unique_ptr<Client> client_;
};

}  // namespace mobula::cli
