// Makes codebooks from the sets of their entries, when compiled.
#pragma once
#include "grid_members.h"
#include "grids.h"

namespace ferrule::formats {

// What the digits of entries stand for.
struct Ternary {
    enum : uint32_t { kBase = 3 };
    static constexpr uint32_t value(uint32_t digit) { return digit; }
};
struct ThreeSizes {
    enum : uint32_t { kBase = 3 };
    static constexpr uint32_t value(uint32_t digit) { return digit == 0 ? 8 : digit == 1 ? 25 : 43; }
};
struct EightSteps {
    enum : uint32_t { kBase = 8 };
    static constexpr uint32_t value(uint32_t digit) { return digit == 7 ? 62 : 4 + 8 * digit; }
};
struct EightOdd {
    enum : uint32_t { kBase = 8 };
    static constexpr uint32_t value(uint32_t digit) { return 1 + 2 * digit; }
};

constexpr bool bit_of(uint32_t word, uint32_t i) {
    return (word >> (i % 32) & 1) != 0;
}

// The codebooks' digits, and which sequences of them they have.
struct Iq1SBook : Ternary {
    static constexpr bool has(uint32_t i) { return bit_of(kIq1SMembers[i / 32], i); }
};
struct Iq2XxsBook : ThreeSizes {
    static constexpr bool has(uint32_t i) { return bit_of(kIq2XxsMembers[i / 32], i); }
};
struct Iq2XsBook : ThreeSizes {
    static constexpr bool has(uint32_t i) { return bit_of(kIq2XsMembers[i / 32], i); }
};
struct Iq2SBook : ThreeSizes {
    static constexpr bool has(uint32_t i) { return bit_of(kIq2SMembers[i / 32], i); }
};
struct Iq3XxsBook : EightSteps {
    static constexpr bool has(uint32_t i) { return bit_of(kIq3XxsMembers[i / 32], i); }
};
struct Iq3SBook : EightOdd {
    static constexpr bool has(uint32_t i) { return bit_of(kIq3SMembers[i / 32], i); }
};

template <class Book, class Entry, uint32_t count>
constexpr Grid<Entry, count> expand() {
    Grid<Entry, count> grid{};
    uint32_t n = 0;
    for (uint32_t sequence = 0; n < count; ++sequence) {
        if (!Book::has(sequence)) continue;
        Entry entry = 0;
        uint32_t digits = sequence;
        for (uint32_t i = 0; i < sizeof(Entry); ++i, digits /= Book::kBase) {
            entry |= Entry{Book::value(digits % Book::kBase)} << (8 * i);
        }
        grid.entries[n++] = entry;
    }
    return grid;
}

}  // namespace ferrule::formats
