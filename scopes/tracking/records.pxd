"""The records of tracking: the interface for ``cimport``."""

from scopes.core.disposable cimport MemberList
from scopes.tracking.paths cimport Place


cdef extern from "Python.h":
    ctypedef class weakref.ref [object PyWeakReference]:
        pass


cdef class Record(ref):
    # Its id, and its number among all that were tracked.
    cdef readonly object key
    cdef readonly long long serial
    # The name of its type.
    cdef readonly object kind
    # The line that created it, and the line that gave it a graph in place, ``total += loss``; None where it
    # has the graph it was made with.
    cdef public object site
    cdef readonly object graph_site
    # The scopes that were open around it, and how many had ended before.
    cdef readonly Place place
    cdef readonly long long closings
    # Where memory of other libraries is summed up; None for our own memory.
    cdef readonly Place foreign
    # What tells its memory from other memory, and the bytes of it, when it was created, shared or not.
    cdef readonly object buffer
    cdef readonly long long nbytes
    # The record by which this memory is counted, None for this one; and how many share it.
    cdef Record first
    cdef Py_ssize_t shares
    # Of ``time.perf_counter_ns``.
    cdef readonly long long created_at
    # The thread's ident.
    cdef readonly unsigned long thread
    # How it ended while somebody still referred to it, and where; None before.
    cdef readonly object ended
    cdef readonly object ended_at


cdef class Tracker:
    cdef object __weakref__
    # How many lines are noted for each.
    cdef public long depth
    # By the id of what is alive, or empty but referred to.
    cdef readonly dict records
    # How many records there were, and how many scopes have ended.
    cdef readonly long long serial
    cdef readonly long long closings
    cdef public tuple listeners
    # The place outside all scopes, and that of the memory of other libraries' objects.
    cdef readonly Place root
    cdef readonly Place foreign
    cdef readonly long long began_at
    # By the id of an open scope: its place, and since when it is open.
    cdef dict _place_by_scope
    cdef dict _opened_at
    # By what tells memory from other memory: the record by which it is counted.
    cdef dict _buffers
    # What a record calls when its disposable has gone; None when tracking has ended.
    cdef object _when_gone

    cdef Place _place_of(self, MemberList scope)
