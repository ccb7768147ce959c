# cython: language_level=3, auto_pickle=False
"""Objects of other libraries in scopes: PyTorch's tensors, JAX's arrays.

Such objects can't derive from `Disposable`. A `Foreign` represents each of them in its scope and in the
counters, from its registration (*adoption*) until the object is freed. A map finds the `Foreign` by the
object's address, and the `Foreign` has a weak reference to the object. So nothing is written into the object,
and no scope keeps it alive. The adapter of a library (``scopes/foreign/adapter.py``) disposes and measures
its objects.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.weakref cimport PyWeakref_NewRef
from libcpp.unordered_map cimport unordered_map

from scopes.core.births cimport (
    Births, Note, is_in_log, is_paused, is_recorded, is_strict, release_by, serial_of, take_one, uncount,
    uncount_located
)
from scopes.core.counters cimport Counters
from scopes.core.disposable cimport (
    Disposable, MemberList, current_scope, is_observed, link_newest, notify_created, notify_written, outer_of,
    register_as, register_late
)

from scopes.core.disposable import ending_by
from scopes.core.disposable import step_lock as _step_lock

import warnings
from traceback import format_tb

# Maps the address of an object to its `Foreign`. Each entry owns a reference and is removed with its object.
cdef unordered_map[size_t, PyObject*] _by_address

cdef list _adapters = []
# The classes of all adapters, as an argument of `issubclass`. `isinstance` may run code of lazy proxies.
cdef tuple _kinds = ()
# Adapters that search for new objects, because their library does not report them.
cdef list _late = []
# The functions that search for objects whose allocation was noted.
cdef list _looks = []
# The adapter that knows which objects outlive a scope. There is at most one.
cdef object _keeping = None
# Whether `_warn_of_fault` has warned.
cdef bint _has_warned = False

cdef object _method_wrapper = type(object().__str__)


def add_adapter(adapter):
    """Make scopes own the objects of ``adapter.kinds`` from now on."""
    global _kinds, _keeping
    _adapters.append(adapter)
    _kinds += tuple(adapter.kinds)
    if adapter.harvest is not None:
        _late.append(adapter)
    if adapter.look is not None:
        _looks.append(adapter.look)
    if adapter.find_kept is not None:
        _keeping = adapter


cdef int store_keeper_count(MemberList scope) except -1:
    scope.keepers = -1 if _keeping is None else _keeping.count_keepers()
    return 0


def settle():
    """Find the objects that libraries have created and nothing has read yet, so that figures are right."""
    harvest()


def count_keepers():
    """Return the number of keepers so far, for `find_kept_by_older`."""
    harvest()
    return -1 if _keeping is None else _keeping.count_keepers()


def find_kept_by_older(objects, older):
    """Return the ids of the `objects` that one of the first `older` keepers keeps."""
    if _keeping is None:
        return set()
    found = {id(x): x for x in objects if issubclass(type(x), _keeping.kinds)}
    return _keeping.find_kept_by_older(found, older)


cdef bint has_keepers() noexcept:
    return _keeping is not None


cdef int move_out_kept(MemberList scope, list members) except -1:
    cdef Disposable member
    cdef dict loosely = {}, strictly = {}, by_id = {}
    cdef dict kept
    for member in members:
        if isinstance(member, Foreign) and (<Foreign>member).is_noticed and member.counters is not None:
            x = member.subject()
            if x is not None and (<Foreign>member).adapter is _keeping:
                (strictly if (<Foreign>member).is_strict else loosely)[id(x)] = x
                by_id[id(x)] = member
    x = None  # `find_kept` counts references
    for objects, is_strict in ((loosely, False), (strictly, True)):
        if objects:
            try:
                kept = _keeping.find_kept(scope, objects, scope.keepers, is_strict)
            except BaseException as error:
                # Nobody knows what else uses these objects. A false end would be worse than a leak.
                for key in objects:
                    scope.move((by_id[key],), None, False, True)
                if not isinstance(error, Exception):
                    raise
                _warn_of_fault(error)
                continue
            for key, is_unowned in kept.items():
                scope.move((by_id[key],), None, not is_unowned, True)
    return 0


cdef int _warn_of_fault(error) except -1:
    """Warn about an error in the search for objects that outlive their scope, once in a process."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        where = "".join(format_tb(error.__traceback__)).rstrip()
        warnings.warn(
            f"scopes could not find out which {_keeping.library} {_keeping.noun}s outlive their scope, so "
            f"all of them stay alive. This is a fault of disposescope: {type(error).__name__}: {error}. "
            f"Please report it with these lines:\n{where}",
            RuntimeWarning,
            stacklevel=1,
        )
    return 0


cdef object _adapter_of(x):
    for adapter in _adapters:
        if issubclass(type(x), adapter.kinds):
            return adapter
    return None


cdef bint is_foreign(x):
    return type(x) in _kinds or (bool(_kinds) and issubclass(type(x), _kinds))


cdef int harvest() except -1:
    if _late:
        for adapter in list(_late):
            adapter.harvest()
    for look in _looks:
        try:
            look()
        except Exception as error:  # `find_kept` then keeps all objects
            _warn_of_fault(error)
    return 0


@cython.final
@cython.no_gc_clear  # as for Disposable
cdef class Foreign(Disposable):
    """Represents an object of another library in a scope, without keeping it alive."""

    def __call__(self, reference):
        """Count as finalized. The weak reference calls this when the object is freed."""
        self.retire()
        self.reference = None  # break the cycle: the reference refers to this
        if _by_address.erase(self.address):
            Py_DECREF(self)

    cdef object subject(self):
        if self.reference is None:
            return None
        x = self.reference()
        revive = self.adapter.revive
        if x is not None and revive is not None:
            revive(x)
        return x

    cdef int release(self) except -1:
        cdef MemberList scope = self.scope
        x = self.subject()
        if x is None:
            return 0
        # If another thread opened the ended scope, that thread may be running a method of the object.
        is_safe = scope is None or scope.members.is_open or scope.thread == PyThread_get_thread_ident()
        self.ending = self.adapter.end(x, is_safe)
        return 0

    def _raise_if_disposed(self):
        if self.counters is None:
            raise self.adapter.disposed_error(self.subject())

    def _footprint(self):
        x = self.subject()
        is_disposed = self.link.is_registered and self.counters is None
        return (id(self), 0) if x is None or is_disposed else self.adapter.footprint(x)

    def _keeps(self, seen):
        x = self.subject()
        return () if x is None or self.counters is None else self.adapter.keeps(x, seen)


cdef Foreign foreign_of(x):
    found = _by_address.find(<size_t><PyObject*>x)
    if found == _by_address.end():
        if not is_foreign(x):
            return None
        if not notice(x, take_one(<PyObject*>x)) and _late:
            harvest()
        found = _by_address.find(<size_t><PyObject*>x)
        if found == _by_address.end():
            return None
    return <Foreign>_by_address[<size_t><PyObject*>x]


cdef Foreign _new_foreign(x, adapter, bint is_noticed, bint strictly):
    cdef Foreign foreign = Foreign.__new__(Foreign)
    foreign.adapter = adapter
    foreign.address = <size_t><PyObject*>x
    foreign.reference = PyWeakref_NewRef(x, foreign)
    foreign.is_noticed = is_noticed
    foreign.is_strict = strictly
    _by_address[foreign.address] = <PyObject*>foreign
    Py_INCREF(foreign)
    return foreign


cdef int _register_noted(
    Foreign x, Counters counters, MemberList scope, site, unsigned long thread
) except -1:
    """Add `x`, which `counters` has counted as created, to `scope`; None: to none."""
    if scope is not None and not scope.members.is_open:
        scope = outer_of(scope)
    with cython.critical_section(_step_lock):
        x.link.is_registered = True
        x.counters = counters
        if scope is not None:
            x.scope = scope
            link_newest(x, scope)
    if site is not None:
        notify_created(x, site, thread)
    return 0


cdef bint _own_late(Foreign x, MemberList scope) noexcept:
    """Make `scope` own `x` as at its creation. Return False if `x` has an owner, or has ended."""
    cdef MemberList _before = x.scope  # see `outer_of`
    if x.counters is None or x.link.owner is not NULL or not scope.members.is_open:
        return False
    with cython.critical_section(_step_lock):
        x.counters.created_outside.fetch_sub(1)
        x.counters.created_in.fetch_add(1)
        x.scope = scope
        link_newest(x, scope)
    return True


cdef bint notice(x, Births births) except -1:
    cdef Note note
    cdef MemberList scope
    cdef Counters counters
    cdef Foreign foreign
    if births is None or not births.take(<PyObject*>x, &note):
        return False
    site = None
    if note.site is not NULL:
        site = <object>note.site
        Py_DECREF(site)
    counters = <Counters>note.counters
    adapter = _adapter_of(x)
    if is_adopted(x) or not adapter.is_tracked(x):
        if note.scope:
            counters.created_in.fetch_sub(1)
        else:
            counters.created_outside.fetch_sub(1)
        return False
    scope = births.scope_of(&note)
    if scope is not None and not adapter.is_new(x):
        counters.created_in.fetch_sub(1)
        counters.created_outside.fetch_add(1)
        scope = None
    foreign = _new_foreign(x, adapter, scope is not None, note.scope & 1)
    if note.scope == 0:
        foreign.serial = note.serial
    _register_noted(foreign, counters, scope, site, note.thread)
    return True


cdef Foreign _new(x, adapter, bint is_owned):
    # The registration counts `x`, so its note must not.
    site = uncount(<PyObject*>x)
    cdef Foreign foreign = _new_foreign(x, adapter, is_owned, is_strict())
    if adapter.harvest is not None:
        found = uncount_located(<PyObject*>x)
        if found is None:
            register_late(foreign, type(x), is_owned)
        else:
            register_late(foreign, type(x), is_owned, found[0], found[1])
        return foreign
    try:
        register_as(foreign, type(x), is_owned, site)
    except BaseException:  # a limit of the scope raised an error
        if foreign.counters is None and _by_address.erase(foreign.address):
            foreign.reference = None
            Py_DECREF(foreign)
        raise
    return foreign


cdef Foreign foreign_for(x):
    cdef Foreign found = foreign_of(x)
    return _new(x, _adapter_of(x), False) if found is None else found


def adopt(x):
    """Make the current scope own the new object `x` of another library. A known object keeps its scope."""
    if is_foreign(x):
        if is_adopted(x):
            _claim(<Foreign>_by_address[<size_t><PyObject*>x], True)
        else:
            _new(x, _adapter_of(x), True)


cdef int _claim(Foreign foreign, bint is_owned) except -1:
    """Decide about an object that was found before the end of the call that returns it."""
    cdef MemberList scope
    if foreign.serial:
        foreign.serial = 0
        scope = current_scope() if is_owned else None
        if scope is not None:
            foreign.is_noticed = True
            foreign.is_strict = is_strict()
            _own_late(foreign, scope)
    return 0


def is_adopted(x):
    """Return whether `x` has a `Foreign`, alive or disposed."""
    return _by_address.find(<size_t><PyObject*>x) != _by_address.end()


def dispose_adopted(x):
    """Dispose `x` if it has a `Foreign`."""
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        (<Foreign>_by_address[<size_t><PyObject*>x]).dispose()


def detach_adopted(x):
    """Remove `x` from its scope, because it belongs to a module, an optimizer or another tensor."""
    cdef Foreign foreign
    notice(x, take_one(<PyObject*>x))
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        foreign = <Foreign>_by_address[<size_t><PyObject*>x]
        foreign.serial = 0
        foreign.detach_from_dispose_scope()


cdef void _detach_quietly(PyObject* x) noexcept:
    detach_adopted(<object>x)


release_by(_detach_quietly)


def leave_alone(x):
    """Keep `x` out of all scopes, even if it is the result of a call that still runs."""
    detach_adopted(x)
    if not is_adopted(x) and is_foreign(x) and _adapter_of(x).is_adoptable(x):
        _new(x, _adapter_of(x), False)


@cython.final
cdef class Adopter:
    """Makes the current scope own the new objects that functions of a library return.

    A function may also return an older object, such as a constant of the program. Call it, and then `take`,
    inside ``births.log``, if the births of the class are recorded.

    Parameters
    ----------
    adapter
        The library's adapter.
    exactly
        The class of most results.
    nothing
        Classes of results to ignore: they are not objects of the library, and contain none.
    borrowing
        Descriptors whose values have another owner, such as a tensor's gradient.
    is_suspended
        A function that returns whether adoption is off. It is called for each new object.
    is_owning
        False if no scope should own the new objects.
    """

    cdef object adapter, is_suspended
    cdef object exactly
    cdef frozenset nothing, borrowing
    cdef bint is_owning

    def __init__(self, adapter, exactly, nothing, borrowing, is_suspended, bint is_owning=True):
        self.adapter = adapter
        self.exactly = exactly
        self.nothing = frozenset(nothing) | {type(None), bool, int, float, complex, str}
        self.borrowing = frozenset(borrowing)
        self.is_suspended = is_suspended
        self.is_owning = is_owning

    def take(self, function, result, tuple args not None, dict kwargs not None):
        """Make the scope own the new objects in the `result` of a call."""
        if type(function) is _method_wrapper and function.__self__ in self.borrowing:
            if function.__name__ == "__set__":
                detach_adopted(args[1])
            return
        self.adopt_all(result, args, kwargs)

    cdef int adopt_all(self, result, tuple args, dict kwargs) except -1:
        kind = type(result)
        if kind is self.exactly:
            self.adopt_one(result, args, kwargs)
        elif kind in self.nothing:
            pass
        elif isinstance(result, (tuple, list)):
            for item in result:
                self.adopt_all(item, args, kwargs)
        elif isinstance(result, dict):
            for item in result.values():
                self.adopt_all(item, args, kwargs)
        elif issubclass(kind, self.exactly) and self.adapter.is_adoptable(result):
            self.adopt_one(result, args, kwargs)
        return 0

    cdef int adopt_one(self, x, tuple args, dict kwargs) except -1:
        cdef Foreign known = None
        if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
            known = <Foreign>_by_address[<size_t><PyObject*>x]
            if not known.serial or not is_in_log(known.serial):
                if args and args[0] is x and is_observed() and getattr(x, "grad_fn", None) is not None:
                    notify_written(x)
                return 0
        for given in args:
            if given is x or (isinstance(given, (tuple, list)) and _has(given, x)):
                return 0
        for given in kwargs.values():
            if given is x or (isinstance(given, (tuple, list)) and _has(given, x)):
                return 0
        if self.is_owning and is_paused():
            return 0
        if known is None and is_recorded(<PyObject*>x) and not is_in_log(serial_of(<PyObject*>x)):
            return 0
        if not self.is_suspended():
            if known is not None:
                _claim(known, self.is_owning)
            else:
                _new(x, self.adapter, self.is_owning)
        return 0


cdef bint _has(items, x) except -1:
    for item in items:
        if item is x:
            return True
    return False


# For reports.


def footprint_of(x):
    """Return a value that identifies the memory of `x`, and its size in bytes."""
    if isinstance(x, Disposable):
        return x._footprint()
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        return (<Foreign>_by_address[<size_t><PyObject*>x])._footprint()
    return id(x), 0


def keeps_of(x, seen):
    """Return the footprints of all memory that `x` keeps. Skip objects in `seen`."""
    if isinstance(x, Disposable):
        return x._keeps(seen)
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        return (<Foreign>_by_address[<size_t><PyObject*>x])._keeps(seen)
    return ()


def last_op_of(x):
    """Return an object that lives as long as the recorded operation of `x`, for weak references, or None."""
    if isinstance(x, Disposable):
        return x._last_op()
    return None if not is_foreign(x) else _adapter_of(x).last_op(x)


def is_kept_by_library(x, references):
    """Return whether only its library keeps `x` with `references`: see ``Adapter.is_kept_by_library``."""
    if not _kinds or isinstance(x, Disposable) or not is_foreign(x):
        return False
    return _adapter_of(x).is_kept_by_library(x, references)


def library_of(x):
    """Return the name of the library of `x`, or None."""
    return None if isinstance(x, Disposable) or not is_foreign(x) else _adapter_of(x).library


def revived(x):
    """Prepare the foreign `x`, which a weak reference returned, for use, and return it."""
    revive = _adapter_of(x).revive
    if revive is not None:
        revive(x)
    return x


def device_of(x):
    """Return the name of the device that the memory of the foreign `x` is on."""
    return _adapter_of(x).device(x)


def how_it_ended(x):
    """Return how `x` ended, as text, and the result of ``adapter.end``; None if it is alive or unknown."""
    cdef Foreign found
    if _by_address.find(<size_t><PyObject*>x) == _by_address.end():
        return None
    found = <Foreign>_by_address[<size_t><PyObject*>x]
    return None if found.counters is not None else (ending_by(found._ended_scope), found.ending)


def names_of_ended_scope(x):
    """Return the names of the scope whose end disposed `x` and of those around it, outermost first."""
    cdef MemberList scope = None
    names = []
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        scope = (<Foreign>_by_address[<size_t><PyObject*>x])._ended_scope
    while scope is not None:
        names.append(scope.name)
        scope = scope.outer
    return tuple(reversed(names))


def run_unreferenced(function, *xs):
    """Call `function` without our weak references to `xs`, which it does not allow."""
    cdef Foreign foreign
    cdef list found = []
    for x in xs:
        foreign = foreign_of(x)
        if foreign is not None and foreign.reference is not None:
            foreign.reference = None
            found.append((foreign, x))
    try:
        return function(*xs)
    finally:
        for foreign, x in found:
            foreign.reference = PyWeakref_NewRef(x, foreign)


def raise_if_disposed(x):
    """Raise the error for a use of `x`, if `x` is disposed."""
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        (<Foreign>_by_address[<size_t><PyObject*>x])._raise_if_disposed()
