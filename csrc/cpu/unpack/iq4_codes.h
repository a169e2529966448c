// The codes of IQ4_NL and IQ4_XS.
#pragma once
#include "../../formats/iq4_values.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

inline Codes iq4_codes(simd::u8x64 nibbles) {
    const simd::u8x64 values = simd::repeat16(reinterpret_cast<const uint8_t*>(formats::kIq4Values));
    const simd::u8x64 table = simd::full_codes(values);
    return {simd::lookup16(table, low_nibbles(nibbles)), simd::lookup16(table, high_nibbles(nibbles))};
}

}  // namespace ferrule::cpu::FERRULE_ISA
