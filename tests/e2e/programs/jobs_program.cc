// A submitted driver, for jobs_test: it joins the node it was started on and runs a task there.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <mobula/mobula.h>

namespace {

std::string where(int x) {
  std::printf("line of the task %d\n", x);
  std::fflush(stdout);
  return mobula::to_string(mobula::current().process);
}

}  // namespace

int main(int argc, char** argv) {
  const mobula::Runtime runtime = mobula::init(argc, argv);
  const std::string worker = mobula::get(mobula::remote<where>(7));
  std::printf("job %s\nworker %s\n", mobula::to_string(mobula::current().job).c_str(), worker.c_str());
  return argc > 1 ? std::atoi(argv[1]) : 0;
}
