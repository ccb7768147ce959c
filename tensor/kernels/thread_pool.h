// One thread pool for all kernels. Work is divided into pieces. Each thread takes pieces of its own range
// first, then pieces of other ranges.
//
// Only running.pyx includes this file, so that the process has one pool.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "tensor/kernels/thread_placement.h"

#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#endif
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
#include <immintrin.h>
#endif

namespace disposescope::kernels {

using Body = void (*)(void* context, std::ptrdiff_t start, std::ptrdiff_t end);

constexpr int most_threads = 256;

// The time for a worker to start before it is first moved to another core. A worker that is awake starts in
// less than a microsecond, a worker whose core must be woken takes 45 to 100.
constexpr std::chrono::microseconds time_to_start{20};

// A wait of this length at the end of a job, much longer than a piece takes, means that another program has
// interrupted a worker inside its piece, for milliseconds. Then callers compute without workers for
// `no_workers_factor` times that wait, at most `longest_without_workers`. The next wait would cost more than
// workers save.
constexpr std::chrono::microseconds long_wait{500};
constexpr int no_workers_factor = 32;
constexpr std::chrono::milliseconds longest_without_workers{100};

// A forked child keeps these settings. It does not keep the pool.
inline std::atomic<int> thread_count{1};
inline std::atomic<std::int64_t> awake_nanoseconds{100'000};

inline void pause() noexcept {
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
    __asm__ __volatile__("yield");
#endif
}

// Wait actively until `is_over` returns true, at most for `nanoseconds`. Return its last result. After the
// first microseconds, yield the processor between two checks, so that a BLAS thread that was woken on this
// core does not have to wait.
template <typename Condition>
bool wait_awake(std::int64_t nanoseconds, Condition is_over) noexcept {
    using Clock = std::chrono::steady_clock;
    for (int i = 0; i < 64; ++i) {
        if (is_over()) return true;
        pause();
    }
    const auto end = Clock::now() + std::chrono::nanoseconds(nanoseconds);
    do {
        for (int i = 0; i < 16; ++i) {
            if (is_over()) return true;
            pause();
        }
        std::this_thread::yield();
    } while (Clock::now() < end);
    return is_over();
}

// Exists from the first work until the process ends or forks. The child creates a new one.
class ThreadPool {
   public:
    // Run the work on the pool. Return false, without doing anything, if another thread uses the pool, or
    // other programs recently interrupted its workers.
    bool try_run(std::ptrdiff_t size, std::ptrdiff_t grain, Body body, void* context) noexcept {
        if (is_busy.exchange(true, std::memory_order_acquire)) return false;
        const Time began = Clock::now();
        if (began < no_workers_until) {
            is_busy.store(false, std::memory_order_release);
            return false;
        }
        const std::ptrdiff_t pieces = (size + grain - 1) / grain;
        const int wanted = thread_count.load(std::memory_order_relaxed);
        const int most = pieces < wanted ? static_cast<int>(pieces) : wanted;
        if (started < wanted - 1) start_workers(wanted - 1);
        job = {body, context, size, grain, most < started + 1 ? most : started + 1, current_core()};
        // Each thread has its own range, the same one at each call, whose memory its core may have cached.
        for (int i = 0; i < job.threads; ++i) {
            ranges[i].next.store(pieces * i / job.threads, std::memory_order_relaxed);
            ranges[i].end = pieces * (i + 1) / job.threads;
        }
        entrants.fetch_sub(closed);  // let workers enter
        epoch.fetch_add(1);
        for (int i = 1; i < job.threads; ++i) workers[i].wake();
        first_not_started = 1;
        const std::ptrdiff_t done = work(0);
        // From here on no worker enters. A worker that has entered finishes its piece.
        if (entrants.fetch_add(closed) != 0) {
            const Time ended = Clock::now();
            wait_for_entrants();
            const Time now = Clock::now();
            const auto piece = (ended - began) / (done > 0 ? done : 1), waited = now - ended;
            if (waited > long_wait && waited > 4 * piece) {
                const auto span = waited * no_workers_factor;
                no_workers_until = now + (span < longest_without_workers ? span : longest_without_workers);
            }
        }
        is_busy.store(false, std::memory_order_release);
        return true;
    }

   private:
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;

    struct Job {
        Body body;
        void* context;
        std::ptrdiff_t size;
        std::ptrdiff_t grain;
        int threads, core;  // the core of the calling thread
    };

    struct alignas(128) Range {
        std::atomic<std::ptrdiff_t> next{0};
        std::ptrdiff_t end = 0;
    };

    struct alignas(128) Worker {
        std::mutex mutex;
        std::condition_variable called;
        std::atomic<bool> is_asleep{false};
        std::atomic<std::uint64_t> seen{0};  // the last `epoch` that the worker has seen
        // Only for the thread that uses the pool.
        ThreadHandle thread{};
        Time late_since{};  // Time{} if the worker is not late
        std::chrono::nanoseconds allowed_delay{};
        std::atomic<bool> is_moving{false};

        // Move the worker away from `core`. If the caller and the worker both try, only the first does: the
        // second would read the temporary set of cores, and leave the worker without a core that it may use.
        void leave(int core) noexcept {
            if (is_moving.exchange(true, std::memory_order_acquire)) return;
            move_from(core, thread);
            is_moving.store(false, std::memory_order_release);
        }

        // Wake the worker if it sleeps. Call it after a change of `epoch`: a worker sets `is_asleep` before
        // it checks `epoch` a last time.
        void wake() noexcept {
            if (!is_asleep.load()) return;
            const std::lock_guard<std::mutex> guard(mutex);
            called.notify_one();
        }
    };

    // Added to `entrants` while no worker may enter. Workers that try are counted briefly even then, so the
    // number is only changed by additions.
    static constexpr std::int64_t closed = std::int64_t{1} << 32;

    std::atomic<bool> is_busy{false};
    // For the thread that uses the pool, and workers that have entered.
    Job job{};
    int started = 0;
    // For the thread that uses the pool: all workers before this one have started.
    int first_not_started = 1;
    Time no_workers_until{};
    alignas(128) std::atomic<std::uint64_t> epoch{0};
    alignas(128) std::atomic<std::int64_t> entrants{closed};
    std::atomic<bool> is_waiting{false};
    std::mutex mutex;
    std::condition_variable left;
    Range ranges[most_threads];
    Worker workers[most_threads];

    // Process the thread's own range first, then the rest of other ranges. Return the number of pieces done.
    std::ptrdiff_t work(int self) noexcept {
        std::ptrdiff_t done = 0;
        for (int i = 0; i < job.threads; ++i) {
            Range& range = ranges[(self + i) % job.threads];
            while (range.next.load(std::memory_order_relaxed) < range.end) {
                const std::ptrdiff_t piece = range.next.fetch_add(1, std::memory_order_relaxed);
                if (piece >= range.end) break;
                const std::ptrdiff_t start = piece * job.grain;
                const std::ptrdiff_t left_over = job.size - start;
                job.body(job.context, start, start + (left_over < job.grain ? left_over : job.grain));
                ++done;
                if (self == 0 && first_not_started < job.threads) move_late_workers();
            }
        }
        return done;
    }

    // Move workers that have not started away from the caller's core, because they may be waiting for it.
    void move_late_workers() noexcept {
        const std::uint64_t called = epoch.load(std::memory_order_relaxed);
        const Time now = Clock::now();
        for (int i = first_not_started; i < job.threads; ++i) {
            Worker& worker = workers[i];
            if (worker.seen.load(std::memory_order_relaxed) == called) {
                worker.late_since = {};
                first_not_started += i == first_not_started;
                continue;
            }
            if (worker.late_since == Time{}) {
                worker.late_since = now;
                worker.allowed_delay = time_to_start;
            } else if (now - worker.late_since > worker.allowed_delay) {
                worker.leave(current_core());
                // Wait longer before the next move: other programs block a worker that does not start then.
                worker.allowed_delay *= 2;
            }
        }
    }

    void wait_for_entrants() noexcept {
        const auto is_over = [this] { return entrants.load() == closed; };
        if (wait_awake(awake_nanoseconds.load(std::memory_order_relaxed), is_over)) return;
        std::unique_lock<std::mutex> lock(mutex);
        is_waiting.store(true);
        left.wait(lock, is_over);
        is_waiting.store(false);
    }

    void enter(int self) noexcept {
        if (entrants.fetch_add(1) < closed && self < job.threads) {
            // Leave the caller's core: a worker that was woken there would interrupt the caller.
            if (current_core() == job.core) workers[self].leave(job.core);
            work(self);
        }
        if (entrants.fetch_sub(1) == closed + 1 && is_waiting.load()) {
            const std::lock_guard<std::mutex> guard(mutex);
            left.notify_one();
        }
    }

    void run_worker(int self) noexcept {
        Worker& worker = workers[self];
        std::uint64_t seen = 0;
        const auto is_called = [&] { return epoch.load() != seen; };
        while (true) {
            if (!wait_awake(awake_nanoseconds.load(std::memory_order_relaxed), is_called)) {
                std::unique_lock<std::mutex> lock(worker.mutex);
                worker.is_asleep.store(true);
                worker.called.wait(lock, is_called);
                worker.is_asleep.store(false);
            }
            seen = epoch.load();
            worker.seen.store(seen, std::memory_order_relaxed);
            enter(self);
        }
    }

    // Start as many workers as the system allows. They are never joined: when the process ends they are
    // asleep, or about to sleep, and use no destroyed object.
    void start_workers(int wanted) noexcept {
#if !defined(_WIN32)
        // Block signals: they are for the interpreter's threads, and a worker would only delay them.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
        try {
            while (started < wanted) {
                std::thread worker([this, self = started + 1] { run_worker(self); });
                workers[++started].thread = worker.native_handle();
                worker.detach();
            }
        } catch (const std::system_error&) {
        }
#if !defined(_WIN32)
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
    }
};

inline std::atomic<ThreadPool*> current_pool{nullptr};

// Null if there is no memory for the pool.
inline ThreadPool* thread_pool() noexcept {
    ThreadPool* found = current_pool.load(std::memory_order_acquire);
    if (found != nullptr) return found;
    ThreadPool* const made = new (std::nothrow) ThreadPool;
    if (made == nullptr || current_pool.compare_exchange_strong(found, made)) return made;
    delete made;
    return found;
}

inline void prepare_for_forks() noexcept {
#if !defined(_WIN32)
    // The child has no workers, and the pool's state may be inconsistent: drop it without freeing.
    pthread_atfork(nullptr, nullptr, [] { current_pool.store(nullptr); });
#endif
}

inline void parallel_for(std::ptrdiff_t size, std::ptrdiff_t grain, Body body, void* context) noexcept {
    if (size > grain && thread_count.load(std::memory_order_relaxed) > 1) {
        ThreadPool* const pool = thread_pool();
        if (pool != nullptr && pool->try_run(size, grain, body, context)) return;
    }
    for (std::ptrdiff_t start = 0; start < size; start += grain) {
        const std::ptrdiff_t left = size - start;
        body(context, start, start + (left < grain ? left : grain));
    }
}

}  // namespace disposescope::kernels
