// Memory from the system: mapped when it is large, from the C library when it is small.
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

// From here on memory is mapped for itself, so that all of it goes back to the system when it is released.
// What the C library gives comes out of its heap, where a small neighbour keeps it.
constexpr std::size_t mapped_from = std::size_t{1} << 16;
// The huge page of x86-64 and of 64-bit ARM with pages of 4 KiB. A fresh block of them is there 17 times
// sooner.
constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t alignment = 64;

// `step` is a power of two.
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

// Of `used` bytes, the beginning that lies in huge pages. What is left beyond the last whole one stays small pages, so that no
// more is taken than asked for; but where one more takes at most a sixteenth more, and less than it saves, it is
// huge too: 1,000,000 floats would have half of their bytes in small pages, and an optimizer's step over many such take 1.3 times as long.
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
    // To cut a hole can need one map more than the process may have. Then the addresses are lost, but no
    // memory is.
    if (munmap(memory, n) != 0) madvise(memory, n, MADV_DONTNEED);
}

// Map `n` bytes, a multiple of the page, that read as zeros, the first `huge` of them in huge pages. Null when the
// system refuses.
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

// Let the C library give the system what it keeps of small blocks, when the user asks for that
// (`memory.trim`).
inline void trim_heap() noexcept {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace disposescope::memory
