// Products of 8 x 8 matrices with values that lie in the paged cache, see kv_cache.h.
#pragma once
#include <metal_stdlib>

#include "kv_cache.h"

namespace ferrule {

// Whether elements are codes, which have to be decoded before they are multiplied.
template <class T>
inline bool is_coded() {
    return sizeof(T) == 1;
}

// sum += left times the matrix at `right`, transposed or not. Codes are left alone.
template <class T>
inline void multiply_stored(thread metal::simdgroup_matrix<float, 8, 8>& sum,
                            thread const metal::simdgroup_matrix<float, 8, 8>& left,
                            device const T* right,
                            uint stride,
                            bool transpose) {
    metal::simdgroup_matrix<T, 8, 8> matrix;
    metal::simdgroup_load(matrix, right, stride, ulong2(0), transpose);
    metal::simdgroup_multiply_accumulate(sum, left, matrix, sum);
}
inline void multiply_stored(thread metal::simdgroup_matrix<float, 8, 8>&,
                            thread const metal::simdgroup_matrix<float, 8, 8>&,
                            device const int8_t*,
                            uint,
                            bool) {}

}  // namespace ferrule
