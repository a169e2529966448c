#include "validate.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace ferrule {

namespace {

std::string text(uint64_t number) {
    return std::to_string(number);
}

// Where in a plan a check is made, and so may fail.
class Place {
  public:
    explicit Place(std::string name) : name_(std::move(name)) {}

    Place operand(const char* operand) const { return Place(name_ + ": operand " + operand); }

    [[noreturn]] void refuse(const std::string& problem) const { throw std::invalid_argument(name_ + ": " + problem); }

    void check_count(size_t found, const char* what, const char* op, size_t expected) const {
        if (found != expected) refuse(text(found) + " " + what + "; " + op + " has " + text(expected));
    }

    void check_index(const char* what, uint32_t index, size_t count) const {
        if (index >= count)
            refuse(std::string(what) + " " + text(index) + " does not exist; the plan has " + text(count));
    }

    void check_range(const char* what, const Operand& operand, uint64_t size) const {
        if (operand.offset > size || operand.bytes > size - operand.offset) {
            refuse(text(operand.bytes) + " bytes from byte " + text(operand.offset) + " lie outside the " + what +
                   " of " + text(size) + " bytes");
        }
    }

    void check_alignment(const Operand& operand) const {
        if (operand.offset % kOperandAlignment != 0) {
            refuse("offset " + text(operand.offset) + " is not a multiple of " + text(kOperandAlignment));
        }
    }

  private:
    std::string name_;
};

void check_operand(const Place& place, const Operand& operand, const OperandInfo& info, const Plan& plan,
                   std::span<const uint64_t> weight_bytes, uint64_t cache_bytes) {
    const bool written = info.access != Access::read;
    switch (operand.kind) {
        case OperandKind::none:
            if (!info.optional) place.refuse("absent, but not optional");
            break;
        case OperandKind::weight:
            if (written) place.refuse("written, so it cannot be a weight");
            place.check_index("weight", operand.index, weight_bytes.size());
            place.check_range("weight", operand, weight_bytes[operand.index]);
            break;
        case OperandKind::table:
            if (written) place.refuse("written, so it cannot be a table of weights");
            place.check_index("table", operand.index, plan.tables.size());
            for (const uint32_t weight : plan.tables[operand.index]) {
                place.check_index("weight", weight, weight_bytes.size());
            }
            break;
        case OperandKind::arena:
            place.check_alignment(operand);
            place.check_range("arena", operand, plan.arena_bytes);
            break;
        case OperandKind::cache:
            place.check_alignment(operand);
            place.check_range("cache", operand, cache_bytes);
            break;
        case OperandKind::input:
            if (written) place.refuse("written, so it cannot be an input");
            place.check_index("input", operand.index, plan.n_inputs);
            break;
        case OperandKind::output:
            place.check_index("output", operand.index, plan.n_outputs);
            break;
    }
}

}  // namespace

void validate(const Plan& plan, std::span<const OpSignature* const> signatures, std::span<const uint64_t> weight_bytes,
              uint64_t cache_bytes) {
    for (size_t i = 0; i < plan.launches.size(); ++i) {
        const Launch& launch = plan.launches[i];
        const OpSignature& signature = *signatures[i];
        const Place place("launch " + text(i) + " (" + launch.kernel + ")");
        place.check_count(launch.operands.size(), "operands", signature.op, signature.operands.size());
        place.check_count(launch.params_bytes, "bytes of parameters", signature.op, signature.params_bytes);
        for (size_t j = 0; j < launch.operands.size(); ++j) {
            const OperandInfo& info = signature.operands[j];
            check_operand(place.operand(info.name), launch.operands[j], info, plan, weight_bytes, cache_bytes);
        }
    }
}

void check_step(const Plan& plan, const Dims& dims, size_t n_inputs, size_t n_outputs) {
    const auto check_dim = [](const char* name, uint32_t value, uint32_t limit) {
        if (value > limit) {
            throw std::invalid_argument(text(value) + " " + name + " in a step; the plan holds at most " + text(limit));
        }
    };
    check_dim("tokens", dims.tokens, plan.max_dims.tokens);
    check_dim("rows", dims.rows, plan.max_dims.rows);
    check_dim("sequences", dims.sequences, plan.max_dims.sequences);
    const auto check_count = [](const char* name, size_t count, size_t expected) {
        if (count != expected) {
            throw std::invalid_argument(text(count) + " " + name + "; the plan has " + text(expected));
        }
    };
    check_count("inputs", n_inputs, plan.n_inputs);
    check_count("outputs", n_outputs, plan.n_outputs);
}

}  // namespace ferrule
