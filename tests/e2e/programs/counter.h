// What two programs agree on: a class whose actors both know by name.
#pragma once

#include <cstdint>
#include <numeric>

#include <mobula/mobula.h>

namespace shop {

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int x) { return value_ += x; }
  long sum(const mobula::Array<std::uint8_t>& array) const {
    return std::accumulate(array.data(), array.data() + array.size(), 0L);
  }
  int hidden(int x) const { return x; }   // never exported
  int changed(int x) const { return x; }  // another program declares it otherwise

 private:
  int value_;
};

}  // namespace shop
