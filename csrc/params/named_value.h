// Names of the values of a parameter that chooses among several, such as activations: the module hands them to Python.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>

namespace ferrule {

template <class T>
struct NamedValue {
    const char* name;
    T value;
};

}  // namespace ferrule
#endif
