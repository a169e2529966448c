// Weight formats: their sizes, the codebooks of the IQ formats, and the strings of a GGUF file.
#include "../formats/formats.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "bindings.h"

namespace ferrule {

using namespace nb::literals;

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

// A vocabulary has hundreds of thousands, too many for a loop in Python.
using Strings = nb::typed<nb::list, nb::bytes>;

std::pair<Strings, size_t> length_prefixed(const nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig>& buffer,
                                           size_t position, size_t count) {
    Strings found;
    for (size_t i = 0; i < count; ++i) {
        uint64_t length;
        if (position > buffer.size() || buffer.size() - position < sizeof length) break;
        std::memcpy(&length, buffer.data() + position, sizeof length);
        if (buffer.size() - position - sizeof length < length) break;
        position += sizeof length;
        found.append(nb::bytes(buffer.data() + position, length));
        position += length;
    }
    return {found, position};
}

}  // namespace

void init_formats(nb::module_& m) {
    m.def("format_sizes", format_sizes,
          "Name of each weight format -> its GGML type, values per block, bytes per block.");
    m.def("codebooks", codebooks, nb::sig("def codebooks() -> dict[str, bytes]"),
          "Format -> its codebook: a byte per value, 8 values an entry (IQ3: 4). IQ1_S holds values + 1.");
    m.def(
        "length_prefixed", length_prefixed, "buffer"_a, "position"_a, "count"_a,
        "`count` byte strings, each behind its length (u64, little-endian), and where they end: those before the first "
        "that runs past the end of the buffer.");
}

}  // namespace ferrule
