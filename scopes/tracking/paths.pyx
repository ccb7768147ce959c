"""The places in the tree of scopes: what was created under each path of names, and how much is alive."""

from scopes.core.disposable cimport MemberList

UNNAMED = "(unnamed)"


cdef class Number:
    """Counts from 1. No two threads get the same number."""

    cdef readonly long long last

    def next(self):
        """Return the next number."""
        self.last += 1
        return self.last


cdef class Place:
    """All scopes of one path of names: a loop's 10,000 "step" scopes are one place.

    Each method that counts is one step: it calls no Python code, so that no thread sees it half done.
    """

    cdef readonly tuple path
    cdef readonly Place outer
    cdef readonly dict inner
    # How often a scope of this path has ended, and how long they were open in all.
    cdef readonly long long rounds
    cdef readonly long long nanoseconds
    # What was created while one of them was the innermost.
    cdef readonly long long created
    cdef readonly long long alive
    # The same with what was created in the places inside; each buffer once, here for its first tensor.
    cdef readonly long long bytes_created
    cdef readonly long long bytes_alive
    cdef readonly long long bytes_peak

    def __init__(self, tuple path not None, Place outer):
        self.path = path
        self.outer = outer
        self.inner = {}

    def inside(self, name):
        """Return the place of the scopes called `name` in this one."""
        key = UNNAMED if name is None else name
        return self.inner.get(key) or self.inner.setdefault(key, Place((*self.path, key), self))

    cdef void count_created(self) noexcept:
        """Count one that was created here."""
        self.created += 1
        self.alive += 1

    cdef void count_ended(self) noexcept:
        """Count one less alive."""
        self.alive -= 1

    def count_round(self, long long nanoseconds):
        """Count a scope that has ended, and how long it was open."""
        self.rounds += 1
        self.nanoseconds += nanoseconds

    cdef void charge(self, long long nbytes) noexcept:
        """Count the new buffer of so many bytes, here and in all places around."""
        cdef Place at = self
        while at is not None:
            at.bytes_created += nbytes
            at.bytes_alive += nbytes
            if at.bytes_alive > at.bytes_peak:
                at.bytes_peak = at.bytes_alive
            at = at.outer

    cdef void discharge(self, long long nbytes) noexcept:
        """Count the buffer no more."""
        cdef Place at = self
        while at is not None:
            at.bytes_alive -= nbytes
            at = at.outer


def hold_memory(record not None, dict records not None):
    """Count the new `record` as alive, and its memory, by the first record of it in `records`. One step.

    `records` has each buffer's first record by what tells that from other memory.
    """
    cdef Place place = record.place
    place.count_created()
    first = records.setdefault(record.buffer, record)
    if first is not record:
        if first.nbytes == record.nbytes:
            record.first = first
            first.shares += 1
            return
        # Other memory at the same address: a write has parted the first one from what it shared.
        records[record.buffer] = record
    place.charge(record.nbytes)
    place = record.foreign
    if place is not None:
        place.charge(record.nbytes)


def give_memory(record not None, buffer, nbytes, dict records not None):
    """Count memory that nobody has had before as that of `record`, which had none. One step."""
    cdef Place place = record.place
    if record.ended is not None or record.nbytes:
        return
    if records.get(record.buffer) is record:
        del records[record.buffer]
    record.buffer = buffer
    record.nbytes = nbytes
    records[buffer] = record
    place.charge(nbytes)
    place = record.foreign
    if place is not None:
        place.charge(nbytes)


def end_once(record not None, how, where, dict records not None):
    """Note how and where `record` ended, let go of its memory, and say so; not a second time. One step."""
    if record.ended is not None:
        return False
    record.ended = how
    record.ended_at = where
    let_go_of_memory(record, records)
    return True


cpdef let_go_of_memory(record, dict records):
    """Count `record` as alive no more, and its memory unless others share it. One step."""
    cdef Place place = record.place
    first = record.first or record
    place.count_ended()
    first.shares -= 1
    if first.shares == 0:
        if records.get(first.buffer) is first:
            del records[first.buffer]
        place = first.place
        place.discharge(first.nbytes)
        place = first.foreign
        if place is not None:
            place.discharge(first.nbytes)


def place_of(MemberList scope, Place root not None):
    """Return the place of `scope` by its name and those around it."""
    names = []
    while scope is not None:
        names.append(scope.name)
        scope = scope.outer
    place = root
    for name in reversed(names):
        place = place.inside(name)
    return place
