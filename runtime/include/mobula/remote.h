// remote<F>: calls a function as a task, somewhere in the cluster.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/call.h>
#include <mobula/object_ref.h>
#include <mobula/options.h>

namespace mobula {

namespace detail {

// The invoker of F and its record, registered before main when any code of the program calls remote<F>.
template <auto F, bool Split>
struct TaskFunction {
  using Sig = Signature<std::remove_cv_t<decltype(F)>>;

  static void invoke_task(Invocation& invocation) { invoke<Sig, Split>(invocation, F); }

  static const FunctionRecord& record() {
    touch(kRegistered);
    return kRecord;
  }

 private:
  static constexpr FunctionRecord kRecord{
      .invoker = &invoke_task,
      .kind = FunctionKind::kTask,
      .display = ValueName<F>::kText.data(),
      .symbol = ValueName<F>::kText.data(),
      .class_name = "",
      .fingerprint = signature_fingerprint<Sig>(),
      .external = !std::is_class_v<decltype(F)> && names_are_external(value_text<F>()),
  };
  static inline const bool kRegistered = (register_function(&kRecord), true);
};

template <auto F>
constexpr void check_function() {
  using Function = std::remove_cv_t<decltype(F)>;
  static_assert(!std::is_member_function_pointer_v<Function>,
                "mobula: remote<F> calls functions; a method belongs to an actor: `handle.call<&T::method>(...)`");
  if constexpr (!std::is_member_function_pointer_v<Function>) {
    static_assert(
        Signature<Function>::kKnown,
        "mobula: remote<F> takes a function or a lambda without captures whose parameters have types of their own; "
        "`auto` parameters, templates and variadic functions have no one signature: name the types, or write "
        "remote<f<int>>");
  }
}

}  // namespace detail

// remote<F> with options, from remote<F>.with(...). A value: keep it to call F many times with the same options.
template <auto F>
class BoundFunction {
 public:
  explicit BoundFunction(detail::CallOptions options) : options_(std::move(options)) {}

  template <class... Args>
  auto operator()(Args&&... args) const;
  // See RemoteFunction::returns.
  auto returns(std::uint32_t count) const;

 private:
  detail::CallOptions options_;
};

// From remote<F>.returns(n): calls F and gives n refs.
template <auto F>
class SplitFunction {
 public:
  SplitFunction(detail::CallOptions options, std::uint32_t count) : options_(std::move(options)), count_(count) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Task = detail::TaskFunction<F, true>;
    using Vector = std::remove_cvref_t<typename Task::Sig::Result>;
    static_assert(
        detail::ElementOfVector<Vector>::kIsVector,
        "mobula: .returns(n) needs a function that returns std::vector<T>; several values of different types are "
        "a std::tuple, which gives a tuple of refs without it");
    using Element = typename detail::ElementOfVector<Vector>::Element;
    detail::check_result<Element>();
    std::vector<ObjectRef<Element>> refs;
    refs.reserve(count_);
    for (detail::RefHandle& handle : detail::submit_task(
             Task::record(), detail::make_arguments(typename Task::Sig::Parameters{}, std::forward<Args>(args)...),
             count_, options_)) {
      refs.push_back(detail::RefAccess::make<Element>(std::move(handle)));
    }
    return refs;
  }

 private:
  detail::CallOptions options_;
  std::uint32_t count_;
};

// The type of remote<F>, which has no state.
template <auto F>
class RemoteFunction {
 public:
  // Submits a call of F and returns at once with a ref to its result: ObjectRef<R>, ObjectRef<void> for a void F, and a
  // std::tuple of refs for an F that returns a std::tuple. A result that is a reference is copied.
  //
  // Each argument converts to its parameter as in a plain call, or is an ObjectRef to a value of exactly the
  // parameter's type, which is then awaited and fetched before F starts. A parameter that is itself an ObjectRef gets
  // the ref as it is, and so do refs inside containers and structs. A const T& parameter refers to a T that lives
  // during the call.
  //
  // Waits while the queue of submitted tasks is full (Overloaded instead with `.fail_when_overloaded`). What F throws
  // is thrown by get() as TaskFailed.
  template <class... Args>
  auto operator()(Args&&... args) const {
    return call(detail::default_options(), std::forward<Args>(args)...);
  }

  // remote<F>.with({.cpus = 2, .max_retries = 0})(args...)
  BoundFunction<F> with(Options options) const { return BoundFunction<F>(detail::to_call_options(std::move(options))); }

  // remote<F>.returns(n)(args...) for an F that returns a std::vector<T> of n elements: a vector of n refs, each a T of
  // its own that is fetched, kept and lost alone. A vector of another size is an error at all of them.
  SplitFunction<F> returns(std::uint32_t count) const { return SplitFunction<F>({}, count); }

 private:
  friend class BoundFunction<F>;

  template <class... Args>
  static auto call(const detail::CallOptions& options, Args&&... args) {
    detail::check_function<F>();
    if constexpr (detail::Signature<std::remove_cv_t<decltype(F)>>::kKnown) {
      using Task = detail::TaskFunction<F, false>;
      using Result = detail::Returns<std::remove_cvref_t<typename Task::Sig::Result>>;
      Result::check();
      return Result::wrap(detail::submit_task(
          Task::record(), detail::make_arguments(typename Task::Sig::Parameters{}, std::forward<Args>(args)...),
          Result::kCount, options));
    }
  }
};

template <auto F>
template <class... Args>
auto BoundFunction<F>::operator()(Args&&... args) const {
  return RemoteFunction<F>::call(options_, std::forward<Args>(args)...);
}

template <auto F>
auto BoundFunction<F>::returns(std::uint32_t count) const {
  return SplitFunction<F>(options_, count);
}

// remote<plus>(1, 2). F is a function, also one in an anonymous namespace, or a lambda without captures:
// remote<[](int x) { return 2 * x; }>(5).
//
// Two mistakes fail in the compiler's own words, before any code of Mobula is reached:
// - a lambda that captures: "'x' is not a constant expression" (g++), "is not a structural type" (clang). Pass what it
//   would capture as an argument: remote<[](int y, int x) { return y + x; }>(y, x).
// - an overloaded name: "unable to deduce 'auto' from 'f'" (g++), "incompatible initializer of type '<overloaded
// function
//   type>'" (clang). Pick one: remote<static_cast<int (*)(int)>(f)>.
template <auto F>
inline constexpr RemoteFunction<F> remote{};

}  // namespace mobula
