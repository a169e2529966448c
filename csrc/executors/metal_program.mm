// How a step is run: its launches are encoded in order into a concurrent encoder, with a memory barrier exactly where
// the plan has one. A decode step is one command buffer; long steps are cut into several, so that none occupies the GPU
// for long.
#include "metal_program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "../params/metal_kernels.h"
#include "../plan/validate.h"
#include "device_failure.h"
#include "metal_residency.h"
#include "metal_step.h"
#include "views.h"

namespace ferrule::metal {

namespace {

// Bytes of weights and cache times rows that a command buffer may work on: a few hundred milliseconds of an M1.
constexpr uint64_t kWorkPerCommandBuffer = uint64_t{100} << 30;

const MetalKernel& find_kernel(const std::string& name) {
    for (const MetalKernel& kernel : metal_kernels()) {
        if (kernel.name == name) return kernel;
    }
    throw std::invalid_argument("no Metal kernel is named " + name);
}

struct GpuProgram final : Program {
    struct BoundLaunch {
        const MetalKernel* kernel;
        id<MTLComputePipelineState> pipeline;
        std::array<Place, kMaxOperands> operands;
        uint64_t bytes;  // of weights and cache
    };

    Gpu& executor;
    const Plan plan;
    Retained<id<MTLBuffer>> arena, tables;
    std::shared_ptr<Retained<id<MTLBuffer>>> cache;
    std::vector<uint64_t> table_offsets;           // in `tables`
    std::vector<id<MTLResource>> read_by_address;  // what the tables lead to
    std::vector<BoundLaunch> launches;
    std::vector<std::shared_ptr<StepMemory>> memories;  // of steps, to be used again
    std::unique_ptr<Residency> residency;

    GpuProgram(Gpu& gpu, Plan plan, std::span<const Bytes> weights, std::span<std::byte> cache_memory);
    void run(const Dims& dims, Inputs arrays, Outputs results) override {
        execute(dims, arrays, results, kWorkPerCommandBuffer);
    }
    std::vector<uint64_t> profile(const Dims& dims, Inputs arrays, Outputs results) override {
        return execute(dims, arrays, results, 0);
    }
    std::unique_ptr<Step> start(const Dims& dims, Inputs arrays, std::span<const uint64_t> output_bytes,
                                const Step* previous) override {
        return begin(dims, arrays, output_bytes, static_cast<const GpuStep*>(previous), kWorkPerCommandBuffer);
    }

    void make_tables(std::span<const Place> weights);
    BoundLaunch bind(const Launch& launch, const OpSignature& signature, std::span<const Place> weights) const;
    void check_pipeline(const Launch& launch, const BoundLaunch& bound) const;
    std::shared_ptr<StepMemory> stage(Inputs arrays, std::span<const uint64_t> output_bytes);
    static Place place(const Operand& operand, const Place& bound, const GpuStep& step);
    void encode(id<MTLComputeCommandEncoder> encoder, size_t i, const LaunchSizes& sizes, const MetalDispatch& dispatch,
                const GpuStep& step) const;
    std::unique_ptr<GpuStep> begin(const Dims& dims, Inputs arrays, std::span<const uint64_t> output_bytes,
                                   const GpuStep* previous, uint64_t work_per_command_buffer);
    std::vector<uint64_t> execute(const Dims& dims, Inputs arrays, Outputs results, uint64_t work_per_command_buffer);
};

// A table holds the addresses of its weights, which are read where they lie.
void GpuProgram::make_tables(std::span<const Place> weights) {
    std::vector<uint64_t> addresses;
    std::set<id<MTLBuffer>> buffers;
    for (const std::vector<uint32_t>& table : plan.tables) {
        table_offsets.push_back(addresses.size() * sizeof(uint64_t));
        for (const uint32_t weight : table) {
            const auto& [buffer, offset] = weights[weight];
            addresses.push_back(buffer.gpuAddress + offset);
            buffers.insert(buffer);
        }
    }
    if (addresses.empty()) return;
    tables = allocate(executor.gpu.get(), addresses.size() * sizeof(uint64_t), "addresses of weights");
    std::memcpy(tables.get().contents, addresses.data(), addresses.size() * sizeof(uint64_t));
    read_by_address.assign(buffers.begin(), buffers.end());
}

void GpuProgram::check_pipeline(const Launch& launch, const BoundLaunch& bound) const {
    const LaunchSizes sizes{row_count(launch.rows, plan.max_dims), plan.max_dims.sequences};
    const MetalDispatch dispatch = bound.kernel->dispatch(launch.params.data(), sizes);
    const auto refuse = [&](const char* what, uint64_t needed, uint64_t limit) {
        throw DeviceFailure("the GPU cannot run " + launch.kernel + ": it needs " + std::to_string(needed) + " " +
                            what + "; the limit is " + std::to_string(limit));
    };
    const NSUInteger threads = bound.pipeline.maxTotalThreadsPerThreadgroup;
    if (dispatch.threads > threads) refuse("threads per threadgroup", dispatch.threads, threads);
    const NSUInteger memory = executor.gpu.get().maxThreadgroupMemoryLength;
    const NSUInteger used = dispatch.threadgroup_bytes + bound.pipeline.staticThreadgroupMemoryLength;
    if (used > memory) refuse("bytes of threadgroup memory", used, memory);
    const NSUInteger width = bound.pipeline.threadExecutionWidth;
    if (width != kSimdWidth) refuse("threads per simdgroup", kSimdWidth, width);
}

GpuProgram::GpuProgram(Gpu& gpu, Plan bound_plan, std::span<const Bytes> weights, std::span<std::byte> cache_memory)
    : executor(gpu), plan(std::move(bound_plan)) {
    @autoreleasepool {
        const std::lock_guard lock(executor.mutex);
        const id<MTLDevice> device = executor.gpu.get();
        std::vector<const OpSignature*> signatures;
        for (const Launch& launch : plan.launches) signatures.push_back(find_kernel(launch.kernel).signature);
        std::vector<uint64_t> weight_bytes;
        for (const Bytes& weight : weights) weight_bytes.push_back(weight.size());
        validate(plan, signatures, weight_bytes, cache_memory.size());

        executor.map_files(weights);
        const std::vector<Place> places = executor.place(weights);
        make_tables(places);
        if (plan.arena_bytes > 0) arena = allocate(device, plan.arena_bytes, "the arena");
        if (!cache_memory.empty()) cache = executor.wrap_cache(cache_memory);
        for (size_t i = 0; i < plan.launches.size(); ++i) {
            launches.push_back(bind(plan.launches[i], *signatures[i], places));
            check_pipeline(plan.launches[i], launches[i]);
        }

        std::vector<id<MTLBuffer>> buffers = executor.weight_buffers();
        for (const auto* buffer : {&arena, &tables}) {
            if (*buffer) buffers.push_back(buffer->get());
        }
        if (cache) buffers.push_back(cache->get());
        residency = std::make_unique<Residency>(device, executor.queue.get(), buffers);
    }
}

GpuProgram::BoundLaunch GpuProgram::bind(const Launch& launch, const OpSignature& signature,
                                         std::span<const Place> weights) const {
    BoundLaunch bound{&find_kernel(launch.kernel), executor.pipeline(launch, signature), {}, 0};
    for (size_t i = 0; i < launch.operands.size(); ++i) {
        const Operand& operand = launch.operands[i];
        Place& place = bound.operands[i];
        if (operand.kind == OperandKind::weight) place = weights[operand.index];
        if (operand.kind == OperandKind::table) place = {tables.get(), table_offsets[operand.index]};
        if (operand.kind == OperandKind::arena) place.buffer = arena.get();
        if (operand.kind == OperandKind::cache) place.buffer = cache->get();
        place.offset += operand.offset;
        const bool is_large = operand.kind != OperandKind::none && operand.kind != OperandKind::arena;
        if (is_large) bound.bytes += operand.bytes;
    }
    return bound;
}

// Memory that no step uses, with the inputs copied to where the GPU reads them and room for the outputs.
std::shared_ptr<StepMemory> GpuProgram::stage(Inputs arrays, std::span<const uint64_t> output_bytes) {
    const auto is_idle = [](const std::shared_ptr<StepMemory>& memory) { return memory.use_count() == 1; };
    auto found = std::find_if(memories.begin(), memories.end(), is_idle);
    if (found == memories.end()) {
        found = memories.insert(found, std::make_shared<StepMemory>(plan.n_inputs, plan.n_outputs));
    }
    StepMemory& memory = **found;
    const id<MTLDevice> device = executor.gpu.get();
    for (size_t i = 0; i < arrays.size(); ++i) {
        std::byte* staged = memory.inputs[i].reserve(device, arrays[i].size());
        std::copy(arrays[i].begin(), arrays[i].end(), staged);
    }
    for (size_t i = 0; i < output_bytes.size(); ++i) memory.outputs[i].reserve(device, output_bytes[i]);
    return *found;
}

Place GpuProgram::place(const Operand& operand, const Place& bound, const GpuStep& step) {
    if (operand.kind == OperandKind::input) {
        const bool is_fed = step.previous && operand.index == step.fed_input;
        const Staging& staged = is_fed ? step.previous->outputs[0] : step.memory->inputs[operand.index];
        return {staged.buffer.get(), operand.offset};
    }
    if (operand.kind == OperandKind::output) {
        return {step.memory->outputs[operand.index].buffer.get(), operand.offset};
    }
    return bound;
}

void GpuProgram::encode(id<MTLComputeCommandEncoder> encoder, size_t i, const LaunchSizes& sizes,
                        const MetalDispatch& dispatch, const GpuStep& step) const {
    const Launch& launch = plan.launches[i];
    const BoundLaunch& bound = launches[i];
    [encoder setComputePipelineState:bound.pipeline];
    for (size_t j = 0; j < launch.operands.size(); ++j) {
        const Place where = place(launch.operands[j], bound.operands[j], step);
        [encoder setBuffer:where.buffer offset:where.offset atIndex:j];
    }
    [encoder setBytes:launch.params.data() length:launch.params_bytes atIndex:params_buffer];
    [encoder setBytes:&sizes length:sizeof sizes atIndex:sizes_buffer];
    if (dispatch.threadgroup_bytes > 0) {
        [encoder setThreadgroupMemoryLength:round_up(dispatch.threadgroup_bytes, 16) atIndex:0];
    }
    [encoder dispatchThreadgroups:MTLSizeMake(dispatch.x, dispatch.y, dispatch.z)
            threadsPerThreadgroup:MTLSizeMake(dispatch.threads, 1, 1)];
}

// Begins a step in command buffers of so much work, or of one launch where that is less.
std::unique_ptr<GpuStep> GpuProgram::begin(const Dims& dims, Inputs arrays, std::span<const uint64_t> output_bytes,
                                           const GpuStep* previous, uint64_t work_per_command_buffer) {
    const std::lock_guard lock(executor.mutex);
    check_step(plan, dims, arrays.size(), output_bytes.size());
    auto step = std::make_unique<GpuStep>();
    if (previous != nullptr) {
        const auto is_empty = [](const Bytes& array) { return array.empty(); };
        step->previous = previous->memory;
        step->fed_input = static_cast<size_t>(std::find_if(arrays.begin(), arrays.end(), is_empty) - arrays.begin());
    }
    @autoreleasepool {
        step->memory = stage(arrays, output_bytes);
        for (size_t i = 0; i < launches.size();) {
            const id<MTLCommandBuffer> command_buffer = [executor.queue.get() commandBufferWithUnretainedReferences];
            const id<MTLComputeCommandEncoder> encoder =
                [command_buffer computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
            if (encoder == nil) throw DeviceFailure("the GPU gives no command buffer");
            if (!read_by_address.empty()) {
                [encoder useResources:read_by_address.data() count:read_by_address.size() usage:MTLResourceUsageRead];
            }
            uint64_t work = 0;
            bool is_first = true, barrier = false;
            for (; i < launches.size() && (is_first || work < work_per_command_buffer); ++i) {
                const Launch& launch = plan.launches[i];
                const LaunchSizes sizes{row_count(launch.rows, dims), dims.sequences};
                const MetalDispatch dispatch = launches[i].kernel->dispatch(launch.params.data(), sizes);
                barrier = barrier || launch.barrier;
                if (sizes.rows > 0 && dispatch.x > 0) {
                    if (barrier && !is_first) [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
                    encode(encoder, i, sizes, dispatch, *step);
                    barrier = false;
                }
                work += launches[i].bytes * sizes.rows;
                is_first = false;
            }
            [encoder endEncoding];
            [command_buffer commit];
            step->command_buffers.emplace_back([command_buffer retain]);
        }
    }
    return step;
}

std::vector<uint64_t> GpuProgram::execute(const Dims& dims, Inputs arrays, Outputs results,
                                          uint64_t work_per_command_buffer) {
    std::vector<uint64_t> output_bytes;
    for (const auto& result : results) output_bytes.push_back(result.size());
    return begin(dims, arrays, output_bytes, nullptr, work_per_command_buffer)->finish_timed(results);
}

}  // namespace

std::unique_ptr<Program> make_program(Gpu& gpu, Plan plan, std::span<const Bytes> weights, std::span<std::byte> cache) {
    return std::make_unique<GpuProgram>(gpu, std::move(plan), weights, cache);
}

}  // namespace ferrule::metal
