// The values of FP4 (E2M1), doubled so that they are integers.
#pragma once
#include "../constant.h"
#include "float16.h"

namespace ferrule::formats {

FERRULE_CONSTANT int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace ferrule::formats
