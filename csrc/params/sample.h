// sample: out[r] = a token drawn from logits[r] as draws[r] says, see Draw. With l = logits[r] and m = its largest
// value, token i has the weight exp((l[i] - m) * scale), but 0 where that is below min_p, or where l[i] is below the
// top_k-th largest of l (top_k 0: all count). Drawn is the first token at which the sum of weights, in ascending order,
// exceeds uniform times their total. So top_k = 1 with uniform = 0 takes the likeliest, the lowest on a tie. -1 where a
// logit is NaN or the largest is infinite. logits: f32 [rows, width]; draws: Draw [rows]; out: i32 [rows].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct Sample {
    uint32_t width;
};

struct Draw {
    float uniform;  // 0 to 1
    float scale;    // 1 / temperature
    uint32_t top_k;
    float min_p;
};

namespace sample {

enum Operand { logits, draws, out };

FERRULE_CONSTANT uint32_t kSimdgroups = 16;  // of a threadgroup, which has a row
FERRULE_CONSTANT uint32_t kDigits = 256;     // values of a digit by which the top_k-th largest is found

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Sample, width)}};
inline constexpr OperandInfo operands[] = {{"logits", Access::read}, {"draws", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"sample", sizeof(Sample), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const Sample&, const LaunchSizes& sizes) {
    return {.y = sizes.rows, .threads = kSimdgroups * kSimdWidth};
}
#endif

}  // namespace sample

}  // namespace ferrule
