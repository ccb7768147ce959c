// Flags in shared memory: integers that one process sets and other processes wait for.
//
// Lock-free atomics work between processes that map the same memory at different addresses ([atomics.lockfree]). The
// writer stores a flag with release order after its data. The reader loads it with acquire order before it reads the
// data. The fence after a store keeps later writes after it. The fence before a load keeps earlier reads before it. So
// if a reader loads the flag again after its reads and finds the same value, the data did not change meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

// On 32-bit systems, the kernel's `timespec` may differ from the compiler's.
#if defined(__linux__) && defined(__LP64__)
#define DISPOSESCOPE_HAS_FUTEX
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace disposescope {

using Flag = std::atomic<std::int64_t>;
using Seconds = std::chrono::duration<double>;

static_assert(Flag::is_always_lock_free, "processes can't share a lock that is hidden in an atomic");
static_assert(sizeof(Flag) == sizeof(std::int64_t), "a flag is as wide as its number");

inline std::int64_t get_flag(const void* memory, std::int64_t place) {
    std::atomic_thread_fence(std::memory_order_acquire);
    return static_cast<const Flag*>(memory)[place].load(std::memory_order_acquire);
}

#ifdef DISPOSESCOPE_HAS_FUTEX

// A futex compares 32 bits: the lower half of the flag, which changes with each increment.
inline void* lower_half(const void* memory, std::int64_t place) {
    auto* flag = reinterpret_cast<std::int32_t*>(const_cast<Flag*>(static_cast<const Flag*>(memory) + place));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    ++flag;
#endif
    return flag;
}

// Sleeps until the flag differs from `seen` or `seconds` have passed. It may also wake spuriously.
inline void sleep_until_set(const void* memory, std::int64_t place, std::int64_t seen, double seconds) {
    const auto whole = static_cast<std::time_t>(seconds);
    const timespec most{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
    syscall(SYS_futex, lower_half(memory, place), FUTEX_WAIT, static_cast<std::uint32_t>(seen), &most, nullptr, 0);
}

inline void wake_all(const void* memory, std::int64_t place) {
    syscall(SYS_futex, lower_half(memory, place), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

#else

inline void sleep_until_set(const void*, std::int64_t, std::int64_t, double seconds) {
    std::this_thread::sleep_for(Seconds(std::min(seconds, 100e-6)));
}

inline void wake_all(const void*, std::int64_t) {}

#endif

inline void set_flag(void* memory, std::int64_t place, std::int64_t value) {
    static_cast<Flag*>(memory)[place].store(value, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Wake always: a counter of sleeping processes would be wrong after one of them is killed.
    wake_all(memory, place);
}

// Waits until `count` flags from `first` on are at least `value`, and returns -1. After `seconds` returns the first
// flag below `value`. It spins for 50 us, about the time of a wake-up, and then sleeps, because there may be more
// workers than processors. It does not call `yield`, because other threads would then run first, for milliseconds.
inline std::int64_t wait_for_flags(
    const void* memory, std::int64_t first, std::int64_t count, std::int64_t value, double seconds
) {
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    const auto end = begin + std::chrono::duration_cast<clock::duration>(Seconds(seconds));
    const auto asleep = begin + std::chrono::microseconds(50);
    for (std::int64_t place = first; place < first + count; ++place) {
        std::int64_t seen;
        while ((seen = get_flag(memory, place)) < value) {
            const auto now = clock::now();
            if (now >= end) {
                return place;
            }
            if (now >= asleep) {
                sleep_until_set(memory, place, seen, Seconds(end - now).count());
            }
        }
    }
    return -1;
}

}  // namespace disposescope
