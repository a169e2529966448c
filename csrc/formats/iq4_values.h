// The 16 values of the non-linear 4-bit formats.
#pragma once
#include "../constant.h"
#include "float16.h"

namespace ferrule::formats {

FERRULE_CONSTANT int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace ferrule::formats
