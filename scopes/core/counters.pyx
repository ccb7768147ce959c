# cython: language_level=3, auto_pickle=False
"""Exact counts of objects created, disposed, attached and detached, by type and creating thread.

Each pair of a type and a thread has one block of atomic counters. An object refers to its block from creation
to end. So counting takes no lock, and a finalizer may count on any thread at any time.
"""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libcpp cimport bool as cbool
from libcpp.atomic cimport memory_order_relaxed


cdef extern from *:
    """
    #include <atomic>
    #include <cstdint>
    #include <unordered_map>

    namespace {

    // One entry for each thread that ever counted. Unlike a thread's ident, the entry's address is not reused
    // while the thread, a block or a `CountingThread` refers to the entry.
    struct thread_entry {
        std::atomic<std::int64_t> shares{1};
        // The number of `CountingThread` objects. While there are any, the thread's blocks are not merged.
        std::atomic<std::int64_t> views{0};
        std::atomic<bool> has_ended{false};
    };

    inline void release_entry(thread_entry* entry) {
        if (entry->shares.fetch_sub(1) == 1) {
            delete entry;
        }
    }

    // Incremented by reset(). Blocks of earlier generations get no new objects.
    std::atomic<std::uint64_t> generation{1};

    // The block that this thread used last. Each creation reads it. It is not part of `thread_blocks`,
    // because a thread_local without a constructor is read without a guard.
    struct last_used {
        PyTypeObject* type;
        PyObject* block;
        std::uint64_t generation;
    };
    thread_local last_used last{nullptr, nullptr, 0};

    // This thread's blocks by type: borrowed references. The list of all blocks owns them.
    struct thread_blocks {
        thread_entry* entry = new thread_entry;
        std::uint64_t of_generation = 0;
        std::unordered_map<PyTypeObject*, PyObject*> by_type;

        ~thread_blocks() {
            last = last_used{nullptr, nullptr, 0};
            entry->has_ended = true;
            release_entry(entry);
        }
    };
    thread_local thread_blocks mine;

    // For each type, the block with the sums of ended threads: borrowed references.
    std::unordered_map<PyTypeObject*, PyObject*> retired;

    inline PyObject* last_block(PyTypeObject* type) {
        return last.type == type && last.generation == generation.load(std::memory_order_relaxed)
            ? last.block : nullptr;
    }

    PyObject* known_block(PyTypeObject* type) {
        std::uint64_t now = generation.load();
        if (mine.of_generation != now) {
            mine.by_type.clear();
            mine.of_generation = now;
        }
        auto found = mine.by_type.find(type);
        if (found == mine.by_type.end()) {
            return nullptr;
        }
        last = last_used{type, found->second, now};
        return found->second;
    }

    void remember_block(PyTypeObject* type, PyObject* block) { mine.by_type[type] = block; }

    void* share_of_this_thread() {
        mine.entry->shares.fetch_add(1);
        return mine.entry;
    }

    void give_back(void* entry) { release_entry(static_cast<thread_entry*>(entry)); }
    void count_view(void* entry, int change) { static_cast<thread_entry*>(entry)->views.fetch_add(change); }

    bool is_over(void* entry) {
        auto* thread = static_cast<thread_entry*>(entry);
        return thread->has_ended && thread->views == 0;
    }

    PyObject* retired_block(PyTypeObject* type) {
        auto found = retired.find(type);
        return found == retired.end() ? nullptr : found->second;
    }

    void remember_retired(PyTypeObject* type, PyObject* block) { retired[type] = block; }

    void begin_generation() {
        generation.fetch_add(1);
        retired.clear();
    }

    }  // namespace
    """
    PyObject* last_block(PyTypeObject* kind) noexcept
    PyObject* known_block(PyTypeObject* kind) noexcept
    void remember_block(PyTypeObject* kind, PyObject* block) except +
    void* share_of_this_thread() noexcept
    void give_back(void* entry) noexcept
    void count_view(void* entry, int change) noexcept
    cbool is_over(void* entry) noexcept
    PyObject* retired_block(PyTypeObject* kind) noexcept
    void remember_retired(PyTypeObject* kind, PyObject* block) except +
    void begin_generation() noexcept


# All blocks: those of each thread, and one for each type that holds the sums of ended threads.
cdef list _blocks = []
cdef Py_ssize_t _retire_at = 64


# Refers only to a class, so the collector never has to break a cycle here.
@cython.no_gc
@cython.final
cdef class Counters:
    def __dealloc__(self):
        if self.thread is not NULL:
            give_back(self.thread)

    cdef int64_t live(self) noexcept:
        cdef int64_t disposed = self.disposed_in.load() + self.disposed_outside.load()
        return self.created_in.load() + self.created_outside.load() - disposed


cdef Counters counters_of(type kind):
    cdef PyObject* found = last_block(<PyTypeObject*>kind)
    return <Counters>found if found is not NULL else _find(kind)


cdef Counters _find(type kind):
    cdef PyObject* found = known_block(<PyTypeObject*>kind)
    if found is not NULL:
        return <Counters>found
    cdef Counters block = Counters.__new__(Counters)
    block.kind = kind
    block.thread = share_of_this_thread()
    # A finalizer may have created it in the meantime.
    found = known_block(<PyTypeObject*>kind)
    if found is not NULL:
        return <Counters>found
    _blocks.append(block)
    remember_block(<PyTypeObject*>kind, <PyObject*>block)
    if len(_blocks) > _retire_at:
        _retire()
    return block


cdef int _retire() except -1:
    """Merge the blocks of ended threads whose objects have all ended: such blocks no longer change."""
    global _retire_at
    cdef Py_ssize_t i = 0
    cdef Counters block, total
    cdef PyObject* found
    while i < len(_blocks):
        block = <Counters>_blocks[i]
        i += 1
        if block.thread is NULL or not is_over(block.thread) or block.live() != 0:
            continue
        found = retired_block(<PyTypeObject*>block.kind)
        if found is NULL:
            remember_retired(<PyTypeObject*>block.kind, <PyObject*>block)
            give_back(block.thread)
            block.thread = NULL
            continue
        # From here on no Python code runs, so no other reader counts a block twice or misses one.
        total = <Counters>found
        total.created_in.fetch_add(block.created_in.load())
        total.created_outside.fetch_add(block.created_outside.load())
        total.disposed_in.fetch_add(block.disposed_in.exchange(0))
        total.disposed_outside.fetch_add(block.disposed_outside.exchange(0))
        total.attached.fetch_add(block.attached.exchange(0))
        total.detached.fetch_add(block.detached.exchange(0))
        total.finalized.fetch_add(block.finalized.exchange(0))
        block.created_in.store(0)
        block.created_outside.store(0)
        i -= 1
        _blocks[i] = _blocks[len(_blocks) - 1]
        _blocks.pop()
    _retire_at = 64 + 2 * len(_blocks)
    return 0


cdef class CountingThread:
    """Refers to the thread that created it. While it exists, the counts of that thread are not merged."""

    cdef void* entry

    def __cinit__(self):
        self.entry = share_of_this_thread()
        count_view(self.entry, 1)

    def __dealloc__(self):
        count_view(self.entry, -1)
        give_back(self.entry)

    def __reduce__(self):
        raise TypeError("the figures of a thread can't be copied or pickled: use their snapshot()")


def total(kind, CountingThread thread):
    """Return the counts of objects of `kind` or a subclass, created by `thread`; None: any kind, any thread.

    Returns
    -------
    Created and disposed outside of scopes, created and disposed in scopes, attached, detached, finalized.
    """
    cdef list chosen = []
    cdef Counters block
    for block in list(_blocks):
        if thread is not None and block.thread is not thread.entry:
            continue
        # A metaclass may define `__subclasscheck__`.
        if kind is None or issubclass(block.kind, kind):
            chosen.append(block)
    # No Python code runs during the sum, so all counts are of the same moment.
    cdef int64_t created_outside = 0, disposed_outside = 0, created_in = 0, disposed_in = 0
    cdef int64_t attached = 0, detached = 0, finalized = 0
    cdef Py_ssize_t i
    for i in range(len(chosen)):
        block = <Counters>chosen[i]
        finalized += block.finalized.load(memory_order_relaxed)
        disposed_outside += block.disposed_outside.load(memory_order_relaxed)
        disposed_in += block.disposed_in.load(memory_order_relaxed)
        created_outside += block.created_outside.load(memory_order_relaxed)
        created_in += block.created_in.load(memory_order_relaxed)
        attached += block.attached.load(memory_order_relaxed)
        detached += block.detached.load(memory_order_relaxed)
    return created_outside, disposed_outside, created_in, disposed_in, attached, detached, finalized


def block_count():
    """Return the number of blocks, including those of ended threads that are not merged yet."""
    return len(_blocks)


def reset():
    """Start new blocks. Older objects count in the old blocks, which are no longer read."""
    global _blocks
    begin_generation()
    _blocks = []
