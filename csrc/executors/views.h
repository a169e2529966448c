// How a mapped file is cut into overlapping views, since a device limits the size of a buffer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ferrule::metal {

struct View {
    uint64_t begin;  // a multiple of the page
    uint64_t bytes;
};

inline constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Views of at most `limit` bytes of a file of `bytes`; everything up to `overlap` bytes long lies whole in one of them.
// Empty where no such views exist.
inline std::vector<View> plan_views(uint64_t bytes, uint64_t limit, uint64_t overlap, uint64_t page) {
    const uint64_t end = round_up(bytes, page), most = limit / page * page, shared = round_up(overlap, page) + page;
    if (end <= most) return {{0, end}};
    std::vector<View> views;
    if (most <= shared) return views;
    for (uint64_t begin = 0;; begin += most - shared) {
        views.push_back({begin, std::min(most, end - begin)});
        if (begin + most >= end) return views;
    }
}

}  // namespace ferrule::metal
