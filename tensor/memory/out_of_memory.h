// Limits of the pool, and the bytes that they grant and refuse.
#pragma once

#include <atomic>

#include "tensor/memory/counters.h"

namespace disposescope::memory {

// A limit. The smallest of all limits applies. The caller that set it owns it until `lift`.
struct Limit : Link<Limit> {
    Bytes nbytes = no_limit;
    // The most bytes that arrays and the pool took from the system at once while the limit was set.
    std::atomic<Bytes> reserved_peak{0};
};

// The limits that are set. The pool's mutex guards them.
class Limits {
   public:
    // The lowest `reserved_peak` of all limits. Reading it requires no mutex.
    std::atomic<Bytes> lowest_peak{no_limit};

    void add(Limit* one) noexcept {
        all_.add(one);
        find_lowest_peak();
    }

    void remove(Limit* one) noexcept {
        all_.remove(one);
        find_lowest_peak();
    }

    // Return the limit that applies.
    Bytes smallest() const noexcept {
        Bytes found = no_limit;
        for (Limit* one = all_.first; one != nullptr; one = one->next) {
            if (one->nbytes < found) found = one->nbytes;
        }
        return found;
    }

    // Raise the peaks below `now` reserved bytes.
    void raise_peaks(Bytes now) noexcept {
        for (Limit* one = all_.first; one != nullptr; one = one->next) {
            if (now > one->reserved_peak.load()) one->reserved_peak.store(now);
        }
        find_lowest_peak();
    }

   private:
    List<Limit> all_;

    void find_lowest_peak() noexcept {
        Bytes found = no_limit;
        for (Limit* one = all_.first; one != nullptr; one = one->next) {
            const Bytes peak = one->reserved_peak.load();
            if (peak < found) found = peak;
        }
        lowest_peak.store(found);
    }
};

// A thread's last refused allocation, for the error message.
struct Refusal {
    Bytes asked = -1;
    Bytes live = 0;
    Bytes cached = 0;
    Bytes limit = no_limit;
};

// Bytes granted to a running allocation. Released when the bytes are counted as live, or when it fails.
class Reservation {
   public:
    explicit Reservation(std::atomic<Bytes>& all) noexcept : all_(all) {}
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation() {
        if (nbytes_ != 0) all_.fetch_sub(nbytes_);
    }

    void take(Bytes n) noexcept {
        nbytes_ = n;
        all_.fetch_add(n);
    }

    // Whether a limit granted the bytes.
    bool is_taken() const noexcept { return nbytes_ != 0; }

   private:
    std::atomic<Bytes>& all_;
    Bytes nbytes_ = 0;
};

}  // namespace disposescope::memory
