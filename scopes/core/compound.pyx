# cython: language_level=3, auto_pickle=False
"""A disposable made of others, such as a packed sequence of tensors. A scope owns it as one member."""

cimport cython

from scopes.core.disposable cimport Disposable, Link, Members, dispose_one, register_new
from scopes.core.foreign cimport foreign_for, is_foreign
from scopes.core.resources cimport noted, raise_all

from scopes.core.disposable import step_lock as _step_lock


# The collector must not clear the parts, because `__dealloc__` reads them. Cycles are broken at the parts.
@cython.no_gc_clear
cdef class Compound(Disposable):
    """Base class of disposables that consist of others, their parts.

    The constructor detaches the parts from their scopes, and counts them as detached. Then the compound owns
    them: its disposal disposes them, and counts them as disposed in a scope if a scope owned the compound. If
    the compound is freed without disposal, parts with other references become members of its scope. No
    counter of the parts changes then.

    Parameters
    ----------
    parts
        Disposables that are not part of another compound. Tensors of another library may be parts too, if
        its adapter is imported. The compound keeps its parts alive.

    Raises
    ------
    TypeError
        If a part is neither.
    TensorDisposedError
        If a part is disposed. Then the other parts stay in their scopes.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope
    >>> from scopes.lowlevel import Compound
    >>> class Pair(Compound):
    ...     pass
    >>> with new_dispose_scope() as scope:
    ...     x, y = tensor.ones((2,)), tensor.ones((2,))
    ...     pair = Pair((x, y))
    ...     len(scope), pair.owning_dispose_scope is scope
    (1, True)
    >>> x.is_invalid, y.is_invalid
    (True, True)
    """

    # The parts, as the user gave them.
    cdef tuple subjects
    # The members of these: the same, or the `Foreign` of a tensor of another library, which does not keep it
    # alive.
    cdef tuple parts

    def __init__(self, tuple parts not None):
        cdef list members = [_member_of(x) for x in parts]
        for x in members:
            (<Disposable>x)._raise_if_disposed()
        for x in members:
            (<Disposable>x).detach_from_dispose_scope()
        self.subjects = parts
        self.parts = tuple(members)
        register_new(self)

    def __dealloc__(self):
        cdef Py_ssize_t i
        cdef Disposable x
        cdef Members* owner = self.link.owner
        if owner is NULL or self.counters is None or self.parts is None:
            return
        with cython.critical_section(_step_lock):
            for i in range(len(self.parts)):
                x = <Disposable>self.parts[i]
                if x.counters is None or x.link.owner is not NULL:
                    continue
                _link_beside(&x.link, &self.link)
                x.scope = self.scope

    @property
    def _parts(self):
        """The parts, disposed or not."""
        return self.subjects

    cdef int release(self) except -1:
        cdef object errors = None
        cdef Py_ssize_t i
        cdef Disposable x
        for i in range(len(self.parts) - 1, -1, -1):
            x = <Disposable>self.parts[i]
            if x.counters is not None and x.link.owner is NULL:
                x.link.counts_in_scope = self.link.counts_in_scope
                x.scope = self.scope  # None, or the ended scope
            try:
                dispose_one(x)
            except BaseException as error:
                errors = noted(errors, error)
        if errors is not None:
            raise_all(errors, f"while a {type(self).__name__} disposed its parts")
        return 0

    def _footprint(self):
        key, total = id(self), 0
        for x in self.parts:
            own, nbytes = x._footprint()
            if total == 0:
                key = own
            total += nbytes
        return key, total

    def _keeps(self, seen):
        kept = []
        for x in self.parts:
            kept += x._keeps(seen)
        return kept


cdef Disposable _member_of(x):
    if isinstance(x, Disposable):
        return <Disposable>x
    if is_foreign(x):
        return foreign_for(x)
    raise TypeError(
        f"a part of a Compound is a disposable or a tensor, not {type(x).__name__}: leave it out of the "
        "parts, and store it in an attribute"
    )


cdef void _link_beside(Link* link, Link* older) noexcept:
    """Insert `link`, which is in no list, after `older`."""
    link.older = older
    link.newer = older.newer
    link.older.newer = link.newer.older = link
    link.owner = older.owner
    link.owner.count += 1
