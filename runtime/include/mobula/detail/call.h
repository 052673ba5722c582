// From a typed call to plain requests, and back from plain invocations to typed calls.
//
// An *invoker* is a function of one fixed type that decodes the arguments, calls the user's function and encodes what
// it returns. One is made per function that the program mentions in a remote call, and registers itself before main.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/codec.h>
#include <mobula/detail/core.h>
#include <mobula/object_ref.h>
#include <mobula/options.h>

namespace mobula::detail {

// ---- signatures
// ------------------------------------------------------------------------------------------------------

template <class... Ts>
struct TypeList {
  static constexpr std::size_t kSize = sizeof...(Ts);
};

template <class R, class C, class... Params>
struct SignatureOf {
  using Result = R;
  using Class = C;
  using Parameters = TypeList<Params...>;
};

template <class F>
struct Signature {
  static constexpr bool kKnown = false;
};

#define MOBULA_SIGNATURE(qualifiers)                                                \
  template <class R, class C, class... Params>                                      \
  struct Signature<R (C::*)(Params...) qualifiers> : SignatureOf<R, C, Params...> { \
    static constexpr bool kKnown = true;                                            \
  };
MOBULA_SIGNATURE()
MOBULA_SIGNATURE(const)
MOBULA_SIGNATURE(&)
MOBULA_SIGNATURE(const&)
MOBULA_SIGNATURE(noexcept)
MOBULA_SIGNATURE(const noexcept)
MOBULA_SIGNATURE(&noexcept)
MOBULA_SIGNATURE(const& noexcept)
#undef MOBULA_SIGNATURE

template <class R, class... Params>
struct Signature<R (*)(Params...)> : SignatureOf<R, void, Params...> {
  static constexpr bool kKnown = true;
};
template <class R, class... Params>
struct Signature<R (*)(Params...) noexcept> : SignatureOf<R, void, Params...> {
  static constexpr bool kKnown = true;
};

// A function object has the signature of its one operator().
template <class F>
requires(std::is_class_v<F>&& requires { &F::operator(); }) struct Signature<F> : Signature<decltype(&F::operator())> {
};

// ---- parameters
// ------------------------------------------------------------------------------------------------------

// What a worker keeps for a parameter while the call runs: a view parameter needs an owner.
template <class Parameter>
using Kept = std::conditional_t<std::is_same_v<std::remove_cvref_t<Parameter>, std::string_view>, std::string,
                                std::remove_cvref_t<Parameter>>;

template <class Parameter>
constexpr void check_parameter() {
  static_assert(
      !std::is_lvalue_reference_v<Parameter> || std::is_const_v<std::remove_reference_t<Parameter>>,
      "mobula: a parameter of type T& would only change a copy in another process. Take it by value or const&, "
      "and return what changed (several values as a std::tuple)");
  using Value = Kept<Parameter>;
  if constexpr (kCategory<Value> == Category::kUnsendable)
    explain_unsendable<Value>();
  else
    check_default_constructible<Value>();
}

// Is `Given` as an argument for `Parameter` what the compiler would accept in a plain call? A text may be given as any
// kind of string.
template <class Parameter, class Given>
constexpr bool accepts() {
  if constexpr (std::is_convertible_v<Given, Parameter>)
    return true;
  else
    return std::is_same_v<Kept<Parameter>, std::string> && std::is_convertible_v<Given, std::string_view>;
}

template <class T>
CallArgument make_value_argument(const T& value) {
  CallArgument argument;
  Encoder encoder;
  encode(encoder, value);
  const std::size_t bytes = encoder.bytes();
  if (bytes > kInlineBytesMax) {  // too large for a message: into the store, once
    std::unique_ptr<PutBuffer> buffer = begin_put(bytes);
    encoder.begin_writing(buffer->room(), kFingerprint<T>);
    encode(encoder, value);
    argument.ref = finish_put(std::move(buffer), encoder.finish());
  } else {
    argument.value.bytes.resize(bytes);
    encoder.begin_writing(argument.value.bytes, kFingerprint<T>);
    encode(encoder, value);
    argument.value.refs = encoder.finish();
  }
  return argument;
}

template <class T>
CallArgument make_ref_argument(const ObjectRef<T>& ref) {
  if (!ref) throw_invalid("an empty ObjectRef was given as an argument");
  CallArgument argument;
  argument.ref = RefAccess::handle(ref);
  return argument;
}

// A ref given for a parameter that is not itself a ref is resolved before the call starts.
template <class Parameter, class Given>
CallArgument make_argument(Given&& given) {
  using Value = Kept<Parameter>;
  using Plain = std::remove_cvref_t<Given>;
  if constexpr (kIsObjectRef<Plain> && !kIsObjectRef<Value>) {
    static_assert(
        std::is_same_v<typename Plain::value_type, Value>,
        "mobula: the ObjectRef given as an argument holds another type than the parameter. Types must be equal, "
        "refs are not converted: mobula::get it first, or change the parameter");
    return make_ref_argument(given);
  } else if constexpr (kIsObjectRef<Plain> && std::is_same_v<Plain, ObjectRef<Value>>) {
    return make_ref_argument(given);  // a ref to a ref, for a parameter that is a ref
  } else {
    static_assert(accepts<Parameter, Given&&>(),
                  "mobula: an argument does not convert to the parameter's type. If the value can only be moved, write "
                  "std::move(value)");
    if constexpr (std::is_same_v<Plain, Value>) {
      CallArgument argument = make_value_argument<Value>(given);
      if constexpr (!std::is_lvalue_reference_v<Given> && !std::is_const_v<Given> &&
                    !std::is_trivially_copyable_v<Value>) {
        [[maybe_unused]] const Value moved(std::move(given));  // as a call would have taken it
      }
      return argument;
    } else if constexpr (std::is_same_v<Value, std::string> && std::is_convertible_v<Given&&, std::string_view>) {
      return make_value_argument(std::string(static_cast<std::string_view>(std::forward<Given>(given))));
    } else {
      return make_value_argument<Value>(static_cast<Value>(std::forward<Given>(given)));
    }
  }
}

template <class... Params, class... Given>
std::vector<CallArgument> make_arguments(TypeList<Params...>, Given&&... given) {
  (check_parameter<Params>(), ...);
  static_assert(
      sizeof...(Params) == sizeof...(Given),
      "mobula: wrong number of arguments. Every parameter needs one: default arguments do not count in a remote "
      "call");
  std::vector<CallArgument> arguments;
  if constexpr (sizeof...(Params) == sizeof...(Given)) {
    arguments.reserve(sizeof...(Given));
    (arguments.push_back(make_argument<Params>(std::forward<Given>(given))), ...);
  }
  return arguments;
}

// ---- results
// ---------------------------------------------------------------------------------------------------------

template <class R>
constexpr void check_result() {
  if constexpr (!std::is_void_v<R>) {
    if constexpr (kCategory<R> == Category::kUnsendable)
      explain_unsendable<R>();
    else
      check_default_constructible<R>();
  }
}

// How results become refs: one for a value or void, one per element of a tuple.
template <class R>
struct Returns {
  using Refs = ObjectRef<R>;
  static constexpr std::uint32_t kCount = 1;
  static constexpr void check() { check_result<R>(); }
  static Refs wrap(std::vector<RefHandle> handles) { return RefAccess::make<R>(std::move(handles.at(0))); }
};

template <class... Rs>
requires(sizeof...(Rs) > 0) struct Returns<std::tuple<Rs...>> {
  using Refs = std::tuple<ObjectRef<Rs>...>;
  static constexpr std::uint32_t kCount = sizeof...(Rs);
  static constexpr void check() { (check_result<Rs>(), ...); }
  static Refs wrap(std::vector<RefHandle> handles) { return wrap_each(handles, std::index_sequence_for<Rs...>{}); }

 private:
  template <std::size_t... Index>
  static Refs wrap_each(std::vector<RefHandle>& handles, std::index_sequence<Index...>) {
    return Refs(RefAccess::make<Rs>(std::move(handles.at(Index)))...);
  }
};

template <class T>
struct ElementOfVector {
  static constexpr bool kIsVector = false;
};
template <class T, class Allocator>
struct ElementOfVector<std::vector<T, Allocator>> {
  static constexpr bool kIsVector = true;
  using Element = T;
};

template <class T>
void send_result(Invocation& invocation, std::size_t index, const T& value) {
  std::vector<RefHandle> refs =
      encode_into(value, [&invocation, index](std::size_t bytes) { return invocation.result_room(index, bytes); });
  invocation.result_done(index, std::move(refs));
}

// What stands for the value of a void result.
struct Done {};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_wrong_count(const char* what, std::size_t found,
                                                                     std::size_t wanted) {
  throw_invalid("a call has " + std::to_string(found) + " " + what + " where the function has " +
                std::to_string(wanted) + ": caller and worker were built from different sources");
}

template <class R>
void send_one_or_tuple(Invocation& invocation, const R& result) {
  constexpr std::size_t kCount = Returns<R>::kCount;
  if (invocation.return_count() != kCount) throw_wrong_count("results", invocation.return_count(), kCount);
  if constexpr (requires { typename Returns<R>::Refs::value_type; }) {
    send_result(invocation, 0, result);
  } else {
    std::size_t index = 0;
    std::apply([&](const auto&... each) { (send_result(invocation, index++, each), ...); }, result);
  }
}

// `returns(n)`: each element of the vector is a result.
template <class Vector>
void send_elements(Invocation& invocation, const Vector& result) {
  if (result.size() != invocation.return_count()) {
    throw_invalid("the function returned " + std::to_string(result.size()) + " values where .returns(" +
                  std::to_string(invocation.return_count()) + ") was asked for");
  }
  for (std::size_t i = 0; i < result.size(); ++i) send_result<typename Vector::value_type>(invocation, i, result[i]);
}

// ---- invokers
// --------------------------------------------------------------------------------------------------------

template <class... Params>
using KeptArguments = std::tuple<Kept<Params>...>;

template <class T>
void decode_argument(Invocation& invocation, std::size_t index, T& value) {
  decode_payload(invocation.argument(index), value);
}

template <class... Params, std::size_t... Index>
void decode_arguments(Invocation& invocation, KeptArguments<Params...>& kept, std::index_sequence<Index...>) {
  if (invocation.argument_count() != sizeof...(Params)) {
    throw_wrong_count("arguments", invocation.argument_count(), sizeof...(Params));
  }
  (decode_argument(invocation, Index, std::get<Index>(kept)), ...);
}

// Hands a kept argument to its parameter: const references see it, all others take it.
template <class Parameter, class T>
decltype(auto) pass(T& kept) {
  if constexpr (std::is_same_v<std::remove_cvref_t<Parameter>, std::string_view>)
    return std::string_view(kept);
  else if constexpr (std::is_lvalue_reference_v<Parameter>)
    return static_cast<const T&>(kept);
  else
    return std::move(kept);
}

// Decodes the arguments, calls `function` with them, gives its result to `send`.
template <class Result, class... Params, std::size_t... Index, class Function, class Send>
void invoke_with(Invocation& invocation, TypeList<Params...>, std::index_sequence<Index...> indices,
                 Function&& function, Send&& send) {
  [[maybe_unused]] KeptArguments<Params...> kept;
  decode_arguments<Params...>(invocation, kept, indices);
  if constexpr (std::is_void_v<Result>) {
    function(pass<Params>(std::get<Index>(kept))...);
    send(Done{});
  } else {
    send(static_cast<const std::remove_cvref_t<Result>&>(function(pass<Params>(std::get<Index>(kept))...)));
  }
}

template <bool Split, class Result>
void send_all(Invocation& invocation, const Result& result) {
  if constexpr (std::is_same_v<Result, Done>) {
    if (invocation.return_count() != 1) throw_wrong_count("results", invocation.return_count(), 1);
    std::span<std::byte> room = invocation.result_room(0, sizeof(PayloadHeader));
    Encoder encoder;
    encoder.begin_writing(room, kFingerprint<void>);
    invocation.result_done(0, encoder.finish());
  } else if constexpr (Split) {
    send_elements(invocation, result);
  } else {
    send_one_or_tuple(invocation, result);
  }
}

template <class Sig, bool Split, class Function>
void invoke(Invocation& invocation, Function&& function) {
  using Parameters = typename Sig::Parameters;
  invoke_with<typename Sig::Result>(invocation, Parameters{}, std::make_index_sequence<Parameters::kSize>{},
                                    std::forward<Function>(function),
                                    [&invocation](const auto& result) { send_all<Split>(invocation, result); });
}

template <class... Params>
constexpr std::uint64_t fingerprint_parameters(TypeList<Params...>) {
  return combine(hash_text("call"), sizeof...(Params), kFingerprint<Kept<Params>>...);
}
template <class Sig>
constexpr std::uint64_t signature_fingerprint() {
  return combine(fingerprint_parameters(typename Sig::Parameters{}),
                 kFingerprint<std::remove_cvref_t<typename Sig::Result>>);
}

// Makes the compiler keep a static member whose initialisation registers something.
inline void touch(const bool&) {}

// ---- options
// ---------------------------------------------------------------------------------------------------------

inline CallOptions to_call_options(Options options) {
  CallOptions call;
  call.resources.cpus = options.cpus;
  call.resources.gpus = options.gpus;
  call.resources.gpu_memory = options.gpu_memory;
  call.resources.memory = options.memory;
  call.resources.object_store_memory = options.object_store_memory;
  call.resources.custom = std::move(options.resources);
  call.resources.labels = std::move(options.labels);
  call.name = std::move(options.name);
  call.name_space = std::move(options.name_space);
  call.max_retries = options.max_retries;
  call.max_restarts = options.max_restarts;
  call.max_task_retries = options.max_task_retries;
  call.max_concurrency = options.max_concurrency;
  call.retry_exceptions = options.retry_exceptions;
  call.detached = options.detached;
  call.get_if_exists = options.get_if_exists;
  call.exclusive = options.exclusive;
  call.fail_when_overloaded = options.fail_when_overloaded;
  call.environment = std::move(options.environment);
  return call;
}

// What a call without .with() uses.
inline const CallOptions& default_options() {
  static const CallOptions options;
  return options;
}

}  // namespace mobula::detail
