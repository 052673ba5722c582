// The members of a plain aggregate, with nothing written by its author.
//
// The number of members is found by asking how many `{}` initialise the type: that counts an array or a nested struct
// as the one member it is, where the usual probe by a convert-to-anything value flattens arrays. The members themselves
// come from structured bindings, which C++20 needs spelled out for each count.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace mobula::detail {

inline constexpr std::size_t kFieldsMax = 40;

// Converts only to a base of T: an aggregate with a base takes it as its first element.
template <class T>
struct AnyBaseOf {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base() const;
};

template <class T>
concept AggregateWithBase = std::is_aggregate_v<T> && requires {
  T{AnyBaseOf<T>{}};
};

// clang-format off
#define MOBULA_BRACES_4 {}, {}, {}, {}
#define MOBULA_BRACES_8 MOBULA_BRACES_4, MOBULA_BRACES_4
#define MOBULA_BRACES_16 MOBULA_BRACES_8, MOBULA_BRACES_8
#define MOBULA_BRACES_32 MOBULA_BRACES_16, MOBULA_BRACES_16

// Do `Count` empty braces initialise T?
template <class T, std::size_t Count>
constexpr bool takes_braces() {
  if constexpr (Count == 0) return requires { T{}; };
  if constexpr (Count == 1) return requires { T{{}}; };
  if constexpr (Count == 2) return requires { T{{}, {}}; };
  if constexpr (Count == 3) return requires { T{{}, {}, {}}; };
  if constexpr (Count == 4) return requires { T{MOBULA_BRACES_4}; };
  if constexpr (Count == 5) return requires { T{MOBULA_BRACES_4, {}}; };
  if constexpr (Count == 6) return requires { T{MOBULA_BRACES_4, {}, {}}; };
  if constexpr (Count == 7) return requires { T{MOBULA_BRACES_4, {}, {}, {}}; };
  if constexpr (Count == 8) return requires { T{MOBULA_BRACES_8}; };
  if constexpr (Count == 9) return requires { T{MOBULA_BRACES_8, {}}; };
  if constexpr (Count == 10) return requires { T{MOBULA_BRACES_8, {}, {}}; };
  if constexpr (Count == 11) return requires { T{MOBULA_BRACES_8, {}, {}, {}}; };
  if constexpr (Count == 12) return requires { T{MOBULA_BRACES_8, MOBULA_BRACES_4}; };
  if constexpr (Count == 13) return requires { T{MOBULA_BRACES_8, MOBULA_BRACES_4, {}}; };
  if constexpr (Count == 14) return requires { T{MOBULA_BRACES_8, MOBULA_BRACES_4, {}, {}}; };
  if constexpr (Count == 15) return requires { T{MOBULA_BRACES_8, MOBULA_BRACES_4, {}, {}, {}}; };
  if constexpr (Count == 16) return requires { T{MOBULA_BRACES_16}; };
  if constexpr (Count == 17) return requires { T{MOBULA_BRACES_16, {}}; };
  if constexpr (Count == 18) return requires { T{MOBULA_BRACES_16, {}, {}}; };
  if constexpr (Count == 19) return requires { T{MOBULA_BRACES_16, {}, {}, {}}; };
  if constexpr (Count == 20) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_4}; };
  if constexpr (Count == 21) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_4, {}}; };
  if constexpr (Count == 22) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_4, {}, {}}; };
  if constexpr (Count == 23) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_4, {}, {}, {}}; };
  if constexpr (Count == 24) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8}; };
  if constexpr (Count == 25) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8, {}}; };
  if constexpr (Count == 26) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8, {}, {}}; };
  if constexpr (Count == 27) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8, {}, {}, {}}; };
  if constexpr (Count == 28) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8, MOBULA_BRACES_4}; };
  if constexpr (Count == 29) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8, MOBULA_BRACES_4, {}}; };
  if constexpr (Count == 30) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8, MOBULA_BRACES_4, {}, {}}; };
  if constexpr (Count == 31) return requires { T{MOBULA_BRACES_16, MOBULA_BRACES_8, MOBULA_BRACES_4, {}, {}, {}}; };
  if constexpr (Count == 32) return requires { T{MOBULA_BRACES_32}; };
  if constexpr (Count == 33) return requires { T{MOBULA_BRACES_32, {}}; };
  if constexpr (Count == 34) return requires { T{MOBULA_BRACES_32, {}, {}}; };
  if constexpr (Count == 35) return requires { T{MOBULA_BRACES_32, {}, {}, {}}; };
  if constexpr (Count == 36) return requires { T{MOBULA_BRACES_32, MOBULA_BRACES_4}; };
  if constexpr (Count == 37) return requires { T{MOBULA_BRACES_32, MOBULA_BRACES_4, {}}; };
  if constexpr (Count == 38) return requires { T{MOBULA_BRACES_32, MOBULA_BRACES_4, {}, {}}; };
  if constexpr (Count == 39) return requires { T{MOBULA_BRACES_32, MOBULA_BRACES_4, {}, {}, {}}; };
  if constexpr (Count == 40) return requires { T{MOBULA_BRACES_32, MOBULA_BRACES_8}; };
  if constexpr (Count == 41) return requires { T{MOBULA_BRACES_32, MOBULA_BRACES_8, {}}; };
  return false;
}

#undef MOBULA_BRACES_4
#undef MOBULA_BRACES_8
#undef MOBULA_BRACES_16
#undef MOBULA_BRACES_32
// clang-format on

template <class T, std::size_t Count = 0>
constexpr std::size_t count_fields() {
  if constexpr (Count <= kFieldsMax && takes_braces<T, Count + 1>()) {
    return count_fields<T, Count + 1>();
  } else {
    return Count;
  }
}

template <class T>
inline constexpr std::size_t kFieldCount = count_fields<std::remove_const_t<T>>();

// One function per range of counts, in step with the lengths that a reader can bear.
// clang-format off
template <std::size_t Count, class T, class Visit>
constexpr decltype(auto) visit_1_to_14(T& value, Visit& visit) {
  if constexpr (Count == 1) {
    auto& [m1] = value;
    return visit(m1);
  } else if constexpr (Count == 2) {
    auto& [m1, m2] = value;
    return visit(m1, m2);
  } else if constexpr (Count == 3) {
    auto& [m1, m2, m3] = value;
    return visit(m1, m2, m3);
  } else if constexpr (Count == 4) {
    auto& [m1, m2, m3, m4] = value;
    return visit(m1, m2, m3, m4);
  } else if constexpr (Count == 5) {
    auto& [m1, m2, m3, m4, m5] = value;
    return visit(m1, m2, m3, m4, m5);
  } else if constexpr (Count == 6) {
    auto& [m1, m2, m3, m4, m5, m6] = value;
    return visit(m1, m2, m3, m4, m5, m6);
  } else if constexpr (Count == 7) {
    auto& [m1, m2, m3, m4, m5, m6, m7] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7);
  } else if constexpr (Count == 8) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8);
  } else if constexpr (Count == 9) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9);
  } else if constexpr (Count == 10) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10);
  } else if constexpr (Count == 11) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11);
  } else if constexpr (Count == 12) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12);
  } else if constexpr (Count == 13) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13);
  } else if constexpr (Count == 14) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14);
  }
}

template <std::size_t Count, class T, class Visit>
constexpr decltype(auto) visit_15_to_24(T& value, Visit& visit) {
  if constexpr (Count == 15) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15);
  } else if constexpr (Count == 16) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16);
  } else if constexpr (Count == 17) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17);
  } else if constexpr (Count == 18) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18);
  } else if constexpr (Count == 19) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19);
  } else if constexpr (Count == 20) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20);
  } else if constexpr (Count == 21) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21);
  } else if constexpr (Count == 22) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21,
           m22] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22);
  } else if constexpr (Count == 23) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
           m23] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23);
  } else if constexpr (Count == 24) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24);
  }
}

template <std::size_t Count, class T, class Visit>
constexpr decltype(auto) visit_25_to_32(T& value, Visit& visit) {
  if constexpr (Count == 25) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25);
  } else if constexpr (Count == 26) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26);
  } else if constexpr (Count == 27) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27);
  } else if constexpr (Count == 28) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28);
  } else if constexpr (Count == 29) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29);
  } else if constexpr (Count == 30) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30);
  } else if constexpr (Count == 31) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31);
  } else if constexpr (Count == 32) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32);
  }
}

template <std::size_t Count, class T, class Visit>
constexpr decltype(auto) visit_33_to_40(T& value, Visit& visit) {
  if constexpr (Count == 33) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33);
  } else if constexpr (Count == 34) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34);
  } else if constexpr (Count == 35) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35);
  } else if constexpr (Count == 36) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36);
  } else if constexpr (Count == 37) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37);
  } else if constexpr (Count == 38) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38);
  } else if constexpr (Count == 39) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39);
  } else if constexpr (Count == 40) {
    auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
           m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40] = value;
    return visit(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22,
                 m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40);
  }
}

// clang-format on

// Calls `visit` with all members of `value`, in order.
template <class T, class Visit>
constexpr decltype(auto) visit_fields(T& value, Visit&& visit) {
  constexpr std::size_t kCount = kFieldCount<T>;
  static_assert(kCount <= kFieldsMax,
                "mobula: an aggregate of more than 40 members; group some in a nested struct, or give it "
                "`void serialize(mobula::Archive& archive) { archive(a, b, ...); }`");
  if constexpr (kCount == 0) {
    return visit();
  } else if constexpr (kCount <= 14) {
    return visit_1_to_14<kCount>(value, visit);
  } else if constexpr (kCount <= 24) {
    return visit_15_to_24<kCount>(value, visit);
  } else if constexpr (kCount <= 32) {
    return visit_25_to_32<kCount>(value, visit);
  } else {
    return visit_33_to_40<kCount>(value, visit);
  }
}

template <class... Fields>
struct FieldList {};

struct ListFields {
  template <class... Fields>
  FieldList<Fields...> operator()(Fields&...) const {
    return {};
  }
};

// FieldList of the members' types: arrays stay arrays, const stays const.
template <class T>
using FieldsOf = decltype(visit_fields(std::declval<T&>(), ListFields{}));

}  // namespace mobula::detail
