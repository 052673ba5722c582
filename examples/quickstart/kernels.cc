#include "quickstart/kernels.h"

namespace kernels_baseline {
const quickstart::Kernels& table();
}
namespace kernels_v3 {
const quickstart::Kernels& table();
}

namespace quickstart {

const Kernels& plain_kernels() {
  return kernels_baseline::table();
}

const Kernels* fast_kernels() {
#ifdef MOBULA_HAVE_KERNELS_V3
  static const bool usable = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (usable) return &kernels_v3::table();
#endif
  return nullptr;
}

const Kernels& kernels() {
  const Kernels* fast = fast_kernels();
  return fast != nullptr ? *fast : plain_kernels();
}

}  // namespace quickstart
