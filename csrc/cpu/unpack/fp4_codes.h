// The codes of MXFP4 and NVFP4.
#pragma once
#include "../../formats/fp4_values.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

inline constexpr int kFp4Offset = 12;

inline simd::u8x64 fp4_codes(simd::u8x64 nibbles) {
    const simd::u8x64 values = simd::repeat16(reinterpret_cast<const uint8_t*>(formats::kFp4Values));
    return simd::lookup16(values + simd::set1_u8(kFp4Offset), nibbles);
}

}  // namespace ferrule::cpu::FERRULE_ISA
