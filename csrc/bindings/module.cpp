// The native module: weight formats, kernels, and programs that run plans of them.
#include "bindings.h"

NB_MODULE(_core, m) {
    m.doc() = "Weight formats, kernels and the executors that run plans of them.";
    ferrule::init_formats(m);
    ferrule::init_kernels(m);
    ferrule::init_program(m);
}
