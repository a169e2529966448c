// quantize_q16 (params/quantize_q16.h): a work item is a part of a row.
#include "../params/quantize_q16.h"

#include "kernel.h"
#include "quantize_row.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows * args.as<QuantizeQ16>().parts;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const uint32_t k = args.as<QuantizeQ16>().k;
    const float* x = args.operand<const float>(quantize_q16::x);
    uint8_t* out = args.operand<uint8_t>(quantize_q16::out);
    for (size_t part = begin; part < end; ++part) quantize_row(x + part * k, k, out + part * q16_row::row_bytes(k));
}

constexpr Kernel table[] = {{"quantize_q16", &quantize_q16::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> quantize_q16_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
