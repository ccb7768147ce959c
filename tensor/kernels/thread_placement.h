// Which core a thread runs on: two threads on one core take as long as one.
//
// Linux may put a thread that is woken on the core of the one that wakes it, though others are idle: it does where it
// does not see that a virtual core sleeps, or is configured to use few of them. There the thread waits for the core until
// the system evens out the load, which takes milliseconds: longer than most kernels do.

#pragma once

#include <thread>

#if defined(__linux__) && !defined(__ANDROID__)
#include <pthread.h>
#include <sched.h>
#endif

namespace disposescope::kernels {

using ThreadHandle = std::thread::native_handle_type;

#if defined(__linux__) && !defined(__ANDROID__)

// Negative where it is unknown.
inline int current_core() noexcept { return sched_getcpu(); }

// Lets the thread go on on another core at once, if it is on this one and may use others: a thread is moved when it may
// not stay where it is. What it may use is the same afterwards. Costs 3 us.
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

// Other systems take hints at most.
inline int current_core() noexcept { return -1; }
inline void move_from(int, ThreadHandle) noexcept {}

#endif

}  // namespace disposescope::kernels
