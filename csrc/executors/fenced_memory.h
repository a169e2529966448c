// Memory that ends where a page begins that nobody may touch: who reads or writes past its end is killed.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "memory.h"

namespace ferrule {

class FencedMemory {
  public:
    explicit FencedMemory(size_t bytes) {
        const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), used = (bytes + page - 1) / page * page;
        pages_ = LazyMemory(used + page);
        if (mprotect(pages_.data() + used, page, PROT_NONE) != 0) {
            throw std::system_error(errno, std::generic_category(), "cannot protect a page");
        }
        data_ = pages_.data() + (used - bytes);
    }

    std::byte* data() const { return data_; }

  private:
    LazyMemory pages_;
    std::byte* data_ = nullptr;
};

}  // namespace ferrule
