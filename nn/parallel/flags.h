// Numbers in memory that several processes have mapped: written by one, waited for by the others.
//
// Lock-free atomics work between processes that map the same memory at different addresses ([atomics.lockfree]). A
// release store after the data, and an acquire load before, make what was written visible to who has seen the number.
// The fences keep the data of the next number behind this one, and what was read before a number was looked at once
// more before that look: so a reader knows that nobody has written meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

// On 32 bits the system's time may be another than the compiler's.
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

// The system compares 32 bits: the lower half of the number, which changes whenever a number is counted up.
inline void* lower_half(const void* memory, std::int64_t place) {
    auto* flag = reinterpret_cast<std::int32_t*>(const_cast<Flag*>(static_cast<const Flag*>(memory) + place));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    ++flag;
#endif
    return flag;
}

// Sleeps until the flag is no longer `seen`, or `seconds` are over, or for no reason.
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
    // Always: a count of those who sleep would stay wrong where one of them is killed.
    wake_all(memory, place);
}

// Returns the first of `count` flags from `first` on that is below `value` when `seconds` are over, else -1. It stays
// awake for a moment, as long as it takes to be woken, then sleeps: workers may be more than processors. It never
// hands the processor on (`yield`): schedulers then let all others run first, for milliseconds at a time.
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
