// The core that a thread runs on. Two threads on one core take as long as one thread that does the work of
// both.
//
// Linux may put a woken thread on the core of the thread that wakes it, even if other cores are idle: if
// Linux does not know that a virtual core sleeps, or is configured to use few cores. The woken thread then
// waits until the system balances the load, which takes milliseconds, longer than most kernels.

#pragma once

#include <thread>

#if defined(__linux__) && !defined(__ANDROID__)
#include <pthread.h>
#include <sched.h>
#endif

namespace disposescope::kernels {

using ThreadHandle = std::thread::native_handle_type;

#if defined(__linux__) && !defined(__ANDROID__)

// The number of the current core; negative if unknown.
inline int current_core() noexcept { return sched_getcpu(); }

// Move the thread to another core at once, if it is on `core` and may use others: temporarily remove `core`
// from the cores that it may use. Takes 3 us.
inline void move_from(int core, ThreadHandle thread) noexcept {
    cpu_set_t usable;
    if (core < 0 || core >= CPU_SETSIZE || pthread_getaffinity_np(thread, sizeof(usable), &usable) != 0) return;
    if (!CPU_ISSET(core, &usable) || CPU_COUNT(&usable) < 2) return;
    cpu_set_t others = usable;
    CPU_CLR(core, &others);
    if (pthread_setaffinity_np(thread, sizeof(others), &others) == 0)
        pthread_setaffinity_np(thread, sizeof(usable), &usable);
}

#else

// Other systems have no such functions.
inline int current_core() noexcept { return -1; }
inline void move_from(int, ThreadHandle) noexcept {}

#endif

}  // namespace disposescope::kernels
