// Weight formats: their sizes, and the codebooks of the IQ formats.
#include "../formats/formats.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <string>
#include <tuple>

#include "bindings.h"

namespace ferrule {

namespace {

std::map<std::string, std::tuple<uint32_t, uint32_t, uint32_t>> format_sizes() {
    std::map<std::string, std::tuple<uint32_t, uint32_t, uint32_t>> sizes;
    for (const formats::FormatInfo& format : formats::kFormats) {
        sizes[format.name] = {format.ggml_type, format.elements, format.bytes};
    }
    return sizes;
}

template <class Entry, uint32_t count>
nb::bytes bytes_of(const formats::Grid<Entry, count>& grid) {
    return nb::bytes(grid.entries, sizeof grid.entries);
}

nb::dict codebooks() {
    nb::dict books;
    books["IQ1_S"] = bytes_of(formats::kIq1SGrid);
    books["IQ2_XXS"] = bytes_of(formats::kIq2XxsGrid);
    books["IQ2_XS"] = bytes_of(formats::kIq2XsGrid);
    books["IQ2_S"] = bytes_of(formats::kIq2SGrid);
    books["IQ3_XXS"] = bytes_of(formats::kIq3XxsGrid);
    books["IQ3_S"] = bytes_of(formats::kIq3SGrid);
    return books;
}

}  // namespace

void init_formats(nb::module_& m) {
    m.def("format_sizes", format_sizes,
          "Name of each weight format -> its GGML type, values per block, bytes per block.");
    m.def("codebooks", codebooks, nb::sig("def codebooks() -> dict[str, bytes]"),
          "Format -> its codebook: a byte per value, 8 values an entry (IQ3: 4). IQ1_S holds values + 1.");
}

}  // namespace ferrule
