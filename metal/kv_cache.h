// Addresses in the paged cache, see csrc/params/kv_cache.h.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/kv_cache.h"

namespace ferrule {

// Where the keys of a KV head begin in a block; its values begin head_dim * kCacheBlock after them.
inline ulong cache_keys(uint block, uint kv_head, uint kv_heads, uint head_dim, uint v_head_dim) {
    return (ulong(block) * kv_heads + kv_head) * kCacheBlock * (head_dim + v_head_dim);
}

// Where value i of a slot's key or value vector is, counted from cache_keys.
inline uint key_element(uint slot, uint i) {
    return i * kCacheBlock + slot % kCacheBlock;
}
inline uint value_element(uint slot, uint i, uint head_dim, uint v_head_dim) {
    return head_dim * kCacheBlock + slot % kCacheBlock * v_head_dim + i;
}

// The span that a row belongs to.
inline Span find_span(device const Span* spans, uint row) {
    uint i = 0;
    while (row >= spans[i].row_begin + spans[i].n_rows) ++i;
    return Span{spans[i].row_begin, spans[i].n_rows, spans[i].position_begin, spans[i].block_table_begin};
}

}  // namespace ferrule
