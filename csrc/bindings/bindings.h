// One init function per subject; module.cpp calls them.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace ferrule {

namespace nb = nanobind;

// Any contiguous array in host memory, as operands, inputs and outputs are passed.
using ReadArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using WriteArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

void init_formats(nb::module_& m);
void init_kernels(nb::module_& m);
void init_program(nb::module_& m);

}  // namespace ferrule
