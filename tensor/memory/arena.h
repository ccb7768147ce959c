// Memory taken ahead in one piece: for a plan, which says where each array goes, or for the pool.
//
// All of it is guarded by the pool's `arena_mutex`, which is held while no Python code runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tensor/memory/counters.h"
#include "tensor/memory/system_memory.h"

namespace disposescope::memory {

// An array of a plan: the bytes that are asked for, and from where to where it lies in the arena, header included.
struct Planned {
    std::size_t asked;
    std::size_t begin;
    std::size_t end;
};

struct Arena {
    // The whole of it, from the system. Owned until the arena is closed and its last block has gone.
    void* memory = nullptr;
    std::size_t mapped = 0;
    bool is_mapped = false;
    // Where offset 0 is: data after a header begins at a multiple of `slot`.
    char* base = nullptr;
    std::size_t size = 0;
    std::vector<Planned> plan;
    // The entry that is expected next, and how often in a row something else came.
    std::size_t cursor = 0;
    std::size_t strays = 0;
    // The parts that are taken: from, to.
    std::map<std::size_t, std::size_t> taken;
    bool is_closed = false;
    std::int64_t served = 0;
    std::int64_t missed = 0;
    // The thread whose allocations it serves, while it is entered; the arena that was entered before it.
    std::thread::id thread;
    Arena* next = nullptr;

    static constexpr std::size_t slot = 512;
    // Before the data of each array: a pointer to the arena, and the block's header.
    static constexpr std::size_t head = 128;
    static constexpr std::size_t far = 16;

    bool is_free(std::size_t begin, std::size_t end) const noexcept {
        const auto after = taken.lower_bound(begin);
        if (after != taken.end() && after->first < end) return false;
        if (after == taken.begin()) return true;
        return std::prev(after)->second <= begin;
    }

    // The entry for an array of `n` bytes: the expected one, or one soon after it. Null: it is not in the plan.
    const Planned* expected(std::size_t n) noexcept {
        const std::size_t count = plan.size();
        const std::size_t most = strays < 2 * far ? (far < count ? far : count) : count;
        for (std::size_t i = 0; i < most; ++i) {
            const std::size_t at = (cursor + i) % count;
            if (plan[at].asked == n) {
                cursor = (at + 1) % count;
                strays = 0;
                return &plan[at];
            }
        }
        ++strays;
        return nullptr;
    }

    // A free part of `n` bytes, the first one; false: there is none.
    bool find(std::size_t n, std::size_t* begin) const noexcept {
        std::size_t at = 0;
        for (const auto& part : taken) {
            if (part.first - at >= n) break;
            at = part.second;
        }
        *begin = at;
        return at <= size && size - at >= n;
    }
};

// What happened to large blocks while a function ran.
struct Event {
    // Of the allocation, from 0; -1: a block from before was freed.
    std::int64_t number;
    std::int64_t nbytes;
    bool is_free;
    // What was live then.
    std::int64_t live;
};

struct Recorder {
    std::thread::id thread;
    std::vector<Event> events;
    std::unordered_map<void*, std::int64_t> known;
    std::int64_t count = 0;
    // There was no memory to note something.
    bool is_incomplete = false;
    // Called after each allocation, without a mutex.
    void (*noted)() = nullptr;
};

}  // namespace disposescope::memory
