// A set of types, to sort messages by type at compile time.
#pragma once

#include <type_traits>

namespace mobula::scheduler {

template <class... Ts>
struct Types {};
template <class T, class List>
inline constexpr bool kIn = false;
template <class T, class... Ts>
inline constexpr bool kIn<T, Types<Ts...>> = (std::is_same_v<T, Ts> || ...);

}  // namespace mobula::scheduler
