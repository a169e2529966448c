// How a step is split: the launches between two barriers form a group. Every thread walks through the launches in
// order, takes chunks of work items until a launch has no more, and goes on to the next launch without waiting; only at
// the border of a group it waits until all items of the groups before are finished.
#include "cpu.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

#include "../plan/validate.h"
#include "wait.h"

namespace ferrule::cpu {

namespace {

constexpr unsigned kMaxThreads = 1024;

// A thread takes half of its share of what is left, so that threads of unequal speed finish together, but at least this
// part of its share of all, so that taking costs nothing.
constexpr uint32_t kSmallestChunk = 32;

unsigned checked_threads(unsigned threads) {
    if (threads >= 1 && threads <= kMaxThreads) return threads;
    throw std::invalid_argument("threads must be 1 to " + std::to_string(kMaxThreads) + ", not " +
                                std::to_string(threads));
}

}  // namespace

Executor::Executor(std::string_view target, unsigned threads)
    : target_(find_target(target)), pool_(checked_threads(threads)) {}

void Executor::reserve_scratch(size_t bytes_per_thread) {
    const std::lock_guard lock(mutex_);
    if (bytes_per_thread <= scratch_bytes_) return;
    scratch_bytes_ = (bytes_per_thread + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    scratch_ = LazyMemory(scratch_bytes_ * threads());
}

Program::Program(Executor& executor, Plan plan, std::span<const std::span<const std::byte>> weights,
                 std::span<std::byte> cache)
    : executor_(executor), plan_(std::move(plan)), launches_(plan_.launches.size()) {
    std::vector<const OpSignature*> signatures;
    for (size_t i = 0; i < launches_.size(); ++i) {
        launches_[i].kernel = &executor.target().kernel(plan_.launches[i].kernel);
        signatures.push_back(launches_[i].kernel->signature);
    }
    std::vector<uint64_t> weight_bytes;
    for (const auto& weight : weights) weight_bytes.push_back(weight.size());
    validate(plan_, signatures, weight_bytes, cache.size());

    arena_ = LazyMemory(plan_.arena_bytes);
    for (const std::vector<uint32_t>& table : plan_.tables) {
        std::vector<const std::byte*>& addresses = tables_.emplace_back();
        for (const uint32_t weight : table) addresses.push_back(weights[weight].data());
    }
    uint32_t n_groups = 0;
    size_t scratch_bytes = 0;
    for (size_t i = 0; i < launches_.size(); ++i) {
        const Launch& launch = plan_.launches[i];
        BoundLaunch& bound = launches_[i];
        if (launch.barrier || i == 0) ++n_groups;
        bound.group = n_groups - 1;
        bound.args = {bound.operands.data(), launch.params.data(), row_count(launch.rows, plan_.max_dims),
                      plan_.max_dims};
        bound.operands.fill(nullptr);
        if (bound.kernel->scratch_bytes != nullptr) {
            scratch_bytes = std::max({scratch_bytes, kZeroedScratch, bound.kernel->scratch_bytes(bound.args)});
        }
        for (size_t j = 0; j < launch.operands.size(); ++j) {
            const Operand& operand = launch.operands[j];
            switch (operand.kind) {
                case OperandKind::weight:
                    // Kernels have one pointer type for all operands; the signature says that this one is only read.
                    bound.operands[j] = const_cast<std::byte*>(weights[operand.index].data()) + operand.offset;
                    break;
                case OperandKind::table:
                    bound.operands[j] = tables_[operand.index].data();
                    break;
                case OperandKind::arena:
                    bound.operands[j] = arena_.data() + operand.offset;
                    break;
                case OperandKind::cache:
                    bound.operands[j] = cache.data() + operand.offset;
                    break;
                case OperandKind::none:
                case OperandKind::input:
                case OperandKind::output:
                    break;
            }
        }
    }
    groups_ = std::vector<Group>(n_groups);
    executor.reserve_scratch(scratch_bytes);
}

void Program::run(const Dims& dims, Inputs inputs, Outputs outputs) {
    const std::lock_guard lock(executor_.mutex_);
    bind(dims, inputs, outputs);
    run_launches(0, launches_.size());
}

std::vector<uint64_t> Program::profile(const Dims& dims, Inputs inputs, Outputs outputs) {
    using Clock = std::chrono::steady_clock;
    const std::lock_guard lock(executor_.mutex_);
    bind(dims, inputs, outputs);
    std::vector<uint64_t> nanoseconds;
    for (size_t i = 0; i < launches_.size(); ++i) {
        const Clock::time_point start = Clock::now();
        run_launches(i, i + 1);
        const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
        nanoseconds.push_back(static_cast<uint64_t>(elapsed.count()));
    }
    return nanoseconds;
}

void Program::bind(const Dims& dims, Inputs inputs, Outputs outputs) {
    check_step(plan_, dims, inputs.size(), outputs.size());
    for (size_t i = 0; i < launches_.size(); ++i) {
        const Launch& launch = plan_.launches[i];
        BoundLaunch& bound = launches_[i];
        for (size_t j = 0; j < launch.operands.size(); ++j) {
            const Operand& operand = launch.operands[j];
            if (operand.kind == OperandKind::input) {
                bound.operands[j] = const_cast<std::byte*>(inputs[operand.index].data()) + operand.offset;
            }
            if (operand.kind == OperandKind::output) {
                bound.operands[j] = outputs[operand.index].data() + operand.offset;
            }
        }
        bound.args.rows = row_count(launch.rows, dims);
        bound.args.dims = dims;
        bound.items = bound.args.rows > 0 ? bound.kernel->items(bound.args) : 0;
    }
}

void Program::run_launches(size_t first, size_t last) {
    if (first == last) return;
    for (uint32_t group = launches_[first].group; group <= launches_[last - 1].group; ++group) {
        groups_[group].remaining.store(0, std::memory_order_relaxed);
    }
    for (size_t i = first; i < last; ++i) {
        launches_[i].taken.store(0, std::memory_order_relaxed);
        groups_[launches_[i].group].remaining.fetch_add(launches_[i].items, std::memory_order_relaxed);
    }
    executor_.pool_.run([this, first, last](unsigned worker) { work(first, last, worker); });
}

std::pair<uint32_t, uint32_t> Program::take(BoundLaunch& launch) const {
    const uint32_t threads = executor_.threads(), smallest = std::max(launch.items / (threads * kSmallestChunk), 1u);
    uint32_t begin = launch.taken.load(std::memory_order_relaxed), end;
    do {
        const uint32_t left = launch.items - begin;
        end = threads == 1 ? launch.items : begin + std::min(std::max(left / (2 * threads), smallest), left);
    } while (!launch.taken.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
}

void Program::work(size_t first, size_t last, unsigned worker) {
    std::byte* scratch = executor_.scratch_.data() + worker * executor_.scratch_bytes_;
    uint32_t group = launches_[first].group;
    for (size_t i = first; i < last; ++i) {
        BoundLaunch& launch = launches_[i];
        if (launch.group != group) {
            wait_until_zero(groups_[group].remaining);
            group = launch.group;
        }
        std::atomic<uint32_t>& remaining = groups_[group].remaining;
        if (launch.kernel->scratch_bytes != nullptr) std::memset(scratch, 0, kZeroedScratch);
        while (true) {
            const auto [begin, end] = take(launch);
            if (begin == end) break;
            launch.kernel->run(launch.args, begin, end, scratch);
            if (remaining.fetch_sub(end - begin, std::memory_order_acq_rel) == end - begin) remaining.notify_all();
        }
    }
}

}  // namespace ferrule::cpu
