// Targets, op signatures, kernels, and running one kernel alone.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../executors/run_kernel.h"
#include "../executors/targets.h"
#include "../params/metal_kernels.h"
#include "../params/metal_limits.h"
#include "../params/quantized_row.h"
#include "../params/signatures.h"
#include "bindings.h"

namespace ferrule {

namespace {

using Field = std::tuple<std::string, std::string, uint32_t>;
using OperandDescription = std::tuple<std::string, std::string, bool>;
using Signature = std::tuple<uint32_t, std::vector<Field>, std::vector<OperandDescription>>;

const char* access_name(Access access) {
    switch (access) {
        case Access::read:
            return "read";
        case Access::write:
            return "write";
        case Access::read_write:
            break;
    }
    return "read_write";
}

std::map<std::string, Signature> signatures() {
    std::map<std::string, Signature> result;
    for (const OpSignature* signature : kSignatures) {
        auto& [params_bytes, fields, operands] = result[signature->op];
        params_bytes = signature->params_bytes;
        for (const ParamField& field : signature->fields) {
            fields.emplace_back(field.name, field.type == FieldType::u32 ? "u32" : "f32", field.offset);
        }
        for (const OperandInfo& operand : signature->operands) {
            operands.emplace_back(operand.name, access_name(operand.access), operand.optional);
        }
    }
    return result;
}

using Values = std::map<std::string, uint32_t>;

template <class T, size_t n>
Values values_of(const NamedValue<T> (&named)[n]) {
    Values values;
    for (const NamedValue<T>& each : named) values[each.name] = static_cast<uint32_t>(each.value);
    return values;
}

std::map<std::string, Values> parameter_values() {
    return {{"activation", values_of(kActivations)},
            {"group_score", values_of(kGroupScores)},
            {"pairing", values_of(kRopePairings)},
            {"scoring", values_of(kScorings)}};
}

std::vector<std::string> target_names(bool only_supported) {
    std::vector<std::string> names;
    for (const cpu::Target& target : cpu::all_targets()) {
        if (!only_supported || target.supported()) names.emplace_back(target.name);
    }
    return names;
}

std::map<std::string, std::string> kernels(const std::string& target_name) {
    std::map<std::string, std::string> ops;
    for (const cpu::Target& target : cpu::all_targets()) {
        if (target_name != target.name) continue;
        for (std::span<const cpu::Kernel> file : target.kernels()) {
            for (const cpu::Kernel& kernel : file) ops[kernel.name] = kernel.signature->op;
        }
        return ops;
    }
    throw nb::value_error(("no target is named " + target_name).c_str());
}

std::map<std::string, std::string> metal_kernel_ops() {
    std::map<std::string, std::string> ops;
    for (const MetalKernel& kernel : metal_kernels()) ops[kernel.name] = kernel.signature->op;
    return ops;
}

std::map<std::string, Values> metal_limits() {
    std::map<std::string, Values> limits;
    for (const MetalLimit& limit : kMetalLimits) limits[limit.kernel][limit.field] = limit.most;
    return limits;
}

uint32_t run_kernel(const std::string& target, const std::string& kernel_name, const nb::list& operands,
                    const nb::bytes& params, uint32_t rows, const std::tuple<uint32_t, uint32_t, uint32_t>& dims,
                    const std::optional<std::vector<std::pair<uint32_t, uint32_t>>>& split) {
    const cpu::Kernel& kernel = cpu::find_target(target).kernel(kernel_name);
    std::vector<ReadArray> arrays;  // keep the operands alive
    std::deque<std::vector<const void*>> tables;
    std::vector<void*> pointers;
    const auto address = [&](const nb::handle& array) {
        if (array.is_none()) return static_cast<const void*>(nullptr);
        return static_cast<const void*>(arrays.emplace_back(nb::cast<ReadArray>(array, false)).data());
    };
    for (size_t i = 0; i < operands.size(); ++i) {
        const bool written =
            i < kernel.signature->operands.size() && kernel.signature->operands[i].access != Access::read;
        if (operands[i].is_none()) {
            pointers.push_back(nullptr);
        } else if (written) {
            pointers.push_back(nb::cast<WriteArray>(operands[i], false).data());
        } else if (nb::isinstance<nb::list>(operands[i])) {
            std::vector<const void*>& table = tables.emplace_back();
            for (const nb::handle array : nb::borrow<nb::list>(operands[i])) table.push_back(address(array));
            pointers.push_back(table.data());
        } else {
            pointers.push_back(const_cast<void*>(address(operands[i])));
        }
    }
    std::optional<std::vector<cpu::ItemRange>> ranges;
    if (split) {
        ranges.emplace();
        for (const auto& [begin, end] : *split) ranges->push_back({begin, end});
    }
    const auto& [n_tokens, n_rows, n_sequences] = dims;
    return cpu::run_kernel(kernel, pointers, std::as_bytes(std::span(params.c_str(), params.size())), rows,
                           {n_tokens, n_rows, n_sequences}, ranges);
}

}  // namespace

void init_kernels(nb::module_& m) {
    using namespace nb::literals;
    m.attr("CACHE_BLOCK") = kCacheBlock;
    m.def("quantized_row_bytes", &quantized_row::row_bytes, "k"_a, "planes"_a,
          "Bytes of a row of k quantised activations, their codes in so many planes.");
    m.def("quantized_vector_bytes", &quantized_vector_bytes, "width"_a,
          "Bytes of a key or value vector of so many values in a cache in q8_0.");
    m.def("rounded_vector_bytes", &rounded_vector_bytes, "width"_a, "The same in bf16.");
    m.def(
        "targets", [] { return target_names(true); },
        "Names of the CPU targets that this processor can run, best first.");
    m.def("all_targets", [] { return target_names(false); }, "Names of every CPU target of this build, best first.");
    m.def(
        "signatures", &signatures,
        "Per op: bytes of its parameters, its fields (name, \"u32\" or \"f32\", byte offset), and its operands (name, "
        "\"read\", \"write\" or \"read_write\", optional), in the order of kernels' arguments.");
    m.def("parameter_values", &parameter_values,
          "Kernel parameter that chooses among several -> name of each choice -> its number.");
    m.def("kernels", &kernels, "target"_a, "Name of every kernel of a target -> its op.");
    m.def(
        "linears_partials",
        [](uint32_t k, uint32_t n, uint32_t n_b, uint32_t n_c, uint32_t gated) {
            Linears params{};
            params.k = k;
            params.n = n;
            params.n_b = n_b;
            params.n_c = n_c;
            params.gated = gated;
            return linears::partials_size(params);
        },
        "k"_a, "n"_a, "n_b"_a, "n_c"_a, "gated"_a,
        "Floats of partial sums that a Metal product of many rows may need (csrc/params/linears.h); 0: it is never "
        "split.");
    m.def("expert_order_words", &expert_order::words, "experts"_a, "slots"_a, "rows"_a,
          "Words of the order of so many rows' slots by expert (csrc/params/expert_order.h).");
    m.def("metal_kernels", &metal_kernel_ops, "Name of every Metal kernel -> its op.");
    m.def("metal_limits", &metal_limits,
          "Name of a Metal kernel, without formats -> parameters that it limits -> the most that it takes.");
    m.def("run_kernel", &run_kernel, "target"_a, "kernel"_a,
          nb::sig("def run_kernel(target: str, kernel: str, operands: list[numpy.typing.NDArray[typing.Any] | "
                  "list[numpy.typing.NDArray[typing.Any] | None] | None], params: bytes, rows: int, dims: tuple[int, "
                  "int, int], split: list[tuple[int, int]] | None = None) -> int"),
          "operands"_a, "params"_a, "rows"_a, "dims"_a, "split"_a = nb::none(),
          "Runs one kernel in this thread and returns its number of work items.\n\n"
          "An operand that is a list of arrays is the table of their addresses. `dims` are (tokens, rows, "
          "sequences); `split` lists ranges of work items in the order to run them. Raises "
          "ValueError when the operands do not fit the kernel's signature.");
}

}  // namespace ferrule
