// Threads that this process started.
#pragma once
#include <unistd.h>

#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace ferrule {

class OwnThreads {
  public:
    OwnThreads() = default;
    ~OwnThreads() { join(); }
    OwnThreads(const OwnThreads&) = delete;
    OwnThreads& operator=(const OwnThreads&) = delete;

    size_t size() const { return threads_.size(); }

    // Throws std::system_error if the system starts no more.
    template <class Work>
    void start(Work work) {
        threads_.emplace_back(std::move(work));
    }

    // Waits for all of them. In a process that was forked they do not exist, and their handles can neither be joined
    // nor destroyed: they are left alone.
    void join() {
        std::vector<std::thread> threads = std::exchange(threads_, {});
        if (getpid() != process_) {
            static_cast<void>(new std::vector<std::thread>(std::move(threads)));
            return;
        }
        for (std::thread& thread : threads) thread.join();
    }

  private:
    const pid_t process_ = getpid();
    std::vector<std::thread> threads_;
};

}  // namespace ferrule
