// The seam between the header templates and libmobula.so: everything the templates may call, in plain types.
//
// Users never include this. The templates turn typed calls into `CallRequest`s and encoded payloads; the library owns
// all state. Every function here is thread-safe and throws mobula::Error kinds unless it says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/error.h>
#include <mobula/ids.h>
#include <mobula/info.h>
#include <mobula/options.h>

namespace mobula::detail {

// One counted reference of this process to an object. The library's reference table counts them per process;
// the owner hears only of the first and the last. Copies share one count block and may be used from any thread; one
// RefHandle object itself is as thread-safe as an int. Destroying one after shutdown does nothing.
class MOBULA_API RefHandle {
 public:
  RefHandle() = default;
  // Takes one reference to `locator` in this process's table ("adopts" when the table already counted it).
  static RefHandle acquire(const ObjectLocator& locator);
  ~RefHandle();
  RefHandle(const RefHandle&);
  RefHandle(RefHandle&&) noexcept;
  RefHandle& operator=(const RefHandle&);
  RefHandle& operator=(RefHandle&&) noexcept;

  explicit operator bool() const { return cell_ != nullptr; }
  const ObjectLocator& locator() const;  // needs a non-empty handle
  ObjectId id() const;                   // zero when empty

  struct Cell;  // defined by the library: locator, atomic ready value
  Cell* cell() const { return cell_; }
  // For the library: wraps a cell whose count was already taken.
  static RefHandle from_counted(Cell* cell) {
    RefHandle handle;
    handle.cell_ = cell;
    return handle;
  }

 private:
  Cell* cell_ = nullptr;
};

// An encoded value on its way out: one contiguous blob (see mobula/detail/payload.h) and the references inside it,
// in the order of the blob's reference indices. Holding `refs` keeps the objects alive until the library took over.
struct OutPayload {
  std::vector<std::byte> bytes;  // the blob when it was encoded on the heap
  std::vector<RefHandle> refs;
};

// An encoded value that arrived. `data` stays valid while `owner` lives (heap or pinned shared memory).
struct InPayload {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  std::vector<RefHandle> refs;  // references inside the blob, already acquired
};

// Destination for large blobs: the encoder first measures, then asks for room and writes in place, so that a put copies
// the bytes once. Returned by begin_put; either committed or dropped (which gives the room back).
class MOBULA_API PutBuffer {
 public:
  virtual ~PutBuffer() = default;
  virtual std::span<std::byte> room() = 0;
};

struct Resources {
  std::optional<double> cpus;             // unset: the default of the kind of call
  double gpus = 0;                        // devices or a share of one
  std::uint64_t gpu_memory = 0;           // bytes on one device
  std::uint64_t memory = 0;               // bytes
  std::uint64_t object_store_memory = 0;  // bytes
  std::vector<std::pair<std::string, double>> custom;
  std::vector<std::pair<std::string, std::string>> labels;  // node labels that must match
  friend bool operator==(const Resources&, const Resources&) = default;
};

struct CallOptions {
  Resources resources;
  std::string name;               // of the task, for people; of the actor, for look-up
  std::string name_space;         // actors: default is the job's own
  std::int32_t max_retries = 3;   // tasks
  std::int32_t max_restarts = 0;  // actors
  std::int32_t max_task_retries = 0;
  std::uint32_t max_concurrency = 1;  // actors: threads
  bool retry_exceptions = false;
  bool detached = false;
  bool get_if_exists = false;
  bool exclusive = false;             // actors: never two incarnations at once
  bool fail_when_overloaded = false;  // throw Overloaded where the call would block on the queue's bound
  std::vector<std::pair<std::string, std::string>> environment;  // extra variables of the worker
  friend bool operator==(const CallOptions&, const CallOptions&) = default;
};

// The largest blob that travels inside messages; a larger argument is put into the store and passed as a reference.
inline constexpr std::size_t kInlineBytesMax = std::size_t{64} << 10;

// One argument: an encoded value, or a reference that is resolved before the call starts.
struct CallArgument {
  OutPayload value;
  RefHandle ref;  // when set, `value` is ignored
};

// ---- functions ----------------------------------------------------------------------------------------------------

// What the library hands to an invoker in a worker.
class MOBULA_API Invocation {
 public:
  virtual ~Invocation() = default;
  virtual std::size_t argument_count() const = 0;
  virtual const InPayload& argument(std::size_t index) = 0;
  virtual std::size_t return_count() const = 0;
  // Room in the right place (heap below the inline limit, shared memory above) for result `index`.
  virtual std::span<std::byte> result_room(std::size_t index, std::size_t size) = 0;
  // Seals result `index`; `refs` are the references inside it.
  virtual void result_done(std::size_t index, std::vector<RefHandle> refs) = 0;
  // Actors: the instance (null in a constructor call) and where the constructor puts it.
  virtual void* instance() = 0;
  virtual void set_instance(std::shared_ptr<void> instance) = 0;
};

using Invoker = void (*)(Invocation&);  // may throw anything: the library turns it into TaskFailed

enum class FunctionKind : std::uint8_t { kTask, kConstructor, kMethod };

// Registered once per instantiation during static initialisation. `invoker`'s offset in its module is its identity
// within one build; `mangled` and `fingerprint` are its identity across programs, when it has external linkage.
struct FunctionRecord {
  Invoker invoker = nullptr;
  FunctionKind kind = FunctionKind::kTask;
  const char* display = "";       // for people: "plus", "Counter::add"
  const char* symbol = "";        // spelling of the function or method by the compiler: "plus", "Counter::add"
  const char* class_name = "";    // methods and constructors: spelling of the actor's class, else ""
  std::uint64_t fingerprint = 0;  // of argument and result types, structural
  bool external = false;          // reachable from other programs by `symbol`
};

// Called during static initialisation, single-threaded; the record must be static. Never throws.
MOBULA_API void register_function(const FunctionRecord* record) noexcept;

// ---- calls --------------------------------------------------------------------------------------------------------

MOBULA_API std::vector<RefHandle> submit_task(const FunctionRecord& function, std::vector<CallArgument> arguments,
                                              std::uint32_t returns, const CallOptions& options);

// What an actor handle holds; travels inside payloads as a locator (`self`) plus these fields.
struct ActorState {
  ActorId id;
  JobId job;
  RefHandle self;  // the actor lives while anybody holds it, unless named or detached; empty for looked-up handles
  std::string display;
};

MOBULA_API std::shared_ptr<const ActorState> create_actor(const FunctionRecord& constructor,
                                                          std::vector<CallArgument> arguments,
                                                          const CallOptions& options);
// Finds a named actor. The methods that this program registered for `class_name` are compared with those of the actor's
// program by symbol and fingerprint: SignatureMismatch. Throws ActorDied when there is none of that name.
MOBULA_API std::shared_ptr<const ActorState> find_actor(const std::string& name, const std::string& name_space,
                                                        const char* class_name);
// A handle that arrived inside a payload.
MOBULA_API std::shared_ptr<const ActorState> adopt_actor(ActorState state);

MOBULA_API std::vector<RefHandle> submit_call(const ActorState& actor, const FunctionRecord& method,
                                              std::vector<CallArgument> arguments, std::uint32_t returns,
                                              const CallOptions& options);

MOBULA_API void kill_actor(const ActorState& actor, bool no_restart);
MOBULA_API void cancel(const RefHandle& ref, bool force, bool recursive);

// ---- objects ------------------------------------------------------------------------------------------------------

// `size` bytes for a blob of an object that this process will own.
MOBULA_API std::unique_ptr<PutBuffer> begin_put(std::size_t size);
MOBULA_API RefHandle finish_put(std::unique_ptr<PutBuffer> buffer, std::vector<RefHandle> refs);

using Timeout = std::optional<std::chrono::nanoseconds>;

// A value or an error for each of `refs`, in order. Waits for all of them; what is not there in time has an error of
// kind kTimeout. A failed object is an error in its place and never thrown.
struct Outcome {
  std::optional<ErrorInfo> error;
  InPayload payload;  // when there is no error
};
MOBULA_API std::vector<Outcome> get(std::span<const RefHandle> refs, Timeout timeout);
// The fast path of one ref; throws the object's error.
MOBULA_API InPayload get_one(const RefHandle& ref, Timeout timeout);
// A flag per ref: is it ready (a value or an error)? Returns when `count` are or at the timeout. `fetch`: also brought
// here.
MOBULA_API std::vector<bool> wait(std::span<const RefHandle> refs, std::size_t count, Timeout timeout, bool fetch);

// ---- runtime ------------------------------------------------------------------------------------------------------

// Starts the library in this process. Throws Invalid when it runs already.
MOBULA_API void start(int argc, char** argv, const InitOptions& options);
// Ends it: see Runtime. Safe to call twice. Never throws.
MOBULA_API void stop() noexcept;
MOBULA_API bool running() noexcept;

using CurrentState = mobula::Current;
MOBULA_API CurrentState current_state();

MOBULA_API std::vector<NodeInfo> list_nodes();

// Runs `function` in each worker process right after it was forked, before any user code.
MOBULA_API void on_worker_start(void (*function)());

// Ships the shared library at `path` to every node that needs it and loads it here and in this job's workers.
MOBULA_API void load_library(const std::string& path);

}  // namespace mobula::detail
