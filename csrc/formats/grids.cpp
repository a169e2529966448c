// Expands the codebooks, when compiled.
#include "grids.h"

#include <cstddef>

#include "grid_entries.h"

namespace ferrule::formats {

namespace {

template <class Entry, uint32_t count, size_t base>
constexpr Grid<Entry, count> expand(const uint16_t (&entries)[count], const unsigned (&values)[base]) {
    Grid<Entry, count> grid{};
    for (uint32_t n = 0; n < count; ++n) {
        unsigned digits = entries[n];
        for (size_t i = 0; i < sizeof(Entry); ++i, digits /= base) {
            grid.entries[n] |= Entry{values[digits % base]} << 8 * i;
        }
    }
    return grid;
}

constexpr unsigned kTernary[] = {0, 1, 2};
constexpr unsigned kThreeSizes[] = {8, 25, 43};
constexpr unsigned kEightSteps[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr unsigned kEightOdd[] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace

constinit const Grid<uint64_t, 256> kIq2XxsGrid = expand<uint64_t>(kIq2XxsEntries, kThreeSizes);
constinit const Grid<uint64_t, 512> kIq2XsGrid = expand<uint64_t>(kIq2XsEntries, kThreeSizes);
constinit const Grid<uint64_t, 1024> kIq2SGrid = expand<uint64_t>(kIq2SEntries, kThreeSizes);
constinit const Grid<uint32_t, 256> kIq3XxsGrid = expand<uint32_t>(kIq3XxsEntries, kEightSteps);
constinit const Grid<uint32_t, 512> kIq3SGrid = expand<uint32_t>(kIq3SEntries, kEightOdd);
constinit const Grid<uint64_t, 2048> kIq1SGrid = expand<uint64_t>(kIq1SEntries, kTernary);

}  // namespace ferrule::formats
