// Runs single kernels for tests that live in another process: of another instruction set, or built with a sanitizer.
//
// Everything is little-endian; `bytes` are a u64 length and that many bytes.
// At the start it writes: u32 sanitized (0 or 1), u32 n_targets, then bytes (a name) per target.
// A request: bytes target, bytes kernel, bytes params, bytes {u32 rows, tokens, rows, sequences, has_split},
//     bytes {u32 begin, end}[] (the split), bytes {i64 buffer, offset}[] (operands; buffer -1 = absent, -2 = a table of
//     the addresses of so many places as offset says, which follow),
//     bytes per buffer, and empty bytes at the end.
// The reply: u32 0, u32 items, bytes per buffer; or u32 1, bytes message.
// Each buffer ends where a sanitizer, or without one a page that cannot be touched, notices the next byte; a
// sanitizer's begins at a multiple of 64, the other if its size is one. It ends with its input.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../executors/fenced_memory.h"
#include "../executors/run_kernel.h"
#include "../executors/targets.h"

namespace ferrule::cpu {
namespace {

void read_exactly(void* data, size_t size) {
    if (std::fread(data, 1, size, stdin) != size) throw std::runtime_error("the request ends early");
}

void write_exactly(const void* data, size_t size) {
    if (std::fwrite(data, 1, size, stdout) != size) throw std::runtime_error("the reply cannot be written");
}

void write_u32(uint32_t value) {
    write_exactly(&value, sizeof value);
}

void write_bytes(const void* data, uint64_t size) {
    write_exactly(&size, sizeof size);
    write_exactly(data, size);
}

// Of exactly its size, so that sanitizers notice accesses at both ends.
class HeapMemory {
  public:
    explicit HeapMemory(size_t bytes) : data_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}

    std::byte* data() const { return data_.get(); }

  private:
    static constexpr std::align_val_t kAlignment{64};

    struct Free {
        void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
    };

    std::unique_ptr<std::byte, Free> data_;
};

struct Buffer {
    explicit Buffer(size_t n) : memory(n), size(n) {}

    std::byte* data() const { return memory.data(); }

    template <class T>
    std::vector<T> as() const {
        std::vector<T> values(size / sizeof(T));
        if (size > 0) std::memcpy(values.data(), data(), size);
        return values;
    }

    std::string text() const { return {reinterpret_cast<const char*>(data()), size}; }

    std::conditional_t<FERRULE_SANITIZED, HeapMemory, FencedMemory> memory;
    size_t size;
};

Buffer read_bytes() {
    uint64_t size = 0;
    read_exactly(&size, sizeof size);
    Buffer buffer(size);
    read_exactly(buffer.data(), size);
    return buffer;
}

constexpr int64_t kTable = -2;  // in place of a buffer

struct OperandPlace {
    int64_t buffer;
    int64_t offset;
};

void answer(const std::string& target) {
    const std::string kernel_name = read_bytes().text();
    const Buffer params = read_bytes();
    const std::vector<uint32_t> numbers = read_bytes().as<uint32_t>();
    const std::vector<ItemRange> split = read_bytes().as<ItemRange>();
    const std::vector<OperandPlace> places = read_bytes().as<OperandPlace>();
    std::vector<Buffer> buffers;
    while (true) {
        Buffer buffer = read_bytes();
        if (buffer.size == 0) break;
        buffers.push_back(std::move(buffer));
    }

    const auto address = [&](const OperandPlace& place) -> void* {
        return place.buffer < 0 ? nullptr : buffers.at(place.buffer).data() + place.offset;
    };
    std::deque<std::vector<void*>> tables;
    std::vector<void*> operands;
    for (size_t i = 0; i < places.size(); ++i) {
        if (places[i].buffer != kTable) {
            operands.push_back(address(places[i]));
            continue;
        }
        std::vector<void*>& table = tables.emplace_back();
        for (int64_t n = places[i].offset; n > 0; --n) table.push_back(address(places.at(++i)));
        operands.push_back(table.data());
    }
    uint32_t items = 0;
    try {
        const bool has_split = numbers.at(4) != 0;
        items = run_kernel(find_target(target).kernel(kernel_name), operands, {params.data(), params.size}, numbers[0],
                           {numbers[1], numbers[2], numbers[3]},
                           has_split ? std::optional<std::span<const ItemRange>>(split) : std::nullopt);
    } catch (const std::invalid_argument& error) {
        write_u32(1);
        write_bytes(error.what(), std::strlen(error.what()));
        return;
    }
    write_u32(0);
    write_u32(items);
    for (const Buffer& buffer : buffers) write_bytes(buffer.data(), buffer.size);
}

void serve() {
    std::vector<const char*> names;
    for (const Target& target : all_targets()) {
        if (target.supported()) names.push_back(target.name);
    }
    write_u32(FERRULE_SANITIZED);
    write_u32(static_cast<uint32_t>(names.size()));
    for (const char* name : names) write_bytes(name, std::strlen(name));
    std::fflush(stdout);

    uint64_t size = 0;
    while (std::fread(&size, 1, sizeof size, stdin) == sizeof size) {
        std::string target(size, '\0');
        read_exactly(target.data(), size);
        answer(target);
        std::fflush(stdout);
    }
}

}  // namespace
}  // namespace ferrule::cpu

int main() {
    try {
        ferrule::cpu::serve();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "kernel_runner: %s\n", error.what());
        return 1;
    }
    return 0;
}
