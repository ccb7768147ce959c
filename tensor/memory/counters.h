// Counters of bytes, exact at every moment and from any thread, with or without the GIL.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>

namespace disposescope::memory {

using Bytes = std::int64_t;

constexpr Bytes no_limit = std::numeric_limits<Bytes>::max();

// A node of an intrusive list. Its pointers are borrowed, and adding a node allocates nothing, so it can't
// fail.
template <typename T>
struct Link {
    T* previous = nullptr;
    T* next = nullptr;
};

template <typename T>
class List {
   public:
    T* first = nullptr;

    void add(T* item) noexcept {
        item->next = first;
        if (first != nullptr) first->previous = item;
        first = item;
    }

    void remove(T* item) noexcept {
        (item->previous == nullptr ? first : item->previous->next) = item->next;
        if (item->next != nullptr) item->next->previous = item->previous;
        item->previous = item->next = nullptr;
    }
};

// The highest number of live bytes since its start. The caller that started it owns it until `stop`.
struct Peak : Link<Peak> {
    std::atomic<Bytes> nbytes{0};
};

struct Counters {
    // Requested bytes of arrays. Memory that only exported arrays use counts in `pinned` instead.
    std::atomic<Bytes> live{0};
    std::atomic<Bytes> pinned{0};
    // Bytes that the free blocks of the pool take from the system.
    std::atomic<Bytes> cached{0};
    // Bytes of used blocks beyond the requested size: headers, and the rounding of sizes.
    std::atomic<Bytes> slack{0};
    std::atomic<Bytes> external{0};
    // The total of all bytes that were ever live.
    std::atomic<Bytes> allocated{0};
    // The numbers of buffers allocated and freed.
    std::atomic<std::int64_t> allocations{0};
    std::atomic<std::int64_t> frees{0};
    std::atomic<std::int64_t> reuses{0};
    std::atomic<std::int64_t> misses{0};
    std::atomic<std::int64_t> donation_reuses{0};
    std::atomic<std::int64_t> donation_misses{0};

    void add_live(Bytes n) noexcept {
        const Bytes now = live.fetch_add(n) + n;
        // Rarely true: reaching an earlier peak again does not raise it.
        if (now > lowest_peak.load()) raise_peaks(now);
    }

    void count_new(Bytes n) noexcept {
        allocated.fetch_add(n, std::memory_order_relaxed);
        allocations.fetch_add(1, std::memory_order_relaxed);
        add_live(n);
    }

    void count_free(Bytes n, bool is_pinned) noexcept {
        frees.fetch_add(1, std::memory_order_relaxed);
        remove(n, is_pinned);
    }

    void remove(Bytes n, bool is_pinned) noexcept { (is_pinned ? pinned : live).fetch_sub(n); }

    // `pinned` rises first and falls last, so that the sum of `live` and `pinned` is never too small.
    void pin(Bytes n) noexcept {
        pinned.fetch_add(n);
        live.fetch_sub(n);
    }

    void unpin(Bytes n) noexcept {
        add_live(n);
        pinned.fetch_sub(n);
    }

    void start(Peak* peak) noexcept {
        const std::lock_guard<std::mutex> guard(mutex);
        peaks.add(peak);
        restart_locked(peak);
    }

    void restart(Peak* peak) noexcept {
        const std::lock_guard<std::mutex> guard(mutex);
        restart_locked(peak);
    }

    void stop(Peak* peak) noexcept {
        const std::lock_guard<std::mutex> guard(mutex);
        peaks.remove(peak);
        find_lowest_peak();
    }

    // Return the live bytes, and raise all peaks to at least that.
    Bytes read_live() noexcept {
        const Bytes now = live.load();
        if (now > lowest_peak.load()) raise_peaks(now);
        return now;
    }

    Peak process_peak;
    std::mutex mutex;

   private:
    List<Peak> peaks;
    std::atomic<Bytes> lowest_peak{no_limit};

    void raise_peaks(Bytes now) noexcept {
        const std::lock_guard<std::mutex> guard(mutex);
        for (Peak* peak = peaks.first; peak != nullptr; peak = peak->next) {
            if (now > peak->nbytes.load()) peak->nbytes.store(now);
        }
        find_lowest_peak();
    }

    void restart_locked(Peak* peak) noexcept {
        // An allocating thread first adds to `live`, then reads `lowest_peak`. So either it sees the -1 and
        // waits for the mutex, or its bytes are included below.
        lowest_peak.store(-1);
        peak->nbytes.store(live.load());
        find_lowest_peak();
    }

    void find_lowest_peak() noexcept {
        Bytes found = no_limit;
        for (Peak* peak = peaks.first; peak != nullptr; peak = peak->next) {
            const Bytes nbytes = peak->nbytes.load();
            if (nbytes < found) found = nbytes;
        }
        lowest_peak.store(found);
    }
};

}  // namespace disposescope::memory
