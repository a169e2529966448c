// Tables of an op's kernels, one for each weight format.
#pragma once
#include <array>
#include <utility>

#include "../formats/formats.h"
#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

// A string as a template argument.
template <size_t size>
struct Text {
    char characters[size];

    consteval Text(const char (&from)[size]) {
        for (size_t i = 0; i < size; ++i) characters[i] = from[i];
    }
};

// "<op>_<format>", in lower case.
template <Text op, size_t format>
inline constexpr auto kKernelName = [] {
    std::array<char, 32> name{};
    size_t length = 0;
    for (const char* c = op.characters; *c != 0; ++c) name[length++] = *c;
    name[length++] = '_';
    for (const char* c = formats::kFormats[format].name; *c != 0; ++c)
        name[length++] = static_cast<char>(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    return name;
}();

// make<i>(name) for every format but the first `skipped`, the i-th of the others.
template <Text op, size_t skipped, class Make>
consteval auto kernels_by_format(Make make) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
        return std::array { make.template operator()<i>(kKernelName<op, skipped + i>.data())... };
    }(std::make_index_sequence<formats::kFormats.size() - skipped>{});
}

}  // namespace ferrule::cpu::FERRULE_ISA
