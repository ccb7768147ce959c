// Counts the memory of PyTorch's allocator for the CPU, and refuses what exceeds a limit.
//
// PyTorch calls one allocator object for all memory of CPU tensors: storages, the workspaces of most operations
// and gradients that its C++ code makes, on all threads. `c10::SetCPUAllocator` replaces it. The counting one
// passes each call on to the one before it, so addresses and alignments do not change.
//
// PyTorch's headers are not needed to compile this. The declarations in `abi` repeat those of c10/core/Allocator.h
// since PyTorch 2.3. The caller checks the size of PyTorch's table of virtual functions before it installs this.
#pragma once

#include <Python.h>
#ifndef _WIN32
#include <pthread.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// PyTorch catches this exception by its name, and sets its Python error. The declaration repeats the one in
// torch/csrc/Exceptions.h. PyTorch reads only the three references, because `type` is set.
struct python_error : public std::exception {
    // Takes over both references.
    python_error(PyObject* type, PyObject* value) : type(type), value(value), message("out of memory") {}
    python_error(const python_error& other)
        : type(other.type), value(other.value), traceback(other.traceback), message(other.message) {
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_XINCREF(type);
        Py_XINCREF(value);
        Py_XINCREF(traceback);
        PyGILState_Release(state);
    }
    python_error& operator=(const python_error&) = delete;
    ~python_error() override {
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        PyGILState_Release(state);
    }
    const char* what() const noexcept override { return message.c_str(); }

    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    std::string message;
};

namespace scopes {

namespace abi {

using Deleter = void (*)(void*);

struct DataPtr {
    void* data;
    std::unique_ptr<void, Deleter> context;
    std::int8_t device_type, device_index;
};

struct Allocator {
    virtual ~Allocator() = default;
    virtual DataPtr allocate(std::size_t nbytes) = 0;
    virtual bool is_simple_data_ptr(const DataPtr& data) const = 0;
    virtual Deleter raw_deleter() const = 0;
    virtual void copy_data(void* to, const void* from, std::size_t nbytes) const = 0;
};

// The bytes of its table of virtual functions: two words before the first, and two destructors.
constexpr std::size_t VIRTUAL_TABLE_BYTES = (2 + 2 + 4) * sizeof(void*);

// PyTorch for Linux uses GCC's C++ library. Another one, such as that of Zig's compiler, arranges `unique_ptr` in
// another way, and PyTorch can't catch its exceptions.
#ifdef __GLIBCXX__
constexpr bool HAS_LIBRARY_OF_PYTORCH = true;
#else
constexpr bool HAS_LIBRARY_OF_PYTORCH = false;
#endif

}  // namespace abi

struct CpuFigures {
    std::size_t live, peak, allocated, freed, count;
};

// An error of Python's as two references, which belong to the receiver; null for none.
struct Refusal {
    PyObject *type, *value;
};

constexpr std::size_t NO_LIMIT = SIZE_MAX;

// The blocks that are in use, by address. A hash table with linear probing, because each operation adds one block
// and removes one.
class Blocks {
public:
    struct Block { std::size_t address, nbytes; abi::Deleter deleter; };  // the address is 0 in a free slot

private:
    std::vector<Block> slots = std::vector<Block>(1024);
    std::size_t count = 0;

    std::size_t place_of(std::size_t address) const {
        return static_cast<std::size_t>((static_cast<std::uint64_t>(address >> 4) * 0x9E3779B97F4A7C15ull) >> 32)
            & (slots.size() - 1);
    }
    std::size_t slot_of(std::size_t address) const {
        std::size_t i = place_of(address);
        while (slots[i].address != 0 && slots[i].address != address)
            i = (i + 1) & (slots.size() - 1);
        return i;
    }

public:
    // Makes room for one more block. May throw std::bad_alloc, and changes nothing then.
    void reserve() {
        if ((count + 1) * 2 <= slots.size())
            return;
        std::vector<Block> old(slots.size() * 2);
        old.swap(slots);
        for (const Block& each : old)
            if (each.address != 0)
                slots[slot_of(each.address)] = each;
    }
    // Adds a block, after `reserve`.
    void put(const Block& block) {
        ++count;
        slots[slot_of(block.address)] = block;
    }
    // Returns the bytes of a block, or 0 if there is none.
    std::size_t size_of(std::size_t address) const { return slots[slot_of(address)].nbytes; }
    // Removes a block, and returns it; the address is 0 if there is none.
    Block take(std::size_t address) {
        std::size_t hole = slot_of(address);
        const Block found = slots[hole];
        if (found.address == 0)
            return found;
        --count;
        // Move later ones of the same run into the hole, if a search for them begins at it or before.
        const std::size_t last = slots.size() - 1;
        for (std::size_t i = (hole + 1) & last; slots[i].address != 0; i = (i + 1) & last)
            if (((i - place_of(slots[i].address)) & last) >= ((i - hole) & last)) {
                slots[hole] = slots[i];
                hole = i;
            }
        slots[hole] = Block{};
        return found;
    }
};

// One mutex guards all figures, so they are exact at each moment. It takes 20 ns.
class CpuAllocator final : public abi::Allocator {
    abi::Allocator* const inner;
    std::mutex mutex;
    Blocks blocks;
    CpuFigures figures{};
    // The bytes of allocations that passed the limit and are not finished.
    std::size_t pending = 0;
    std::atomic<std::size_t> limit{NO_LIMIT};
    // The peaks of the open measures. Each is owned by its measure, which removes it.
    std::vector<std::size_t*> peaks;

    inline static CpuAllocator* the = nullptr;

    static void free_counted(void* address) {
        the->forget(address)(address);
    }
    // Counts the end of a block, and returns its deleter. The block must not be free yet: another thread might
    // get its address.
    abi::Deleter forget(void* address) {
        const std::lock_guard<std::mutex> lock(mutex);
        const Blocks::Block block = blocks.take(reinterpret_cast<std::size_t>(address));
        if (block.address == 0)  // older than the count, from `raw_deallocate`
            return inner->raw_deleter();
        figures.live -= block.nbytes;
        figures.freed += block.nbytes;
        return block.deleter;
    }
    void note(void* address, std::size_t nbytes, abi::Deleter deleter, std::size_t reserved) {
        const std::lock_guard<std::mutex> lock(mutex);
        pending -= reserved;
        blocks.reserve();
        blocks.put({reinterpret_cast<std::size_t>(address), nbytes, deleter});
        figures.live += nbytes;
        figures.allocated += nbytes;
        ++figures.count;
        figures.peak = std::max(figures.peak, figures.live);
        for (std::size_t* peak : peaks)
            *peak = std::max(*peak, figures.live);
    }
    bool try_reserve(std::size_t nbytes) {
        const std::lock_guard<std::mutex> lock(mutex);
        const std::size_t most = limit;
        if (most != NO_LIMIT && (nbytes > most || figures.live + pending > most - nbytes))
            return false;
        pending += nbytes;
        return true;
    }
    // Reserves bytes below the limit, or throws.
    void reserve(std::size_t nbytes) {
        if (try_reserve(nbytes))
            return;
        // Only a thread that Python knows may wait for the interpreter: a worker of an operation would wait for
        // a thread that waits for the worker.
        if (refuse != nullptr && Py_IsInitialized() && PyGILState_GetThisThreadState() != nullptr) {
            const Refusal error = refuse(nbytes);
            if (error.value != nullptr)
                throw python_error(error.type, error.value);
            if (try_reserve(nbytes))
                return;
        }
        throw std::runtime_error(
            "not enough memory: you tried to allocate " + std::to_string(nbytes)
            + " bytes. The limit of scopes.torch.memory.limit() is " + std::to_string(limit) + " bytes");
    }

    // A child process has only the thread that forked. No other thread may hold the mutex then.
    static void before_fork() { the->mutex.lock(); }
    static void after_fork() { the->mutex.unlock(); }

public:
    // Called when an allocation exceeds the limit. It frees memory, or returns the error.
    Refusal (*refuse)(std::size_t) = nullptr;

    explicit CpuAllocator(abi::Allocator* inner) : inner(inner) {
        the = this;
#ifndef _WIN32
        pthread_atfork(before_fork, after_fork, after_fork);
#endif
    }

    abi::DataPtr allocate(std::size_t nbytes) override {
        std::size_t reserved = 0;
        if (limit.load(std::memory_order_relaxed) != NO_LIMIT) {
            reserve(nbytes);
            reserved = nbytes;
        }
        try {
            abi::DataPtr made = inner->allocate(nbytes);
            void* const address = made.context.get();
            if (address == nullptr) {  // of 0 bytes
                const std::lock_guard<std::mutex> lock(mutex);
                pending -= reserved;
                return made;
            }
            const abi::Deleter deleter = made.context.get_deleter();
            note(address, nbytes, deleter, std::exchange(reserved, 0));
            made.context.get_deleter() = free_counted;
            return made;
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex);
            pending -= reserved;
            throw;
        }
    }
    bool is_simple_data_ptr(const abi::DataPtr& data) const override { return inner->is_simple_data_ptr(data); }
    abi::Deleter raw_deleter() const override { return inner->raw_deleter() == nullptr ? nullptr : free_counted; }
    void copy_data(void* to, const void* from, std::size_t nbytes) const override {
        inner->copy_data(to, from, nbytes);
    }

    CpuFigures read() {
        const std::lock_guard<std::mutex> lock(mutex);
        return figures;
    }
    void reset_peak() {
        const std::lock_guard<std::mutex> lock(mutex);
        figures.peak = figures.live;
    }
    // Begins to raise `peak`, from the live bytes on, and returns the figures of this moment.
    CpuFigures begin(std::size_t* peak) {
        const std::lock_guard<std::mutex> lock(mutex);
        peaks.push_back(peak);
        *peak = figures.live;
        return figures;
    }
    // Returns the figures of this moment, with a peak of `begin`.
    CpuFigures read(const std::size_t* peak) {
        const std::lock_guard<std::mutex> lock(mutex);
        CpuFigures found = figures;
        found.peak = *peak;
        return found;
    }
    void end(std::size_t* peak) {
        const std::lock_guard<std::mutex> lock(mutex);
        peaks.erase(std::remove(peaks.begin(), peaks.end(), peak), peaks.end());
    }
    std::size_t size_of(std::size_t address) {
        const std::lock_guard<std::mutex> lock(mutex);
        return blocks.size_of(address);
    }
    void set_limit(std::size_t nbytes) { limit = nbytes; }
    bool has_room(std::size_t nbytes) {
        const std::lock_guard<std::mutex> lock(mutex);
        const std::size_t most = limit;
        return most == NO_LIMIT || (nbytes <= most && figures.live + pending <= most - nbytes);
    }
};

// Replaces PyTorch's allocator for the CPU, and returns the new one, or null if PyTorch kept the old one. It lives
// until the process ends, because blocks may end at any time, after the end of the interpreter too.
inline CpuAllocator* install_cpu_allocator(std::size_t get, std::size_t set) {
    const auto current = reinterpret_cast<abi::Allocator* (*)()>(get);
    const auto replace = reinterpret_cast<void (*)(abi::Allocator*, std::uint8_t)>(set);
    auto* const made = new CpuAllocator(current());
    // PyTorch keeps an allocator of a higher priority. Its own has the priority 0.
    for (int priority : {0, 255}) {
        replace(made, static_cast<std::uint8_t>(priority));
        if (current() == made)
            return made;
    }
    return nullptr;
}

}  // namespace scopes
