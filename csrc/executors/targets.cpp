#include "targets.h"

#include <stdexcept>
#include <string>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace ferrule::cpu {

#if defined(__x86_64__) && !FERRULE_PORTABLE_ONLY

namespace generic {
KernelTable kernels();
}
namespace avx2 {
KernelTable kernels();
}
namespace avx_vnni {
KernelTable kernels();
}
namespace avx512 {
KernelTable kernels();
}
namespace avx512_vnni {
KernelTable kernels();
}
namespace avx512_bf16 {
KernelTable kernels();
}

namespace {

bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512cd");
}

bool has_avx512_vnni() {
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

constexpr Target kTargets[] = {
    {"avx512_bf16", [] { return has_avx512_vnni() && __builtin_cpu_supports("avx512bf16") != 0; },
     avx512_bf16::kernels},
    {"avx512_vnni", has_avx512_vnni, avx512_vnni::kernels},
    {"avx512", has_avx512, avx512::kernels},
    {"avx_vnni", [] { return has_avx2() && __builtin_cpu_supports("avxvnni") != 0; }, avx_vnni::kernels},
    {"avx2", has_avx2, avx2::kernels},
    {"generic", [] { return true; }, generic::kernels},
};

}  // namespace

#elif defined(__aarch64__) && !FERRULE_PORTABLE_ONLY

namespace neon {
KernelTable kernels();
}
namespace neon_dotprod {
KernelTable kernels();
}
namespace neon_i8mm {
KernelTable kernels();
}

namespace {

#if defined(__APPLE__)

bool has_feature(const char* name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}

bool has_dotprod() {
    return has_feature("hw.optional.arm.FEAT_DotProd");
}
bool has_i8mm() {
    return has_dotprod() && has_feature("hw.optional.arm.FEAT_I8MM");
}

#else

bool has_dotprod() {
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
bool has_i8mm() {
    return has_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}

#endif

constexpr Target kTargets[] = {
    {"neon_i8mm", has_i8mm, neon_i8mm::kernels},
    {"neon_dotprod", has_dotprod, neon_dotprod::kernels},
    {"neon", [] { return true; }, neon::kernels},
};

}  // namespace

#else

namespace generic {
KernelTable kernels();
}

namespace {
constexpr Target kTargets[] = {{"generic", [] { return true; }, generic::kernels}};
}  // namespace

#endif

std::span<const Target> all_targets() {
    return kTargets;
}

const Target& find_target(std::string_view name) {
    std::string known;
    for (const Target& target : kTargets) {
        if (name == target.name) {
            if (target.supported()) return target;
            throw std::invalid_argument("this processor cannot run target " + std::string(name));
        }
        known += (known.empty() ? "" : ", ") + std::string(target.name);
    }
    throw std::invalid_argument("no target is named " + std::string(name) + "; this build has " + known);
}

const Kernel& Target::kernel(std::string_view kernel_name) const {
    for (std::span<const Kernel> file : kernels()) {
        for (const Kernel& kernel : file) {
            if (kernel_name == kernel.name) return kernel;
        }
    }
    throw std::invalid_argument("target " + std::string(name) + " has no kernel named " + std::string(kernel_name));
}

}  // namespace ferrule::cpu
