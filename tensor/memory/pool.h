// The pool: freed blocks of large arrays, cached for new arrays of the same size.
//
// Blocks are sorted into bins by capacity, 16 for each doubling. So a loop allocates from the system only in
// its first iteration. Within a bin, the block freed last is reused first, because it is most likely in the
// processor's cache. The block freed first, of all bins, is returned to the system first.
//
// All functions may be called on any thread, with or without the GIL, and after the interpreter has ended. No
// Python code runs while the mutex is held, so a signal handler can't leave it locked. fork() waits for the
// mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include "tensor/memory/arena.h"
#include "tensor/memory/block.h"
#include "tensor/memory/free_blocks.h"
#include "tensor/memory/out_of_memory.h"

namespace disposescope::memory {

class Pool {
   public:
    Counters counters;
    // Runs the garbage collector; set while Python is running. Called without the mutex.
    void (*collect_garbage)() = nullptr;
    // Frees some of the missing bytes, and returns whether to try again. Null while no budget is open. Called
    // without the mutex, before the garbage collector.
    std::atomic<bool (*)(Bytes)> relieve{nullptr};
    std::atomic<Bytes> limit{no_limit};
    // Smaller blocks come from the C library, which is as fast for them. From 6 KB on, it is slower for
    // results that are kept for a while: it returns the end of its heap to the system on each free.
    std::atomic<std::size_t> min_pooled{4096};
    std::atomic<Bytes> max_cached{Bytes{1} << 30};
    // The byte to fill uninitialised memory with; -1 for none.
    std::atomic<int> fill{-1};

    Pool() noexcept {
        counters.start(&counters.process_peak);
    }

    static Refusal& last_refusal() noexcept {
        static thread_local Refusal refusal;
        return refusal;
    }

    // Return memory for an array of `n` bytes, or null if the limit or the system refuses. Large blocks are
    // counted as live. Small ones are not, because most are freed before the kernel returns. The object that
    // keeps a small one counts it (`count`).
    void* allocate(std::size_t n, bool is_zeroed) noexcept {
        if (n > max_bytes) return refuse(static_cast<Bytes>(max_bytes), no_limit);
        if (fails_now()) return refuse(static_cast<Bytes>(n), no_limit);
        const bool is_small = n < min_pooled.load(std::memory_order_relaxed);
        Block* const block = is_small ? take_small(n, is_zeroed) : take_pooled(n, is_zeroed);
        if (block == nullptr) return nullptr;
        if (!is_zeroed) block->fill(fill.load(std::memory_order_relaxed));
        return block->data();
    }

    void free(void* data) noexcept {
        if (data == nullptr) return;
        Block* const block = Block::of(data);
        const State state = block->state.exchange(State::free);
#if DISPOSESCOPE_DEBUG
        // A double free, or a pointer that is not from the pool.
        if (block->mark != block_mark || state == State::free) std::abort();
        std::memset(data, poison, block->asked);
#endif
        if (block->origin == Origin::small) {
            give_back(block);
            return;
        }
        const Bytes asked = static_cast<Bytes>(block->asked);
        const Bytes footprint = block->footprint();
        counters.slack.fetch_sub(footprint - asked, std::memory_order_relaxed);
        counters.count_free(asked, state == State::pinned);
        if (recorder.load(std::memory_order_relaxed) != nullptr) note_free(data, asked);
        if (block->origin == Origin::planned || (block->origin == Origin::reserved && lies_in_closed(block))) {
            give_back(block);
            return;
        }
        if (footprint > max_cached.load()) {
            give_back(block);
            return;
        }
        block->protect();
        Block* excess;
        {
            const std::lock_guard<std::mutex> guard(mutex);
            free_blocks.put(block);
            excess = free_blocks.take_oldest(max_cached.load());
        }
        give_back_all(excess);
    }

    // Resize the array in `data` to `n` bytes. Return null, and change nothing, if that is refused.
    void* reallocate(void* data, std::size_t n) noexcept {
        if (data == nullptr) return allocate(n, false);
        Block* const block = Block::of(data);
        const std::size_t before = block->asked;
        if (block->origin != Origin::small && n <= before && n >= block->capacity / 2) {
            const Bytes less = static_cast<Bytes>(before - n);
            block->asked = n;
            counters.remove(less, block->state.load() == State::pinned);
            counters.slack.fetch_add(less, std::memory_order_relaxed);
            return data;
        }
        void* const moved = allocate(n, false);
        if (moved == nullptr) return nullptr;
        std::memcpy(moved, data, before < n ? before : n);
        free(data);
        return moved;
    }

    // Count a buffer that `allocate` does not count: a small block, or NumPy's. Return false if the limit
    // refuses.
    bool count(Bytes n) noexcept {
        if (fails_now()) {
            refuse(n, no_limit);
            return false;
        }
        Reservation held(granted);
        if (!grant(n, held)) return false;
        counters.count_new(n);
        if (held.is_taken()) raise_reserved_peaks();
        return true;
    }

    // Whether the counters include this block of the pool.
    static bool is_counted(void* data) noexcept { return Block::of(data)->origin != Origin::small; }

    void pin(void* data) noexcept {
        Block* const block = Block::of(data);
        State expected = State::live;
        if (!block->state.compare_exchange_strong(expected, State::pinned)) return;
        counters.pin(static_cast<Bytes>(block->asked));
    }

    void unpin(void* data) noexcept {
        Block* const block = Block::of(data);
        State expected = State::pinned;
        if (!block->state.compare_exchange_strong(expected, State::live)) return;
        counters.unpin(static_cast<Bytes>(block->asked));
    }

    // Release cached blocks beyond `to_bytes` to the system. Return the bytes that the blocks took.
    Bytes trim(Bytes to_bytes) noexcept {
        Block* excess;
        {
            const std::lock_guard<std::mutex> guard(mutex);
            excess = free_blocks.take_oldest(to_bytes);
        }
        return give_back_all(excess);
    }

    // Release cached blocks beyond the limit to the system.
    void trim_to_limit() noexcept {
        Block* excess;
        {
            const std::lock_guard<std::mutex> guard(mutex);
            const Bytes left = left_beside(0);
            excess = free_blocks.take_oldest(left < 0 ? 0 : left);
        }
        give_back_all(excess);
    }

    void set(Limit* one) noexcept {
        {
            const std::lock_guard<std::mutex> guard(mutex);
            limits.add(one);
            limit.store(limits.smallest());
        }
        trim_to_limit();
        raise_reserved_peaks();
    }

    void lift(Limit* one) noexcept {
        const std::lock_guard<std::mutex> guard(mutex);
        limits.remove(one);
        limit.store(limits.smallest());
    }

    // Reserve `n` bytes for `plan`, or for the pool if `plan` is empty. Return null if the limit or the
    // system refuses.
    Arena* reserve(std::size_t n, std::vector<Planned> plan) {
        Reservation held(granted);
        if (n > max_bytes || !grant(static_cast<Bytes>(n), held)) return nullptr;
        std::unique_ptr<Arena> made(new Arena);
        if (!made->take_memory(n)) return nullptr;
        Arena* const arena = made.release();
        const bool is_planned = !plan.empty();
        arena->plan = std::move(plan);
        idle.fetch_add(static_cast<Bytes>(n));
        if (is_planned) {
            planned_idle.fetch_add(static_cast<Bytes>(n));
        } else {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            arena->next = slabs.load();
            slabs.store(arena);
        }
        raise_reserved_peaks();
        return arena;
    }

    // Serve the allocations of this thread from `arena`, until `leave`.
    void enter(Arena* arena) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        arena->thread = std::this_thread::get_id();
        arena->cursor = arena->unexpected_count = 0;
        arena->next = active.load();
        active.store(arena);
    }

    void leave(Arena* arena) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        unlink(active, arena);
    }

    // Release the memory: now, or when the last block in it is freed.
    void close(Arena* arena) noexcept {
        {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            if (arena->plan.empty()) unlink(slabs, arena);
        }
        if (arena->plan.empty()) trim(0);  // free its blocks that are cached in the pool
        bool is_empty;
        {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            arena->is_closed = true;
            is_empty = arena->taken.empty();
        }
        if (is_empty) release(arena);
    }

    // Record allocations and frees of large blocks in `one`; null stops recording. Return false if another
    // recorder is active.
    bool record(Recorder* one) noexcept {
        Recorder* none = nullptr;
        if (one != nullptr) {
            one->thread = std::this_thread::get_id();
            return recorder.compare_exchange_strong(none, one);
        }
        const std::lock_guard<std::mutex> guard(arena_mutex);
        recorder.store(nullptr);
        return true;
    }

    // The reserved bytes that hold no array.
    std::atomic<Bytes> idle{0};

    // Make the `number`-th allocation from now on fail, in the debugging build.
    void fail(std::int64_t number) noexcept { until_failure.store(number); }

    // The capacities of the blocks that are cached.
    std::vector<std::size_t> cached_capacities() {
        const std::lock_guard<std::mutex> guard(mutex);
        return free_blocks.capacities();
    }

    // A fork while another thread holds a mutex would leave it locked forever in the child.
    void hold_for_fork() noexcept {
        mutex.lock();
        arena_mutex.lock();
        counters.mutex.lock();
    }

    void release_after_fork() noexcept {
        counters.mutex.unlock();
        arena_mutex.unlock();
        mutex.unlock();
    }

   private:
    static constexpr std::size_t max_bytes = static_cast<std::size_t>(std::numeric_limits<Bytes>::max()) / 4;
    // Arrays begin at different eighths of a page. The processor delays a load if a recent store has the same
    // offset in another page. If a result begins 16 to 300 bytes further in its page than an operand, exp()
    // takes up to 1.5 times as long. With equal offsets, or 512 bytes apart, it does not.
    static constexpr std::size_t place_step = 512;
    static constexpr unsigned places = 8;

    std::mutex mutex;
    Limits limits;
    FreeBlocks free_blocks{counters.cached};
    // Bytes granted within the limit, but not live yet.
    std::atomic<Bytes> granted{0};
    // Guards arenas and the recorder. If both mutexes are needed, `mutex` is locked first.
    std::mutex arena_mutex;
    // The entered arenas, the last one first; and the arenas from which the pool takes new blocks.
    std::atomic<Arena*> active{nullptr};
    std::atomic<Arena*> slabs{nullptr};
    // The part of `idle` that belongs to plans.
    std::atomic<Bytes> planned_idle{0};
    std::atomic<Recorder*> recorder{nullptr};
    std::atomic<unsigned> turn{0};
    std::atomic<std::int64_t> until_failure{0};

    bool fails_now() noexcept {
#if DISPOSESCOPE_DEBUG
        return until_failure.load() > 0 && until_failure.fetch_sub(1) == 1;
#else
        return false;
#endif
    }

    void* refuse(Bytes asked, Bytes by_limit) noexcept {
        last_refusal() = {asked, counters.read_live() + counters.pinned.load(), counters.cached.load(), by_limit};
        return nullptr;
    }

    Block* take_small(std::size_t n, bool is_zeroed) noexcept {
        const std::size_t size = sizeof(Block) + n;
        for (bool is_trimmed : {false, true}) {
            void* const memory = is_zeroed ? std::calloc(1, size) : std::malloc(size);
            if (memory != nullptr) return Block::create(memory, sizeof(Block), n, n, Origin::small);
            if (!is_trimmed) trim(0);
        }
        refuse(static_cast<Bytes>(n), no_limit);
        return nullptr;
    }

    // Return the arena of a block. The memory of the block begins with a pointer to it.
    static Arena*& arena_of(Block* block) noexcept { return *static_cast<Arena**>(block->memory()); }

    bool lies_in_closed(Block* block) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        return arena_of(block)->is_closed;
    }

    // Requires `arena_mutex`.
    static void unlink(std::atomic<Arena*>& first, Arena* arena) noexcept {
        if (first.load() == arena) {
            first.store(arena->next);
            return;
        }
        for (Arena* one = first.load(); one != nullptr; one = one->next) {
            if (one->next == arena) one->next = arena->next;
        }
    }

    // Create a block for `n` bytes in `arena`. Requires `arena_mutex`. Return null if there is no memory to
    // record it.
    Block* place_block(Arena* arena, std::size_t begin, std::size_t end, std::size_t n, Origin origin) noexcept {
        try {
            arena->taken.emplace(begin, end);
        } catch (...) {
            return nullptr;
        }
        Block* const block = Block::create(arena->base + begin, Arena::head, end - begin - Arena::head, n, origin);
        arena_of(block) = arena;
        const Bytes nbytes = static_cast<Bytes>(end - begin);
        idle.fetch_sub(nbytes);
        if (origin == Origin::planned) planned_idle.fetch_sub(nbytes);
        return block;
    }

    // Return a block at the planned place for `n` bytes. Null if no arena is entered on this thread, the plan
    // does not expect this size, or the place is taken.
    Block* take_planned(std::size_t n, bool is_zeroed) noexcept {
        Block* block = nullptr;
        {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            Arena* arena = active.load();
            const std::thread::id self = std::this_thread::get_id();
            while (arena != nullptr && arena->thread != self) arena = arena->next;
            if (arena == nullptr) return nullptr;
            const Planned* const entry = arena->expected(n);
            if (entry != nullptr && arena->is_free(entry->begin, entry->end)) {
                block = place_block(arena, entry->begin, entry->end, n, Origin::planned);
            }
            ++(block == nullptr ? arena->missed : arena->served);
        }
        if (block == nullptr) return nullptr;
        counters.slack.fetch_add(block->footprint() - static_cast<Bytes>(n), std::memory_order_relaxed);
        counters.count_new(static_cast<Bytes>(n));
        if (is_zeroed) std::memset(block->data(), 0, n);
        return block;
    }

    // Return a block in memory reserved for the pool, or null if no arena has space.
    Block* take_reserved(std::size_t n, std::size_t capacity) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        const std::size_t whole = round_up(Arena::head + capacity, Arena::slot);
        for (Arena* arena = slabs.load(); arena != nullptr; arena = arena->next) {
            std::size_t begin;
            if (!arena->find(whole, &begin)) continue;
            Block* const block = place_block(arena, begin, begin + whole, n, Origin::reserved);
            if (block == nullptr) return nullptr;
            block->capacity = capacity;
            block->bin = bin_for(capacity);
            return block;
        }
        return nullptr;
    }

    void release(Arena* arena) noexcept {
        idle.fetch_sub(static_cast<Bytes>(arena->size));
        if (!arena->plan.empty()) planned_idle.fetch_sub(static_cast<Bytes>(arena->size));
        delete arena;
    }

    void give_to_arena(Block* block) noexcept {
        Arena* const arena = arena_of(block);
        bool is_last;
        {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            const std::size_t begin = static_cast<std::size_t>(static_cast<char*>(block->memory()) - arena->base);
            const auto part = arena->taken.find(begin);
            const Bytes nbytes = static_cast<Bytes>(part->second - part->first);
            arena->taken.erase(part);
            idle.fetch_add(nbytes);
            if (block->origin == Origin::planned) planned_idle.fetch_add(nbytes);
            is_last = arena->is_closed && arena->taken.empty();
        }
        if (is_last) release(arena);
    }

    void note_allocation(void* data, std::size_t n) noexcept {
        void (*noted)() = nullptr;
        {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            Recorder* const one = recorder.load();
            if (one == nullptr || one->thread != std::this_thread::get_id()) return;
            if (one->add_allocation(data, static_cast<Bytes>(n), counters.read_live())) noted = one->noted;
        }
        if (noted != nullptr) noted();
    }

    void note_free(void* data, Bytes n) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        Recorder* const one = recorder.load();
        if (one != nullptr) one->add_free(data, n, counters.read_live());
    }

    Block* take_pooled(std::size_t n, bool is_zeroed) noexcept {
        Block* block = nullptr;
        if (active.load(std::memory_order_relaxed) != nullptr) block = take_planned(n, is_zeroed);
        if (block == nullptr) block = take_unplanned(n, is_zeroed);
        if (block != nullptr && recorder.load(std::memory_order_relaxed) != nullptr) {
            note_allocation(block->data(), n);
        }
        return block;
    }

    Block* take_unplanned(std::size_t n, bool is_zeroed) noexcept {
        const std::size_t capacity = capacity_for(n);
        Reservation held(granted);
        Block* block = nullptr;
        if (!grant(static_cast<Bytes>(n), held, capacity, &block)) return nullptr;
        bool is_zero = false;
        if (block != nullptr) {
            block->unprotect();
            counters.reuses.fetch_add(1, std::memory_order_relaxed);
            block->asked = n;
            if (n > block->used) block->used = n;
            block->state.store(State::live, std::memory_order_relaxed);
        } else {
            Bytes refused_by = no_limit;  // the system, unless a limit has forbidden to ask it
            block = take_fresh(n, capacity, &is_zero, &refused_by);
            if (block == nullptr) {
                refuse(static_cast<Bytes>(n), refused_by);
                return nullptr;
            }
            // Reserved memory is not new: it was taken from the system before.
            auto& count = block->origin == Origin::reserved ? counters.reuses : counters.misses;
            count.fetch_add(1, std::memory_order_relaxed);
        }
        counters.slack.fetch_add(block->footprint() - static_cast<Bytes>(n), std::memory_order_relaxed);
        counters.count_new(static_cast<Bytes>(n));
        if (held.is_taken()) raise_reserved_peaks();
        if (is_zeroed && !is_zero) std::memset(block->data(), 0, n);
        return block;
    }

    Block* take_fresh(std::size_t n, std::size_t capacity, bool* is_zero, Bytes* refused_by) noexcept {
        Block* block = take_from_system(n, capacity, is_zero, refused_by);
        if (block != nullptr) return block;
        trim(0);
        block = take_from_system(n, capacity, is_zero, refused_by);
        if (block != nullptr || collect_garbage == nullptr) return block;
        collect_garbage();
        trim(0);
        return take_from_system(n, capacity, is_zero, refused_by);
    }

    Block* take_from_system(std::size_t n, std::size_t capacity, bool* is_zero, Bytes* refused_by) noexcept {
        if (slabs.load(std::memory_order_relaxed) != nullptr) {
            Block* const block = take_reserved(n, capacity);
            if (block != nullptr) return block;
            // Allocate more only if the limit allows it in addition to all unused reserved bytes.
            const Bytes ahead = idle.load() - planned_idle.load();
            *refused_by = limit.load();
            if (*refused_by != no_limit && left_beside(0) < ahead) return nullptr;
            *refused_by = no_limit;
        }
        if (capacity >= mapped_from) {
            const unsigned place = turn.fetch_add(1, std::memory_order_relaxed) % places;
            const std::size_t offset = place_step * (place + 1);  // the last is the start of the next page
            const std::size_t huge = in_huge_pages(offset + n), mapped = round_up(offset + capacity, page_size());
            void* const memory = map(huge > mapped ? huge : mapped, huge);
            if (memory != nullptr) {
                *is_zero = true;
                Block* const block = Block::create(memory, offset, capacity, n, Origin::mapped);
                if (huge > offset + n) block->used = huge - offset;
                return block;
            }
        }
        void* const memory = allocate_aligned(sizeof(Block) + capacity);
        return memory == nullptr ? nullptr : Block::create(memory, sizeof(Block), capacity, n, Origin::aligned);
    }

    // Grant `n` bytes within the limit, and a free block of `capacity` if there is one. The bytes stay
    // reserved until `held` is destroyed, after the caller has counted them as live or has failed.
    bool grant(Bytes n, Reservation& held, std::size_t capacity = 0, Block** block = nullptr) noexcept {
        if (capacity == 0 && limit.load() == no_limit) return true;
        bool is_collected = false;
        while (true) {
            Bytes left;
            Block* excess;
            {
                const std::lock_guard<std::mutex> guard(mutex);
                left = left_beside(n);
                if (left >= 0) {
                    if (capacity != 0) *block = free_blocks.pop(bin_for(capacity));
                    if (limit.load() != no_limit) held.take(n);
                }
                excess = free_blocks.take_oldest(left < 0 ? 0 : left);
            }
            give_back_all(excess);
            if (left >= 0) return true;
            const auto relief = relieve.load();
            if (relief != nullptr && relief(-left)) continue;
            if (is_collected || collect_garbage == nullptr) break;
            is_collected = true;
            collect_garbage();
        }
        refuse(n, limit.load());
        return false;
    }

    // Return the bytes left within the limit if `n` more bytes are live and nothing is cached.
    Bytes left_beside(Bytes n) const noexcept {
        const Bytes most = limit.load();
        if (most == no_limit) return most;
        return most - counters.live.load() - counters.pinned.load() - granted.load() - planned_idle.load() - n;
    }

    // Return the bytes that arrays and the pool take from the system.
    Bytes reserved() const noexcept {
        return counters.live.load() + counters.pinned.load() + counters.cached.load() + counters.slack.load() +
               idle.load();
    }

    // Called after each step that may raise `reserved`, if a limit is set.
    void raise_reserved_peaks() noexcept {
        if (reserved() <= limits.lowest_peak.load()) return;
        // With both mutexes, no block counts twice while another thread moves it between two counters.
        const std::lock_guard<std::mutex> guard(mutex);
        const std::lock_guard<std::mutex> arena_guard(arena_mutex);
        limits.raise_peaks(reserved());
    }

    Bytes give_back_all(Block* block) noexcept {
        Bytes total = 0;
        while (block != nullptr) {
            Block* const next = block->below;
            total += block->footprint();
            block->unprotect();
            give_back(block);
            block = next;
        }
        return total;
    }

    void give_back(Block* block) noexcept {
        void* const memory = block->memory();
        switch (block->origin) {
            case Origin::small: std::free(memory); break;
            case Origin::aligned: free_aligned(memory); break;
            case Origin::mapped: unmap(memory, block->mapped_bytes()); break;
            case Origin::planned:
            case Origin::reserved: give_to_arena(block); break;
        }
    }
};

// The pool of the process. Never destroyed, because arrays are freed even during the destruction of static
// objects.
inline Pool& pool() noexcept {
    static Pool* const the_pool = [] {
        Pool* const made = new Pool;
#if !defined(_WIN32)
        const auto release = [] { pool().release_after_fork(); };
        pthread_atfork([] { pool().hold_for_fork(); }, release, release);
#endif
        return made;
    }();
    return *the_pool;
}

}  // namespace disposescope::memory
