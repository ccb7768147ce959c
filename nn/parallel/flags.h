// Numbers in memory that several processes have mapped: written by one, waited for by the others.
//
// Lock-free atomics work between processes that map the same memory at different addresses ([atomics.lockfree]). A
// release store after the data, and an acquire load before, make what was written visible to who has seen the number.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace disposescope {

using Flag = std::atomic<std::int64_t>;

static_assert(Flag::is_always_lock_free, "processes can't share a lock that is hidden in an atomic");
static_assert(sizeof(Flag) == sizeof(std::int64_t), "a flag is as wide as its number");

inline void set_flag(void* memory, std::int64_t place, std::int64_t value) {
    static_cast<Flag*>(memory)[place].store(value, std::memory_order_release);
}

inline std::int64_t get_flag(const void* memory, std::int64_t place) {
    return static_cast<const Flag*>(memory)[place].load(std::memory_order_acquire);
}

// Returns the first of `count` flags from `first` on that is below `value` when `seconds` are over, else -1. It stays
// awake for a moment, then hands the processor on, then sleeps: workers may be more than processors.
inline std::int64_t wait_for_flags(
    const void* memory, std::int64_t first, std::int64_t count, std::int64_t value, double seconds
) {
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
    std::int64_t rounds = 0;
    for (std::int64_t place = first; place < first + count; ++place) {
        while (get_flag(memory, place) < value) {
            if (clock::now() >= end) {
                return place;
            }
            ++rounds;
            if (rounds > 400) {
                std::this_thread::sleep_for(std::chrono::microseconds(rounds < 2000 ? 50 : 500));
            } else if (rounds > 20) {
                std::this_thread::yield();
            }
        }
    }
    return -1;
}

}  // namespace disposescope
