// How a struct of the protocol lies in its schema struct: one list of fields, walked by three visitors (Sizer, Writer
// and Reader in visitors.h), so that size, encoding and decoding cannot disagree.
//
//   MOBULA_WIRE(GiveBack, (tasks, Tasks))
//
// pairs the members of the C++ struct with the schema's accessors (setTasks, getTasks, ...). A structured binding takes
// all members: one added to the struct and not here does not compile.
//
//   MOBULA_WIRE_ENUM(ActorEnd, (kNoRoom, NO_ROOM), ...)
//
// states which enumerators exist; each must have the number of the schema's, and a missing one is a -Wswitch warning.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace mobula::wire::detail {

// Specialised by MOBULA_WIRE for structs and by MOBULA_WIRE_ENUM for enums.
template <class T>
struct Fields {
  static constexpr bool kMissing = true;
};

// What a visitor asks of a field's accessor.
enum class Op { kSet, kInit, kGet, kHas };
template <Op op>
inline constexpr std::integral_constant<Op, op> kOp{};

}  // namespace mobula::wire::detail

// ---- the macros' machinery: applies a macro to each (first, second) of a list --------------------------------------
#define MOBULA_WIRE_PARENS ()
#define MOBULA_WIRE_EXPAND(...) MOBULA_WIRE_EXPAND3(MOBULA_WIRE_EXPAND3(MOBULA_WIRE_EXPAND3(__VA_ARGS__)))
#define MOBULA_WIRE_EXPAND3(...) MOBULA_WIRE_EXPAND2(MOBULA_WIRE_EXPAND2(MOBULA_WIRE_EXPAND2(__VA_ARGS__)))
#define MOBULA_WIRE_EXPAND2(...) MOBULA_WIRE_EXPAND1(MOBULA_WIRE_EXPAND1(MOBULA_WIRE_EXPAND1(__VA_ARGS__)))
#define MOBULA_WIRE_EXPAND1(...) __VA_ARGS__

#define MOBULA_WIRE_FIRST(first, second) first
#define MOBULA_WIRE_NAMES(pair, ...) \
  MOBULA_WIRE_FIRST pair __VA_OPT__(, MOBULA_WIRE_NAMES_AGAIN MOBULA_WIRE_PARENS(__VA_ARGS__))
#define MOBULA_WIRE_NAMES_AGAIN() MOBULA_WIRE_NAMES

#define MOBULA_WIRE_EACH(macro, pair, ...) \
  macro pair __VA_OPT__(MOBULA_WIRE_EACH_AGAIN MOBULA_WIRE_PARENS(macro, __VA_ARGS__))
#define MOBULA_WIRE_EACH_AGAIN() MOBULA_WIRE_EACH

// One field: the visitor gets the member, its name for errors, and a function that reaches the schema's accessors.
#define MOBULA_WIRE_FIELD(member, Name)                                                                       \
  wire_io.field(wire_value.member, #member, [](auto op, auto& at, auto... wire_arguments) -> decltype(auto) { \
    if constexpr (op == Op::kSet) {                                                                           \
      return at.set##Name(wire_arguments...);                                                                 \
    } else if constexpr (op == Op::kInit) {                                                                   \
      return at.init##Name(wire_arguments...);                                                                \
    } else if constexpr (op == Op::kHas) {                                                                    \
      return at.has##Name(wire_arguments...);                                                                 \
    } else {                                                                                                  \
      return at.get##Name(wire_arguments...);                                                                 \
    }                                                                                                         \
  });

#define MOBULA_WIRE_AS(Type, SchemaType, ...)                                                   \
  template <>                                                                                   \
  struct Fields<Type> {                                                                         \
    using Schema = SchemaType;                                                                  \
    template <class Io, class Struct>                                                           \
    static void visit(Io& wire_io, Struct& wire_value) {                                        \
      [[maybe_unused]] auto& [MOBULA_WIRE_EXPAND(MOBULA_WIRE_NAMES(__VA_ARGS__))] = wire_value; \
      MOBULA_WIRE_EXPAND(MOBULA_WIRE_EACH(MOBULA_WIRE_FIELD, __VA_ARGS__))                      \
    }                                                                                           \
  };

#define MOBULA_WIRE(Type, ...) MOBULA_WIRE_AS(Type, schema::Type, __VA_ARGS__)

// A struct without fields.
#define MOBULA_WIRE_EMPTY(Type)           \
  template <>                             \
  struct Fields<Type> {                   \
    static_assert(std::is_empty_v<Type>); \
    using Schema = schema::Type;          \
    template <class Io, class Struct>     \
    static void visit(Io&, Struct&) {}    \
  };

#define MOBULA_WIRE_CASE(enumerator, NAME)                                                                           \
  case Enum::enumerator:                                                                                             \
    static_assert(static_cast<unsigned>(Enum::enumerator) == static_cast<unsigned>(Schema::NAME), "numbers differ"); \
    return true;

#define MOBULA_WIRE_ENUM(Type, ...)                                                                              \
  template <>                                                                                                    \
  struct Fields<Type> {                                                                                          \
    using Enum = Type;                                                                                           \
    using Schema = schema::Type;                                                                                 \
    static constexpr const char* kName = #Type;                                                                  \
    static constexpr bool known(unsigned number) {                                                               \
      if (number > std::numeric_limits<std::underlying_type_t<Type>>::max()) return false;                       \
      switch (static_cast<Type>(number)) { MOBULA_WIRE_EXPAND(MOBULA_WIRE_EACH(MOBULA_WIRE_CASE, __VA_ARGS__)) } \
      return false;                                                                                              \
    }                                                                                                            \
  };
