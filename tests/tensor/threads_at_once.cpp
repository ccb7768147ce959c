// Sixteen threads without the GIL on the memory pool, its arenas and the threads of kernels.
// test_threads_at_once.py compiles it with ThreadSanitizer.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tensor/kernels/thread_pool.h"
#include "tensor/memory/pool.h"

namespace memory = disposescope::memory;
namespace kernels = disposescope::kernels;

constexpr int thread_count = 16;
constexpr int slot_count = 64;
constexpr std::size_t sizes[] = {100, 5'000, 70'000, 3'000'000};

// Arrays that any thread takes, changes and frees.
std::atomic<void*> slots[slot_count];

void check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "not true: %s\n", what);
    std::exit(1);
}

// Write the first and the last byte, as the only thread that has the array.
void write(void* data) {
    auto* const bytes = static_cast<char*>(data);
    bytes[0] = bytes[memory::Block::of(data)->asked - 1] = 1;
}

void sum_with_kernel_threads() {
    constexpr std::ptrdiff_t size = 1'000, grain = 10;
    std::vector<int> found(size, 0);
    kernels::parallel_for(
        size, grain,
        [](void* context, std::ptrdiff_t start, std::ptrdiff_t end) {
            for (std::ptrdiff_t i = start; i < end; ++i) (*static_cast<std::vector<int>*>(context))[i] += 1;
        },
        &found);
    for (const int one : found) check(one == 1, "each element is computed once");
}

void allocate_in_arena(memory::Pool& pool, std::size_t n, bool is_planned) {
    std::vector<memory::Planned> plan;
    if (is_planned) plan.push_back({n, 0, 8'192});
    memory::Arena* const arena = pool.reserve(1 << 16, plan);
    if (arena == nullptr) return;
    if (is_planned) pool.enter(arena);
    void* const data = pool.allocate(n, false);
    if (data != nullptr) write(data);
    if (is_planned) pool.leave(arena);
    pool.close(arena);
    pool.free(data);
}

void run(int self) {
    memory::Pool& pool = memory::pool();
    std::mt19937 random(self);
    for (int round = 0; round < 600; ++round) {
        std::atomic<void*>& slot = slots[random() % slot_count];
        const std::size_t n = sizes[random() % 4];
        switch (random() % 10) {
            case 0:
            case 1:
            case 2: {
                void* const data = pool.allocate(n, random() % 2 == 0);
                if (data != nullptr) write(data);
                pool.free(slot.exchange(data));
                break;
            }
            case 3: {
                void* const data = slot.exchange(nullptr);
                if (data == nullptr) break;
                void* const moved = pool.reallocate(data, n);
                write(moved == nullptr ? data : moved);
                pool.free(slot.exchange(moved == nullptr ? data : moved));
                break;
            }
            case 4: {
                void* const data = slot.exchange(nullptr);
                if (data == nullptr) break;
                if (memory::Pool::is_counted(data)) {
                    pool.pin(data);
                    if (random() % 2 == 0) pool.unpin(data);
                }
                pool.free(slot.exchange(data));
                break;
            }
            case 5: {
                memory::Limit limit;
                limit.nbytes = 50'000'000;
                pool.set(&limit);
                if (pool.count(1'000)) pool.counters.count_free(1'000, false);
                check(limit.reserved_peak.load() >= 0, "the peak of reserved bytes is never negative");
                pool.lift(&limit);
                break;
            }
            case 6: {
                memory::Peak peak;
                pool.counters.start(&peak);
                pool.counters.restart(&peak);
                check(pool.counters.read_live() >= 0, "live bytes are never negative");
                pool.counters.stop(&peak);
                break;
            }
            case 7:
                pool.trim(random() % 2 == 0 ? 0 : 1'000'000);
                pool.cached_capacities();
                break;
            case 8: allocate_in_arena(pool, 5'000, random() % 2 == 0); break;
            default: {
                memory::Recorder recorder;
                if (random() % 2 == 0 && pool.record(&recorder)) {
                    pool.free(pool.allocate(n, false));
                    pool.record(nullptr);
                } else {
                    sum_with_kernel_threads();
                }
            }
        }
    }
}

int main() {
    kernels::thread_count.store(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) threads.emplace_back(run, i);
    for (std::thread& one : threads) one.join();
    memory::Pool& pool = memory::pool();
    for (std::atomic<void*>& slot : slots) pool.free(slot.exchange(nullptr));
    pool.trim(0);
    const memory::Counters& counters = pool.counters;
    check(counters.live.load() == 0, "no byte is live");
    check(counters.pinned.load() == 0, "no byte is pinned");
    check(counters.cached.load() == 0, "no byte is cached");
    check(counters.slack.load() == 0, "no byte is lost in blocks");
    check(pool.idle.load() == 0, "no byte is reserved");
    check(counters.allocations.load() == counters.frees.load(), "each allocation is freed");
    std::puts("all bytes are freed");
}
