// Threads that join the caller in a job. The caller is worker 0 and never waits for a thread that has not started on
// the job: one that is asleep, or kept off its core by another program, costs nothing.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

#include "own_threads.h"

namespace ferrule {

class ThreadPool {
  public:
    // `threads` include the caller; 1 starts none. Throws DeviceFailure if the system starts fewer.
    explicit ThreadPool(unsigned threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

    // Calls job(0) here and job(worker) on the other threads that come in time; returns when all these calls have.
    // The job must be complete when job(0) and the calls that began before its end return. It must not throw. One
    // caller at a time.
    void run(const std::function<void(unsigned)>& job);

  private:
    void work(unsigned worker);
    void stop();

    OwnThreads workers_;
    const std::function<void(unsigned)>* job_ = nullptr;
    std::atomic<bool> stop_ = false;
    std::atomic<uint32_t> generation_ = 0;  // odd while a job may be joined
    std::atomic<uint32_t> inside_ = 0;      // workers that have joined, or are about to see that they cannot
};

}  // namespace ferrule
