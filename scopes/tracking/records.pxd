"""The records of tracking: the interface for ``cimport``."""

from scopes.core.scope cimport DisposeScope


cdef extern from "Python.h":
    ctypedef class weakref.ref [object PyWeakReference]:
        pass


# The site of the innermost `depth` lines of the user's code.
cpdef object call_site(long depth=*)


# A node of the tree of scopes: creations and living memory of one path of names.
cdef class Place:
    cdef readonly tuple path
    cdef readonly Place outer
    cdef readonly dict inner
    # The number of ended scopes of this path, and the time that they were open in total.
    cdef readonly long long rounds
    cdef readonly long long nanoseconds
    # The number of disposables that such a scope owned at their creation, and how many of them are alive.
    cdef readonly long long created
    cdef readonly long long alive
    # The bytes of these disposables and those of inner places. A buffer counts at its first tensor's place.
    cdef readonly long long bytes_created
    cdef readonly long long bytes_alive
    cdef readonly long long bytes_peak

    # Return the place for scopes called `name` inside this one.
    cdef Place inside(self, name)
    # Count a created disposable, an ended one, and an ended scope with the time that it was open.
    cdef void count_created(self) noexcept
    cdef void count_ended(self) noexcept
    cdef void count_round(self, long long nanoseconds) noexcept
    # Add the bytes of a new buffer here and in all outer places, or remove them.
    cdef void charge(self, long long nbytes) noexcept
    cdef void discharge(self, long long nbytes) noexcept


# Return the place of `scope`, by its name and the names of its outer scopes.
cdef Place place_of(DisposeScope scope, Place root)


cdef class Record(ref):
    # The id of the disposable, and its number in the order of creation, from 1 on.
    cdef readonly object key
    cdef readonly long long serial
    # The name of the type, with the library for foreign types.
    cdef readonly object kind
    # The line that created it, and the line that added a graph to it in place (``total += loss``), or None.
    cdef public object site
    cdef readonly object graph_site
    # The place of the scope that owned it at its creation, and the number of scopes that had ended before.
    cdef readonly Place place
    cdef readonly long long closings
    # The place that sums the memory of other libraries; None for disposables of this library.
    cdef readonly Place foreign
    # The key of its memory, and the bytes of that memory, shared or not.
    cdef readonly object buffer
    cdef readonly long long nbytes
    # The record that counts this memory, or None if this record does, and the number of live records on it.
    cdef Record first
    cdef Py_ssize_t shares
    # The time of creation, from ``time.perf_counter_ns``.
    cdef readonly long long created_at
    # The ident of the creating thread.
    cdef readonly unsigned long thread
    # How it was disposed while it had references, and the line; None before.
    cdef readonly object ended
    cdef readonly object ended_at


cdef class Tracker:
    cdef object __weakref__
    # The number of lines to record for each creation: the line and its callers.
    cdef public long depth
    # The records of disposables with references, by id. Some are disposed.
    cdef readonly dict records
    # The number of records so far, and of ended scopes.
    cdef readonly long long serial
    cdef readonly long long closings
    cdef public tuple listeners
    # The place outside all scopes, and the place that sums the memory of other libraries.
    cdef readonly Place root
    cdef readonly Place foreign
    cdef readonly long long began_at
    # By the id of an open scope: its place, and the time when it opened.
    cdef dict _place_by_scope
    cdef dict _opened_at
    # By the key of a buffer: the record that counts its memory.
    cdef dict _buffers
    # By the key of a buffer: the line that created its last tensor.
    cdef dict _creators
    # The callback of records for a freed disposable; None after tracking has ended.
    cdef object _when_gone

    cdef int _remember(self, Record record) except -1
    cdef Place _place_of(self, DisposeScope scope)
