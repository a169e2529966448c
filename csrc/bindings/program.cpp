// Executors, and programs: plans bound to weights, cache and arena.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "../executors/cpu.h"
#include "../executors/device_failure.h"
#include "../executors/huge_pages.h"
#include "../executors/metal.h"
#include "bindings.h"

namespace ferrule {

namespace {

using OperandTuple = std::tuple<std::string, uint32_t, uint64_t, uint64_t>;
using LaunchTuple = std::tuple<std::string, std::vector<OperandTuple>, nb::bytes, std::string, bool>;
using DimsTuple = std::tuple<uint32_t, uint32_t, uint32_t>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<std::span<const std::byte>> spans(const std::vector<Bytes>& arrays) {
    std::vector<std::span<const std::byte>> result;
    for (const Bytes& array : arrays) result.push_back(std::as_bytes(std::span(array.data(), array.size())));
    return result;
}

// A Metal executor together with the files that it maps.
struct MetalExecutor {
    MetalExecutor(const std::string& library, std::vector<Bytes> mapped)
        : files(std::move(mapped)), executor(metal::make_executor(library, spans(files))) {}

    std::vector<Bytes> files;
    std::unique_ptr<metal::Executor> executor;
};

// Huge pages together with the files that they take the place of.
struct BoundHugePages {
    explicit BoundHugePages(std::vector<Bytes> mapped) : files(std::move(mapped)), pages(spans(files)) {}

    std::vector<Bytes> files;
    HugePages pages;
};

const char* metal_backend() {
    switch (metal::backend()) {
        case metal::Backend::none:
            return "none";
        case metal::Backend::gpu:
            return "gpu";
        case metal::Backend::stand_in:
            break;
    }
    return "stand-in";
}

OperandKind operand_kind(const std::string& name) {
    constexpr std::pair<const char*, OperandKind> kinds[] = {
        {"none", OperandKind::none},    {"weight", OperandKind::weight}, {"table", OperandKind::table},
        {"arena", OperandKind::arena},  {"cache", OperandKind::cache},   {"input", OperandKind::input},
        {"output", OperandKind::output}};
    for (const auto& [kind_name, kind] : kinds) {
        if (name == kind_name) return kind;
    }
    throw nb::value_error(("no operand kind is named " + name).c_str());
}

RowDim row_dim(const std::string& name) {
    constexpr std::pair<const char*, RowDim> dims[] = {
        {"one", RowDim::one}, {"tokens", RowDim::tokens}, {"rows", RowDim::rows}, {"sequences", RowDim::sequences}};
    for (const auto& [dim_name, dim] : dims) {
        if (name == dim_name) return dim;
    }
    throw nb::value_error(("no row dimension is named " + name).c_str());
}

Dims make_dims(const DimsTuple& tuple) {
    const auto& [tokens, rows, sequences] = tuple;
    return {tokens, rows, sequences};
}

Launch make_launch(const LaunchTuple& tuple) {
    const auto& [kernel, operands, params, rows, barrier] = tuple;
    if (params.size() > kMaxParamsBytes || operands.size() > kMaxOperands) {
        throw nb::value_error((kernel + ": more than " + std::to_string(kMaxParamsBytes) + " bytes of parameters or " +
                               std::to_string(kMaxOperands) + " operands")
                                  .c_str());
    }
    Launch launch;
    launch.kernel = kernel;
    for (const auto& [kind, index, offset, bytes] : operands) {
        launch.operands.push_back({operand_kind(kind), index, offset, bytes});
    }
    std::memcpy(launch.params.data(), params.c_str(), params.size());
    launch.params_bytes = static_cast<uint32_t>(params.size());
    launch.rows = row_dim(rows);
    launch.barrier = barrier;
    return launch;
}

// The arrays of a step as the executors take them.
struct StepArrays {
    StepArrays(const std::vector<ReadArray>& input_arrays, const std::vector<WriteArray>& output_arrays) {
        for (const ReadArray& array : input_arrays) {
            inputs.emplace_back(static_cast<const std::byte*>(array.data()), array.nbytes());
        }
        for (const WriteArray& array : output_arrays) {
            outputs.emplace_back(static_cast<std::byte*>(array.data()), array.nbytes());
        }
    }
    std::vector<std::span<const std::byte>> inputs;
    std::vector<std::span<std::byte>> outputs;
};

// A step on its way.
class BoundStep {
  public:
    explicit BoundStep(std::unique_ptr<metal::Step> step) : step_(std::move(step)) {}

    const metal::Step* get() const { return step_.get(); }
    void finish(const std::vector<WriteArray>& outputs) {
        const StepArrays arrays({}, outputs);
        const nb::gil_scoped_release release;
        step_->finish(arrays.outputs);
    }

  private:
    std::unique_ptr<metal::Step> step_;
};

// A program together with everything it points into.
class BoundProgram {
  public:
    template <class Executor>
    BoundProgram(std::shared_ptr<Executor> executor, const std::vector<LaunchTuple>& launches,
                 std::vector<Bytes> weights, std::shared_ptr<LazyMemory> cache, uint64_t arena_bytes,
                 const DimsTuple& max_dims, uint32_t n_inputs, uint32_t n_outputs,
                 std::vector<std::vector<uint32_t>> tables)
        : weights_(std::move(weights)), cache_(std::move(cache)) {
        Plan plan = make_plan(launches, arena_bytes, max_dims, n_inputs, n_outputs);
        plan.tables = std::move(tables);
        program_ = bind(*executor, std::move(plan), spans(weights_), {cache_->data(), cache_->bytes()});
        executor_ = std::move(executor);
    }

    void run(uint32_t tokens, uint32_t rows, uint32_t sequences, const std::vector<ReadArray>& inputs,
             const std::vector<WriteArray>& outputs) {
        const StepArrays arrays(inputs, outputs);
        const nb::gil_scoped_release release;
        program_->run({tokens, rows, sequences}, arrays.inputs, arrays.outputs);
    }

    std::vector<uint64_t> profile(uint32_t tokens, uint32_t rows, uint32_t sequences,
                                  const std::vector<ReadArray>& inputs, const std::vector<WriteArray>& outputs) {
        const StepArrays arrays(inputs, outputs);
        const nb::gil_scoped_release release;
        return program_->profile({tokens, rows, sequences}, arrays.inputs, arrays.outputs);
    }

    BoundStep start(uint32_t tokens, uint32_t rows, uint32_t sequences, const std::vector<ReadArray>& inputs,
                    const std::vector<uint64_t>& output_bytes, const BoundStep* previous) {
        auto* program = dynamic_cast<metal::Program*>(program_.get());
        if (program == nullptr) throw nb::value_error("this device only runs whole steps");
        const StepArrays arrays(inputs, {});
        const nb::gil_scoped_release release;
        const metal::Step* before = previous != nullptr ? previous->get() : nullptr;
        return BoundStep(program->start({tokens, rows, sequences}, arrays.inputs, output_bytes, before));
    }

  private:
    static std::unique_ptr<Program> bind(cpu::Executor& executor, Plan plan,
                                         const std::vector<std::span<const std::byte>>& weights,
                                         std::span<std::byte> cache) {
        return std::make_unique<cpu::Program>(executor, std::move(plan), weights, cache);
    }
    static std::unique_ptr<Program> bind(MetalExecutor& executor, Plan plan,
                                         const std::vector<std::span<const std::byte>>& weights,
                                         std::span<std::byte> cache) {
        return executor.executor->bind(std::move(plan), weights, cache);
    }

    static Plan make_plan(const std::vector<LaunchTuple>& launches, uint64_t arena_bytes, const DimsTuple& max_dims,
                          uint32_t n_inputs, uint32_t n_outputs) {
        Plan plan;
        for (const LaunchTuple& launch : launches) plan.launches.push_back(make_launch(launch));
        plan.arena_bytes = arena_bytes;
        plan.max_dims = make_dims(max_dims);
        plan.n_inputs = n_inputs;
        plan.n_outputs = n_outputs;
        return plan;
    }

    std::shared_ptr<void> executor_;
    std::vector<Bytes> weights_;
    std::shared_ptr<LazyMemory> cache_;
    std::unique_ptr<Program> program_;
};

// DeviceFailure becomes ferrule.errors.DeviceError.
void translate_device_failure(const std::exception_ptr& exception, void*) {
    try {
        std::rethrow_exception(exception);
    } catch (const DeviceFailure& failure) {
        PyErr_SetString(nb::module_::import_("ferrule.errors").attr("DeviceError").ptr(), failure.what());
    }
}

template <class Executor>
using BoundProgramInit = nb::init<std::shared_ptr<Executor>, const std::vector<LaunchTuple>&, std::vector<Bytes>,
                                  std::shared_ptr<LazyMemory>, uint64_t, const DimsTuple&, uint32_t, uint32_t,
                                  std::vector<std::vector<uint32_t>>>;

}  // namespace

void init_program(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<cpu::Executor>(m, "Executor", "A CPU target's kernels and the threads that run them.")
        .def(
            "__init__",
            [](cpu::Executor* self, const std::string& target, unsigned threads) {
                new (self) cpu::Executor(target, threads);
            },
            "target"_a, "threads"_a)
        .def_prop_ro("target", [](const cpu::Executor& self) { return self.target().name; })
        .def_prop_ro("threads", &cpu::Executor::threads);

    nb::class_<BoundHugePages>(m, "HugePages",
                               "Moves mapped files into huge pages of memory, in the background, while this lives.\n\n"
                               "Their addresses stay. Does nothing where the system has no huge pages.")
        .def(nb::init<std::vector<Bytes>>(), "files"_a.noconvert())
        .def_prop_ro(
            "moved", [](const BoundHugePages& self) { return self.pages.moved(); }, "Bytes so far.")
        .def(
            "wait", [](BoundHugePages& self) { self.pages.wait(); }, nb::call_guard<nb::gil_scoped_release>(),
            "Returns when everything is moved.");

    nb::class_<MetalExecutor>(m, "MetalExecutor",
                              "The GPU, its kernels, and the mapped files whose weights it reads in place.\n\n"
                              "Raises DeviceError where there is no GPU that can be used.")
        .def(nb::init<const std::string&, std::vector<Bytes>>(), "library"_a, "files"_a.noconvert())
        .def_prop_ro("family", [](const MetalExecutor& self) { return self.executor->family(); });
    m.def("metal_backend", &metal_backend, "What Metal is in this build: \"none\", \"gpu\" or \"stand-in\".");
    nb::register_exception_translator(translate_device_failure, nullptr);

    nb::class_<LazyMemory>(m, "Cache",
                           "Zeroed memory for keys and values, taken from the system when it is first touched.\n\n"
                           "The first `dense` bytes are filled from their begin on.")
        .def(nb::init<uint64_t, uint64_t>(), "bytes"_a, "dense"_a = 0)
        .def_prop_ro("bytes", &LazyMemory::bytes)
        .def_prop_ro(
            "array",
            [](LazyMemory& self) { return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(self.data(), {self.bytes()}); },
            nb::rv_policy::reference_internal, "The memory as bytes.");

    nb::class_<BoundStep>(m, "Step", "A step that was started; its program lives as long. Its end is waited for.")
        .def("finish", &BoundStep::finish, "outputs"_a.noconvert(),
             nb::sig("def finish(self, outputs: Sequence[numpy.typing.NDArray[typing.Any]]) -> None"),
             "Waits for the step, without the GIL, and fills the arrays with its results. Raises DeviceError.");

    nb::class_<BoundProgram>(
        m, "Program",
        "A plan bound to an executor, weights and a cache, with an arena of its own.\n\n"
        "A launch is (kernel, operands, params, row dimension, barrier); an operand (kind, index, offset, bytes), see\n"
        "`csrc/plan/plan.h`; a table lists weights by index. Raises ValueError that names the launch and what is wrong "
        "with it.")
        .def(BoundProgramInit<cpu::Executor>(), "executor"_a, "launches"_a, "weights"_a.noconvert(), "cache"_a,
             "arena_bytes"_a, "max_dims"_a, "n_inputs"_a, "n_outputs"_a, "tables"_a = nb::list())
        .def(BoundProgramInit<MetalExecutor>(), "executor"_a, "launches"_a, "weights"_a.noconvert(), "cache"_a,
             "arena_bytes"_a, "max_dims"_a, "n_inputs"_a, "n_outputs"_a, "tables"_a = nb::list())
        .def("run", &BoundProgram::run, "tokens"_a, "rows"_a, "sequences"_a, "inputs"_a.noconvert(),
             "outputs"_a.noconvert(),
             nb::sig("def run(self, tokens: int, rows: int, sequences: int, "
                     "inputs: Sequence[numpy.typing.NDArray[typing.Any]], "
                     "outputs: Sequence[numpy.typing.NDArray[typing.Any]]) -> None"),
             "Runs one step, without the GIL. Raises ValueError when it is larger than the plan allows.")
        .def("start", &BoundProgram::start, "tokens"_a, "rows"_a, "sequences"_a, "inputs"_a.noconvert(),
             "output_bytes"_a, "previous"_a.none(), nb::keep_alive<0, 1>(),
             nb::sig("def start(self, tokens: int, rows: int, sequences: int, "
                     "inputs: Sequence[numpy.typing.NDArray[typing.Any]], output_bytes: Sequence[int], "
                     "previous: Step | None) -> Step"),
             "Starts a step on a GPU; steps run in the order of their starts. An empty input is what `previous` puts\n"
             "out first. Raises ValueError as `run`, and for programs of the CPU.")
        .def("profile", &BoundProgram::profile, "tokens"_a, "rows"_a, "sequences"_a, "inputs"_a.noconvert(),
             "outputs"_a.noconvert(),
             nb::sig("def profile(self, tokens: int, rows: int, sequences: int, "
                     "inputs: Sequence[numpy.typing.NDArray[typing.Any]], "
                     "outputs: Sequence[numpy.typing.NDArray[typing.Any]]) -> list[int]"),
             "Like `run`, one launch after another; returns each launch's nanoseconds.");
}

}  // namespace ferrule
