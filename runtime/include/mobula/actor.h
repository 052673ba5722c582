// Actors: objects that live in a worker process of their own and are called from everywhere.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/call.h>
#include <mobula/object_ref.h>
#include <mobula/options.h>

namespace mobula {

namespace detail {

struct ActorAccess;

// The invoker of method M on an actor of class T, registered before main when the program calls or exports it.
template <class T, auto M, bool Split>
struct MethodFunction {
  using Sig = Signature<std::remove_cv_t<decltype(M)>>;

  static void invoke_method(Invocation& invocation) {
    auto* instance = static_cast<T*>(invocation.instance());
    if (instance == nullptr) throw_invalid("a method was called before the actor was made");
    invoke<Sig, Split>(invocation, [instance]<class... Args>(Args&&... args) -> decltype(auto) {
      return (instance->*M)(std::forward<Args>(args)...);
    });
  }

  static const FunctionRecord& record() {
    touch(kRegistered);
    return kRecord;
  }

 private:
  static constexpr FunctionRecord kRecord{
      .invoker = &invoke_method,
      .kind = FunctionKind::kMethod,
      .display = ValueName<M>::kText.data(),
      .symbol = ValueName<M>::kText.data(),
      .class_name = TypeName<T>::kText.data(),
      .fingerprint = signature_fingerprint<Sig>(),
      .external = !Split && names_are_external(value_text<M>()) && names_are_external(type_text<T>()),
  };
  static inline const bool kRegistered = (register_function(&kRecord), true);
};

// The invoker that makes a T of arguments of types Params.
template <class T, class... Params>
struct ConstructorFunction {
  static void invoke_constructor(Invocation& invocation) {
    KeptArguments<Params...> kept;
    construct(invocation, kept, std::index_sequence_for<Params...>{});
  }

  static const FunctionRecord& record() {
    touch(kRegistered);
    return kRecord;
  }

 private:
  template <std::size_t... Index>
  static void construct(Invocation& invocation, KeptArguments<Params...>& kept, std::index_sequence<Index...> indices) {
    decode_arguments<Params...>(invocation, kept, indices);
    if constexpr (std::is_constructible_v<T, Params...>) {
      invocation.set_instance(std::make_shared<T>(std::move(std::get<Index>(kept))...));
    } else {
      invocation.set_instance(std::shared_ptr<T>(new T{std::move(std::get<Index>(kept))...}));
    }
  }

  static constexpr FunctionRecord kRecord{
      .invoker = &invoke_constructor,
      .kind = FunctionKind::kConstructor,
      .display = TypeName<T>::kText.data(),
      .symbol = TypeName<T>::kText.data(),
      .class_name = TypeName<T>::kText.data(),
      .fingerprint = combine(hash_text("constructor"), sizeof...(Params), kFingerprint<Params>...),
      .external = names_are_external(type_text<T>()),
  };
  static inline const bool kRegistered = (register_function(&kRecord), true);
};

template <class T>
constexpr void check_actor_class() {
  static_assert(std::is_class_v<T> && !std::is_abstract_v<T> && std::is_same_v<T, std::remove_cv_t<T>>,
                "mobula: actor<T> needs a class that can be constructed");
}

template <class T, auto M>
constexpr void check_method() {
  using Method = std::remove_cv_t<decltype(M)>;
  static_assert(
      std::is_member_function_pointer_v<Method>,
      "mobula: call<&T::method> takes a method of the actor's class; a free function is a task: remote<f>(...)");
  if constexpr (std::is_member_function_pointer_v<Method>) {
    static_assert(Signature<Method>::kKnown,
                  "mobula: methods that are volatile, && or variadic cannot be called remotely");
    if constexpr (Signature<Method>::kKnown) {
      static_assert(std::is_base_of_v<typename Signature<Method>::Class, T>,
                    "mobula: this method is of another class than the actor");
    }
  }
}

// What arrives at the constructor for an argument: texts become strings; refs are resolved if `Resolve`.
template <class Given, bool Resolve>
struct Arrives {
  using Plain = std::decay_t<Given>;
  using Type = std::conditional_t<std::is_convertible_v<Plain, std::string_view>, std::string, Plain>;
};
template <class Given>
requires kIsObjectRef<std::remove_cvref_t<Given>>
struct Arrives<Given, true> {
  using Type = typename std::remove_cvref_t<Given>::value_type;
};

template <class T, class... Params>
concept MadeOf = std::is_constructible_v<T, Params...> ||
    (std::is_aggregate_v<T>&& requires(Params&&... params) { T{std::forward<Params>(params)...}; });

// Which arguments arrive resolved, as a bit mask: the first that T can be made of, all before some before none; or ~0.
template <class T, std::size_t Mask, class... Given, std::size_t... Index>
constexpr bool mask_fits(std::index_sequence<Index...>) {
  return MadeOf<T, typename Arrives<Given, (Mask >> Index & 1) == 0>::Type...>;
}
template <class T, std::size_t Mask, class... Given>
constexpr std::size_t find_mask() {
  constexpr std::size_t kRefs = (std::size_t{kIsObjectRef<std::remove_cvref_t<Given>>} + ... + 0);
  constexpr std::size_t kMasks = kRefs == 0 || sizeof...(Given) > 6 ? 1 : std::size_t{1} << sizeof...(Given);
  if constexpr (mask_fits<T, Mask, Given...>(std::index_sequence_for<Given...>{}))
    return Mask;
  else if constexpr (Mask + 1 < kMasks)
    return find_mask<T, Mask + 1, Given...>();
  else
    return ~std::size_t{0};
}

template <class T, std::size_t Mask, class... Given, std::size_t... Index>
std::shared_ptr<const ActorState> construct_with(std::index_sequence<Index...>, const CallOptions& options,
                                                 Given&&... given) {
  using Function = ConstructorFunction<T, typename Arrives<Given, (Mask >> Index & 1) == 0>::Type...>;
  using Parameters = TypeList<typename Arrives<Given, (Mask >> Index & 1) == 0>::Type...>;
  return create_actor(Function::record(), make_arguments(Parameters{}, std::forward<Given>(given)...), options);
}

}  // namespace detail

template <class T>
class Actor;

// A handle with options for the calls made through it, from handle.with(...) or handle.returns(n).
template <class T>
class ActorCalls {
 public:
  // As Actor::call.
  template <auto M, class... Args>
  auto call(Args&&... args) const {
    return Actor<T>::template submit<M>(*state_, options_, std::forward<Args>(args)...);
  }
  // As RemoteFunction::returns: the result, a std::vector<U> of `count` elements, becomes a vector of refs.
  template <auto M, class... Args>
  auto call_split(std::uint32_t count, Args&&... args) const {
    return Actor<T>::template submit_split<M>(*state_, options_, count, std::forward<Args>(args)...);
  }

 private:
  friend class Actor<T>;
  ActorCalls(std::shared_ptr<const detail::ActorState> state, detail::CallOptions options)
      : state_(std::move(state)), options_(std::move(options)) {}

  std::shared_ptr<const detail::ActorState> state_;
  detail::CallOptions options_;
};

// A handle of an actor whose class is T. Copies are cheap; handles travel as arguments and results, also nested. The
// actor lives while a handle of it lives anywhere, or until kill(); a named one while the job runs, a detached one
// until kill(). A handle from find_actor() does not keep its actor alive.
//
// Calls of one caller run in the order in which they were made, one at a time unless `.max_concurrency` is above 1;
// calls of different callers interleave. Thread-safety is that of ObjectRef: threads use different handles, or one for
// reading.
template <class T>
class Actor {
 public:
  using actor_type = T;

  // No actor: false; calls throw Invalid.
  Actor() = default;

  explicit operator bool() const { return state_ != nullptr; }
  // Zero when empty.
  ActorId id() const { return state_ == nullptr ? ActorId{} : state_->id; }
  void reset() { state_.reset(); }

  // handle.call<&T::method>(args...): submits a call and returns at once. Arguments and results are as with remote<F>;
  // methods of base classes work, an overloaded one is picked by static_cast<int (T::*)(int)>(&T::method).
  template <auto M, class... Args>
  auto call(Args&&... args) const {
    return submit<M>(state(), detail::default_options(), std::forward<Args>(args)...);
  }
  // handle.call_split<&T::method>(n, args...) for a method that returns a std::vector<U> of n elements: n refs.
  template <auto M, class... Args>
  auto call_split(std::uint32_t count, Args&&... args) const {
    return submit_split<M>(state(), detail::default_options(), count, std::forward<Args>(args)...);
  }
  // handle.with({.name = "step 7"}).call<&T::method>(args...)
  ActorCalls<T> with(Options options) const {
    state();
    return ActorCalls<T>(state_, detail::to_call_options(std::move(options)));
  }

  friend bool operator==(const Actor& a, const Actor& b) { return a.id() == b.id(); }
  friend std::strong_ordering operator<=>(const Actor& a, const Actor& b) { return a.id() <=> b.id(); }

 private:
  friend struct detail::ActorAccess;
  friend class ActorCalls<T>;
  explicit Actor(std::shared_ptr<const detail::ActorState> state) : state_(std::move(state)) {}

  const detail::ActorState& state() const {
    if (state_ == nullptr) detail::throw_invalid("an empty Actor handle was called");
    return *state_;
  }

  template <auto M, class... Args>
  static auto submit(const detail::ActorState& state, const detail::CallOptions& options, Args&&... args) {
    detail::check_method<T, M>();
    if constexpr (detail::Signature<std::remove_cv_t<decltype(M)>>::kKnown) {
      using Method = detail::MethodFunction<T, M, false>;
      using Result = detail::Returns<std::remove_cvref_t<typename Method::Sig::Result>>;
      Result::check();
      return Result::wrap(
          detail::submit_call(state, Method::record(),
                              detail::make_arguments(typename Method::Sig::Parameters{}, std::forward<Args>(args)...),
                              Result::kCount, options));
    }
  }

  template <auto M, class... Args>
  static auto submit_split(const detail::ActorState& state, const detail::CallOptions& options, std::uint32_t count,
                           Args&&... args) {
    detail::check_method<T, M>();
    using Method = detail::MethodFunction<T, M, true>;
    using Vector = std::remove_cvref_t<typename Method::Sig::Result>;
    static_assert(detail::ElementOfVector<Vector>::kIsVector,
                  "mobula: call_split needs a method that returns std::vector<U>");
    using Element = typename detail::ElementOfVector<Vector>::Element;
    detail::check_result<Element>();
    std::vector<ObjectRef<Element>> refs;
    refs.reserve(count);
    for (detail::RefHandle& handle : detail::submit_call(
             state, Method::record(),
             detail::make_arguments(typename Method::Sig::Parameters{}, std::forward<Args>(args)...), count, options)) {
      refs.push_back(detail::RefAccess::make<Element>(std::move(handle)));
    }
    return refs;
  }

  std::shared_ptr<const detail::ActorState> state_;
};

namespace detail {

struct ActorAccess {
  template <class T>
  static Actor<T> make(std::shared_ptr<const ActorState> state) {
    return Actor<T>(std::move(state));
  }
  template <class T>
  static const std::shared_ptr<const ActorState>& state(const Actor<T>& actor) {
    return actor.state_;
  }
};

template <class T>
struct Native<Actor<T>> {
  static constexpr std::uint64_t kFingerprint = combine(hash_text("mobula.actor"), hash_text(type_text<T>()));
  static void encode(Encoder& out, const Actor<T>& actor) {
    const auto& state = ActorAccess::state(actor);
    out.write_plain(static_cast<std::uint8_t>(state != nullptr));
    if (state == nullptr) return;
    out.write_plain(state->id);
    out.write_plain(state->job);
    out.write_ref(state->self);
    mobula::detail::encode(out, state->display);
  }
  static void decode(Decoder& in, Actor<T>& actor) {
    actor.reset();
    if (in.read_byte() == 0) return;
    ActorState state;
    in.read_plain(state.id);
    in.read_plain(state.job);
    state.self = in.read_ref();
    mobula::detail::decode(in, state.display);
    actor = ActorAccess::make<T>(adopt_actor(std::move(state)));
  }
};

}  // namespace detail

// The type of actor<T>, and of actor<T>.with(...).
template <class T, bool WithOptions = false>
class ActorMaker {
 public:
  constexpr ActorMaker() = default;
  explicit ActorMaker(detail::CallOptions options) : options_(std::move(options)) {}

  // actor<T>(args...): makes a T of these arguments in a worker of its own and returns at once; a constructor that
  // throws shows at the first get() of a call as ActorDied. Arguments are as with remote<F>; a ref is resolved where T
  // can be made of its value, and passed as it is where T can be made of the ref. T need be neither copyable nor
  // movable.
  template <class... Args>
  Actor<T> operator()(Args&&... args) const {
    detail::check_actor_class<T>();
    constexpr std::size_t kMask = detail::find_mask<T, 0, Args...>();
    static_assert(
        kMask != ~std::size_t{0},
        "mobula: T cannot be constructed of these arguments (an ObjectRef<U> counts as a U or as itself, text as a "
        "std::string)");
    if constexpr (kMask != ~std::size_t{0}) {
      return detail::ActorAccess::make<T>(
          detail::construct_with<T, kMask>(std::index_sequence_for<Args...>{}, options(), std::forward<Args>(args)...));
    } else {
      return {};
    }
  }

  // actor<T>.with({.name = "counter", .max_restarts = 2})(args...)
  ActorMaker<T, true> with(Options options) const {
    return ActorMaker<T, true>(detail::to_call_options(std::move(options)));
  }

 private:
  struct None {};

  const detail::CallOptions& options() const {
    if constexpr (WithOptions)
      return options_;
    else
      return detail::default_options();
  }

  [[no_unique_address]] std::conditional_t<WithOptions, detail::CallOptions, None> options_{};
};

template <class T>
inline constexpr ActorMaker<T> actor{};

// A handle of the actor of that name; "" is the job's own name space. Throws ActorDied when there is none, and
// SignatureMismatch when its program declares the methods that this program calls with other types. The handle does not
// keep the actor alive.
template <class T>
Actor<T> find_actor(const std::string& name, const std::string& name_space = "") {
  detail::check_actor_class<T>();
  return detail::ActorAccess::make<T>(detail::find_actor(name, name_space, detail::TypeName<T>::kText.data()));
}

// Makes methods callable by other programs that find the actor by name, at namespace scope of the program that runs it:
//   mobula::exports<Counter, &Counter::add, &Counter::total> counter_exports;
// Within one program nothing needs it. Classes and methods need external linkage: no lambda, no anonymous namespace.
template <class T, auto... Methods>
class exports {
 public:
  exports() noexcept {
    detail::check_actor_class<T>();
    (detail::check_method<T, Methods>(), ...);
    static_assert((detail::names_are_external(detail::value_text<Methods>()) && ...) &&
                      detail::names_are_external(detail::type_text<T>()),
                  "mobula: other programs cannot name a class in an anonymous namespace. Move it into a named one");
    ((void)detail::MethodFunction<T, Methods, false>::record(), ...);
  }
};

// Ends the actor at once: its queued calls fail with ActorDied. With `.no_restart = false` it is made again if its
// max_restarts allow. Killing a dead actor does nothing.
template <class T>
void kill(const Actor<T>& actor, KillOptions options = {}) {
  const auto& state = detail::ActorAccess::state(actor);
  if (state == nullptr) detail::throw_invalid("kill of an empty Actor handle");
  detail::kill_actor(*state, options.no_restart);
}

}  // namespace mobula

template <class T>
struct std::hash<mobula::Actor<T>> {
  std::size_t operator()(const mobula::Actor<T>& actor) const noexcept {
    return std::hash<mobula::ActorId>()(actor.id());
  }
};
