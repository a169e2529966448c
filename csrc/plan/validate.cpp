#include "validate.h"

#include <stdexcept>
#include <string>

namespace ferrule {

namespace {

std::string text(uint64_t number) {
    return std::to_string(number);
}

// An empty string where the range lies within `size` bytes.
std::string check_range(const char* what, const Operand& operand, uint64_t size) {
    if (operand.offset <= size && operand.bytes <= size - operand.offset) return "";
    return "bytes " + text(operand.offset) + " to " + text(operand.offset + operand.bytes) + " lie outside the " +
           what + " of " + text(size) + " bytes";
}

std::string check_index(const char* what, uint32_t index, size_t count) {
    if (index < count) return "";
    return std::string(what) + " " + text(index) + " does not exist; the plan has " + text(count);
}

std::string check_alignment(const Operand& operand) {
    if (operand.offset % kOperandAlignment == 0) return "";
    return "offset " + text(operand.offset) + " is not a multiple of " + text(kOperandAlignment);
}

std::string check_operand(const Operand& operand, const OperandInfo& info, const Plan& plan,
                          std::span<const uint64_t> weight_bytes, uint64_t cache_bytes) {
    const bool written = info.access != Access::read;
    std::string problem;
    switch (operand.kind) {
        case OperandKind::none:
            return info.optional ? "" : "must be given";
        case OperandKind::weight:
            if (written) return "is written and cannot be a weight";
            problem = check_index("weight", operand.index, weight_bytes.size());
            return problem.empty() ? check_range("weight", operand, weight_bytes[operand.index]) : problem;
        case OperandKind::arena:
            problem = check_alignment(operand);
            return problem.empty() ? check_range("arena", operand, plan.arena_bytes) : problem;
        case OperandKind::cache:
            problem = check_alignment(operand);
            return problem.empty() ? check_range("cache", operand, cache_bytes) : problem;
        case OperandKind::input:
            if (written) return "is written and cannot be an input";
            return check_index("input", operand.index, plan.n_inputs);
        case OperandKind::output:
            return check_index("output", operand.index, plan.n_outputs);
    }
    return "has an unknown kind";
}

}  // namespace

void validate(const Plan& plan, std::span<const OpSignature* const> signatures, std::span<const uint64_t> weight_bytes,
              uint64_t cache_bytes) {
    for (size_t i = 0; i < plan.launches.size(); ++i) {
        const Launch& launch = plan.launches[i];
        const OpSignature& signature = *signatures[i];
        const std::string where = "launch " + text(i) + " (" + launch.kernel + "): ";
        if (launch.operands.size() != signature.operands.size()) {
            throw std::invalid_argument(where + text(launch.operands.size()) + " operands; " + signature.op + " has " +
                                        text(signature.operands.size()));
        }
        if (launch.params_bytes != signature.params_bytes) {
            throw std::invalid_argument(where + text(launch.params_bytes) + " bytes of parameters; " + signature.op +
                                        " has " + text(signature.params_bytes));
        }
        for (size_t j = 0; j < launch.operands.size(); ++j) {
            const OperandInfo& info = signature.operands[j];
            const std::string problem = check_operand(launch.operands[j], info, plan, weight_bytes, cache_bytes);
            if (!problem.empty()) throw std::invalid_argument(where + "operand " + info.name + " " + problem);
        }
    }
}

}  // namespace ferrule
