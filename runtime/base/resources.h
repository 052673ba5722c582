// What a node has, what a call asks for and what it was given: exact fixed-point arithmetic, no floating point.
//
// CPUs, GPU shares and custom resources count in 1/10000; memory counts in bytes. GPUs are devices with an identity, a
// share and bytes each: a request fits one device or whole devices, never the sum of scraps.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mobula {

// A number of CPUs, GPU shares or custom units, in 1/10000.
struct Quantity {
  static constexpr std::int64_t kOne = 10000;
  std::int64_t units = 0;

  static constexpr Quantity whole(std::int64_t count) { return Quantity{count * kOne}; }
  // Rounded to the nearest 1/10000; nullopt when negative, not finite or above 2^40.
  static std::optional<Quantity> from_double(double value);
  double to_double() const { return static_cast<double>(units) / static_cast<double>(kOne); }

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  constexpr Quantity& operator+=(Quantity other) {
    units += other.units;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    units -= other.units;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
};

// Its units, none below zero.
inline std::uint64_t positive_units(Quantity quantity) {
  return quantity.units > 0 ? static_cast<std::uint64_t>(quantity.units) : 0;
}

// "2", "0.5", "0.0001": no trailing zeros.
std::string to_string(Quantity quantity);

// Sorted by name, no duplicates, no zero entries.
using CustomResources = std::vector<std::pair<std::string, Quantity>>;
using Labels = std::vector<std::pair<std::string, std::string>>;  // sorted by key

struct ResourceRequest {
  Quantity cpus;
  Quantity gpus;                   // <= 1: a share of one device; above: whole devices
  std::uint64_t gpu_memory = 0;    // bytes on each device
  std::uint64_t memory = 0;        // bytes
  std::uint64_t store_memory = 0;  // bytes of the object store
  CustomResources custom;
  Labels labels;  // must equal the node's

  friend auto operator<=>(const ResourceRequest&, const ResourceRequest&) = default;
};

// "1 CPU, 0.5 GPU with 4 GiB, 2 GiB memory, accelerator=1": for people.
std::string to_string(const ResourceRequest& request);

struct GpuDevice {
  std::string uuid;
  Quantity share = Quantity::whole(1);  // free share
  std::uint64_t memory_total = 0;       // bytes
  std::uint64_t memory = 0;             // free bytes
  friend bool operator==(const GpuDevice&, const GpuDevice&) = default;
};

struct DeviceGrant {
  std::string uuid;
  Quantity share;
  std::uint64_t memory = 0;
  friend bool operator==(const DeviceGrant&, const DeviceGrant&) = default;
};

// What one lease or actor holds. Giving it back restores exactly what was taken.
struct Allocation {
  Quantity cpus;
  std::uint64_t memory = 0;
  std::uint64_t store_memory = 0;
  CustomResources custom;
  std::vector<DeviceGrant> devices;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// One node's resources, free or in total. Never negative except `cpus`, which a worker that wakes from a blocking get
// may overdraw until another one ends.
struct NodeResources {
  Quantity cpus;
  std::uint64_t memory = 0;
  std::uint64_t store_memory = 0;
  CustomResources custom;
  std::vector<GpuDevice> devices;

  friend bool operator==(const NodeResources&, const NodeResources&) = default;
};

// What `free` is short of for `request`, one readable item each ("2 CPU (0.5 free)"); empty when it fits. Labels are
// compared by the policy, not here.
std::vector<std::string> shortages(const NodeResources& free, const ResourceRequest& request);
// The same question without the texts: what scheduling asks for every node.
bool fits(const NodeResources& free, const ResourceRequest& request);

// Takes `request` out of `free`: GPUs best fit by memory, then by share, then by uuid. nullopt, and nothing taken, when
// it does not fit.
std::optional<Allocation> allocate(NodeResources& free, const ResourceRequest& request);
void release(NodeResources& free, const Allocation& allocation);

// Only the CPUs, for a worker that blocks and wakes. take_cpus may overdraw.
inline void release_cpus(NodeResources& free, Quantity cpus) {
  free.cpus += cpus;
}
inline void take_cpus(NodeResources& free, Quantity cpus) {
  free.cpus -= cpus;
}

}  // namespace mobula
