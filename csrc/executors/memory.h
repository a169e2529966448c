// Memory of the executor: zeroed pages, taken from the system when they are first touched.
#pragma once
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace ferrule {

class LazyMemory {
  public:
    LazyMemory() = default;

    // The first `dense` bytes are going to be filled from their begin on: huge pages serve them, where the system has
    // any.
    explicit LazyMemory(uint64_t bytes, uint64_t dense = 0) : bytes_(bytes) {
        if (bytes == 0) return;
        void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED) {
            throw std::system_error(errno, std::generic_category(),
                                    "cannot reserve " + std::to_string(bytes) + " bytes");
        }
        data_ = static_cast<std::byte*>(data);
#if defined(__linux__)
        if (dense > 0) madvise(data, dense, MADV_HUGEPAGE);
#endif
    }

    LazyMemory(LazyMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

    LazyMemory& operator=(LazyMemory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    ~LazyMemory() {
        if (data_ != nullptr) munmap(data_, bytes_);
    }

    std::byte* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    uint64_t bytes_ = 0;
};

}  // namespace ferrule
