// 8 x 8 matrices on tensor cores, whose smallest product (PTX ISA, mma.sync.m16n8k8) has 16 rows: the other 8 are
// zeros. A lane holds two elements as that instruction wants those of the left operand and the sum: row lane / 4,
// columns from lane % 4 * 2. This is not the place they have on Apple GPUs, hence thread_elements() is missing.
#pragma once
#include "simdgroup.h"

namespace metal {

template <class T, int Rows, int Columns>
struct simdgroup_matrix {
    static_assert(Rows == 8 && Columns == 8, "simdgroup matrices are 8 x 8");
    vec<T, 2> elements;
};

template <class T, int Rows, int Columns>
inline simdgroup_matrix<T, Rows, Columns> make_filled_simdgroup_matrix(T value) {
    return {make<vec<T, 2>>(value)};
}

// Calls `visit(pointer to element, i)` for the lane's two elements.
template <class T, class Visit>
inline void visit_elements(T* data, ulong elements_per_row, ulong2 origin, bool transpose, Visit visit) {
    const uint row = lane_index() / 4, column = lane_index() % 4 * 2;
    for (uint i = 0; i < 2; ++i) {
        const uint y = transpose ? column + i : row, x = transpose ? row : column + i;
        visit(data + (origin.y + y) * elements_per_row + origin.x + x, i);
    }
}
template <class T, class P>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& result, const P* data, ulong elements_per_row = 8,
                           ulong2 origin = 0, bool transpose = false) {
    static_assert(is_same_v<T, P>, "simdgroup_load converts no elements");
    visit_elements(data, elements_per_row, origin, transpose,
                   [&](const P* element, uint i) { result.elements[i] = *element; });
}
template <class T, class P>
inline void simdgroup_store(simdgroup_matrix<T, 8, 8> value, P* data, ulong elements_per_row = 8, ulong2 origin = 0,
                            bool transpose = false) {
    static_assert(is_same_v<T, P>, "simdgroup_store converts no elements");
    visit_elements(data, elements_per_row, origin, transpose,
                   [&](P* element, uint i) { *element = value.elements[i]; });
}

// The right operand: column lane / 4, rows from lane % 4 * 2.
template <class V>
inline V transposed(V elements) {
    V result;
    for (uint i = 0; i < 2; ++i) {
        const ushort source = (lane_index() % 4 * 2 + i) * 4 + lane_index() / 8;
        const V other = simd_shuffle(elements, source);
        result[i] = lane_index() / 4 % 2 == 0 ? other[0] : other[1];
    }
    return result;
}

inline float2 multiply(half2 a, half2 b, float2 c) {
    float2 d, unused;
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %9};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(unused[0]), "=f"(unused[1])
        : "r"(as_type<uint>(a)), "r"(0), "r"(as_type<uint>(b)), "f"(c[0]), "f"(c[1]), "f"(0.0f));
    return d;
}
// As float with 11 significant bits. Rows and columns of the operands are paired as their lanes hold them: the
// instruction's k is another order of the same sum.
inline float2 multiply_rounded(float2 a, float2 b, float2 c) {
    float2 d, unused;
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %5}, {%7, %8}, {%9, %10, %11, %11};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(unused[0]), "=f"(unused[1])
        : "r"(as_type<uint>(float(a[0]))), "r"(0), "r"(as_type<uint>(float(a[1]))), "r"(as_type<uint>(float(b[0]))),
          "r"(as_type<uint>(float(b[1]))), "f"(c[0]), "f"(c[1]), "f"(0.0f));
    return d;
}
inline float2 rounded(float2 x) {
    float2 result;
    for (uint i = 0; i < 2; ++i) {
        uint bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x[i]));
        result[i] = as_type<float>(bits);
    }
    return result;
}

// Products of floats from those of their halves, whose least is left out.
template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                          simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
    float2 sum = make<float2>(c.elements);
    if constexpr (is_same_v<A, half> && is_same_v<B, half>) {
        sum = multiply(a.elements, transposed(b.elements), sum);
    } else {
        const float2 left = make<float2>(a.elements), right = make<float2>(transposed(b.elements));
        const float2 left_high = rounded(left), right_high = rounded(right);
        if constexpr (is_same_v<B, float>) sum = multiply_rounded(left_high, rounded(right - right_high), sum);
        if constexpr (is_same_v<A, float>) sum = multiply_rounded(rounded(left - left_high), right_high, sum);
        sum = multiply_rounded(left_high, right_high, sum);
    }
    d.elements = make<vec<D, 2>>(sum);
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float, 8, 8>(0));
}

}  // namespace metal

#define simdgroup_float8x8 metal::simdgroup_matrix<float, 8, 8>
#define simdgroup_half8x8 metal::simdgroup_matrix<half, 8, 8>
