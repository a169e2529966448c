#include "checker.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace metal_host {

namespace {

std::string text(uint64_t number) {
    return std::to_string(number);
}

std::string thread_text(uint32_t threadgroup, uint32_t thread) {
    return "thread " + text(thread) + " of threadgroup " + text(threadgroup);
}

const char* verb(const Access& access) {
    return access.write ? "write" : "read";
}

}  // namespace

std::string source_line(const void* code) {
    Dl_info info;
    if (dladdr(code, &info) == 0) return "unknown code";
    // The return address of the access; one byte less lies in the instruction itself.
    const size_t offset = static_cast<const char*>(code) - static_cast<const char*>(info.dli_fbase) - 1;
    char command[4200];
    std::snprintf(command, sizeof command, "addr2line -e '%s' 0x%zx", info.dli_fname, offset);
    char line[1024] = "";
    if (FILE* pipe = popen(command, "r")) {
        if (std::fgets(line, sizeof line, pipe) == nullptr) line[0] = 0;
        pclose(pipe);
    }
    line[std::strcspn(line, "\n")] = 0;
    return line;
}

void Checker::begin_dispatch(const Kernel& kernel, const Arguments& arguments, std::span<const Binding> reachable,
                             uint32_t n_threadgroups, bool concurrent) {
    if (!concurrent) {
        ++device_generation_;
        dispatches_.clear();
        next_threadgroup_ = 0;
    }
    dispatches_.push_back({next_threadgroup_, kernel.name});
    next_threadgroup_ += n_threadgroups;
    buffers_.clear();
    for (uint32_t i = 0; i < kernel.n_parameters; ++i) {
        const Parameter& parameter = kernel.parameters[i];
        if (parameter.kind != ParameterKind::buffer) continue;
        const Binding& binding = arguments.buffers[parameter.index];
        const char* data = static_cast<const char*>(binding.data);
        buffers_.push_back(
            {data, data + binding.bytes, parameter.index, parameter.writable, binding.watched, parameter.name});
    }
    for (const Binding& binding : reachable) {
        const char* data = static_cast<const char*>(binding.data);
        buffers_.push_back({data, data + binding.bytes, kReachable, false, false, "what is read through addresses"});
    }
    // Where the same memory is bound twice, the writable binding is found first, so that races across both are seen.
    std::partition(buffers_.begin(), buffers_.end(), [](const Buffer& buffer) { return buffer.writable; });
}

Checker::Stamp Checker::stamp(const Accessor& accessor, uint32_t Epochs::* memory) const {
    return {dispatches_.back().first_threadgroup + accessor.threadgroup, accessor.thread,
            accessor.threadgroup_epochs.*memory, accessor.simdgroup_epochs.*memory};
}

std::string Checker::describe(const Stamp& stamp) const {
    const auto after = std::find_if(dispatches_.begin(), dispatches_.end(), [&](const Dispatch& dispatch) {
        return dispatch.first_threadgroup > stamp.threadgroup;
    });
    const Dispatch& dispatch = *std::prev(after);
    return thread_text(stamp.threadgroup - dispatch.first_threadgroup, stamp.thread) +
           (dispatches_.size() > 1 ? " of " + std::string(dispatch.kernel) : "");
}

bool Checker::ordered(const Stamp& earlier, const Stamp& later) {
    if (earlier.threadgroup != later.threadgroup) return false;
    if (earlier.thread == later.thread || earlier.threadgroup_epoch != later.threadgroup_epoch) return true;
    const bool same_simdgroup = earlier.thread / kSimdWidth == later.thread / kSimdWidth;
    return same_simdgroup && earlier.simdgroup_epoch != later.simdgroup_epoch;
}

std::string Checker::check_byte(Byte& byte, uint32_t generation, const Stamp& now, const Access& access, size_t i,
                                const char* object, size_t offset) {
    if (byte.generation != generation) byte = Byte{.generation = generation};
    const auto fault = [&](const char* kind, const Stamp& earlier) {
        return std::string("data race (") + kind + ") on byte " + text(offset) + " of " + object + " between " +
               describe(earlier) + " and " + describe(now) + ", no barrier in between, at " + source_line(access.code);
    };
    const bool both_atomic = access.atomic && byte.atomic;
    if (byte.written && !both_atomic && !ordered(byte.writer, now)) {
        if (!access.write) return fault("read after write", byte.writer);
        suspect_write(access, i, fault("write after write", byte.writer));
    }
    if (access.write) {
        for (uint8_t reader = 0; reader < byte.n_readers && !both_atomic; ++reader) {
            if (!ordered(byte.readers[reader], now)) return fault("write after read", byte.readers[reader]);
        }
        byte.written = true;
        byte.atomic = access.atomic;
        byte.writer = now;
        return "";
    }
    const Stamp& latest = byte.readers[0];
    if (byte.n_readers > 0 && (latest.thread != now.thread || latest.threadgroup != now.threadgroup)) {
        byte.readers[1] = byte.readers[0];
        byte.n_readers = 2;
    } else if (byte.n_readers == 0) {
        byte.n_readers = 1;
    }
    byte.readers[0] = now;
    return "";
}

void Checker::suspect_write(const Access& access, size_t i, std::string fault) {
    const size_t first = i / pending_.before.size() * pending_.before.size();  // wide accesses: the last 16 bytes
    if (pending_.address != access.address + first) {
        pending_ = PendingWrite{.address = access.address + first, .fault = std::move(fault)};
        pending_.bytes = std::min(access.bytes - first, pending_.before.size());
        std::memcpy(pending_.before.data(), pending_.address, pending_.bytes);
    }
    pending_.suspect[i - first] = true;
}

std::string Checker::settle() {
    if (pending_.address == nullptr) return "";
    const PendingWrite pending = std::exchange(pending_, {});
    for (size_t i = 0; i < pending.bytes; ++i) {
        if (pending.suspect[i] && pending.address[i] != pending.before[i]) return pending.fault;
    }
    return "";
}

std::string Checker::check_shared(const Access& access, const Accessor& accessor, const char* arena, size_t arena_bytes,
                                  const std::vector<SharedVariable>& variables) {
    shared_.resize(arena_bytes);
    const Stamp now = stamp(accessor, &Epochs::shared);
    for (const SharedVariable& variable : variables) {
        if (access.address < variable.data || access.address + access.bytes > variable.data + variable.bytes) continue;
        for (size_t i = 0; i < access.bytes; ++i) {
            Byte& byte = shared_[access.address + i - arena];
            const size_t offset = access.address + i - variable.data;
            if (!access.write && (byte.generation != shared_generation_ || !byte.written)) {
                return "read of uninitialised threadgroup memory, byte " + text(offset) + " of a variable of " +
                       text(variable.bytes) + " bytes, at " + source_line(access.code);
            }
            std::string fault = check_byte(byte, shared_generation_, now, access, i, "threadgroup memory", offset);
            if (!fault.empty()) return fault;
        }
        return "";
    }
    const auto distance = [&](const SharedVariable& variable) { return std::abs(access.address - variable.data); };
    const auto nearest =
        std::min_element(variables.begin(), variables.end(),
                         [&](const SharedVariable& a, const SharedVariable& b) { return distance(a) < distance(b); });
    return std::string("out-of-bounds threadgroup ") + verb(access) + " of " + text(access.bytes) +
           " bytes, at offset " + std::to_string(access.address - nearest->data) + " of a variable of " +
           text(nearest->bytes) + " bytes, at " + source_line(access.code);
}

std::string Checker::check_device(const Access& access, const Accessor& accessor) {
    const Stamp now = stamp(accessor, &Epochs::device);
    for (const Buffer& buffer : buffers_) {
        if (access.address < buffer.begin || access.address + access.bytes > buffer.end) continue;
        if (!buffer.writable && !access.write && !buffer.watched) return "";
        if (!buffer.writable && access.write) {
            return std::string("write through read-only parameter '") + buffer.name + "' at " +
                   source_line(access.code);
        }
        for (size_t i = 0; i < access.bytes; ++i) {
            const auto address = reinterpret_cast<uintptr_t>(access.address + i);
            std::unique_ptr<Page>& page = device_[address / kPageBytes];
            if (page == nullptr) page = std::make_unique<Page>();
            const size_t offset = access.address + i - buffer.begin;
            std::string fault =
                check_byte((*page)[address % kPageBytes], device_generation_, now, access, i, buffer.name, offset);
            if (!fault.empty()) return fault;
        }
        return "";
    }
    return out_of_bounds_device(access, accessor);
}

std::string Checker::out_of_bounds_device(const Access& access, const Accessor& accessor) const {
    const auto distance = [&](const Buffer& buffer) {
        return access.address < buffer.begin ? buffer.begin - access.address
                                             : access.address + access.bytes - buffer.end;
    };
    std::string fault = std::string("out-of-bounds device ") + verb(access) + " of " + text(access.bytes) +
                        " bytes by " + thread_text(accessor.threadgroup, accessor.thread);
    const auto nearest = std::min_element(buffers_.begin(), buffers_.end(),
                                          [&](const Buffer& a, const Buffer& b) { return distance(a) < distance(b); });
    if (nearest != buffers_.end()) {
        const std::string what = nearest->index == kReachable ? nearest->name
                                                              : "parameter '" + std::string(nearest->name) +
                                                                    "' (buffer " + text(nearest->index) + ")";
        fault += ": nearest is " + what + " of " + text(nearest->end - nearest->begin) + " bytes, at offset " +
                 std::to_string(access.address - nearest->begin);
    }
    return fault + ", at " + source_line(access.code);
}

}  // namespace metal_host
