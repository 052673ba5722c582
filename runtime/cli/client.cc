#include "runtime/cli/client.h"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <optional>
#include <utility>

#include "runtime/base/rng.h"
#include "runtime/daemon/peer_table.h"
#include "runtime/net/connector.h"
#include "runtime/wire/codec.h"

namespace mobula::cli {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(5);

std::string from_environment(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace

struct Client::Inbox {
  std::deque<Message> messages;  // bounded: one request is out at a time
  std::optional<ErrorInfo> closed;
};

std::string cluster_file_path(const ClusterOptions& options) {
  if (!options.cluster_file.empty()) return options.cluster_file;
  const std::string named = from_environment("MOBULA_CLUSTER_FILE");
  return named.empty() ? net::default_cluster_file() : named;
}

Result<std::unique_ptr<Client>> Client::open(const ClusterOptions& options) {
  const std::string path = cluster_file_path(options);
  auto file = net::load_cluster_file(path);
  if (!file) return file.error();
  std::string address = options.address.empty() ? from_environment("MOBULA_ADDRESS") : options.address;
  if (address.empty()) address = file->address;
  auto to = net::parse_host_port(address);
  if (!to) return to.error();

  std::unique_ptr<Client> client(new Client);
  Rng rng(random_seed());
  client->identity_ = rng.id();
  client->address_ = address;
  client->cluster_ = file->cluster;
  auto leaf = file->leaf ? Result<net::Leaf>(*file->leaf) : net::leaf_for(*file, Role::kClient, {}, client->identity_);
  if (!leaf) return leaf.error();

  std::optional<Result<std::shared_ptr<net::Link>>> opened;
  net::connect(client->loop_, *to, *leaf, net::Preamble{}, monotonic_now() + kConnectTimeout,
               [&opened](Result<std::shared_ptr<net::Link>> link) { opened = std::move(link); });
  client->loop_.run_until([&] { return opened.has_value(); }, monotonic_now() + 2 * kConnectTimeout);
  if (!opened || !*opened) {
    ErrorInfo error = opened ? opened->error() : make_error(ErrorKind::kUnreachable, "no answer");
    if (error.kind == ErrorKind::kUnreachable) {
      error.message = "the head at " + address + " does not answer: " + error.message +
                      ". Start it with `mobula start --head --cluster-file " + path + "`, or give its --address.";
    }
    return error;
  }
  client->link_ = **opened;
  client->inbox_ = std::make_shared<Inbox>();
  net::LinkHandlers handlers;
  handlers.on_frames = [inbox = client->inbox_, link = client->link_](std::span<net::Frame> frames) {
    std::vector<Envelope> envelopes;
    for (const net::Frame& frame : frames) {
      if (!daemon::decode_frame(*link, frame, envelopes)) return;
      for (Envelope& envelope : envelopes) inbox->messages.push_back(std::move(envelope.message));
    }
  };
  handlers.on_closed = [inbox = client->inbox_](const ErrorInfo& why) { inbox->closed = why; };
  client->link_->start(std::move(handlers));
  Hello hello;
  hello.role = leaf->identity.role;
  hello.from = Peer::client(client->identity_);
  hello.cluster = file->cluster;
  hello.pid = static_cast<std::uint64_t>(::getpid());
  hello.build = daemon::kBuild;
  daemon::send_hello(*client->link_, hello);
  client->loop_.run_until([&] { return !client->inbox_->messages.empty() || client->inbox_->closed; },
                          monotonic_now() + kConnectTimeout);
  if (client->inbox_->messages.empty()) {
    return client->inbox_->closed ? *client->inbox_->closed
                                  : make_error(ErrorKind::kTimeout, "the head at " + address + " did not say hello");
  }
  const auto* reply = std::get_if<HelloReply>(&client->inbox_->messages.front());
  if (reply == nullptr) return make_error(ErrorKind::kInvalid, "the head did not say hello");
  if (reply->error) return *reply->error;
  client->inbox_->messages.clear();
  return client;
}

Client::~Client() {
  if (!link_) return;
  link_->close();
  loop_.run_until([this] { return inbox_->closed.has_value(); }, monotonic_now() + std::chrono::milliseconds(200));
}

Result<Message> Client::wait_for(Message request, Duration timeout, const std::function<bool(const Message&)>& wanted) {
  const Envelope envelope{{}, {}, 0, 0, std::move(request)};
  auto bytes = wire::encode({&envelope, 1});
  if (!bytes) return bytes.error();
  link_->send(net::Frame{net::FrameType::kMessages, {}, *std::move(bytes), {}});
  std::optional<Message> answer;
  loop_.run_until(
      [&] {
        while (!answer && !inbox_->messages.empty()) {
          if (wanted(inbox_->messages.front())) answer = std::move(inbox_->messages.front());
          inbox_->messages.pop_front();
        }
        return answer.has_value() || inbox_->closed.has_value();
      },
      monotonic_now() + timeout);
  if (answer) return *std::move(answer);
  if (inbox_->closed)
    return make_error(ErrorKind::kUnreachable, "the head closed the connection: " + inbox_->closed->message);
  return make_error(ErrorKind::kTimeout, "the head at " + address_ + " did not answer in time");
}

}  // namespace mobula::cli
