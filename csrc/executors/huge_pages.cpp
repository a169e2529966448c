#include "huge_pages.h"

#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#endif

namespace ferrule {

#if defined(__linux__)
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kWindow = size_t{16} << 20;  // few enough mappings, and a destructor need not wait long

bool available() {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string text;
    return std::getline(file, text) && text.find("[never]") == std::string::npos;
}

uintptr_t round_up(uintptr_t address) {
    return (address + kHugePage - 1) / kHugePage * kHugePage;
}

// Puts a copy in huge pages in the place of [at, at + bytes), both multiples of a huge page.
bool move(uintptr_t at, size_t bytes) {
    void* reserved = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED) return false;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(reserved), aligned = round_up(begin);
    void* const copy = reinterpret_cast<void*>(aligned);
    if (aligned > begin) munmap(reserved, aligned - begin);
    munmap(reinterpret_cast<void*>(aligned + bytes), begin + kHugePage - aligned);
    madvise(copy, bytes, MADV_HUGEPAGE);
    std::memcpy(copy, reinterpret_cast<const void*>(at), bytes);
    mprotect(copy, bytes, PROT_READ);
    // One step for the other threads: those that touch the window meanwhile wait for the system's lock on mappings.
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED) return true;
    munmap(copy, bytes);
    return false;
}

}  // namespace

HugePages::HugePages(std::vector<std::span<const std::byte>> files) : files_(std::move(files)) {
    if (!available()) return;
    try {
        thread_.start([this] { move_all(); });
    } catch (const std::system_error&) {  // a limit on threads or memory: everything stays as it is
    }
}

void HugePages::move_all() {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);  // computing comes first
    for (const std::span<const std::byte> file : files_) {
        const uintptr_t begin = reinterpret_cast<uintptr_t>(file.data());
        const uintptr_t end = (begin + file.size()) / kHugePage * kHugePage;
        for (uintptr_t at = round_up(begin); at < end; at += kWindow) {
            const size_t bytes = std::min(kWindow, end - at);
            if (stop_.load() || !move(at, bytes)) return;
            moved_.fetch_add(bytes);
        }
    }
}
#else
HugePages::HugePages(std::vector<std::span<const std::byte>> files) : files_(std::move(files)) {}

void HugePages::move_all() {}
#endif

HugePages::~HugePages() {
    stop_.store(true);
    wait();
}

void HugePages::wait() {
    thread_.join();
}

}  // namespace ferrule
