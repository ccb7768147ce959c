# cython: language_level=3, auto_pickle=False
"""Record *births*: the allocations of new instances of another library's classes.

A class allocates its instances with the slot ``tp_alloc`` of its type object. While births are recorded,
this slot counts each new instance, on any thread, and stores a note: the address of the instance, its
counters, and the scope that owns it. A note takes about 20 ns, and most instances are freed before the notes
are read. Notes are read together with the garbage collector's list of young objects, which only contains
living objects. So the note of a freed instance stays until the notes are read, or until its address is
allocated again. Then the instance counts as finalized. So the counts are exact, although nothing runs when an
instance is freed.

No scope owns an instance of a thread that does not record, or of a pause. An instance that wraps an existing
C++ object has no scope either. An example is the gradient that an attribute returns: `exclude_attribute`
pauses for the values of such an attribute.

While objects are tracked, a note also has the line of the allocation.

Arrays of a library that is searched for new objects, such as JAX, have notes of their own (`locate`). The
slot ``tp_free`` removes such a note, and counts the instance as finalized.
"""

cimport cython
from cpython.contextvars cimport PyContextVar_Get
from cpython.object cimport PyObject, PyTypeObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cython.operator cimport dereference, preincrement
from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from weakref import ref

from scopes.core.counters cimport Counters, counters_of
from scopes.core.disposable cimport MemberList, outer_of

from scopes.core.disposable import current as _current_scope


cdef extern from *:
    """
    #include <cstdint>

    // This thread's numbers of open blocks whose births scopes own, pauses, blocks that hide births, blocks
    // of `owning(strict=True)`, and open logs; the number of the last birth before the outermost log; and the
    // object whose gradient is being read, which the caller owns.
    typedef struct {
        int blocks, pauses, hiding, strict_blocks, logs;
        std::uint64_t log_start;
        PyObject* gradient_of;
    } scopes_recording;

    static scopes_recording* scopes_recording_here(void) {
        static thread_local scopes_recording recording = {0, 0, 0, 0, 0, 0, NULL};
        return &recording;
    }

    static allocfunc scopes_allocator_of(PyObject* kind) {
        return ((PyTypeObject*)kind)->tp_alloc;
    }
    static void scopes_set_allocator(PyObject* kind, allocfunc allocator) {
        ((PyTypeObject*)kind)->tp_alloc = allocator;
    }
    static freefunc scopes_deallocator_of(PyObject* kind) {
        return ((PyTypeObject*)kind)->tp_free;
    }
    static void scopes_set_deallocator(PyObject* kind, freefunc deallocator) {
        ((PyTypeObject*)kind)->tp_free = deallocator;
    }

    // A C attribute whose values no scope owns: its new and its previous definition, and whether its values
    // are gradients.
    typedef struct {
        PyGetSetDef definition;
        PyGetSetDef* before;
        int is_gradient;
    } scopes_attribute;

    static void (*scopes_on_set)(PyObject*) = NULL;

    static PyObject* scopes_get(PyObject* x, void* closure) {
        scopes_attribute* attribute = (scopes_attribute*)closure;
        PyGetSetDef* before = attribute->before;
        scopes_recording* here = scopes_recording_here();
        ++here->pauses;
        PyObject* outer = here->gradient_of;
        here->gradient_of = attribute->is_gradient ? x : NULL;
        PyObject* value = before->get(x, before->closure);
        here->gradient_of = outer;
        --here->pauses;
        return value;
    }
    static int scopes_set(PyObject* x, PyObject* value, void* closure) {
        PyGetSetDef* before = ((scopes_attribute*)closure)->before;
        int failed = before->set(x, value, before->closure);
        if (!failed && value != NULL && value != Py_None)
            scopes_on_set(value);
        return failed;
    }
    // Replace the definition of `descriptor`. The result is never freed, because another thread may be in a
    // call through it.
    static scopes_attribute* scopes_exclude(PyObject* descriptor, int is_gradient) {
        PyGetSetDescrObject* object = (PyGetSetDescrObject*)descriptor;
        scopes_attribute* made;
        if (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) || object->d_getset->get == NULL)
            return NULL;
        made = (scopes_attribute*)PyMem_RawMalloc(sizeof(scopes_attribute));
        if (made == NULL)
            return NULL;
        made->is_gradient = is_gradient;
        made->before = object->d_getset;
        made->definition = *object->d_getset;
        made->definition.get = scopes_get;
        if (made->before->set != NULL)
            made->definition.set = scopes_set;
        made->definition.closure = made;
        object->d_getset = &made->definition;
        return made;
    }
    """
    ctypedef PyObject* (*allocfunc)(PyTypeObject*, Py_ssize_t) noexcept
    ctypedef void (*freefunc)(void*) noexcept
    ctypedef struct scopes_attribute:
        pass
    ctypedef struct scopes_recording:
        int blocks, pauses, hiding, strict_blocks, logs
        uint64_t log_start
        PyObject* gradient_of
    scopes_recording* scopes_recording_here() noexcept
    void (*scopes_on_set)(PyObject*) noexcept
    allocfunc scopes_allocator_of(PyObject* kind)
    void scopes_set_allocator(PyObject* kind, allocfunc allocator)
    freefunc scopes_deallocator_of(PyObject* kind)
    void scopes_set_deallocator(PyObject* kind, freefunc deallocator)
    scopes_attribute* scopes_exclude(PyObject* descriptor, bint is_gradient)
    Py_ssize_t Py_REFCNT(PyObject* x) nogil
    void PyObject_GC_Del(void* x) noexcept
    PyObject* PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t count)

cdef object _current = _current_scope
# The notes by the address of the instance.
cdef unordered_map[size_t, Note] _notes
# The scopes and counters that notes refer to, by address. This keeps them alive.
cdef dict _used = {}
cdef size_t _last_scope = 0, _last_counters = 0
# The number of births so far.
cdef uint64_t _serial = 0
# Returns the current line of the user's code, while objects are tracked; else None.
cdef object _locate = None
# The function of `locate_gradients`, or None.
cdef object _locate_gradient = None
# The notes of living instances of the classes that `locate` was given, until a search finds the instance.
# They own their references. `scope` is 1 if a scope owns it.
cdef unordered_map[size_t, Note] _located
cdef bint _is_counting_located = False
cdef unsigned long _located_owner = 0
# Weak references to the classes whose `tp_alloc` was replaced.
cdef list _watched = []
# The addresses of the classes among them whose instances no scope owns.
cdef unordered_set[size_t] _unowned
cdef bint _is_watching = False
cdef bint _is_suspended = False
cdef set _excluded = set()


cdef PyObject* _allocate(PyTypeObject* kind, Py_ssize_t count) noexcept:
    cdef PyObject* made
    cdef Counters counters = None
    if not _is_suspended and scopes_recording_here().hiding == 0:
        # This may run Python code, so it comes before the allocation.
        counters = counters_of(<type>kind)
        site = None if _locate is None else _line_of_birth()
    made = PyType_GenericAlloc(kind, count)
    if made is not NULL:
        if counters is not None:
            _note(made, counters, site)
        elif not _notes.empty():
            _finish(made)
    return made


cdef object _line_of_birth():
    cdef PyObject* owner = scopes_recording_here().gradient_of
    line = None
    if owner is not NULL and _locate_gradient is not None:
        line = _locate_gradient(<object>owner)
    return _locate() if line is None else line


cdef PyObject* _allocate_located(PyTypeObject* kind, Py_ssize_t count) noexcept:
    cdef PyObject* made
    cdef Counters counters = None
    if _is_counting_located:
        # This may run Python code, so it comes before the allocation.
        counters = counters_of(<type>kind)
        site = None if _locate is None else _locate()
    made = PyType_GenericAlloc(kind, count)
    if made is not NULL and counters is not None:
        _note_located(made, counters, site)
    return made


cdef void _free_located(void* x) noexcept:
    cdef Note note
    found = _located.find(<size_t>x)
    if found != _located.end():
        note = dereference(found).second
        _located.erase(found)
        _count_end(&note)
        _drop_located(&note)
    PyObject_GC_Del(x)


cdef void _note_located(PyObject* made, Counters counters, site) noexcept:
    cdef PyObject* scope = NULL
    cdef Note note
    note.counters = <PyObject*>counters
    Py_INCREF(counters)
    note.scope = note.serial = 0
    note.site = NULL
    note.thread = PyThread_get_thread_ident()
    if note.thread == _located_owner:
        PyContextVar_Get(_current, NULL, &scope)
        note.scope = scope is not NULL and scope is not <PyObject*>None
        Py_XDECREF(scope)
    if site is not None:
        Py_INCREF(site)
        note.site = <PyObject*>site
    if note.scope:
        counters.created_in.fetch_add(1)
    else:
        counters.created_outside.fetch_add(1)
    _located[<size_t>made] = note


cdef void _drop_located(Note* note) noexcept:
    """Release the references of a removed note."""
    cdef PyObject* site = note.site
    cdef PyObject* counters = note.counters
    Py_XDECREF(site)
    Py_XDECREF(counters)


def locate(kind):
    """Count new instances of `kind` inside `count_located`. Remember their lines while objects are tracked.

    This is for a library that is searched for new objects. An instance that is freed before a search finds it
    counts as created and as finalized. Return whether it is possible.
    """
    if scopes_allocator_of(<PyObject*>kind) != PyType_GenericAlloc:
        return False
    if scopes_deallocator_of(<PyObject*>kind) != PyObject_GC_Del:
        return False
    scopes_set_allocator(<PyObject*>kind, _allocate_located)
    scopes_set_deallocator(<PyObject*>kind, _free_located)
    return True


def count_located(bint is_counting, unsigned long owner):
    """Begin or stop counting new instances of the classes that `locate` was given.

    The thread `owner` gives its instances to its scopes; 0: no thread does.
    """
    global _is_counting_located, _located_owner
    _is_counting_located = is_counting
    _located_owner = owner


def located():
    """Return the counted instances that are alive and that no search has found yet."""
    cdef vector[PyObject*] living
    cdef unordered_map[size_t, Note].iterator each = _located.begin()
    while each != _located.end():
        if Py_REFCNT(<PyObject*>dereference(each).first) > 0:  # else it is being freed
            living.push_back(<PyObject*>dereference(each).first)
            Py_INCREF(<object>living.back())
        preincrement(each)
    found = []
    for pointer in living:
        found.append(<object>pointer)
        Py_DECREF(<object>pointer)
    return found


def end_located(x):
    """Count the instance `x`, which its library has emptied, as finalized, if no search has found it."""
    found = _located.find(<size_t><PyObject*>x)
    if found != _located.end():
        note = dereference(found).second
        _located.erase(found)
        _count_end(&note)
        _drop_located(&note)


cdef object uncount_located(PyObject* x):
    found = _located.find(<size_t>x)
    if found == _located.end():
        return None
    cdef Note note = dereference(found).second
    _located.erase(found)
    if note.scope:
        (<Counters>note.counters).created_in.fetch_sub(1)
    else:
        (<Counters>note.counters).created_outside.fetch_sub(1)
    site = None if note.site is NULL else <object>note.site
    thread = note.thread
    _drop_located(&note)
    return None if site is None else (site, thread)


cdef void _note(PyObject* made, Counters counters, site) noexcept:
    global _last_scope, _last_counters, _serial
    cdef scopes_recording* here = scopes_recording_here()
    # A new reference to the current scope, which may have ended, or to None.
    cdef PyObject* scope = NULL
    cdef size_t address = 0
    if here.blocks > 0 and here.pauses == 0 and not (
        not _unowned.empty() and _unowned.count(<size_t>made.ob_type)
    ):
        PyContextVar_Get(_current, NULL, &scope)
        if scope is not NULL and scope is not <PyObject*>None:
            address = <size_t>scope
            if address != _last_scope:
                _used[address] = <object>scope
                _last_scope = address
            address |= here.strict_blocks > 0
    if <size_t><PyObject*>counters != _last_counters:
        _last_counters = <size_t><PyObject*>counters
        _used[_last_counters] = counters
    _serial += 1
    cdef Note* note = &_notes[<size_t>made]
    cdef PyObject* _before = note.site  # released last, because that may run Python code
    if note.counters is not NULL:
        _count_end(note)  # the earlier instance at this address
    note.counters = <PyObject*>counters
    note.scope = address
    note.serial = _serial
    note.site = NULL
    note.thread = 0
    if site is not None:
        Py_INCREF(site)
        note.site = <PyObject*>site
        note.thread = PyThread_get_thread_ident()
    if address:
        counters.created_in.fetch_add(1)
    else:
        counters.created_outside.fetch_add(1)
    Py_XDECREF(scope)
    Py_XDECREF(_before)


cdef void _count_end(Note* note) noexcept:
    """Count the instance of `note` as finalized."""
    cdef Counters counters = <Counters>note.counters
    counters.finalized.fetch_add(1)
    if note.scope:
        counters.disposed_in.fetch_add(1)
    else:
        counters.disposed_outside.fetch_add(1)


cdef void _finish(PyObject* x) noexcept:
    """Remove the note of an earlier instance at this address, and count it as finalized."""
    found = _notes.find(<size_t>x)
    if found == _notes.end():
        return
    cdef Note note = dereference(found).second
    _notes.erase(found)
    _count_end(&note)
    Py_XDECREF(note.site)


cdef object uncount(PyObject* x):
    found = _notes.find(<size_t>x)
    if found == _notes.end():
        return None
    cdef Note note = dereference(found).second
    _notes.erase(found)
    return _uncounted(&note)


cdef object _uncounted(Note* note):
    """Undo the count of a removed note, and return its site."""
    cdef Counters counters = <Counters>note.counters
    if note.scope:
        counters.created_in.fetch_sub(1)
    else:
        counters.created_outside.fetch_sub(1)
    if note.site is NULL:
        return None
    site = <object>note.site
    Py_DECREF(site)
    return site


cdef void release_by(void (*release)(PyObject*) noexcept) noexcept:
    """Call ``release(x)`` for each value that is assigned to an excluded C attribute."""
    global scopes_on_set
    scopes_on_set = release


def begin(kinds, unowned=()):
    """Record births of instances of `kinds`, and return whether that is possible for all of them.

    No scope owns instances of the classes `unowned`. Births of all threads are recorded. A thread makes
    scopes own its own births with `count_recording`.
    """
    global _is_watching
    _is_watching = True
    return all([watch(kind, kind in unowned) for kind in kinds])


def watch(kind, bint is_unowned=False):
    """Record births of instances of `kind` too, until `end`, and return whether that is possible."""
    cdef allocfunc allocator = scopes_allocator_of(<PyObject*>kind)
    if _is_watching and allocator == PyType_GenericAlloc:
        scopes_set_allocator(<PyObject*>kind, _allocate)
        _watched.append(ref(kind))
        if is_unowned:
            _unowned.insert(<size_t><PyObject*>kind)
        return True
    return allocator == _allocate


def end():
    """Restore the `tp_alloc` of all classes. Instances whose note was not read yet count as finalized."""
    global _is_watching
    _is_watching = False
    for reference in _watched:
        kind = reference()
        if kind is not None and scopes_allocator_of(<PyObject*>kind) == _allocate:
            scopes_set_allocator(<PyObject*>kind, PyType_GenericAlloc)
    _watched.clear()
    _unowned.clear()
    fill(new_births())


def discard():
    """Forget all births that were not read yet, as if they had not been counted."""
    while not _notes.empty():
        uncount(<PyObject*>dereference(_notes.begin()).first)


def locate_by(function):
    """Set the function that returns the line of each birth, or None."""
    global _locate
    _locate = function


def locate_gradients(function):
    """Set the function that returns the line of the gradient of ``x``, when reading it creates an instance.

    It returns None for the current line. None instead of a function: always the current line.
    """
    global _locate_gradient
    _locate_gradient = function


def is_noted_in(x, scope):
    """Return whether `x` has an unread note, and `scope` owns it; None means no scope."""
    found = _notes.find(<size_t><PyObject*>x)
    if found == _notes.end():
        return False
    cdef size_t wanted = 0 if scope is None else <size_t><PyObject*>scope
    return dereference(found).second.scope & ~<size_t>1 == wanted


def exclude_attribute(descriptor, bint is_gradient=False):
    """Keep values of a C attribute out of all scopes, and return whether that is possible.

    A value that is assigned to the attribute leaves its scope: the attribute's object owns it then.
    `locate_gradients` has the lines of the values of an attribute with `is_gradient`.
    """
    if descriptor not in _excluded:
        if scopes_exclude(<PyObject*>descriptor, is_gradient) is NULL:
            return False
        _excluded.add(descriptor)
    return True


def count_recording(int change):
    """Begin (1) or stop (-1) giving births of this thread to its scopes. Calls nest."""
    scopes_recording_here().blocks += change


def pause(int change):
    """Pause (1) or resume (-1) giving births of this thread to its scopes. Calls nest."""
    scopes_recording_here().pauses += change


def hide(int change):
    """Stop (1) or resume (-1) recording births on this thread. Calls nest."""
    scopes_recording_here().hiding += change


def log(int change):
    """Begin (1) or end (-1) a log of births, for `may_be_new`. Calls nest. Pauses have no effect on logs."""
    cdef scopes_recording* here = scopes_recording_here()
    if here.logs == 0:
        here.log_start = _serial
    here.logs += change


cdef bint is_recorded(PyObject* x) noexcept:
    return scopes_allocator_of(<PyObject*>x.ob_type) == _allocate


cdef uint64_t serial_of(PyObject* x) noexcept:
    found = _notes.find(<size_t>x)
    return 0 if found == _notes.end() else dereference(found).second.serial


cdef bint is_in_log(uint64_t serial) noexcept:
    return serial > scopes_recording_here().log_start


def suspend(bint is_suspended):
    """Stop or resume recording births on all threads."""
    global _is_suspended
    _is_suspended = is_suspended


def count_strict(int change):
    """Enter (1) or leave (-1) a block of ``scopes.torch.owning(strict=True)`` on this thread."""
    scopes_recording_here().strict_blocks += change


cdef bint is_paused() noexcept:
    return scopes_recording_here().pauses > 0


cdef bint is_strict() noexcept:
    return scopes_recording_here().strict_blocks > 0


# It refers to scopes and counters only, so the collector never has to break a cycle here.
@cython.no_gc
@cython.final
cdef class Births:
    """The births recorded between two calls of `fill`. Those left at its end count as finalized."""

    def __dealloc__(self):
        cdef unordered_map[size_t, Note].iterator each = self.notes.begin()
        while each != self.notes.end():
            _count_end(&dereference(each).second)
            Py_XDECREF(dereference(each).second.site)
            preincrement(each)

    cdef bint take(self, PyObject* x, Note* note) noexcept:
        """Move the note of `x`, which is alive, to `note`. Return whether there is one."""
        found = self.notes.find(<size_t>x)
        if found == self.notes.end():
            return False
        note[0] = dereference(found).second
        self.notes.erase(found)
        return True

    cdef MemberList scope_of(self, Note* note):
        """Return the scope where the instance was created, or the nearest open scope around it, or None."""
        cdef MemberList scope
        if note.scope == 0:
            return None
        scope = self.used[note.scope & ~<size_t>1]
        return scope if scope.members.is_open else outer_of(scope)


cdef Births new_births():
    """Return a new, empty `Births` for `fill`."""
    cdef Births made = Births.__new__(Births)
    made.used = {}
    return made


cdef bint fill(Births made) noexcept:
    """Move the births since the last call into the new `made`, and return whether there are any.

    It runs no other code, not even the garbage collector.
    """
    global _used, _last_scope, _last_counters
    # Even without notes: those that `take_one` has read would keep their scopes alive.
    made.used, _used = _used, made.used
    _last_scope = _last_counters = 0
    if _notes.empty():
        return False
    made.notes.swap(_notes)
    return True


cdef Births take_one(PyObject* x):
    """Remove the note of `x`, and return it; None if there is none."""
    if _notes.find(<size_t>x) == _notes.end():
        return None
    cdef Births made = Births.__new__(Births)
    # Creating it may have run the collector, which reads all notes.
    found = _notes.find(<size_t>x)
    if found == _notes.end():
        return None
    made.notes[<size_t>x] = dereference(found).second
    made.used = _used
    _notes.erase(found)
    return made
