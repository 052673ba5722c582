// A parallel search for a good neural network on Fashion-MNIST: trials on three nodes, stopped early by ASHA.
//
// The whole of it is train(), which a worker runs for each set of parameters, and search(), which says what to try. The
// rest is reading the data, the command line, and a small cluster on this machine when none is named.
// test-arguments: --trials 4 --epochs 2 --results results
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <mobula/mobula.h>
#include <mobula/tune.h>

#include "quickstart/dataset.h"
#include "quickstart/local_cluster.h"
#include "quickstart/network.h"

namespace tune = mobula::tune;

namespace {

constexpr std::size_t kTrainImages = 50'000;  // of the 60,000; the others judge the trials
constexpr int kNodes = 3;

using Bytes = mobula::Array<std::uint8_t>;

quickstart::Network make_network(const tune::Params& params) {
  quickstart::Shape shape;
  shape.depth = params.get<int>("depth");
  shape.width = params.get<int>("width");
  shape.activation = quickstart::activation_named(params.get<std::string>("activation"));
  return {shape, params.get<std::uint64_t>("seed")};
}

// One trial. Runs in a worker on whichever node has room; images and labels are views of that node's shared memory.
std::vector<float> train(tune::Trial& trial, const Bytes& images, const Bytes& labels) {
  const std::size_t pixels = images.size() / labels.size();
  const quickstart::Examples fit{images.span().first(kTrainImages * pixels), labels.span().first(kTrainImages)};
  const quickstart::Examples judge{images.span().subspan(kTrainImages * pixels), labels.span().subspan(kTrainImages)};

  quickstart::Network network = make_network(trial.params());
  quickstart::Training training;
  training.optimizer = quickstart::optimizer_named(trial.get<std::string>("optimizer"));
  training.decay = trial.get<float>("weight_decay");
  training.batch = trial.get<int>("batch_size");
  const int epochs = trial.get<int>("epochs");
  for (int epoch = 0; epoch < epochs; ++epoch) {
    // Half a cosine, from the full learning rate to almost nothing.
    const double share = 0.5 * (1 + std::cos(3.14159265358979 * epoch / epochs));
    network.train_epoch(fit, training, static_cast<float>(trial.get<double>("lr") * share));
    const quickstart::Score score = network.evaluate(judge);
    if (!trial.report({{"loss", score.loss}, {"accuracy", score.accuracy}})) break;
  }
  return {network.weights().begin(), network.weights().end()};
}

struct Arguments {
  std::string cluster_file;
  std::string address;
  std::string results;
  std::string name;
  int trials = 24;
  int epochs = 12;
  std::uint64_t seed = 1;
  bool resume = false;
};

volatile std::sig_atomic_t signal_seen = 0;
extern "C" void on_signal(int) {
  signal_seen = signal_seen + 1;
  if (signal_seen > 3) ::_exit(130);  // it does not listen; what runs elsewhere stays
}

tune::RunResult<std::vector<float>> search(const Arguments& arguments) {
  const quickstart::Dataset data = quickstart::read_dataset(quickstart::kFashionMnistFolder, "train");
  // Into the object store once; each node fetches it once, and every trial there reads the same pages.
  const auto images = mobula::put(Bytes({data.labels.size(), data.pixels}, data.images));
  const auto labels = mobula::put(Bytes({data.labels.size()}, data.labels));

  const tune::Space space{{"lr", tune::loguniform(3e-4, 1e-1)},
                          {"depth", tune::integers(1, 4)},
                          {"width", tune::choice({32, 64, 128, 256})},
                          {"batch_size", tune::choice({64, 128, 256})},
                          {"weight_decay", tune::loguniform(1e-6, 1e-2)},
                          {"activation", tune::choice({"relu", "leaky_relu", "tanh"})},
                          {"optimizer", tune::choice({"sgd", "momentum", "adam"})},
                          {"epochs", arguments.epochs},
                          {"seed", arguments.seed}};
  return tune::run<train>({.space = space,
                           .metric = "accuracy",
                           .mode = tune::max,
                           .num_samples = static_cast<std::uint64_t>(arguments.trials),
                           .scheduler = tune::asha({.max_t = arguments.epochs, .reduction_factor = 3}),
                           .seed = arguments.seed,
                           .trial = {.cpus = 1},
                           .name = arguments.name,
                           .storage = arguments.results,
                           .resume = arguments.resume,
                           .interrupted = [] { return signal_seen != 0; }},
                          images, labels);
}

// Of the winner's weights, on images that nothing has seen so far.
double test_accuracy(const tune::RunResult<std::vector<float>>& result) {
  const quickstart::Dataset test = quickstart::read_dataset(quickstart::kFashionMnistFolder, "t10k");
  quickstart::Network network = make_network(result.best_trial().params);
  network.set_weights(result.best_value());
  return network.evaluate({test.images, test.labels}).accuracy;
}

[[noreturn]] void print_help() {
  std::puts(
      "quickstart: finds a good neural network for Fashion-MNIST with trials on three nodes\n"
      "\n"
      "  --cluster-file F     the file of a cluster that runs; without it, one of three nodes is started here\n"
      "                       and stopped at the end\n"
      "  --address HOST:PORT  of its head, where the address in the file cannot be reached\n"
      "  --results DIR        where results go (default: $MOBULA_RESULTS, else ~/mobula_results)\n"
      "  --name NAME          of the experiment's folder there (default: train_<date>)\n"
      "  --resume             go on with the interrupted run NAME, or with the newest one\n"
      "  --trials N           how many sets of parameters are tried (default: 24)\n"
      "  --epochs N           passes over the data of a trial that is never stopped (default: 12)\n"
      "  --seed N             same seed, same sets of parameters (default: 1)\n"
      "\n"
      "example: quickstart --cluster-file ~/cluster --address 10.0.0.1:6379 --trials 50");
  std::exit(0);
}

[[noreturn]] void refuse(const std::string& text) {
  std::fprintf(stderr, "quickstart: %s; --help lists the options\n", text.c_str());
  std::exit(2);
}

std::uint64_t number_of(const std::string& option, const std::string& text, std::uint64_t low, std::uint64_t high) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  const bool whole = !text.empty() && text[0] != '-' && *end == '\0' && errno == 0;
  if (!whole || value < low || value > high) {
    refuse(option + " takes a number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    std::optional<std::string> joined;
    if (const auto equals = option.find('='); option.rfind("--", 0) == 0 && equals != std::string::npos) {
      joined = option.substr(equals + 1);
      option.resize(equals);
    }
    const auto value = [&]() -> std::string {
      if (joined) return *joined;
      if (i + 1 >= argc) refuse(option + " needs a value");
      return argv[++i];
    };
    if (option == "--help" || option == "-h") print_help();
    if (option == "--cluster-file")
      arguments.cluster_file = value();
    else if (option == "--address")
      arguments.address = value();
    else if (option == "--results")
      arguments.results = value();
    else if (option == "--name")
      arguments.name = value();
    else if (option == "--resume")
      arguments.resume = true;
    else if (option == "--trials")
      arguments.trials = static_cast<int>(number_of(option, value(), 1, 100'000));
    else if (option == "--epochs")
      arguments.epochs = static_cast<int>(number_of(option, value(), 1, 1000));
    else if (option == "--seed")
      arguments.seed = number_of(option, value(), 0, INT64_MAX);
    else
      refuse("there is no option " + option);
  }
  return arguments;
}

int run(int argc, char** argv, const Arguments& arguments) {
  std::optional<tune::RunResult<std::vector<float>>> result;
  {
    const bool given = !arguments.cluster_file.empty() || !arguments.address.empty() ||
                       std::getenv("MOBULA_ADDRESS") != nullptr || std::getenv("MOBULA_CLUSTER_FILE") != nullptr;
    std::optional<quickstart::LocalCluster> local;
    mobula::InitOptions options;
    options.job_name = "quickstart";
    options.cluster_file = arguments.cluster_file;
    options.address = arguments.address;
    if (!given) {
      std::printf("starting a head and %d nodes on this machine\n", kNodes);
      std::fflush(stdout);
      local.emplace(kNodes, 1);
      options.cluster_file = local->cluster_file().string();
    }
    if (signal_seen != 0) return 130;
    const mobula::Runtime runtime = mobula::init(argc, argv, options);
    result = search(arguments);
    // Here the program leaves the cluster, and then the local one is stopped.
  }
  if (result->interrupted) {
    std::printf("to go on: quickstart --resume --name %s%s%s, and the other options as before\n", result->name.c_str(),
                arguments.results.empty() ? "" : " --results ", arguments.results.c_str());
    return 130;
  }
  std::printf("test accuracy: %.4f\n", test_accuracy(*result));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
  try {
    return run(argc, argv, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quickstart: %s\n", error.what());
    return 1;
  }
}
