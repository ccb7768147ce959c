// Memory from the system: large blocks from mmap, small ones from the C library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace disposescope::memory {

// Blocks of at least this size are mapped separately, so that releasing one returns all of it to the system.
// The C library's heap can't return a block while a small neighbour is in use.
constexpr std::size_t mapped_from = std::size_t{1} << 16;
// The huge page size of x86-64, and of 64-bit ARM with pages of 4 KiB. The first write to new memory is 17
// times faster in huge pages.
constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t alignment = 64;

// Round `n` up to a multiple of `step`, a power of two.
constexpr std::size_t round_up(std::size_t n, std::size_t step) noexcept {
    return (n + step - 1) & ~(step - 1);
}

inline std::size_t page_size() noexcept {
#if defined(_WIN32)
    return 4096;
#else
    static const std::size_t size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
#endif
}

#if defined(_WIN32)

inline std::size_t in_huge_pages(std::size_t) noexcept { return 0; }
inline void* map(std::size_t, std::size_t) noexcept { return nullptr; }
inline void unmap(void*, std::size_t) noexcept {}

inline void* allocate_aligned(std::size_t n) noexcept { return _aligned_malloc(n, alignment); }
inline void free_aligned(void* memory) noexcept { _aligned_free(memory); }

#else

// Return how many of `used` bytes to put into huge pages, from the beginning. The rest after the last whole
// huge page uses small pages, so that the block takes only the requested memory. Exception: use one more huge
// page if it adds at most a sixteenth, and fewer bytes than the rest. Otherwise 1,000,000 floats would have
// half of their bytes in small pages, and an optimizer step over many such arrays takes 1.3 times as long.
inline std::size_t in_huge_pages(std::size_t used) noexcept {
#if defined(MADV_HUGEPAGE)
    const std::size_t whole = used / huge_page * huge_page, rest = used - whole, more = huge_page - rest;
    return rest > more && more <= used / 16 ? whole + huge_page : whole;
#else
    (void)used;
    return 0;
#endif
}

inline void unmap(void* memory, std::size_t n) noexcept {
    // Unmapping a part can exceed the number of maps that the process may have. Then the addresses are lost,
    // but not the memory.
    if (munmap(memory, n) != 0) madvise(memory, n, MADV_DONTNEED);
}

// Map `n` zeroed bytes, a multiple of the page size, the first `huge` of them in huge pages. Return null if
// the system refuses.
inline void* map(std::size_t n, std::size_t huge) noexcept {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MADV_HUGEPAGE)
    if (huge != 0) {
        void* const found = mmap(nullptr, n + huge_page, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (found != MAP_FAILED) {
            char* const start = static_cast<char*>(found);
            const std::size_t before = -reinterpret_cast<std::uintptr_t>(start) % huge_page;
            char* const memory = start + before;
            if (before != 0) unmap(start, before);
            unmap(memory + n, huge_page - before);
            madvise(memory, huge, MADV_HUGEPAGE);
            return memory;
        }
    }
#endif
    (void)huge;
    void* const memory = mmap(nullptr, n, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

inline void* allocate_aligned(std::size_t n) noexcept {
    void* memory = nullptr;
    return posix_memalign(&memory, alignment, n) == 0 ? memory : nullptr;
}

inline void free_aligned(void* memory) noexcept { std::free(memory); }

#endif

// Let the C library return its free heap memory to the system (`memory.trim`).
inline void trim_heap() noexcept {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace disposescope::memory
