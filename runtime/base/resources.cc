#include "runtime/base/resources.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "runtime/base/check.h"

namespace mobula {
namespace {

constexpr double kLargest = 1099511627776.0;  // 2^40

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::pair<std::uint64_t, const char*> kUnits[] = {{std::uint64_t{1} << 40, "TiB"},
                                                                     {std::uint64_t{1} << 30, "GiB"},
                                                                     {std::uint64_t{1} << 20, "MiB"},
                                                                     {std::uint64_t{1} << 10, "KiB"}};
  for (const auto& [size, name] : kUnits) {
    if (bytes < size) continue;
    // One decimal, without floating point so that it is the same everywhere.
    const std::uint64_t tenths = bytes / size * 10 + bytes % size * 10 / size;
    std::string text = std::to_string(tenths / 10);
    if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
    return text + " " + name;
  }
  return std::to_string(bytes) + " bytes";
}

const std::pair<std::string, Quantity>* find(const CustomResources& resources, const std::string& name) {
  const auto at = std::lower_bound(resources.begin(), resources.end(), name,
                                   [](const auto& entry, const std::string& key) { return entry.first < key; });
  return at != resources.end() && at->first == name ? &*at : nullptr;
}

Quantity amount(const CustomResources& resources, const std::string& name) {
  const auto* entry = find(resources, name);
  return entry == nullptr ? Quantity{} : entry->second;
}

// Adds `by` (which may be negative) and keeps the list sorted and free of zeros.
void change(CustomResources& resources, const std::string& name, Quantity by) {
  const auto at = std::lower_bound(resources.begin(), resources.end(), name,
                                   [](const auto& entry, const std::string& key) { return entry.first < key; });
  if (at != resources.end() && at->first == name) {
    at->second += by;
    MOBULA_CHECK(at->second.units >= 0, "a custom resource below zero");
    if (at->second.units == 0) resources.erase(at);
  } else if (by.units != 0) {
    MOBULA_CHECK(by.units > 0, "a custom resource below zero");
    resources.insert(at, {name, by});
  }
}

bool wants_gpu(const ResourceRequest& request) {
  return request.gpus.units > 0 || request.gpu_memory > 0;
}

// Above one GPU only whole ones make sense: 1.5 would be scraps.
bool gpus_make_sense(const ResourceRequest& request) {
  return request.gpus.units <= Quantity::kOne || request.gpus.units % Quantity::kOne == 0;
}

std::size_t devices_wanted(const ResourceRequest& request) {
  if (!wants_gpu(request)) return 0;
  return request.gpus.units <= Quantity::kOne ? 1 : static_cast<std::size_t>(request.gpus.units / Quantity::kOne);
}

bool whole_devices(const ResourceRequest& request) {
  return request.gpus.units >= Quantity::kOne;
}

bool device_fits(const GpuDevice& device, const ResourceRequest& request) {
  if (whole_devices(request)) {
    // Nobody else on it, neither by share nor by bytes.
    return device.share >= Quantity::whole(1) && device.memory == device.memory_total &&
           device.memory >= request.gpu_memory;
  }
  // A request by bytes alone still needs a device that nobody holds whole.
  return device.share.units > 0 && device.share >= request.gpus && device.memory >= request.gpu_memory;
}

// Indices of the devices to take, best fit first; fewer than wanted when there are not enough.
std::vector<std::size_t> pick_devices(const NodeResources& free, const ResourceRequest& request) {
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < free.devices.size(); ++i) {
    if (device_fits(free.devices[i], request)) fitting.push_back(i);
  }
  std::sort(fitting.begin(), fitting.end(), [&free](std::size_t a, std::size_t b) {
    const GpuDevice& x = free.devices[a];
    const GpuDevice& y = free.devices[b];
    return std::tie(x.memory, x.share, x.uuid) < std::tie(y.memory, y.share, y.uuid);
  });
  const std::size_t wanted = devices_wanted(request);
  if (fitting.size() > wanted) fitting.resize(wanted);
  return fitting;
}

bool enough_devices(const NodeResources& free, const ResourceRequest& request) {
  const std::size_t wanted = devices_wanted(request);
  if (wanted == 0) return true;
  if (!gpus_make_sense(request)) return false;
  std::size_t fitting = 0;
  for (const auto& device : free.devices) {
    if (device_fits(device, request) && ++fitting >= wanted) return true;
  }
  return false;
}

// A request for no CPU fits even where the CPUs are overdrawn.
bool enough_cpus(const NodeResources& free, const ResourceRequest& request) {
  return request.cpus.units <= 0 || free.cpus >= request.cpus;
}

std::string gpu_text(const ResourceRequest& request) {
  std::string text = to_string(request.gpus) + " GPU";
  if (request.gpu_memory > 0) text += " with " + bytes_text(request.gpu_memory);
  return text;
}

std::string gpu_shortage(const NodeResources& free, const ResourceRequest& request) {
  const std::string text = gpu_text(request);
  if (!gpus_make_sense(request)) return text + " (above 1 only whole GPUs can be given)";
  if (free.devices.empty()) return text + " (it has no GPU)";
  std::size_t fitting = 0;
  const GpuDevice* best = &free.devices.front();
  for (const auto& device : free.devices) {
    if (device_fits(device, request)) ++fitting;
    if (std::tie(device.share, device.memory) > std::tie(best->share, best->memory)) best = &device;
  }
  if (devices_wanted(request) > 1) {
    return text + " (" + std::to_string(fitting) + " whole of " + std::to_string(free.devices.size()) + " free)";
  }
  return text + " (most on one device: " + to_string(best->share) + " with " + bytes_text(best->memory) + ")";
}

}  // namespace

std::optional<Quantity> Quantity::from_double(double value) {
  if (!std::isfinite(value) || value < 0 || value > kLargest) return std::nullopt;
  return Quantity{std::llround(value * static_cast<double>(kOne))};
}

std::string to_string(Quantity quantity) {
  const bool negative = quantity.units < 0;
  const auto units = static_cast<std::uint64_t>(negative ? -quantity.units : quantity.units);
  constexpr auto kOne = static_cast<std::uint64_t>(Quantity::kOne);
  std::string text = (negative ? "-" : "") + std::to_string(units / kOne);
  if (const std::uint64_t rest = units % kOne; rest != 0) {
    std::string digits = std::to_string(kOne + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text;
}

std::string to_string(const ResourceRequest& request) {
  std::string text;
  const auto add = [&text](const std::string& item) {
    if (!text.empty()) text += ", ";
    text += item;
  };
  if (request.cpus.units != 0) add(to_string(request.cpus) + " CPU");
  if (wants_gpu(request)) add(gpu_text(request));
  if (request.memory != 0) add(bytes_text(request.memory) + " memory");
  if (request.store_memory != 0) add(bytes_text(request.store_memory) + " object store");
  for (const auto& [name, quantity] : request.custom) add(name + "=" + to_string(quantity));
  for (const auto& [key, value] : request.labels) add("label " + key + "=" + value);
  return text.empty() ? "nothing" : text;
}

std::vector<std::string> shortages(const NodeResources& free, const ResourceRequest& request) {
  std::vector<std::string> missing;
  if (!enough_cpus(free, request)) {
    missing.push_back(to_string(request.cpus) + " CPU (" + to_string(free.cpus) + " free)");
  }
  if (!enough_devices(free, request)) missing.push_back(gpu_shortage(free, request));
  if (free.memory < request.memory) {
    missing.push_back(bytes_text(request.memory) + " memory (" + bytes_text(free.memory) + " free)");
  }
  if (free.store_memory < request.store_memory) {
    missing.push_back(bytes_text(request.store_memory) + " object store (" + bytes_text(free.store_memory) + " free)");
  }
  for (const auto& [name, quantity] : request.custom) {
    const Quantity has = amount(free.custom, name);
    if (has < quantity) missing.push_back(to_string(quantity) + " " + name + " (" + to_string(has) + " free)");
  }
  return missing;
}

bool fits(const NodeResources& free, const ResourceRequest& request) {
  if (!enough_cpus(free, request) || free.memory < request.memory || free.store_memory < request.store_memory) {
    return false;
  }
  for (const auto& [name, quantity] : request.custom) {
    if (amount(free.custom, name) < quantity) return false;
  }
  return enough_devices(free, request);
}

std::optional<Allocation> allocate(NodeResources& free, const ResourceRequest& request) {
  if (!fits(free, request)) return std::nullopt;
  Allocation taken;
  taken.cpus = request.cpus;
  taken.memory = request.memory;
  taken.store_memory = request.store_memory;
  taken.custom = request.custom;
  const Quantity share = whole_devices(request) ? Quantity::whole(1) : request.gpus;
  for (const std::size_t index : pick_devices(free, request)) {
    GpuDevice& device = free.devices[index];
    // A device held whole is held with all its bytes.
    const std::uint64_t bytes = whole_devices(request) ? device.memory : request.gpu_memory;
    taken.devices.push_back({device.uuid, share, bytes});
    device.share -= share;
    device.memory -= bytes;
  }
  free.cpus -= taken.cpus;
  free.memory -= taken.memory;
  free.store_memory -= taken.store_memory;
  for (const auto& [name, quantity] : taken.custom) change(free.custom, name, Quantity{} - quantity);
  return taken;
}

void release(NodeResources& free, const Allocation& allocation) {
  free.cpus += allocation.cpus;
  free.memory += allocation.memory;
  free.store_memory += allocation.store_memory;
  for (const auto& [name, quantity] : allocation.custom) change(free.custom, name, quantity);
  for (const auto& grant : allocation.devices) {
    const auto at = std::find_if(free.devices.begin(), free.devices.end(),
                                 [&grant](const GpuDevice& device) { return device.uuid == grant.uuid; });
    MOBULA_CHECK(at != free.devices.end(), "a device that this node does not have");
    at->share += grant.share;
    at->memory += grant.memory;
    MOBULA_CHECK(at->memory <= at->memory_total && at->share <= Quantity::whole(1), "a device was given back twice");
  }
}

}  // namespace mobula
