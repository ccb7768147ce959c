// The blocks of the pool: a header, followed by the data of an array.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "tensor/memory/counters.h"
#include "tensor/memory/system_memory.h"

namespace disposescope::memory {

constexpr std::uint16_t block_mark = 0xB10C;
constexpr int poison = 0xDD;

// From 2 KiB on, 16 capacities for each doubling, at most 6.25% more than `n`. Below that, whole cache
// lines.
inline unsigned shift_for(std::size_t n) noexcept {
    unsigned shift = 6;
    while ((n - 1) >> shift >= 32) ++shift;
    return shift;
}

inline std::size_t capacity_for(std::size_t n) noexcept {
    return round_up(n, std::size_t{1} << shift_for(n));
}

inline std::uint16_t bin_for(std::size_t capacity) noexcept {
    const unsigned shift = shift_for(capacity);
    // The quotient is 1 to 32 if the step is 64 bytes, 17 to 32 above.
    return static_cast<std::uint16_t>((shift - 6) * 16 + (capacity >> shift) - 1);
}

enum class State : std::uint8_t { free, live, pinned };
enum class Origin : std::uint8_t { small, aligned, mapped, planned, reserved };

// The header directly before the data of a block, in memory that the pool owns.
struct Block {
    std::size_t capacity;
    // The requested bytes of the current array. NumPy's `free` passes a size too, but a wrong one for empty
    // arrays.
    std::size_t asked;
    // The highest number of bytes used in this block, with the rest of its last huge page. Only this part
    // takes memory.
    std::size_t used;
    // The neighbours of a free block: in the order in which blocks were freed, and in its bin.
    Block* newer;
    Block* older;
    Block* above;
    Block* below;
    // The offset of the data from the start of the memory that the system returned.
    std::uint16_t offset;
    std::uint16_t bin;
    Origin origin;
    std::atomic<State> state;
    std::uint16_t mark;

    void* data() noexcept { return reinterpret_cast<char*>(this) + sizeof(Block); }
    void* memory() noexcept { return static_cast<char*>(data()) - offset; }
    static Block* of(void* data) noexcept {
        return reinterpret_cast<Block*>(static_cast<char*>(data) - sizeof(Block));
    }

    std::size_t mapped_bytes() const noexcept {
        return round_up(offset + (used > capacity ? used : capacity), page_size());
    }

    // The bytes that the block takes from the system.
    Bytes footprint() const noexcept {
        const bool is_mapped = origin == Origin::mapped;
        return static_cast<Bytes>(is_mapped ? round_up(offset + used, page_size()) : offset + capacity);
    }

    // Write the header of a live block of `n` bytes into `memory`, before the data at `offset`.
    static Block* create(
        void* memory, std::size_t offset, std::size_t capacity, std::size_t n, Origin origin) noexcept {
        void* const place = static_cast<char*>(memory) + offset - sizeof(Block);
        Block* const block = new (place) Block{};
        block->capacity = capacity;
        block->asked = block->used = n;
        block->offset = static_cast<std::uint16_t>(offset);
        block->bin = origin == Origin::small ? 0 : bin_for(capacity);
        block->origin = origin;
        block->state.store(State::live, std::memory_order_relaxed);
        block->mark = block_mark;
        return block;
    }

    // Fill the data with `byte`, unless it is negative.
    void fill(int byte) noexcept {
        if (byte >= 0) std::memset(data(), byte, asked);
    }

    // Let the address sanitizer report access to the data while the block is cached. The debugging build aborts
    // in `unprotect` if code wrote to it.
    void protect() noexcept {
#if defined(__SANITIZE_ADDRESS__)
        ASAN_POISON_MEMORY_REGION(data(), used);
#endif
    }

    void unprotect() noexcept {
#if defined(__SANITIZE_ADDRESS__)
        ASAN_UNPOISON_MEMORY_REGION(data(), used);
#endif
#if DISPOSESCOPE_DEBUG
        const unsigned char* const bytes = static_cast<const unsigned char*>(data());
        for (std::size_t i = 0; i < asked && i < 4096; ++i) {
            if (bytes[i] != poison) std::abort();
        }
#endif
    }
};

// The data after the header has the alignment of the header.
static_assert(sizeof(Block) == alignment, "a block's header is one cache line");

}  // namespace disposescope::memory
