"""Records of tracking: one for each disposable, with the line that created it and the place of its scope.

This module is compiled, because tracking runs it for each new and each disposed object.
"""

import time

from cpython.object cimport Py_EQ, Py_NE, PyObject
from cpython.pythread cimport PyThread_get_thread_ident

from scopes.core.scope cimport Disposable, DisposeScope

from scopes.core.scope import footprint_of, library_of, revived, settle
from scopes.tracking import sites

cdef extern from *:
    """
    #include <frameobject.h>

    // Return the frame of the innermost Python function, and the frame that called it, as objects, or None.
    static PyObject* innermost_frame() {
        PyObject* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());  // borrowed
        return Py_NewRef(frame == nullptr ? Py_None : frame);
    }

    static PyObject* frame_around(PyObject* frame) {
        PyFrameObject* back = PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame));
        return back == nullptr ? Py_NewRef(Py_None) : reinterpret_cast<PyObject*>(back);
    }

    static PyObject* code_of(PyObject* frame) {
        return reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame)));
    }

    static int instruction_of(PyObject* frame) {
        return PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame));
    }
    """
    object innermost_frame()
    object frame_around(object frame)
    object code_of(object frame)
    int instruction_of(object frame)

# The known sites in each code object, by the object's id; see `scopes.tracking.sites`.
cdef dict _known = sites.known

# The most lines of buffers that a tracker remembers. Lines of smaller buffers are not remembered.
cdef enum:
    MAX_CREATORS = 65536
    LEAST_REMEMBERED = 1024

UNNAMED = "(unnamed)"
LAST_REFERENCE = "its last reference was deleted"

cdef object _now = time.perf_counter_ns
cdef object _referent = ref.__call__


cpdef object call_site(long depth=1):
    """Return the site of the innermost `depth` lines of the user's code on this thread's call stack."""
    cdef list found = None
    frame = innermost_frame()
    while frame is not None:
        code = code_of(frame)
        key = <size_t><PyObject*>code
        places = _known[key] if key in _known else sites.places_in(frame)
        if places is not None:
            at = instruction_of(frame)
            site = (<dict>places).get(at)
            if site is None:
                site = sites.site_at(frame)
                (<dict>places)[at] = site
            if depth == 1:
                return site
            if found is None:
                found = []
            found.append(site)
            if len(found) == depth:
                break
        frame = frame_around(frame)
    return sites.site_of_several(found) if found else sites.site_without_user()


cdef class Place:
    """Node for all scopes with one path of names: a loop's 10,000 "step" scopes are one place.

    Each counting method is atomic: it calls no Python code, so no thread sees a partial update.
    """

    def __init__(self, tuple path not None, Place outer):
        self.path = path
        self.outer = outer
        self.inner = {}

    cdef Place inside(self, name):
        key = UNNAMED if name is None else name
        found = self.inner.get(key)
        return self.inner.setdefault(key, Place((*self.path, key), self)) if found is None else found

    cdef void count_created(self) noexcept:
        self.created += 1
        self.alive += 1

    cdef void count_ended(self) noexcept:
        self.alive -= 1

    cdef void count_round(self, long long nanoseconds) noexcept:
        self.rounds += 1
        self.nanoseconds += nanoseconds

    cdef void charge(self, long long nbytes) noexcept:
        cdef Place at = self
        while at is not None:
            at.bytes_created += nbytes
            at.bytes_alive += nbytes
            if at.bytes_alive > at.bytes_peak:
                at.bytes_peak = at.bytes_alive
            at = at.outer

    cdef void discharge(self, long long nbytes) noexcept:
        cdef Place at = self
        while at is not None:
            at.bytes_alive -= nbytes
            at = at.outer


cdef Place place_of(DisposeScope scope, Place root):
    names = []
    while scope is not None:
        names.append(scope.name)
        scope = scope.outer
    place = root
    for name in reversed(names):
        place = place.inside(name)
    return place


cdef class Record(ref):
    """Record of one disposable that still has references; a weak reference to it."""

    def __hash__(self):
        return <Py_hash_t><size_t><PyObject*>self >> 4

    def __richcmp__(self, other, int op):
        if op == Py_EQ:
            return self is other
        return self is not other if op == Py_NE else NotImplemented

    def __call__(self):
        """Return the disposable, or None after it was freed."""
        x = _referent(self)
        return x if x is None or self.foreign is None else revived(x)

    @property
    def scope(self):
        """The path of the scope that owned it at its creation: names, outermost first."""
        return self.place.path


cdef class Tracker:
    """All records while tracking is on."""

    def __init__(self, long depth):
        self.depth = depth
        self.records = {}
        self.listeners = ()
        self.root = Place((), None)
        self.foreign = Place((), None)
        self.began_at = _now()
        self._place_by_scope = {}
        self._opened_at = {}
        self._buffers = {}
        self._creators = {}
        self._when_gone = self._gone

    @property
    def rounds(self):
        """The number of ended scopes for each path."""
        found = {}
        for place in self.places():
            if place.rounds:
                found[place.path] = place.rounds
        return found

    def places(self):
        """Return all places, outer ones first."""
        found = [self.root]
        for place in found:
            found += list(place.inner.values())
        return found

    def elapsed(self):
        """Return how long tracking has been on, in nanoseconds."""
        return _now() - self.began_at

    def locate(self):
        """Return the line of the user's code that runs now."""
        return call_site(self.depth)

    def created(self, x not None, DisposeScope scope, site=None, unsigned long thread=0):
        """Begin a record of `x`. If `site` and `thread` are not given, it was created here and now."""
        buffer, nbytes = footprint_of(x)
        cdef Record record = Record.__new__(Record, x, self._when_gone)
        record.key = id(x)
        self.serial += 1
        record.serial = self.serial
        library = None if isinstance(x, Disposable) else library_of(x)
        name = type(x).__name__
        record.kind = name if library is None else f"{library}.{name}"
        record.foreign = None if library is None else self.foreign
        record.site = call_site(self.depth) if site is None else site
        record.place = self.root if scope is None else self._place_of(scope)
        record.closings = self.closings
        record.buffer = buffer
        record.nbytes = nbytes
        record.shares = 1
        _count_memory(record, self._buffers)
        if nbytes >= LEAST_REMEMBERED:
            self._remember(record)
        record.created_at = _now()
        record.thread = PyThread_get_thread_ident() if site is None else thread
        try:
            for listener in self.listeners:
                listener.created(record)
        finally:
            # Store the record last. If another thread disposes `x` meanwhile, it finds no record, so
            # listeners never get an end before the creation. The caller then checks whether `x` has ended.
            self.records[record.key] = record
        return record

    cdef int _remember(self, Record record) except -1:
        """Remember the line of a buffer, which a graph may keep after the tensor has ended."""
        if record.first is not None:
            return 0  # a view
        if len(self._creators) >= MAX_CREATORS:
            for key in list(self._creators)[:MAX_CREATORS // 2]:
                self._creators.pop(key, None)
        self._creators[record.buffer] = record.site
        return 0

    def creator_of(self, buffer):
        """Return the line of the last tensor that was created on a buffer of this key; None if unknown.

        The buffer may be gone, and a later one without a tensor of its own may have the same key.
        """
        return self._creators.get(buffer)

    cdef Place _place_of(self, DisposeScope scope):
        key = id(scope)
        cdef Place place = self._place_by_scope.get(key)
        if place is None:
            place = place_of(scope, self.root)
            self._place_by_scope[key] = place
            if not scope.members.is_open:  # another thread ended it, and may have removed its entry before
                self._place_by_scope.pop(key, None)
        return place

    def ended(self, x, how):
        """Record that `x`, which still has references, is empty now."""
        cdef Record record = self.records.get(id(x))
        if record is None or record.ended is not None:
            return
        where = call_site(self.depth)
        # Check again. This check and the assignment are atomic, so only one thread records the end.
        if record.ended is not None:
            return
        record.ended = how
        record.ended_at = where
        _release_memory(record, self._buffers)
        for listener in self.listeners:
            listener.ended(record, how)

    def given_memory(self, x, buffer, nbytes):
        """Record the memory that `x` got after its creation."""
        cdef Record record = self.records.get(id(x))
        if record is not None and record() is x:
            _assign_memory(record, buffer, nbytes, self._buffers)
            if nbytes >= LEAST_REMEMBERED:
                self._remember(record)

    def written(self, x):
        """Record that an in-place operation of the current line gave `x` a graph."""
        cdef Record record = self.records.get(id(x))
        if record is not None:
            record.graph_site = call_site(self.depth)

    def _gone(self, Record record not None):
        if self.records.get(record.key) is record:
            del self.records[record.key]
        if record.ended is None:
            _release_memory(record, self._buffers)
            for listener in self.listeners:
                listener.ended(record, LAST_REFERENCE)

    def opened(self, DisposeScope scope not None):
        """Record that a scope was opened."""
        cdef DisposeScope outer = scope.outer
        cdef Place around = self.root
        if outer is not None:
            around = self._place_by_scope.get(id(outer))
            if around is None:
                around = place_of(outer, self.root)
        key = id(scope)
        cdef Place place = around.inside(scope.name)
        self._place_by_scope[key] = place
        self._opened_at[key] = _now()
        for listener in self.listeners:
            listener.opened(scope, place.path)

    def closed(self, DisposeScope scope not None):
        """Record that a scope has ended."""
        key = id(scope)
        cdef Place place = self._place_by_scope.pop(key, None)
        if place is None:
            place = place_of(scope, self.root)
        opened_at = self._opened_at.pop(key, self.began_at)
        place.count_round(_now() - opened_at)
        self.closings += 1
        for listener in self.listeners:
            listener.closed(scope, place.path)

    def close(self):
        """Remove all listeners and records."""
        self.listeners = ()
        self._when_gone = None    # break the cycle
        self.records.clear()
        self._buffers.clear()
        self._creators.clear()

    def alive(self):
        """Return the records of living disposables with the disposables, oldest first."""
        settle()
        found = []
        for record in list(self.records.values()):
            x = record()
            if x is not None and (<Record>record).ended is None and not _is_empty(x):
                found.append((record, x))
        found.sort(key=serial_of)
        return found


def serial_of(item):
    """Return the serial number of an item of ``Tracker.alive()``."""
    return (<Record?>item[0]).serial


cdef bint _is_empty(x) except -1:
    return getattr(x, "is_invalid", False) is True


# Each of these functions is atomic, because it calls no Python code. `records` maps the key of a buffer to
# the first record on it.


cdef int _count_memory(Record record, dict records) except -1:
    """Count the new `record` as alive. Its memory counts for the first record on the buffer."""
    record.place.count_created()
    cdef Record first = records.setdefault(record.buffer, record)
    if first is not record:
        if first.nbytes == record.nbytes:
            record.first = first
            first.shares += 1
            return 0
        # Other memory at the same address: a copy-on-write has moved the first record's tensor.
        records[record.buffer] = record
    record.place.charge(record.nbytes)
    if record.foreign is not None:
        record.foreign.charge(record.nbytes)
    return 0


cdef int _assign_memory(Record record, buffer, long long nbytes, dict records) except -1:
    """Assign new memory to `record`, which had none."""
    if record.ended is not None or record.nbytes:
        return 0
    if records.get(record.buffer) is record:
        del records[record.buffer]
    record.buffer = buffer
    record.nbytes = nbytes
    records[buffer] = record
    record.place.charge(nbytes)
    if record.foreign is not None:
        record.foreign.charge(nbytes)
    return 0


cdef int _release_memory(Record record, dict records) except -1:
    """Count `record` as ended, and its memory too unless others share it."""
    cdef Record first = record if record.first is None else record.first
    record.place.count_ended()
    first.shares -= 1
    if first.shares == 0:
        if records.get(first.buffer) is first:
            del records[first.buffer]
        first.place.discharge(first.nbytes)
        if first.foreign is not None:
            first.foreign.discharge(first.nbytes)
    return 0
