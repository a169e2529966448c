// The native module: kernels, and programs that run plans of them.
#include "bindings.h"

NB_MODULE(_core, m) {
    m.doc() = "Kernels and the executors that run plans of them.";
    ferrule::init_kernels(m);
    ferrule::init_program(m);
}
