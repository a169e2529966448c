// 8 x 8 matrices that a simdgroup holds together, two elements per lane, placed as on Apple GPUs: lane l has the row
// (l / 4 & 4) + l / 2 % 4 and the columns from (l / 4 & 2) * 2 + l % 2 * 2.
#pragma once
#include "simdgroup.h"

namespace metal {

template <class T, int Rows, int Columns>
struct simdgroup_matrix {
    static_assert(Rows == 8 && Columns == 8, "simdgroup matrices are 8 x 8");
    vec<T, 2> elements;
#ifdef METAL_HOST_STRICT
    thread vec<T, 2>& thread_elements() thread;
#else
    vec<T, 2>& thread_elements() { return elements; }
#endif
};

template <class T, int Rows, int Columns>
inline simdgroup_matrix<T, Rows, Columns> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, Rows, Columns> result;
    result.elements = make<vec<T, 2>>(value);
    return result;
}

#ifdef METAL_HOST_STRICT

#define METAL_HOST_LOAD_STORE(space)                                                                         \
    template <class T>                                                                                       \
    void simdgroup_load(thread simdgroup_matrix<T, 8, 8>&, const space T*, ulong elements_per_row = 8,       \
                        ulong2 origin = 0, bool transpose = false);                                          \
    template <class T>                                                                                       \
    void simdgroup_store(simdgroup_matrix<T, 8, 8>, space T*, ulong elements_per_row = 8, ulong2 origin = 0, \
                         bool transpose = false);
METAL_HOST_LOAD_STORE(device)
METAL_HOST_LOAD_STORE(threadgroup)
template <class D, class A, class B, class C>
void simdgroup_multiply_accumulate(thread simdgroup_matrix<D, 8, 8>&, simdgroup_matrix<A, 8, 8>,
                                   simdgroup_matrix<B, 8, 8>, simdgroup_matrix<C, 8, 8>);
template <class D, class A, class B>
void simdgroup_multiply(thread simdgroup_matrix<D, 8, 8>&, simdgroup_matrix<A, 8, 8>, simdgroup_matrix<B, 8, 8>);

#else

inline uint matrix_row(uint lane) {
    return (lane / 4 & 4) + lane / 2 % 4;
}
inline uint matrix_column(uint lane) {
    return (lane / 4 & 2) * 2 + lane % 2 * 2;
}

// Calls `visit(pointer to element, i)` for the lane's two elements.
template <class T, class Visit>
inline void visit_elements(T* data, ulong elements_per_row, ulong2 origin, bool transpose, Visit visit) {
    const uint row = matrix_row(::metal_host::lane_index()), column = matrix_column(::metal_host::lane_index());
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

// What each lane deposits for a product: where its elements are.
struct MatrixOperands {
    void* d;
    const void *a, *b, *c;
};

// Reads other lanes' memory, which is theirs alone: not to be watched.
template <class T>
__attribute__((no_sanitize("thread"))) void gather_matrix(const void* slots, const void* MatrixOperands::* member,
                                                          vec<float, 8>* rows) {
    for (uint lane = 0; lane < 32; ++lane) {
        const auto* elements = static_cast<const vec<T, 2>*>(deposit<MatrixOperands>(slots, lane).*member);
        for (uint i = 0; i < 2; ++i) {
            rows[matrix_row(lane)][matrix_column(lane) + i] = static_cast<float>((*elements)[i]);
        }
    }
}

template <class D, class A, class B, class C>
__attribute__((no_sanitize("thread"))) void multiply_matrices(void* slots, const bool*) {
    vec<float, 8> a[8], b[8], sum[8];
    gather_matrix<A>(slots, &MatrixOperands::a, a);
    gather_matrix<B>(slots, &MatrixOperands::b, b);
    gather_matrix<C>(slots, &MatrixOperands::c, sum);
    for (uint i = 0; i < 8; ++i) {
        for (uint k = 0; k < 8; ++k) sum[i] += a[i][k] * b[k];
    }
    for (uint lane = 0; lane < 32; ++lane) {
        auto* elements = static_cast<vec<D, 2>*>(deposit<MatrixOperands>(slots, lane).d);
        for (uint i = 0; i < 2; ++i) {
            (*elements)[i] = static_cast<D>(sum[matrix_row(lane)][matrix_column(lane) + i]);
        }
    }
}

template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                          simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c, METAL_HOST_SITE) {
    vec<D, 2> result;
    const MatrixOperands operands{&result, &a.elements, &b.elements, &c.elements};
    ::metal_host::exchange(&operands, sizeof operands, &multiply_matrices<D, A, B, C>, site);
    d.elements = result;
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b,
                               METAL_HOST_SITE) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(0), site);
}

#endif

}  // namespace metal

#define simdgroup_float8x8 metal::simdgroup_matrix<float, 8, 8>
#define simdgroup_half8x8 metal::simdgroup_matrix<half, 8, 8>
