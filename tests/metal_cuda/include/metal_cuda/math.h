// Scalar and vector functions. NVPTX has no code for clang's builtins of these, NVIDIA's libdevice has: the builtins'
// names are given to it, and the rest is as on the host.
#pragma once
#include "../../../metal_host/include/metal_host/vector.h"

extern "C" {
float __nv_expf(float);
float __nv_exp2f(float);
float __nv_logf(float);
float __nv_log2f(float);
float __nv_sinf(float);
float __nv_cosf(float);
float __nv_tanhf(float);
float __nv_powf(float, float);
}

namespace metal_cuda {

template <auto function, class T, class... More>
inline T elementwise(T x, More... more) {
    if constexpr (metal::size_v<T> == 1) {
        return static_cast<T>(function(static_cast<float>(x), static_cast<float>(more)...));
    } else {
        T result;
        for (int i = 0; i < metal::size_v<T>; ++i) result[i] = elementwise<function>(x[i], more[i]...);
        return result;
    }
}

}  // namespace metal_cuda

#define __builtin_elementwise_exp ::metal_cuda::elementwise<__nv_expf>
#define __builtin_elementwise_exp2 ::metal_cuda::elementwise<__nv_exp2f>
#define __builtin_elementwise_log ::metal_cuda::elementwise<__nv_logf>
#define __builtin_elementwise_log2 ::metal_cuda::elementwise<__nv_log2f>
#define __builtin_elementwise_sin ::metal_cuda::elementwise<__nv_sinf>
#define __builtin_elementwise_cos ::metal_cuda::elementwise<__nv_cosf>
#define __builtin_elementwise_tanh ::metal_cuda::elementwise<__nv_tanhf>
#define __builtin_elementwise_pow ::metal_cuda::elementwise<__nv_powf>

#include "../../../metal_host/include/metal_host/math.h"
