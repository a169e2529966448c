// Every op's signature. An op that is not listed here does not exist for the plan validator and Python.
#pragma once
#include "activation.h"
#include "add.h"
#include "attention.h"
#include "attention_merge.h"
#include "attention_split.h"
#include "embedding.h"
#include "gated_activation.h"
#include "kv_append.h"
#include "matmul.h"
#include "qkv_prepare.h"
#include "quantize_q8.h"
#include "rms_norm.h"
#include "rope.h"
#include "rope_table.h"
#include "scale.h"
#include "softcap.h"
#include "take_rows.h"

namespace ferrule {

inline constexpr const OpSignature* kSignatures[] = {
    &activation::signature,
    &add::signature,
    &attention::signature,
    &attention_merge::signature,
    &attention_split::signature,
    &embedding::signature,
    &gated_activation::signature,
    &kv_append::signature,
    &matmul::signature,
    &qkv_prepare::signature,
    &quantize_q8::signature,
    &rms_norm::signature,
    &rope::signature,
    &rope_table::signature,
    &scale::signature,
    &softcap::signature,
    &take_rows::signature,
};

}  // namespace ferrule
