// The codebooks, expanded.
#include "grids.h"

#include "expand_grid.h"

namespace ferrule::formats {

constinit const Grid<uint64_t, 256> kIq2XxsGrid = expand<Iq2XxsBook, uint64_t, 256>();
constinit const Grid<uint64_t, 512> kIq2XsGrid = expand<Iq2XsBook, uint64_t, 512>();
constinit const Grid<uint64_t, 1024> kIq2SGrid = expand<Iq2SBook, uint64_t, 1024>();
constinit const Grid<uint32_t, 256> kIq3XxsGrid = expand<Iq3XxsBook, uint32_t, 256>();
constinit const Grid<uint32_t, 512> kIq3SGrid = expand<Iq3SBook, uint32_t, 512>();
constinit const Grid<uint64_t, 2048> kIq1SGrid = expand<Iq1SBook, uint64_t, 2048>();

}  // namespace ferrule::formats
