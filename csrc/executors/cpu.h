// Runs plans on the CPU: looks kernels up, and splits their work items over threads.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "../cpu/kernel.h"
#include "../plan/plan.h"
#include "memory.h"
#include "program.h"
#include "targets.h"
#include "thread_pool.h"

namespace ferrule::cpu {

// A target's kernels and the threads to run them; shared by the programs of a model.
class Executor {
  public:
    // Throws std::invalid_argument for an unknown or unsupported target or a thread count outside 1 to 1024.
    Executor(std::string_view target, unsigned threads);

    const Target& target() const { return target_; }
    unsigned threads() const { return pool_.threads(); }

  private:
    friend class Program;

    void reserve_scratch(size_t bytes_per_thread);

    const Target& target_;
    std::mutex mutex_;  // one step at a time
    size_t scratch_bytes_ = 0;
    LazyMemory scratch_;
    ThreadPool pool_;
};

class Program final : public ferrule::Program {
  public:
    // The weights, the cache and the executor must outlive the program. Throws std::invalid_argument, see validate.h.
    Program(Executor& executor, Plan plan, std::span<const std::span<const std::byte>> weights,
            std::span<std::byte> cache);

    const Plan& plan() const { return plan_; }

    void run(const Dims& dims, Inputs inputs, Outputs outputs) override;
    std::vector<uint64_t> profile(const Dims& dims, Inputs inputs, Outputs outputs) override;

  private:
    struct alignas(64) BoundLaunch {
        const Kernel* kernel;
        std::array<void*, kMaxOperands> operands;
        KernelArgs args;
        uint32_t group;  // launches of one group run at the same time
        uint32_t items;
        alignas(64) std::atomic<uint32_t> taken;  // items that threads have taken
    };
    struct alignas(64) Group {
        std::atomic<uint32_t> remaining;  // items that are not finished
    };

    void bind(const Dims& dims, Inputs inputs, Outputs outputs);
    void run_launches(size_t first, size_t last);
    std::pair<uint32_t, uint32_t> take(BoundLaunch& launch) const;  // items [begin, end), none when all are taken
    void work(size_t first, size_t last, unsigned worker);

    Executor& executor_;
    Plan plan_;
    LazyMemory arena_;
    std::vector<std::vector<const std::byte*>> tables_;
    std::vector<BoundLaunch> launches_;
    std::vector<Group> groups_;
};

}  // namespace ferrule::cpu
