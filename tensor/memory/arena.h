// Memory reserved in one piece: for the pool, or for a plan, which assigns a place to each array.
//
// The pool's `arena_mutex` guards all objects here. No Python code runs while it is held.
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

// An array of a plan: the requested bytes, and the begin and end offsets of its block in the arena, with
// header.
struct Planned {
    std::size_t asked;
    std::size_t begin;
    std::size_t end;
};

struct Arena {
    // All of the memory, from the system. The pool deletes a closed arena when its last block is freed.
    void* memory = nullptr;
    std::size_t mapped = 0;
    bool is_mapped = false;
    // The address of offset 0. Data, which follows `head` bytes, begins at a multiple of `slot`.
    char* base = nullptr;
    std::size_t size = 0;
    std::vector<Planned> plan;
    // The plan entry expected next, and the number of unexpected sizes in a row.
    std::size_t cursor = 0;
    std::size_t unexpected_count = 0;
    // The ranges in use: begin -> end.
    std::map<std::size_t, std::size_t> taken;
    bool is_closed = false;
    std::int64_t served = 0;
    std::int64_t missed = 0;
    // The thread whose allocations the arena serves while entered. `next` is the arena entered before it, or
    // another arena of the pool.
    std::thread::id thread;
    Arena* next = nullptr;

    static constexpr std::size_t slot = 512;
    // The bytes before the data of each array: a pointer to the arena, and the block's header.
    static constexpr std::size_t head = 128;
    // The number of plan entries to search. After 2 * `search_window` unexpected sizes in a row, all are
    // searched.
    static constexpr std::size_t search_window = 16;

    Arena() = default;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena() {
        if (memory == nullptr) return;
        if (is_mapped) {
            unmap(memory, mapped);
        } else {
            free_aligned(memory);
        }
    }

    // Take memory for `n` bytes from the system. Return false if it refuses.
    bool take_memory(std::size_t n) noexcept {
        size = n;
        mapped = round_up(n + huge_page, page_size());
        memory = map(mapped, mapped / huge_page * huge_page);
        is_mapped = memory != nullptr;
        if (!is_mapped) memory = allocate_aligned(mapped);
        if (memory == nullptr) return false;
        // Touch every page, so that all memory is available from now on.
        for (std::size_t at = 0; at < mapped; at += page_size()) static_cast<volatile char*>(memory)[at] = 0;
        const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(memory);
        base = static_cast<char*>(memory) + (round_up(start + head, slot) - head - start);
        return true;
    }

    bool is_free(std::size_t begin, std::size_t end) const noexcept {
        const auto after = taken.lower_bound(begin);
        if (after != taken.end() && after->first < end) return false;
        if (after == taken.begin()) return true;
        return std::prev(after)->second <= begin;
    }

    // Return the plan entry for an array of `n` bytes: the expected one, or one soon after it. Null if there
    // is none.
    const Planned* expected(std::size_t n) noexcept {
        const std::size_t count = plan.size();
        const bool is_short = unexpected_count < 2 * search_window && search_window < count;
        const std::size_t most = is_short ? search_window : count;
        for (std::size_t i = 0; i < most; ++i) {
            const std::size_t at = (cursor + i) % count;
            if (plan[at].asked == n) {
                cursor = (at + 1) % count;
                unexpected_count = 0;
                return &plan[at];
            }
        }
        ++unexpected_count;
        return nullptr;
    }

    // Find the first free range of `n` bytes. Return false if there is none.
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

// An allocation or free of a large block while a function is recorded.
struct Event {
    // The number of the allocation, from 0; -1 for a block allocated before the recording.
    std::int64_t number;
    std::int64_t nbytes;
    bool is_free;
    // The live bytes at that moment.
    std::int64_t live;
};

struct Recorder {
    std::thread::id thread;
    std::vector<Event> events;
    std::unordered_map<void*, std::int64_t> known;
    std::int64_t count = 0;
    // Whether an event was lost because memory was short.
    bool is_incomplete = false;
    // Called after each allocation, without holding a mutex.
    void (*noted)() = nullptr;

    // Add the allocation of `n` bytes for `data`. Return false if memory is short.
    bool add_allocation(void* data, std::int64_t n, std::int64_t live) noexcept {
        try {
            known[data] = count;
            events.push_back({count, n, false, live});
        } catch (...) {
            is_incomplete = true;
            return false;
        }
        ++count;
        return true;
    }

    void add_free(void* data, std::int64_t n, std::int64_t live) noexcept {
        const auto found = known.find(data);
        try {
            events.push_back({found == known.end() ? -1 : found->second, n, true, live});
        } catch (...) {
            is_incomplete = true;
        }
        if (found != known.end()) known.erase(found);
    }
};

}  // namespace disposescope::memory
