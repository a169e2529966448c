// Runs random plans on 1 to 4 threads and compares every step with the first thread count's, to the bit. Barriers stand
// only where a hazard needs one, so a thread that runs ahead is seen: as a wrong result, or by a thread sanitizer.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "../../csrc/executors/cpu.h"
#include "../../csrc/params/add.h"
#include "../../csrc/params/scale.h"

namespace {

using namespace ferrule;

constexpr uint32_t kWidth = 2000, kMaxTokens = 9;
constexpr uint64_t kSlotBytes = (kMaxTokens * kWidth * sizeof(float) + 63) / 64 * 64;
constexpr uint32_t kSlots = 8, kLaunches = 60;
constexpr int kPlans = 4, kSteps = 30;

template <class Params>
Launch make_launch(const char* kernel, std::vector<uint32_t> slots, const Params& params) {
    Launch launch;
    launch.kernel = kernel;
    for (uint32_t slot : slots) {
        launch.operands.push_back({OperandKind::arena, 0, slot * kSlotBytes, kMaxTokens * kWidth * sizeof(float)});
    }
    std::memcpy(launch.params.data(), &params, sizeof params);
    launch.params_bytes = sizeof params;
    return launch;
}

// Fills every slot from the input, mixes them at random, and sums them into the output.
Plan random_plan(unsigned seed) {
    std::mt19937 random(seed);
    const auto pick = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    const Operand input{OperandKind::input, 0, 0, 0}, output{OperandKind::output, 0, 0, 0};
    Plan plan;
    plan.arena_bytes = kSlots * kSlotBytes;
    plan.max_dims = {kMaxTokens, 1, 1};
    plan.n_inputs = plan.n_outputs = 1;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
        plan.launches.push_back(make_launch("scale", {0, slot}, Scale{kWidth, 1.0f + static_cast<float>(slot)}));
        plan.launches.back().operands[0] = input;
        plan.launches.back().barrier = false;
    }
    std::set<uint32_t> read, written;  // since the last barrier
    for (uint32_t slot = 0; slot < kSlots; ++slot) written.insert(slot);
    const auto append = [&](Launch launch, std::vector<uint32_t> sources, uint32_t target) {
        launch.barrier = read.contains(target) || written.contains(target);
        for (uint32_t source : sources) launch.barrier = launch.barrier || written.contains(source);
        if (launch.barrier) {
            read.clear();
            written.clear();
        }
        read.insert(sources.begin(), sources.end());
        written.insert(target);
        plan.launches.push_back(std::move(launch));
    };
    for (uint32_t i = 0; i < kLaunches; ++i) {
        const uint32_t a = pick(kSlots), b = pick(kSlots), out = pick(kSlots);
        if (pick(2) == 0) {
            append(make_launch("add", {a, b, out}, Add{kWidth}), {a, b}, out);
        } else {
            append(make_launch("scale", {a, out}, Scale{kWidth, 0.5f}), {a}, out);
        }
    }
    for (uint32_t slot = 1; slot < kSlots; ++slot) {
        append(make_launch("add", {0, slot, 0}, Add{kWidth}), {0, slot}, 0);
    }
    append(make_launch("scale", {0, 0}, Scale{kWidth, 1.0f}), {0}, kSlots);
    plan.launches.back().operands[1] = output;
    return plan;
}

// The outputs of kSteps steps of changing size.
std::vector<std::vector<float>> run(const Plan& plan, unsigned threads) {
    cpu::Executor executor(cpu::all_targets().back().name, threads);
    cpu::Program program(executor, plan, {}, {});
    std::vector<float> x(kMaxTokens * kWidth);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::generate(x.begin(), x.end(), [&] { return normal(random); });
    std::vector<std::vector<float>> results;
    for (int step = 0; step < kSteps; ++step) {
        const uint32_t tokens = 1 + static_cast<uint32_t>(random() % kMaxTokens);
        std::vector<float> out(tokens * kWidth, -1.0f);
        const std::span<const std::byte> input = std::as_bytes(std::span(x));
        const std::span<std::byte> output = std::as_writable_bytes(std::span(out));
        if (step % 2 == 0) {
            program.run({tokens, 1, 1}, {&input, 1}, {&output, 1});
        } else {
            program.profile({tokens, 1, 1}, {&input, 1}, {&output, 1});
        }
        results.push_back(std::move(out));
    }
    return results;
}

}  // namespace

int main() {
    for (unsigned seed = 0; seed < kPlans; ++seed) {
        const Plan plan = random_plan(seed);
        const auto expected = run(plan, 1);
        for (unsigned threads = 2; threads <= 4; ++threads) {
            if (run(plan, threads) != expected) {
                std::printf("plan %u: %u threads give another result than one\n", seed, threads);
                return 1;
            }
        }
    }
    std::printf("%d plans: every thread count gives the same results\n", kPlans);
    return 0;
}
