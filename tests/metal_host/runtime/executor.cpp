#include "executor.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <span>
#include <utility>

namespace metal_host {

namespace {

constexpr uint32_t kMaxSimdgroups = kMaxThreads / kSimdWidth;
constexpr size_t kSharedLimit = 32768;    // bytes of threadgroup memory that a threadgroup may use
constexpr size_t kVariableGuard = 128;    // bytes before and after each threadgroup variable
constexpr size_t kArenaBytes = 64 << 10;  // threadgroup memory with guards

enum class State : uint8_t { fresh, ready, at_exchange, at_simdgroup_barrier, at_threadgroup_barrier, done };

struct Simdgroup;

struct Lane {
    Position position{};
    State state = State::done;
    void* stack_pointer = nullptr;
    char* stack = nullptr;
    Simdgroup* simdgroup = nullptr;
    Site site{};  // where it waits, and what for
    uint32_t bytes = 0;
    uint32_t memory_flags = 0;

    bool runnable() const { return state == State::fresh || state == State::ready; }
    bool meets_simdgroup() const { return state == State::at_exchange || state == State::at_simdgroup_barrier; }
    uint32_t index() const { return position.thread_index_in_simdgroup[0]; }
};

struct Simdgroup {
    uint32_t n_lanes = 0, n_alive = 0, n_waiting = 0;
    uint32_t cursor = 0;  // the lane that ran last
    Lane* lanes[kSimdWidth];
    Epochs epochs;
    Reduction reduction = nullptr;
    uint32_t present = 0;
    // Two sets, used in turn: a lane may deposit anew while others have yet to read.
    uint32_t parity = 0;
    alignas(64) char slots[2][kSimdWidth * kSlotBytes];

    Lane* next_runnable() {
        for (uint32_t i = 1; i <= n_lanes; ++i) {
            const uint32_t candidate = (cursor + i) % n_lanes;
            if (lanes[candidate]->runnable()) return lanes[cursor = candidate];
        }
        return nullptr;
    }
};

// The addresses of a loaded object, for constant tables.
struct AddressRange {
    uintptr_t begin = 0, end = 0;

    bool contains(const void* address) const {
        const auto value = reinterpret_cast<uintptr_t>(address);
        return begin <= value && value < end;
    }
};

AddressRange object_of(const void* address) {
    struct Search {
        const void* address;
        AddressRange found;
    } search{address, {}};
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* data) {
            auto& [wanted, found] = *static_cast<Search*>(data);
            AddressRange range{UINTPTR_MAX, 0};
            for (const auto& segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
                if (segment.p_type != PT_LOAD) continue;
                const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
                range = {std::min(range.begin, begin), std::max(range.end, begin + segment.p_memsz)};
            }
            if (!range.contains(wanted)) return 0;
            found = range;
            return 1;
        },
        &search);
    return search.found;
}

std::string describe(const Site& site) {
    return std::string(site.file) + ":" + std::to_string(site.line) + ":" + std::to_string(site.column);
}

bool same(const Site& a, const Site& b) {
    return a.file == b.file && a.line == b.line && a.column == b.column;
}

class Executor {
  public:
    std::string run(const Kernel& kernel, const Arguments& arguments, const Size& threadgroups, const Size& threads,
                    const DispatchOptions& options);

    // From fibers.
    const void* exchange(const void* value, uint32_t bytes, Reduction reduction, const Site& site);
    void threadgroup_barrier(uint32_t memory_flags, const Site& site);
    void simdgroup_barrier(uint32_t memory_flags, const Site& site);
    void* shared_variable(const void* key, size_t bytes, const Site* site);
    void check(const Access& access);
    const Simdgroup& simdgroup() const { return *current_->simdgroup; }
    uint32_t lane_index() const { return current_->index(); }

  private:
    std::string check_bindings() const;
    void run_threadgroup(uint32_t x, uint32_t y, uint32_t z);
    void place_threads(uint32_t x, uint32_t y, uint32_t z);
    void place_simdgroups();
    bool run_runnable_simdgroups();
    void release_threadgroup_barrier();
    void release_simdgroup(Simdgroup& simdgroup);
    void release_stacks();

    static void fiber_main();
    [[noreturn]] void run_lanes();
    void resume(Lane& lane, void** save);
    void wait(State state, const Site& site, uint32_t bytes, uint32_t memory_flags);
    void wait_for_simdgroup(State state, const Site& site, uint32_t bytes, uint32_t memory_flags);
    void settle_write();
    void fail(std::string fault);
    void abandon_lane_if_failed();
    std::string who_waits_where() const;

    Accessor accessor() const {
        return {threadgroup_index_, current_->position.thread_index_in_threadgroup[0], epochs_,
                current_->simdgroup->epochs};
    }

    template <class T>
    void permute(std::span<T> items) {
        if (options_.seed == 1) std::reverse(items.begin(), items.end());
        if (options_.seed > 1) std::shuffle(items.begin(), items.end(), random_);
    }

    // The dispatch.
    const Kernel* kernel_ = nullptr;
    Arguments arguments_{};
    Size threadgroups_, threads_;
    DispatchOptions options_;
    std::mt19937 random_;
    AddressRange code_;
    std::string fault_;

    // The threadgroup.
    uint32_t threadgroup_index_ = 0;
    uint32_t n_threads_ = 0, n_alive_ = 0, n_at_barrier_ = 0;
    Lane lanes_[kMaxThreads];
    Simdgroup simdgroups_[kMaxSimdgroups];
    std::vector<Simdgroup*> order_;
    Epochs epochs_;
    std::vector<SharedVariable> variables_;
    size_t shared_bytes_ = 0;
    alignas(64) char arena_[kArenaBytes];
    size_t arena_used_ = 0;

    Lane* current_ = nullptr;  // the running fiber's lane; null on the scheduler's own stack
    void* scheduler_stack_pointer_ = nullptr;
    StackPool stacks_;
    Checker checker_;
};

Executor& executor() {
    static const std::unique_ptr<Executor> instance = std::make_unique<Executor>();
    return *instance;
}

std::string Executor::check_bindings() const {
    const uint64_t n_threads = uint64_t{threads_.x} * threads_.y * threads_.z;
    const uint32_t limit = std::min<uint32_t>(kMaxThreads, kernel_->max_threads);
    if (n_threads == 0 || n_threads > limit) {
        return std::to_string(n_threads) + " threads per threadgroup; the kernel allows " + std::to_string(limit);
    }
    for (const Parameter& parameter : std::span(kernel_->parameters, kernel_->n_parameters)) {
        if (parameter.kind != ParameterKind::buffer || (parameter.enabled != nullptr && !*parameter.enabled)) continue;
        const Binding& binding = arguments_.buffers[parameter.index];
        const std::string where =
            " at index " + std::to_string(parameter.index) + " for parameter '" + parameter.name + "'";
        if (binding.data == nullptr) return "no buffer is bound" + where;
        if (binding.bytes < parameter.min_bytes) {
            return "the buffer" + where + " has " + std::to_string(binding.bytes) + " bytes; its type needs " +
                   std::to_string(parameter.min_bytes);
        }
    }
    return "";
}

std::string Executor::run(const Kernel& kernel, const Arguments& arguments, const Size& threadgroups,
                          const Size& threads, const DispatchOptions& options) {
    kernel_ = &kernel;
    arguments_ = arguments;
    threadgroups_ = threadgroups;
    threads_ = threads;
    options_ = options;
    random_.seed(options.seed);
    code_ = object_of(reinterpret_cast<const void*>(kernel.run));
    fault_ = check_bindings();
    if (!fault_.empty()) return fault_;
    const uint32_t n_threadgroups = threadgroups.x * threadgroups.y * threadgroups.z;
    if (options.checked) {
        checker_.begin_dispatch(kernel, arguments, options.reachable, n_threadgroups, options.concurrent);
    }

    std::vector<uint32_t> order(n_threadgroups);
    std::iota(order.begin(), order.end(), 0);
    permute(std::span(order));
    for (const uint32_t i : order) {
        threadgroup_index_ = i;
        run_threadgroup(i % threadgroups.x, i / threadgroups.x % threadgroups.y, i / threadgroups.x / threadgroups.y);
        if (!fault_.empty()) break;
    }
    return fault_;
}

void Executor::run_threadgroup(uint32_t x, uint32_t y, uint32_t z) {
    n_threads_ = n_alive_ = threads_.x * threads_.y * threads_.z;
    n_at_barrier_ = 0;
    epochs_ = {};
    variables_.clear();
    shared_bytes_ = arena_used_ = 0;
    checker_.begin_threadgroup();
    for (const Parameter& parameter : std::span(kernel_->parameters, kernel_->n_parameters)) {
        if (parameter.kind != ParameterKind::shared) continue;
        Binding& binding = arguments_.shared[parameter.index];
        binding.data = shared_variable(&parameter, binding.bytes, nullptr);
    }
    place_threads(x, y, z);
    place_simdgroups();
    while (fault_.empty() && n_alive_ > 0) {
        if (run_runnable_simdgroups()) continue;
        if (n_at_barrier_ == n_threads_) {
            release_threadgroup_barrier();
        } else {
            fail((n_at_barrier_ > 0 ? "threadgroup_barrier not reached by every thread of the threadgroup"
                                    : "simdgroup operation not reached by every active lane") +
                 who_waits_where());
        }
    }
    release_stacks();
}

void Executor::place_threads(uint32_t x, uint32_t y, uint32_t z) {
    const auto set = [](uint32_t(&target)[3], uint32_t a, uint32_t b, uint32_t c) {
        target[0] = a;
        target[1] = b;
        target[2] = c;
    };
    for (uint32_t t = 0; t < n_threads_; ++t) {
        lanes_[t] = Lane{};
        lanes_[t].state = State::fresh;
        lanes_[t].simdgroup = &simdgroups_[t / kSimdWidth];
        Position& position = lanes_[t].position;
        const uint32_t tx = t % threads_.x, ty = t / threads_.x % threads_.y, tz = t / threads_.x / threads_.y;
        set(position.thread_position_in_threadgroup, tx, ty, tz);
        set(position.thread_position_in_grid, x * threads_.x + tx, y * threads_.y + ty, z * threads_.z + tz);
        set(position.threadgroup_position_in_grid, x, y, z);
        set(position.threads_per_threadgroup, threads_.x, threads_.y, threads_.z);
        set(position.threadgroups_per_grid, threadgroups_.x, threadgroups_.y, threadgroups_.z);
        set(position.threads_per_grid, threadgroups_.x * threads_.x, threadgroups_.y * threads_.y,
            threadgroups_.z * threads_.z);
        position.thread_index_in_threadgroup[0] = t;
        position.thread_index_in_simdgroup[0] = t % kSimdWidth;
        position.simdgroup_index_in_threadgroup[0] = t / kSimdWidth;
        position.simdgroups_per_threadgroup[0] = (n_threads_ + kSimdWidth - 1) / kSimdWidth;
        position.threads_per_simdgroup[0] = kSimdWidth;
    }
}

void Executor::place_simdgroups() {
    order_.clear();
    for (uint32_t begin = 0; begin < n_threads_; begin += kSimdWidth) {
        Simdgroup& simdgroup = simdgroups_[begin / kSimdWidth];
        simdgroup.n_lanes = simdgroup.n_alive = std::min<uint32_t>(kSimdWidth, n_threads_ - begin);
        simdgroup.n_waiting = simdgroup.present = simdgroup.parity = 0;
        simdgroup.epochs = {};
        for (uint32_t i = 0; i < simdgroup.n_lanes; ++i) simdgroup.lanes[i] = &lanes_[begin + i];
        permute(std::span(simdgroup.lanes, simdgroup.n_lanes));
        simdgroup.cursor = simdgroup.n_lanes - 1;
        order_.push_back(&simdgroup);
    }
    permute(std::span(order_));
}

// Runs every simdgroup that can run until it waits for others. False where none could.
bool Executor::run_runnable_simdgroups() {
    bool any = false;
    for (Simdgroup* simdgroup : order_) {
        Lane* lane = simdgroup->next_runnable();
        if (lane == nullptr) continue;
        any = true;
        resume(*lane, &scheduler_stack_pointer_);
        current_ = nullptr;
        if (!fault_.empty()) break;
    }
    return any;
}

void Executor::release_threadgroup_barrier() {
    for (uint32_t t = 1; t < n_threads_; ++t) {
        if (same(lanes_[t].site, lanes_[0].site)) continue;
        fail("threads wait at different threadgroup_barriers" + who_waits_where());
        return;
    }
    epochs_.pass_barrier(lanes_[0].memory_flags);
    n_at_barrier_ = 0;
    for (uint32_t t = 0; t < n_threads_; ++t) lanes_[t].state = State::ready;
}

void Executor::release_stacks() {
    for (uint32_t t = 0; t < n_threads_; ++t) {
        if (lanes_[t].stack != nullptr) stacks_.give(lanes_[t].stack);
    }
}

void Executor::fiber_main() {
    executor().run_lanes();
}

// Body of every fiber: runs its lane and then, as long as they are fresh, further lanes of the simdgroup on the same
// stack, which is warm.
void Executor::run_lanes() {
    for (;;) {
        kernel_->run(arguments_, current_->position);
        settle_write();
        Lane& lane = *current_;
        Simdgroup& simdgroup = *lane.simdgroup;
        lane.state = State::done;
        --n_alive_;
        if (--simdgroup.n_alive > 0 && simdgroup.n_waiting == simdgroup.n_alive) release_simdgroup(simdgroup);
        Lane* next = fault_.empty() ? simdgroup.next_runnable() : nullptr;
        if (next != nullptr && next->state == State::fresh) {
            next->stack = std::exchange(lane.stack, nullptr);
            next->state = State::ready;
            current_ = next;
            continue;
        }
        void* dead;
        if (next != nullptr) {
            resume(*next, &dead);
        } else {
            metal_host_switch(&dead, scheduler_stack_pointer_);
        }
    }
}

void Executor::resume(Lane& lane, void** save) {
    if (lane.state == State::fresh) {
        lane.stack = stacks_.take();
        lane.stack_pointer = first_stack_pointer(lane.stack, &fiber_main);
        lane.state = State::ready;
    }
    current_ = &lane;
    metal_host_switch(save, lane.stack_pointer);
}

// Leaves the running lane waiting, runs others, and returns when the lane is ready again.
void Executor::wait(State state, const Site& site, uint32_t bytes, uint32_t memory_flags) {
    Lane& lane = *current_;
    lane.state = state;
    lane.site = site;
    lane.bytes = bytes;
    lane.memory_flags = memory_flags;
    if (state == State::at_threadgroup_barrier) {
        ++n_at_barrier_;
    } else if (++lane.simdgroup->n_waiting == lane.simdgroup->n_alive) {
        release_simdgroup(*lane.simdgroup);
        abandon_lane_if_failed();
        return;
    }
    if (Lane* next = lane.simdgroup->next_runnable()) {
        resume(*next, &lane.stack_pointer);
    } else {
        metal_host_switch(&lane.stack_pointer, scheduler_stack_pointer_);
    }
    current_ = &lane;
}

void Executor::release_simdgroup(Simdgroup& simdgroup) {
    const Lane* first = nullptr;
    bool present[kSimdWidth] = {};
    simdgroup.present = 0;
    for (const Lane* lane : std::span(simdgroup.lanes, simdgroup.n_lanes)) {
        if (!lane->meets_simdgroup()) continue;
        present[lane->index()] = true;
        simdgroup.present |= 1u << lane->index();
        if (first == nullptr) first = lane;
        if (lane->state != first->state || !same(lane->site, first->site) || lane->bytes != first->bytes) {
            fail("divergent simdgroup operation" + who_waits_where());
            return;
        }
    }
    if (first->state == State::at_simdgroup_barrier) {
        simdgroup.epochs.pass_barrier(first->memory_flags);
    } else {
        if (simdgroup.reduction != nullptr) simdgroup.reduction(simdgroup.slots[simdgroup.parity], present);
        simdgroup.parity ^= 1;
    }
    for (Lane* lane : std::span(simdgroup.lanes, simdgroup.n_lanes)) {
        if (lane->meets_simdgroup()) lane->state = State::ready;
    }
    simdgroup.n_waiting = 0;
}

const void* Executor::exchange(const void* value, uint32_t bytes, Reduction reduction, const Site& site) {
    settle_write();
    Simdgroup& simdgroup = *current_->simdgroup;
    char* slots = simdgroup.slots[simdgroup.parity];
    std::memcpy(slots + current_->index() * kSlotBytes, value, bytes);
    simdgroup.reduction = reduction;
    wait(State::at_exchange, site, bytes, 0);
    return slots;
}

void Executor::simdgroup_barrier(uint32_t memory_flags, const Site& site) {
    settle_write();
    wait(State::at_simdgroup_barrier, site, 0, memory_flags);
}

void Executor::threadgroup_barrier(uint32_t memory_flags, const Site& site) {
    settle_write();
    wait(State::at_threadgroup_barrier, site, 0, memory_flags);
}

void* Executor::shared_variable(const void* key, size_t bytes, const Site* site) {
    for (const SharedVariable& variable : variables_) {
        if (variable.key == key) return variable.data;
    }
    const size_t aligned = (bytes + 15) / 16 * 16;
    shared_bytes_ += aligned;
    if (shared_bytes_ > kSharedLimit || arena_used_ + aligned + 2 * kVariableGuard > kArenaBytes) {
        fail(std::to_string(shared_bytes_) + " bytes of threadgroup memory are in use; the limit is " +
             std::to_string(kSharedLimit) + (site != nullptr ? ", at " + describe(*site) : ""));
        abandon_lane_if_failed();
        return arena_;
    }
    char* data = arena_ + arena_used_ + kVariableGuard;
    arena_used_ += aligned + 2 * kVariableGuard;
    std::memset(data, 0xFF, aligned);  // NaN as float, half and bfloat
    variables_.push_back({key, data, bytes});
    return data;
}

void Executor::check(const Access& access) {
    if (current_ == nullptr || !options_.checked) return;
    settle_write();
    const char* stack = current_->stack;
    if (access.address >= stack && access.address < stack + kStackBytes) return;
    if (access.address >= arena_ && access.address < arena_ + kArenaBytes) {
        fail(checker_.check_shared(access, accessor(), arena_, kArenaBytes, variables_));
    } else {
        const auto* self = reinterpret_cast<const char*>(this);  // positions and deposits
        if (access.address >= self && access.address < self + sizeof *this) return;
        if (code_.contains(access.address) && !access.write) return;
        fail(checker_.check_device(access, accessor()));
    }
    abandon_lane_if_failed();
}

void Executor::settle_write() {
    if (!options_.checked) return;
    fail(checker_.settle());
    abandon_lane_if_failed();
}

void Executor::fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
}

// Stops the running fiber for good; its stack is reused. Objects on it are not destroyed, so it must own nothing.
void Executor::abandon_lane_if_failed() {
    if (fault_.empty() || current_ == nullptr) return;
    void* dead;
    metal_host_switch(&dead, scheduler_stack_pointer_);
}

std::string Executor::who_waits_where() const {
    struct Group {
        const Lane* first;
        uint32_t n;
    };
    std::vector<Group> groups;
    for (const Lane& lane : std::span(lanes_, n_threads_)) {
        if (lane.runnable()) continue;
        const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
            return g.first->state == lane.state && (lane.state == State::done || same(g.first->site, lane.site));
        });
        if (group == groups.end()) {
            groups.push_back({&lane, 1});
        } else {
            ++group->n;
        }
    }
    std::string text;
    for (const auto& [first, n] : groups) {
        text += "; " + std::to_string(n) + " threads, the first " +
                std::to_string(first->position.thread_index_in_threadgroup[0]);
        text += first->state == State::done ? ", have returned" : ", wait at " + describe(first->site);
    }
    return text;
}

}  // namespace

std::string dispatch(const Kernel& kernel, const Arguments& arguments, const Size& threadgroups, const Size& threads,
                     const DispatchOptions& options) {
    static std::mutex serial;
    const std::lock_guard lock(serial);
    std::string fault = executor().run(kernel, arguments, threadgroups, threads, options);
    return fault.empty() ? "" : std::string(kernel.name) + ": " + fault;
}

void check_access(const Access& access) {
    executor().check(access);
}

const void* exchange(const void* value, uint32_t bytes, Reduction reduction, const Site& site) {
    return executor().exchange(value, bytes, reduction, site);
}

uint32_t lane_index() {
    return executor().lane_index();
}

uint32_t present_lanes() {
    return executor().simdgroup().present;
}

void threadgroup_barrier(uint32_t memory_flags, const Site& site) {
    executor().threadgroup_barrier(memory_flags, site);
}

void simdgroup_barrier(uint32_t memory_flags, const Site& site) {
    executor().simdgroup_barrier(memory_flags, site);
}

void* threadgroup_variable(const void* key, size_t bytes, const Site& site) {
    return executor().shared_variable(key, bytes, &site);
}

void note_atomic(const volatile void* address, uint32_t bytes) {
    check_access({const_cast<const char*>(static_cast<const volatile char*>(address)), bytes, true, true,
                  __builtin_return_address(0)});
}

}  // namespace metal_host
