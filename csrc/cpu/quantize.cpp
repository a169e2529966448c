// quantize (params/quantize.h): a work item is a part of a row.
#include "../params/quantize.h"

#include "kernel.h"
#include "quantize_row.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows * args.as<Quantize>().parts;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto [k, parts, planes] = args.as<Quantize>();
    const float* x = args.operand<const float>(quantize::x);
    uint8_t* out = args.operand<uint8_t>(quantize::out);
    for (size_t part = begin; part < end; ++part) {
        quantize_row(x + part * k, k, planes, out + part * quantized_row::row_bytes(k, planes));
    }
}

constexpr Kernel table[] = {{"quantize", &quantize::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> quantize_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
