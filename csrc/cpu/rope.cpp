// rope: rotates the first 2 * n_pairs values of each head. One work item per head of a row.
#include "../params/rope.h"

#include "kernel.h"
#include "rope_head.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows * args.as<Rope>().heads;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const Rope& params = args.as<Rope>();
    for (uint32_t item = begin; item < end; ++item) {
        const size_t head = size_t{item} * params.head_dim, row = item / params.heads;
        rope_head(args.operand<const float>(rope::x) + head,
                  args.operand<const float>(rope::table) + row * 2 * params.n_pairs, params.head_dim, params.n_pairs,
                  params.pairing, args.operand<float>(rope::out) + head);
    }
}

constexpr Kernel kKernels[] = {{"rope", &rope::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> rope_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
