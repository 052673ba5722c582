#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/resources.h"
#include "runtime/base/rng.h"

using namespace mobula;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

GpuDevice gpu(const char* uuid, std::uint64_t memory) {
  return {uuid, Quantity::whole(1), memory, memory};
}

NodeResources machine() {
  NodeResources resources;
  resources.cpus = Quantity::whole(8);
  resources.memory = 16 * kGiB;
  resources.store_memory = 4 * kGiB;
  resources.custom = {{"accelerator", Quantity::whole(2)}, {"licence", Quantity{5000}}};
  resources.devices = {gpu("GPU-a", 80 * kGiB), gpu("GPU-b", 80 * kGiB)};
  return resources;
}

ResourceRequest gpus(double count, std::uint64_t memory = 0) {
  ResourceRequest request;
  request.gpus = *Quantity::from_double(count);
  request.gpu_memory = memory;
  return request;
}

}  // namespace

TEST_CASE("quantities are exact and print without trailing zeros") {
  CHECK(Quantity::from_double(0.1)->units == 1000);
  CHECK(Quantity::from_double(0.00004)->units == 0);
  CHECK(Quantity::from_double(0.00006)->units == 1);
  CHECK_FALSE(Quantity::from_double(-1));
  CHECK_FALSE(Quantity::from_double(std::nan("")));
  CHECK_FALSE(Quantity::from_double(std::numeric_limits<double>::infinity()));
  CHECK_FALSE(Quantity::from_double(1e15));
  CHECK(to_string(Quantity::whole(2)) == "2");
  CHECK(to_string(Quantity{5000}) == "0.5");
  CHECK(to_string(Quantity{1}) == "0.0001");
  CHECK(to_string(Quantity{-15000}) == "-1.5");
  // Ten tenths are one: no drift.
  Quantity sum;
  for (int i = 0; i < 10; ++i) sum += *Quantity::from_double(0.1);
  CHECK(sum == Quantity::whole(1));
}

TEST_CASE("a request reads as a sentence") {
  ResourceRequest request = gpus(0.5, 4 * kGiB);
  request.cpus = Quantity::whole(1);
  request.memory = 2 * kGiB;
  request.custom = {{"accelerator", Quantity::whole(1)}};
  CHECK(to_string(request) == "1 CPU, 0.5 GPU with 4 GiB, 2 GiB memory, accelerator=1");
  CHECK(to_string(ResourceRequest{}) == "nothing");
}

TEST_CASE("a share of a GPU fits one device, never the sum of scraps") {
  NodeResources free = machine();
  const auto first = allocate(free, gpus(0.4));
  const auto second = allocate(free, gpus(0.4));
  const auto third = allocate(free, gpus(0.4));
  REQUIRE(first);
  REQUIRE(second);
  REQUIRE(third);
  CHECK(first->devices.at(0).uuid == "GPU-a");
  CHECK(second->devices.at(0).uuid == "GPU-a");
  CHECK(third->devices.at(0).uuid == "GPU-b");
  // 0.2 and 0.6 are free: 0.8 in all, and yet 0.7 fits nowhere.
  CHECK_FALSE(fits(free, gpus(0.7)));
  CHECK(allocate(free, gpus(0.6))->devices.at(0).uuid == "GPU-b");
  CHECK_FALSE(fits(free, gpus(1)));
}

TEST_CASE("whole GPUs come whole, with all their bytes") {
  NodeResources free = machine();
  const auto both = allocate(free, gpus(2, 10 * kGiB));
  REQUIRE(both);
  CHECK(both->devices.size() == 2);
  CHECK(both->devices.at(0).memory == 80 * kGiB);
  CHECK_FALSE(fits(free, gpus(0, 1)));  // bytes alone do not sneak onto a device that is held whole
  release(free, *both);
  CHECK(free == machine());
  CHECK_FALSE(fits(free, gpus(1.5)));
  CHECK(shortages(free, gpus(1.5)).at(0).find("only whole") != std::string::npos);
  const auto bytes = allocate(free, gpus(0, kGiB));
  REQUIRE(bytes);
  CHECK(fits(free, gpus(1)));
  CHECK_FALSE(fits(free, gpus(2)));  // somebody is on one of them
}

TEST_CASE("best fit: the fuller device is filled first, then the lower id") {
  NodeResources free = machine();
  free.devices[1].memory = 20 * kGiB;
  CHECK(allocate(free, gpus(0.1, 10 * kGiB))->devices.at(0).uuid == "GPU-b");
  CHECK(allocate(free, gpus(0.1, 15 * kGiB))->devices.at(0).uuid == "GPU-a");
}

TEST_CASE("shortages name each thing that is short") {
  NodeResources free = machine();
  ResourceRequest request = gpus(3);
  request.cpus = Quantity::whole(9);
  request.memory = 32 * kGiB;
  request.custom = {{"licence", Quantity::whole(1)}, {"zebra", Quantity::whole(1)}};
  const auto missing = shortages(free, request);
  REQUIRE(missing.size() == 5);
  CHECK(missing[0] == "9 CPU (8 free)");
  CHECK(missing[1] == "3 GPU (2 whole of 2 free)");
  CHECK(missing[2] == "32 GiB memory (16 GiB free)");
  CHECK(missing[3] == "1 licence (0.5 free)");
  CHECK(missing[4] == "1 zebra (0 free)");
}

TEST_CASE("overdrawn CPUs take no CPU request, but others") {
  NodeResources free = machine();
  take_cpus(free, Quantity::whole(9));
  ResourceRequest request;
  CHECK(fits(free, request));
  request.cpus = Quantity{1};
  CHECK_FALSE(fits(free, request));
  release_cpus(free, Quantity::whole(9));
  CHECK(free == machine());
}

TEST_CASE("what is given back is exactly what was taken, in any order") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    const NodeResources total = machine();
    NodeResources free = total;
    std::vector<Allocation> held;
    for (int step = 0; step < 400; ++step) {
      if (!held.empty() && rng.chance(2, 5)) {
        const auto at = static_cast<std::ptrdiff_t>(rng.below(held.size()));
        release(free, held[static_cast<std::size_t>(at)]);
        held.erase(held.begin() + at);
        continue;
      }
      ResourceRequest request;
      request.cpus = Quantity{rng.between(0, 20'000)};
      if (rng.chance(1, 2))
        request.gpus = rng.chance(1, 4) ? Quantity::whole(rng.between(1, 2)) : Quantity{rng.between(0, 9'999)};
      if (rng.chance(1, 3)) request.gpu_memory = rng.below(40 * kGiB);
      request.memory = rng.below(2 * kGiB);
      if (rng.chance(1, 3)) request.custom = {{"licence", Quantity{rng.between(1, 3'000)}}};
      const bool fit = fits(free, request);
      CHECK(fit == shortages(free, request).empty());
      const NodeResources before = free;
      if (auto taken = allocate(free, request)) {
        CHECK(fit);
        held.push_back(*std::move(taken));
      } else {
        CHECK_FALSE(fit);
        CHECK(free == before);
      }
      for (const auto& device : free.devices) {
        CHECK(device.share.units >= 0);
        CHECK(device.memory <= device.memory_total);
      }
    }
    for (const auto& allocation : held) release(free, allocation);
    CHECK(free == total);
  }
}
