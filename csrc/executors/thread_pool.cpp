#include "thread_pool.h"

#include <exception>
#include <string>

#include "device_failure.h"
#include "wait.h"

namespace ferrule {

ThreadPool::ThreadPool(unsigned threads) {
    try {
        for (unsigned worker = 1; worker < threads; ++worker) workers_.start([this, worker] { work(worker); });
    } catch (const std::exception& error) {
        stop();
        throw DeviceFailure("the system starts no " + std::to_string(threads) + " threads: " + error.what() +
                            ". Load with fewer");
    }
}

ThreadPool::~ThreadPool() {
    stop();
}

void ThreadPool::stop() {
    stop_.store(true);
    generation_.fetch_add(2);  // still even: there is nothing to join
    generation_.notify_all();
    workers_.join();
}

void ThreadPool::run(const std::function<void(unsigned)>& job) {
    if (workers_.size() == 0) return job(0);
    job_ = &job;
    generation_.fetch_add(1);
    generation_.notify_all();
    job(0);
    // Sequentially consistent, as are the two operations of a joining worker: either the worker sees that the job is
    // closed or this thread sees the worker inside.
    generation_.fetch_add(1);
    wait_until_zero(inside_);
}

void ThreadPool::work(unsigned worker) {
    uint32_t seen = 0;
    while (!stop_.load()) {
        seen = wait_while(generation_, seen);
        if (seen % 2 == 0) continue;
        inside_.fetch_add(1);
        seen = generation_.load();
        if (seen % 2 == 1) (*job_)(worker);
        if (inside_.fetch_sub(1) == 1) inside_.notify_all();
    }
}

}  // namespace ferrule
