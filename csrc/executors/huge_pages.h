// Weights in huge pages.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "own_threads.h"

namespace ferrule {

// Moves mapped files into huge pages, in the background. A token reads every weight once: with the 4 KiB pages of a
// mapped file a core waits for translations and its prefetcher stops at each page's end.
//
// On Linux, window by window, what lies in the mapping is copied into anonymous memory of 2 MiB pages, which then takes
// the window's place: addresses stay, and whoever reads meanwhile reads the same bytes. What the system refuses to move
// stays as it is. On other systems nothing is moved.
class HugePages {
  public:
    // The files must stay mapped until this is gone.
    explicit HugePages(std::vector<std::span<const std::byte>> files);
    ~HugePages();
    HugePages(const HugePages&) = delete;
    HugePages& operator=(const HugePages&) = delete;

    uint64_t moved() const { return moved_.load(); }  // bytes so far
    void wait();                                      // until everything is moved

  private:
    void move_all();

    std::vector<std::span<const std::byte>> files_;
    std::atomic<uint64_t> moved_ = 0;
    std::atomic<bool> stop_ = false;
    OwnThreads thread_;
};

}  // namespace ferrule
