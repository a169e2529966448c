// route: chooses k experts for each row of logits, best first (DeepSeek-AI 2024). logits: f32 [rows, experts]; out: f32
// [rows, 2 * k], k expert ids as numbers, then their k weights; choice_bias, expert_scale: f32 [experts] or absent.
//
// score: softmax of the row (scoring 0) or sigmoid of each logit (1). choice = score + choice_bias. Where top_groups <
// groups only experts of the top_groups best of `groups` equal groups can be chosen, a group being as good as its
// greatest choice (group_score 0) or the sum of its two greatest (1). Equals go to the lower id.
// weight = score / (sum of the k scores + norm_eps if normalize, else 1) * scale * expert_scale.
//
// scoring 2, sparsemixer (Liu et al. 2023, inference form), replaces scores: the greatest logit m is chosen, with the
// weight that it has in a softmax over the logits s with m - s <= 2 * jitter * max(|s|, m); and so on without it.
#pragma once
#include "metal_dispatch.h"
#include "named_value.h"
#include "signature.h"

namespace ferrule {

enum class Scoring : uint32_t { softmax = 0, sigmoid = 1, sparsemixer = 2 };
enum class GroupScore : uint32_t { max = 0, top2 = 1 };

#ifndef __METAL_VERSION__
inline constexpr NamedValue<Scoring> kScorings[] = {
    {"softmax", Scoring::softmax}, {"sigmoid", Scoring::sigmoid}, {"sparsemixer", Scoring::sparsemixer}};
inline constexpr NamedValue<GroupScore> kGroupScores[] = {{"max", GroupScore::max}, {"top2", GroupScore::top2}};
#endif

struct Route {
    uint32_t experts;
    uint32_t k;
    uint32_t scoring;
    uint32_t normalize;
    uint32_t groups;
    uint32_t top_groups;
    uint32_t group_score;
    float norm_eps;
    float scale;
    float jitter;
};

namespace route {

enum Operand { logits, choice_bias, expert_scale, out };
enum Constant { has_choice_bias, has_expert_scale, fc_scoring };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"experts", FieldType::u32, offsetof(Route, experts)},
                                        {"k", FieldType::u32, offsetof(Route, k)},
                                        {"scoring", FieldType::u32, offsetof(Route, scoring)},
                                        {"normalize", FieldType::u32, offsetof(Route, normalize)},
                                        {"groups", FieldType::u32, offsetof(Route, groups)},
                                        {"top_groups", FieldType::u32, offsetof(Route, top_groups)},
                                        {"group_score", FieldType::u32, offsetof(Route, group_score)},
                                        {"norm_eps", FieldType::f32, offsetof(Route, norm_eps)},
                                        {"scale", FieldType::f32, offsetof(Route, scale)},
                                        {"jitter", FieldType::f32, offsetof(Route, jitter)}};
inline constexpr OperandInfo operands[] = {{"logits", Access::read},
                                           {"choice_bias", Access::read, true},
                                           {"expert_scale", Access::read, true},
                                           {"out", Access::write}};
inline constexpr OpSignature signature{"route", sizeof(Route), fields, operands};

// A simdgroup per row; its memory holds scores [experts], choices [experts] and the groups' scores [groups].
inline constexpr MetalDispatch metal_dispatch(const Route& params, const LaunchSizes& sizes) {
    const uint32_t floats = 2 * params.experts + params.groups;
    return {.x = sizes.rows, .threadgroup_bytes = floats * static_cast<uint32_t>(sizeof(float))};
}
#endif

}  // namespace route

}  // namespace ferrule
