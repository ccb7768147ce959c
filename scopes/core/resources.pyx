# cython: language_level=3, auto_pickle=False
"""Resources of the user in a scope, and the errors of disposals.

Anything with ``dispose()`` or ``close()`` may be attached to a scope, which then keeps it alive.
"""

cimport cython
from cpython.object cimport PyObject
from libcpp.unordered_map cimport unordered_map

from scopes.core.containers cimport is_closable, is_disposable
from scopes.core.disposable cimport (
    Disposable, Link, MemberList, dispose_one, list_of, member_at, reference_if_alive, unlink
)
from scopes.core.disposable cimport owner_of as owner_of_disposable
from scopes.core.foreign cimport foreign_for, foreign_of, is_foreign

from scopes.core.disposable import step_lock as _step_lock
from scopes.core.errors import TensorDisposedError

_CLOSED_MEANWHILE = (
    "a scope that owned this object ended and closed it while another scope was about to own it. Attach it "
    "before its scope ends, or move it out of that scope: scope.move_to_outer(x), scope.detach(x)"
)

# Maps the address of a resource to its `Held`; both are borrowed references. An entry is removed with its
# `Held`.
cdef unordered_map[size_t, PyObject*] _held_by_address


@cython.final
@cython.no_gc_clear  # as in Disposable; the collector clears the scope's set of `Held` objects instead
cdef class Held(Disposable):
    """Member for a resource that is not a `Disposable`. It keeps the resource alive.

    The scope refers to it, but it does not refer to the scope. So if the last reference to an open scope is
    deleted, the scope no longer keeps the resource alive. Counters count the resource, not this object.
    """

    def __dealloc__(self):
        self.forget()

    cdef void forget(self) noexcept:
        """Remove the entry of the resource."""
        cdef size_t address = <size_t><PyObject*>self.resource
        found = _held_by_address.find(address)
        if found != _held_by_address.end() and _held_by_address[address] == <PyObject*>self:
            _held_by_address.erase(address)

    cdef int release(self) except -1:
        cdef MemberList scope = list_of(self)
        cdef object resource = self.resource
        with cython.critical_section(_step_lock):
            if resource is None:
                return 0  # another thread has already released it
            self.forget()
            self.resource = None
            if self.link.owner is not NULL:
                unlink(&self.link)
            if scope is not None:
                scope.held.discard(self)
        end_resource(resource)
        return 0

    cdef object subject(self):
        return self.resource

    def _raise_if_disposed(self):
        if self.resource is None:
            raise TensorDisposedError(_CLOSED_MEANWHILE)


cdef int end_resource(resource) except -1:
    if is_disposable(resource):
        resource.dispose()
    elif is_closable(resource):
        resource.close()
    return 0


cdef Held new_held(resource):
    cdef Held held = Held.__new__(Held)
    held.resource = resource
    held.link.is_registered = True
    return held


cdef int remember(Held held) except -1:
    _held_by_address[<size_t><PyObject*>held.resource] = <PyObject*>held
    return 0


cdef Held held_of(x):
    """Return the `Held` of the resource `x`, or None."""
    cdef size_t address = <size_t><PyObject*>x
    found = _held_by_address.find(address)
    if found == _held_by_address.end():
        return None
    return <Held>reference_if_alive(_held_by_address[address])


cdef Disposable member_for(x):
    """Return the member of `x`: itself if it is a disposable, else its `Held`, or None."""
    cdef Disposable member
    if isinstance(x, Disposable):
        return <Disposable>x
    member = foreign_of(x)
    return held_of(x) if member is None else member


cdef Disposable member_to_own(x):
    """Return the member of `x`. If there is none, create one that is in no scope yet."""
    cdef Held held
    if isinstance(x, Disposable):
        return <Disposable>x
    if is_foreign(x):
        return foreign_for(x)
    held = held_of(x)
    return new_held(x) if held is None else held


cdef list subjects_of(list members):
    cdef list found = []
    cdef Disposable member
    for member in members:
        subject = member.subject()
        if subject is not None:
            found.append(subject)
    return found


cdef list members_of(MemberList scope):
    cdef list found = []
    cdef Link* link
    cdef Disposable x
    # No Python code runs during the loop: appending to a list runs none.
    with cython.critical_section(_step_lock):
        link = scope.members.head.newer
        while link is not &scope.members.head:
            x = reference_if_alive(member_at(link))
            if x is not None:
                found.append(x)
            link = link.newer
    return found


cdef int add_sizes(list members, dict sizes) except -1:
    for member in members:
        if isinstance(member, Held):
            resource = (<Held>member).resource
            key, nbytes = id(resource), getattr(resource, "nbytes", 0)
            if not isinstance(nbytes, int):
                nbytes = 0
        else:
            key, nbytes = member._footprint()
        sizes[key] = max(nbytes, sizes.get(key, 0))
    return 0


def may_be_owned(x):
    """Return whether a scope may own `x`: a disposable, or something with ``close()`` that was attached."""
    return is_disposable(x) or is_foreign(x) or (is_closable(x) and held_of(x) is not None)


def may_be_attached(x):
    """Return whether a scope could dispose `x`."""
    return is_disposable(x) or is_foreign(x) or is_closable(x)


def owner_of(x):
    """Return the open scope that owns `x`, a tensor or a resource that was attached; or None.

    Examples
    --------
    >>> import io
    >>> from scopes import new_dispose_scope
    >>> from scopes.lowlevel import owner_of
    >>> with new_dispose_scope() as scope:
    ...     file = scope.attach(io.StringIO())
    ...     owner_of(file) is scope
    True
    """
    cdef Disposable member = member_for(x)
    return None if member is None else owner_of_disposable(member)


# --- Disposal of members, even if some raise errors ---


cdef int raise_disposed(Disposable x) except -1:
    x._raise_if_disposed()
    raise TensorDisposedError(f"this {type(x).__name__} is empty: it was disposed by dispose()")


cdef object noted(errors, error):
    if errors is None:
        return error
    try:
        if isinstance(errors, list):
            errors.append(error)
            return errors
        return [errors, error]
    except MemoryError:
        return errors  # out of memory: drop the error, and continue the disposal


cdef int raise_all(errors, when) except -1:
    """Raise `errors` as one group. Raise the first interrupt outside of it, with the group as its cause."""
    cdef list others = []
    interrupt = None
    for error in errors if isinstance(errors, list) else (errors,):
        if interrupt is None and not isinstance(error, Exception):
            interrupt = error
        else:
            others.append(error)
    group = None
    if others:
        message = f"{len(others)} error{'s' * (len(others) != 1)} {when}"
        group = BaseExceptionGroup(message, others)
    if interrupt is None:
        raise group
    # `except KeyboardInterrupt` and the exit code need it outside of a group.
    if group is None:
        raise interrupt
    raise interrupt from group


cdef object dispose_members(MemberList scope, errors):
    cdef Link* link
    cdef Disposable x
    while scope.members.count:
        with cython.critical_section(_step_lock):
            link = scope.members.head.older
            x = reference_if_alive(member_at(link))
            if x is None:
                # Its deallocation has begun. Mark that it was a member of this scope, for the counters.
                link.counts_in_scope = True
                unlink(link)
                continue
            if x.counters is None and not isinstance(x, Held):
                unlink(link)  # its memory and its count moved to another object (`hand_over_count`)
                continue
        try:
            if isinstance(x, Held):
                x.release()
            else:
                dispose_one(x)
        except BaseException as error:
            errors = noted(errors, error)
        x = None
    return errors


def dispose_each(list items):
    """Dispose `items`, the last first, and empty the list. Then raise all errors as one group."""
    cdef object errors = None
    cdef Held held
    while items:
        try:
            x = items.pop()
            if isinstance(x, Disposable) or is_foreign(x):
                member_to_own(x).dispose()
                continue
            held = held_of(x)
            if held is not None:
                held.release()
            else:
                end_resource(x)
        except BaseException as error:
            errors = noted(errors, error)
    if errors is not None:
        raise_all(errors, "while disposing")
