// The pool: blocks of large arrays that are gone, kept for the next arrays of their size.
//
// Blocks are sorted into bins by capacity, 16 for each doubling, so a program that repeats itself takes
// nothing from the system after its first round. The bin's last block comes out first (the processor's caches
// know it best); over all bins, the block that was put back the longest time ago is the first to go to the
// system.
//
// Each function may be called on any thread, with or without the GIL, and after the interpreter has ended. No
// Python code runs while the mutex is held, so no signal handler can leave it held; it is held across fork().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "tensor/memory/arena.h"
#include "tensor/memory/counters.h"
#include "tensor/memory/system_memory.h"

namespace disposescope::memory {

enum class State : std::uint8_t { free, live, pinned };
enum class Origin : std::uint8_t { small, aligned, mapped, planned, reserved };

// Lies just before the bytes that it describes, inside memory that the pool owns until it is given back.
struct Block {
    std::size_t capacity;
    // Of the array in it now. NumPy's `free` tells a size too, but that is wrong for arrays of size zero.
    std::size_t asked;
    // The most that was ever asked of this block, and what its last huge page has beyond: so much of it is really there.
    std::size_t used;
    // Free blocks: by the time of their release, over all bins, and within their bin.
    Block* newer;
    Block* older;
    Block* above;
    Block* below;
    // From the beginning of the system's memory to the data.
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

    // The memory that it really takes.
    Bytes footprint() const noexcept {
        const bool is_mapped = origin == Origin::mapped;
        return static_cast<Bytes>(is_mapped ? round_up(offset + used, page_size()) : offset + capacity);
    }
};

// Data after it is as aligned as it is itself.
static_assert(sizeof(Block) == alignment, "a block's header is one cache line");

// Why this thread was refused memory last, for the error's text.
struct Refusal {
    Bytes asked = -1;
    Bytes live = 0;
    Bytes cached = 0;
    Bytes limit = no_limit;
};

// What was granted to an allocation under way; given up when that is counted, or has failed.
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

   private:
    std::atomic<Bytes>& all_;
    Bytes nbytes_ = 0;
};

class Pool {
   public:
    Counters counters;
    // Collects garbage; set when Python is there. Called without the mutex.
    void (*collect_garbage)() = nullptr;
    // Frees some of the bytes that are missing within the limit, and says whether it is worth another try; null
    // while no budget is open. Called without the mutex, before garbage is collected.
    std::atomic<bool (*)(Bytes)> relieve{nullptr};
    std::atomic<Bytes> limit{no_limit};
    // Smaller ones are NumPy's: from 6 KB on results that are kept for a while cost the C library more, for
    // it gives the end of its heap back to the system each time they go. In the pool they are there in the
    // time of its own small ones.
    std::atomic<std::size_t> min_pooled{4096};
    std::atomic<Bytes> max_cached{Bytes{1} << 30};
    // The byte that uninitialised memory is filled with; -1 leaves it as it is.
    std::atomic<int> fill{-1};

    Pool() noexcept {
        counters.start(&counters.process_peak);
    }

    static Refusal& last_refusal() noexcept {
        static thread_local Refusal refusal;
        return refusal;
    }

    // New memory for an array of `n` bytes; null when the limit or the system refuses. Large blocks are
    // counted as live. Small ones are not: most are gone before the kernel returns, and who keeps one counts
    // it (`count`).
    void* allocate(std::size_t n, bool is_zeroed) noexcept {
        if (n > max_bytes) return refuse(static_cast<Bytes>(max_bytes), no_limit);
        if (fails_now()) return refuse(static_cast<Bytes>(n), no_limit);
        const bool is_small = n < min_pooled.load(std::memory_order_relaxed);
        Block* const block = is_small ? take_small(n, is_zeroed) : take_pooled(n, is_zeroed);
        if (block == nullptr) return nullptr;
        if (!is_zeroed) fill_new(block);
        return block->data();
    }

    void free(void* data) noexcept {
        if (data == nullptr) return;
        Block* const block = Block::of(data);
        const State state = block->state.exchange(State::free);
#if DISPOSESCOPE_DEBUG
        // A block freed twice, or one that is not of the pool.
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
        counters.count_gone(asked, state == State::pinned);
        if (recorder.load(std::memory_order_relaxed) != nullptr) note_free(data, asked);
        if (block->origin == Origin::planned || (block->origin == Origin::reserved && lies_in_closed(block))) {
            give_back(block);
            return;
        }
        if (footprint > max_cached.load()) {
            give_back(block);
            return;
        }
        protect(block);
        Block* excess;
        {
            const std::lock_guard<std::mutex> guard(mutex);
            put(block);
            excess = take_oldest(max_cached.load());
        }
        give_back_all(excess);
    }

    // The array in `data` in `n` bytes; null when that is refused, and then nothing has changed.
    void* reallocate(void* data, std::size_t n) noexcept {
        if (data == nullptr) return allocate(n, false);
        Block* const block = Block::of(data);
        const std::size_t before = block->asked;
        if (block->origin != Origin::small && n <= before && n >= block->capacity / 2) {
            const Bytes less = static_cast<Bytes>(before - n);
            block->asked = n;
            counters.slack.fetch_add(less, std::memory_order_relaxed);
            counters.remove(less, block->state.load() == State::pinned);
            return data;
        }
        void* const moved = allocate(n, false);
        if (moved == nullptr) return nullptr;
        std::memcpy(moved, data, before < n ? before : n);
        free(data);
        return moved;
    }

    // Count a buffer of somebody else's, NumPy's for example; false when the limit refuses.
    bool count(Bytes n) noexcept {
        if (fails_now()) {
            refuse(n, no_limit);
            return false;
        }
        Reservation held(granted);
        if (!grant(n, held)) return false;
        counters.count_new(n);
        return true;
    }

    // Whether the counters here include one of our blocks.
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

    // Give the system the blocks that are cached beyond `to_bytes`; return what they took.
    Bytes trim(Bytes to_bytes) noexcept {
        Block* excess;
        {
            const std::lock_guard<std::mutex> guard(mutex);
            excess = take_oldest(to_bytes);
        }
        return give_back_all(excess);
    }

    // Give back what is cached beyond the limit.
    void trim_to_limit() noexcept {
        Block* excess;
        {
            const std::lock_guard<std::mutex> guard(mutex);
            const Bytes left = left_beside(0);
            excess = take_oldest(left < 0 ? 0 : left);
        }
        give_back_all(excess);
    }

    void set(Limit* one) noexcept {
        {
            const std::lock_guard<std::mutex> guard(mutex);
            limits.add(one);
            find_limit();
        }
        trim_to_limit();
    }

    void lift(Limit* one) noexcept {
        const std::lock_guard<std::mutex> guard(mutex);
        limits.remove(one);
        find_limit();
    }

    // Take `n` bytes ahead, for `plan`; without one, for the pool. Null when the limit or the system refuses.
    Arena* reserve(std::size_t n, std::vector<Planned> plan) {
        Reservation held(granted);
        if (n > max_bytes || !grant(static_cast<Bytes>(n), held)) return nullptr;
        Arena* const arena = new Arena;
        arena->size = n;
        arena->mapped = round_up(n + huge_page, page_size());
        arena->memory = map(arena->mapped, arena->mapped / huge_page * huge_page);
        arena->is_mapped = arena->memory != nullptr;
        if (!arena->is_mapped) arena->memory = allocate_aligned(arena->mapped);
        if (arena->memory == nullptr) {
            delete arena;
            return nullptr;
        }
        // Every page is there from now on.
        for (std::size_t at = 0; at < arena->mapped; at += page_size()) {
            static_cast<volatile char*>(arena->memory)[at] = 0;
        }
        const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(arena->memory);
        const std::size_t first = round_up(start + Arena::head, Arena::slot) - Arena::head - start;
        arena->base = static_cast<char*>(arena->memory) + first;
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
        return arena;
    }

    // Serve the allocations of this thread from `arena`, until it is left.
    void enter(Arena* arena) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        arena->thread = std::this_thread::get_id();
        arena->cursor = arena->strays = 0;
        arena->next = active.load();
        active.store(arena);
    }

    void leave(Arena* arena) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        unlink(active, arena);
    }

    // Give the memory back, now or with the last block in it.
    void close(Arena* arena) noexcept {
        {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            if (arena->plan.empty()) unlink(slabs, arena);
        }
        if (arena->plan.empty()) trim(0);  // what lies in it and waits in the pool
        bool is_empty;
        {
            const std::lock_guard<std::mutex> guard(arena_mutex);
            arena->is_closed = true;
            is_empty = arena->taken.empty();
        }
        if (is_empty) release(arena);
    }

    // Note what happens to large blocks in `one`, until null. False: somebody else notes.
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

    // What is taken ahead and holds no array.
    std::atomic<Bytes> idle{0};

    // Let the `number`-th allocation from now on fail, in the debugging build.
    void fail(std::int64_t number) noexcept { until_failure.store(number); }

    // The capacities of the blocks that are cached.
    std::vector<std::size_t> cached_capacities() {
        std::vector<std::size_t> found;
        const std::lock_guard<std::mutex> guard(mutex);
        for (Block* block = newest; block != nullptr; block = block->older) found.push_back(block->capacity);
        return found;
    }

    // A fork while another thread holds a mutex would leave it held in the child for good.
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
    static constexpr std::uint16_t block_mark = 0xB10C;
    static constexpr int poison = 0xDD;
    // Arrays begin at different eighths of a page. The processor takes a load for one of the bytes just
    // stored when both are at the same place of a page: where a result begins 16 to 300 bytes further in its
    // page than an operand, exp() takes up to 1.5 times as long. At the same place, or 512 bytes apart, it
    // does not.
    static constexpr std::size_t place_step = 512;
    static constexpr unsigned places = 8;

    std::mutex mutex;
    List<Limit> limits;
    // Granted within the limit, but not live yet.
    std::atomic<Bytes> granted{0};
    // Guards arenas and the recorder. Taken after `mutex`, where both are.
    std::mutex arena_mutex;
    // Entered arenas, the last one first; those that the pool takes fresh blocks from.
    std::atomic<Arena*> active{nullptr};
    std::atomic<Arena*> slabs{nullptr};
    // The part of `idle` that plans wait for: nobody else may have it.
    std::atomic<Bytes> planned_idle{0};
    std::atomic<Recorder*> recorder{nullptr};
    Block* newest = nullptr;
    Block* oldest = nullptr;
    Block* bins[64 * 16] = {};
    std::atomic<unsigned> turn{0};
    std::atomic<std::int64_t> until_failure{0};

    // 16 capacities for each doubling from 2 KiB on, at most 6.25% more than `n`; below that, whole cache
    // lines.
    static unsigned shift_for(std::size_t n) noexcept {
        unsigned shift = 6;
        while ((n - 1) >> shift >= 32) ++shift;
        return shift;
    }

    static std::size_t capacity_for(std::size_t n) noexcept {
        return round_up(n, std::size_t{1} << shift_for(n));
    }

    static std::uint16_t bin_for(std::size_t capacity) noexcept {
        const unsigned shift = shift_for(capacity);
        // 1 to 32 steps where a step is 64 bytes, 17 to 32 above.
        return static_cast<std::uint16_t>((shift - 6) * 16 + (capacity >> shift) - 1);
    }

    bool fails_now() noexcept {
#if DISPOSESCOPE_DEBUG
        return until_failure.load() > 0 && until_failure.fetch_sub(1) == 1;
#else
        return false;
#endif
    }

    void* refuse(Bytes asked, Bytes by_limit) noexcept {
        last_refusal() = {asked, counters.look() + counters.pinned.load(), counters.cached.load(), by_limit};
        return nullptr;
    }

    Block* take_small(std::size_t n, bool is_zeroed) noexcept {
        const std::size_t size = sizeof(Block) + n;
        for (bool is_trimmed : {false, true}) {
            void* const memory = is_zeroed ? std::calloc(1, size) : std::malloc(size);
            if (memory != nullptr) return new_block(memory, sizeof(Block), n, n, Origin::small);
            if (!is_trimmed) trim(0);
        }
        refuse(static_cast<Bytes>(n), no_limit);
        return nullptr;
    }

    // Of a block in an arena: its memory begins with a pointer to that.
    static Arena*& arena_of(Block* block) noexcept { return *static_cast<Arena**>(block->memory()); }

    bool lies_in_closed(Block* block) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        return arena_of(block)->is_closed;
    }

    // With the mutex of arenas.
    static void unlink(std::atomic<Arena*>& first, Arena* arena) noexcept {
        if (first.load() == arena) {
            first.store(arena->next);
            return;
        }
        for (Arena* one = first.load(); one != nullptr; one = one->next) {
            if (one->next == arena) one->next = arena->next;
        }
    }

    // Lays a block for `n` bytes into `arena`; with the mutex of arenas. Null when there is no memory to note it.
    Block* lay(Arena* arena, std::size_t begin, std::size_t end, std::size_t n, Origin origin) noexcept {
        try {
            arena->taken.emplace(begin, end);
        } catch (...) {
            return nullptr;
        }
        Block* const block = new_block(arena->base + begin, Arena::head, end - begin - Arena::head, n, origin);
        arena_of(block) = arena;
        const Bytes nbytes = static_cast<Bytes>(end - begin);
        idle.fetch_sub(nbytes);
        if (origin == Origin::planned) planned_idle.fetch_sub(nbytes);
        return block;
    }

    // The place that the plan of the entered arena has for `n` bytes. Null: none is entered on this thread, the plan
    // has no such array next, or its place is taken.
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
                block = lay(arena, entry->begin, entry->end, n, Origin::planned);
            }
            ++(block == nullptr ? arena->missed : arena->served);
        }
        if (block == nullptr) return nullptr;
        counters.slack.fetch_add(block->footprint() - static_cast<Bytes>(n), std::memory_order_relaxed);
        counters.count_new(static_cast<Bytes>(n));
        if (is_zeroed) std::memset(block->data(), 0, n);
        return block;
    }

    // A block out of memory that was taken ahead for the pool; null when none has room.
    Block* take_reserved(std::size_t n, std::size_t capacity) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        const std::size_t whole = round_up(Arena::head + capacity, Arena::slot);
        for (Arena* arena = slabs.load(); arena != nullptr; arena = arena->next) {
            std::size_t begin;
            if (!arena->find(whole, &begin)) continue;
            Block* const block = lay(arena, begin, begin + whole, n, Origin::reserved);
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
        if (arena->is_mapped) {
            unmap(arena->memory, arena->mapped);
        } else {
            free_aligned(arena->memory);
        }
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
            try {
                one->known[data] = one->count;
                one->events.push_back({one->count, static_cast<Bytes>(n), false, counters.look()});
                ++one->count;
                noted = one->noted;
            } catch (...) {
                one->is_incomplete = true;
            }
        }
        if (noted != nullptr) noted();
    }

    void note_free(void* data, Bytes n) noexcept {
        const std::lock_guard<std::mutex> guard(arena_mutex);
        Recorder* const one = recorder.load();
        if (one == nullptr) return;
        const auto found = one->known.find(data);
        try {
            one->events.push_back({found == one->known.end() ? -1 : found->second, n, true, counters.look()});
        } catch (...) {
            one->is_incomplete = true;
        }
        if (found != one->known.end()) one->known.erase(found);
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
        const bool is_fresh = block == nullptr;
        if (!is_fresh) {
            unprotect(block);
            counters.reuses.fetch_add(1, std::memory_order_relaxed);
            block->asked = n;
            if (n > block->used) block->used = n;
            block->state.store(State::live, std::memory_order_relaxed);
        } else {
            block = take_fresh(n, capacity, &is_zero);
            if (block == nullptr) {
                refuse(static_cast<Bytes>(n), no_limit);
                return nullptr;
            }
            counters.misses.fetch_add(1, std::memory_order_relaxed);
        }
        counters.slack.fetch_add(block->footprint() - static_cast<Bytes>(n), std::memory_order_relaxed);
        counters.count_new(static_cast<Bytes>(n));
        if (is_fresh) counters.raise_reserved(idle.load());
        if (is_zeroed && !is_zero) std::memset(block->data(), 0, n);
        return block;
    }

    Block* take_fresh(std::size_t n, std::size_t capacity, bool* is_zero) noexcept {
        Block* block = take_from_system(n, capacity, is_zero);
        if (block != nullptr) return block;
        trim(0);
        block = take_from_system(n, capacity, is_zero);
        if (block != nullptr || collect_garbage == nullptr) return block;
        collect_garbage();
        trim(0);
        return take_from_system(n, capacity, is_zero);
    }

    Block* take_from_system(std::size_t n, std::size_t capacity, bool* is_zero) noexcept {
        if (slabs.load(std::memory_order_relaxed) != nullptr) {
            Block* const block = take_reserved(n, capacity);
            if (block != nullptr) return block;
            // Apart from the blocks taken ahead, at most what the limit allows.
            const Bytes ahead = idle.load() - planned_idle.load();
            if (limit.load() != no_limit && left_beside(0) < ahead) return nullptr;
        }
        if (capacity >= mapped_from) {
            const unsigned place = turn.fetch_add(1, std::memory_order_relaxed) % places;
            const std::size_t offset = place_step * (place + 1);  // the last one is the next page's beginning
            const std::size_t huge = in_huge_pages(offset + n), mapped = round_up(offset + capacity, page_size());
            void* const memory = map(huge > mapped ? huge : mapped, huge);
            if (memory != nullptr) {
                *is_zero = true;
                Block* const block = new_block(memory, offset, capacity, n, Origin::mapped);
                if (huge > offset + n) block->used = huge - offset;
                return block;
            }
        }
        void* const memory = allocate_aligned(sizeof(Block) + capacity);
        return memory == nullptr ? nullptr : new_block(memory, sizeof(Block), capacity, n, Origin::aligned);
    }

    static Block* new_block(
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

    void fill_new(Block* block) noexcept {
        const int byte = fill.load(std::memory_order_relaxed);
        if (byte >= 0) std::memset(block->data(), byte, block->asked);
    }

    // Grants `n` bytes within the limit, and a free block of `capacity` for them if there is one. What was
    // granted stays reserved until `held` goes, by when it is counted as live.
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
                    if (capacity != 0) *block = pop(bin_for(capacity));
                    if (limit.load() != no_limit) held.take(n);
                }
                excess = take_oldest(left < 0 ? 0 : left);
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

    // How much of the limit is left when `n` bytes more are live and nothing is cached.
    Bytes left_beside(Bytes n) const noexcept {
        const Bytes most = limit.load();
        if (most == no_limit) return most;
        return most - counters.live.load() - counters.pinned.load() - granted.load() - planned_idle.load() - n;
    }

    void find_limit() noexcept {
        Bytes found = no_limit;
        for (Limit* one = limits.first; one != nullptr; one = one->next) {
            if (one->nbytes < found) found = one->nbytes;
        }
        limit.store(found);
    }

    // From here on the mutex is held.

    void put(Block* block) noexcept {
        block->newer = nullptr;
        block->older = newest;
        (newest == nullptr ? oldest : newest->newer) = block;
        newest = block;
        Block*& top = bins[block->bin];
        block->above = nullptr;
        block->below = top;
        if (top != nullptr) top->above = block;
        top = block;
        counters.cached.fetch_add(block->footprint());
    }

    void take_out(Block* block) noexcept {
        (block->newer == nullptr ? newest : block->newer->older) = block->older;
        (block->older == nullptr ? oldest : block->older->newer) = block->newer;
        (block->above == nullptr ? bins[block->bin] : block->above->below) = block->below;
        if (block->below != nullptr) block->below->above = block->above;
        counters.cached.fetch_sub(block->footprint());
    }

    Block* pop(std::uint16_t bin) noexcept {
        Block* const block = bins[bin];
        if (block != nullptr) take_out(block);
        return block;
    }

    // Takes out the oldest blocks until no more than `most` bytes are cached; they hang together by `below`.
    Block* take_oldest(Bytes most) noexcept {
        Block* taken = nullptr;
        while (oldest != nullptr && counters.cached.load() > most) {
            Block* const block = oldest;
            take_out(block);
            block->below = taken;
            taken = block;
        }
        return taken;
    }

    // From here on it need not be.

    Bytes give_back_all(Block* block) noexcept {
        Bytes total = 0;
        while (block != nullptr) {
            Block* const next = block->below;
            total += block->footprint();
            unprotect(block);
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

    // What is cached belongs to nobody: the sanitizer and the debugging build say so when it is touched.
    static void protect([[maybe_unused]] Block* block) noexcept {
#if defined(__SANITIZE_ADDRESS__)
        ASAN_POISON_MEMORY_REGION(block->data(), block->used);
#endif
    }

    static void unprotect([[maybe_unused]] Block* block) noexcept {
#if defined(__SANITIZE_ADDRESS__)
        ASAN_UNPOISON_MEMORY_REGION(block->data(), block->used);
#endif
#if DISPOSESCOPE_DEBUG
        const unsigned char* const bytes = static_cast<const unsigned char*>(block->data());
        for (std::size_t i = 0; i < block->asked && i < 4096; ++i) {
            if (bytes[i] != poison) std::abort();
        }
#endif
    }
};

// One for the process. Never destroyed: arrays are freed while the interpreter, and what is static, goes.
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
