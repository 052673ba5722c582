#include "runtime/process/worker_mode.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "runtime/process/zygote.h"

namespace mobula::process {
namespace {

// Constant-initialised: other parts of the library and its constructor use it before dynamic initialisation is done.
constinit WorkerMain registered_worker_main = nullptr;
constinit int mark_socket = -1;
constinit bool marked = false;
constinit bool worker = false;
constinit char* mark_libraries = nullptr;  // a copy that lives as long as the process

// "12" or "12:4" into two numbers; false when it is neither.
bool parse_mark(const char* text, int& socket, int& executable) {
  char* end = nullptr;
  socket = static_cast<int>(std::strtol(text, &end, 10));
  executable = -1;
  if (end == text || socket < 0) return false;
  if (*end == ':') {
    const char* second = end + 1;
    executable = static_cast<int>(std::strtol(second, &end, 10));
    if (end == second) return false;
  }
  return *end == '\0';
}

bool is_socket(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

// Takes our folder out of LD_LIBRARY_PATH again.
void restore_library_path() {
  const char* folder = std::getenv(kWorkerLibraryDir);
  const char* path = std::getenv(kLibraryPath);
  if (folder != nullptr && path != nullptr && std::string_view(path).starts_with(folder)) {
    const std::string rest = path + std::strlen(folder);
    if (rest.empty()) {
      ::unsetenv(kLibraryPath);
    } else if (rest.front() == ':') {
      ::setenv(kLibraryPath, rest.c_str() + 1, 1);
    }
  }
  ::unsetenv(kWorkerLibraryDir);
}

// Loads what load_library() named, so that workers inherit it; the text says what failed.
std::string load_libraries(std::string_view paths) {
  while (!paths.empty()) {
    const std::size_t colon = paths.find(':');
    const std::string path(paths.substr(0, colon));
    paths = colon == std::string_view::npos ? std::string_view() : paths.substr(colon + 1);
    if (!path.empty() && ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* why = ::dlerror();
      return "cannot load the library " + path + ": " + (why != nullptr ? why : "unknown");
    }
  }
  return {};
}

}  // namespace

void set_worker_main(WorkerMain function) noexcept {
  registered_worker_main = function;
}
WorkerMain worker_main() noexcept {
  return registered_worker_main;
}
bool started_as_worker() noexcept {
  return marked;
}
bool is_worker() noexcept {
  return worker;
}

void adopt_worker_mark() noexcept {
  const char* mark = std::getenv(kWorkerMark);
  if (mark == nullptr) return;
  int executable = -1;
  const bool valid = parse_mark(mark, mark_socket, executable) && is_socket(mark_socket);
  if (const char* libraries = std::getenv(kWorkerLibraries); libraries != nullptr) mark_libraries = ::strdup(libraries);
  restore_library_path();
  ::unsetenv(kWorkerMark);
  ::unsetenv(kWorkerLibraries);
  if (!valid) {
    std::fprintf(stderr, "mobula: %s is set but names no open socket; it is for node daemons only: unset it\n",
                 kWorkerMark);
    ::_exit(2);
  }
  marked = true;
  ::fcntl(mark_socket, F_SETFD, FD_CLOEXEC);
  if (executable >= 0) ::close(executable);
}

int worker_process_main(int argc, char** argv) noexcept {
  if (registered_worker_main == nullptr) {
    std::fprintf(stderr, "mobula: this process was started as a worker, but the library has no worker to run\n");
    return 2;
  }
  const std::string failure = load_libraries(mark_libraries != nullptr ? mark_libraries : "");
  const int control = serve_zygote(mark_socket, failure);
  worker = true;
  // From here on `ps` tells a worker from its zygote: the second argument was made for it, of the same length.
  if (argc > 1 && std::strcmp(argv[1], kZygoteArgument) == 0) std::strcpy(argv[1], kWorkerArgument);
  try {
    return registered_worker_main(control);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mobula: the worker ended with an exception: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "mobula: the worker ended with an exception of unknown type\n");
  }
  return 70;
}

}  // namespace mobula::process
