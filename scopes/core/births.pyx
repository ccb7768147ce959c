# cython: language_level=3, auto_pickle=False
"""Record *births*: the allocations of new instances of another library's classes.

A class allocates its instances with the slot ``tp_alloc`` of its type object. While births are recorded, this
slot also stores a note: the address of the new instance, and the thread's current scope. A note takes about
20 ns, and most instances are freed before the notes are read. Notes are read together with the garbage
collector's list of young objects, which only contains living objects. So the note of a freed instance is
never used: its address is free, or belongs to a later instance, whose allocation replaced or erased the note.

An instance that wraps an existing C++ object is not a birth. An example is the gradient that an attribute
returns. `exclude_attribute` excludes the values of such an attribute.
"""

cimport cython
from cpython.contextvars cimport PyContextVar_Get
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF
from cython.operator cimport dereference
from libcpp.unordered_map cimport unordered_map

from weakref import ref

from scopes.core.disposable cimport MemberList, outer_of

from scopes.core.disposable import current as _current_scope


cdef extern from *:
    """
    #include <unordered_set>

    // This thread's numbers of open blocks that record births, pauses, blocks of `owning(strict=True)`, and
    // open logs.
    typedef struct {
        int blocks, pauses, strict_blocks, logs;
    } scopes_recording;

    static scopes_recording* scopes_recording_here(void) {
        static thread_local scopes_recording recording = {0, 0, 0, 0};
        return &recording;
    }

    // The addresses of all instances that this thread has allocated since its outermost open log began.
    static std::unordered_set<size_t>& scopes_log_here(void) {
        static thread_local std::unordered_set<size_t> log;
        return log;
    }
    static void scopes_add_to_log(PyObject* x) { scopes_log_here().insert((size_t)x); }
    static int scopes_is_in_log(PyObject* x) { return scopes_log_here().count((size_t)x) != 0; }
    static void scopes_clear_log(void) {
        std::unordered_set<size_t>& log = scopes_log_here();
        if (log.bucket_count() > 1000)
            std::unordered_set<size_t>().swap(log);  // `clear` would visit all buckets each time
        else
            log.clear();
    }

    static allocfunc scopes_allocator_of(PyObject* kind) {
        return ((PyTypeObject*)kind)->tp_alloc;
    }
    static void scopes_set_allocator(PyObject* kind, allocfunc allocator) {
        ((PyTypeObject*)kind)->tp_alloc = allocator;
    }

    // A C attribute whose values are not births: its new and its previous definition.
    typedef struct {
        PyGetSetDef definition;
        PyGetSetDef* before;
    } scopes_attribute;

    static void (*scopes_on_set)(PyObject*) = NULL;

    static PyObject* scopes_get(PyObject* x, void* closure) {
        PyGetSetDef* before = ((scopes_attribute*)closure)->before;
        scopes_recording* here = scopes_recording_here();
        ++here->pauses;
        PyObject* value = before->get(x, before->closure);
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
    static scopes_attribute* scopes_exclude(PyObject* descriptor) {
        PyGetSetDescrObject* object = (PyGetSetDescrObject*)descriptor;
        scopes_attribute* made;
        if (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) || object->d_getset->get == NULL)
            return NULL;
        made = (scopes_attribute*)PyMem_RawMalloc(sizeof(scopes_attribute));
        if (made == NULL)
            return NULL;
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
    ctypedef struct scopes_attribute:
        pass
    ctypedef struct scopes_recording:
        int blocks, pauses, strict_blocks, logs
    scopes_recording* scopes_recording_here() noexcept
    void scopes_add_to_log(PyObject* x) noexcept
    bint scopes_is_in_log(PyObject* x) noexcept
    void scopes_clear_log() noexcept
    void (*scopes_on_set)(PyObject*) noexcept
    allocfunc scopes_allocator_of(PyObject* kind)
    void scopes_set_allocator(PyObject* kind, allocfunc allocator)
    scopes_attribute* scopes_exclude(PyObject* descriptor)
    PyObject* PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t count)

cdef object _current = _current_scope
# Maps the address of an instance to that of its scope, plus 1 inside ``scopes.torch.owning(strict=True)``.
cdef unordered_map[size_t, size_t] _notes
# The scopes that notes refer to, by address. This keeps them alive.
cdef dict _scopes = {}
cdef size_t _last_scope = 0
# Weak references to the classes whose `tp_alloc` was replaced.
cdef list _watched = []
cdef bint _is_watching = False
cdef bint _is_suspended = False
cdef set _excluded = set()


cdef PyObject* _allocate(PyTypeObject* kind, Py_ssize_t count) noexcept:
    cdef PyObject* made = PyType_GenericAlloc(kind, count)
    cdef scopes_recording* here
    if made is not NULL:
        here = scopes_recording_here()
        if here.logs > 0:
            scopes_add_to_log(made)
        if here.blocks > 0 and here.pauses == 0 and not _is_suspended:
            _note(made, here.strict_blocks > 0)
        elif not _notes.empty():
            _notes.erase(<size_t>made)
    return made


cdef void _note(PyObject* made, bint strictly) noexcept:
    global _last_scope
    # A new reference to the current scope, which may have ended, or to None.
    cdef PyObject* scope = NULL
    PyContextVar_Get(_current, NULL, &scope)
    cdef size_t address = <size_t>scope
    if scope is <PyObject*>None:
        _notes.erase(<size_t>made)
    else:
        if address != _last_scope:
            _scopes[address] = <object>scope
            _last_scope = address
        _notes[<size_t>made] = address | strictly
    Py_DECREF(<object>scope)


cdef void forget(PyObject* x) noexcept:
    _notes.erase(<size_t>x)


cdef void release_by(void (*release)(PyObject*) noexcept) noexcept:
    """Call ``release(x)`` for each value that is assigned to an excluded C attribute."""
    global scopes_on_set
    scopes_on_set = release


def begin(kinds):
    """Record births of instances of `kinds`, and return whether that is possible for all of them.

    Each thread turns recording on for itself with `count_recording`.
    """
    global _is_watching
    _is_watching = True
    return all([watch(kind) for kind in kinds])


def watch(kind):
    """Record births of instances of `kind` too, until `end`, and return whether that is possible."""
    cdef allocfunc allocator = scopes_allocator_of(<PyObject*>kind)
    if _is_watching and allocator == PyType_GenericAlloc:
        scopes_set_allocator(<PyObject*>kind, _allocate)
        _watched.append(ref(kind))
        return True
    return allocator == _allocate


def end():
    """Restore the `tp_alloc` of all classes and forget all notes."""
    global _is_watching
    _is_watching = False
    for reference in _watched:
        kind = reference()
        if kind is not None and scopes_allocator_of(<PyObject*>kind) == _allocate:
            scopes_set_allocator(<PyObject*>kind, PyType_GenericAlloc)
    _watched.clear()
    fill(new_births())


def exclude_attribute(descriptor):
    """Exclude values of a C attribute from births, and return whether that is possible.

    A value that is assigned to the attribute leaves its scope: the attribute's object owns it then.
    """
    if descriptor not in _excluded:
        if scopes_exclude(<PyObject*>descriptor) is NULL:
            return False
        _excluded.add(descriptor)
    return True


def count_recording(int change):
    """Begin (1) or stop (-1) recording births on this thread. Calls nest."""
    scopes_recording_here().blocks += change


def pause(int change):
    """Pause (1) or resume (-1) recording births on this thread. Calls nest."""
    scopes_recording_here().pauses += change


def log(int change):
    """Begin (1) or end (-1) a log of births on this thread, for `may_be_new`. Calls nest.

    Pauses have no effect on logs.
    """
    cdef scopes_recording* here = scopes_recording_here()
    here.logs += change
    if here.logs == 0:
        scopes_clear_log()


cdef bint may_be_new(PyObject* x) noexcept:
    """Return whether `x` may be allocated since the outermost open log of this thread began.

    The answer is exact if the births of the class are recorded.
    """
    return scopes_allocator_of(<PyObject*>x.ob_type) != _allocate or scopes_is_in_log(x)


def suspend(bint is_suspended):
    """Pause or resume recording births on all threads."""
    global _is_suspended
    _is_suspended = is_suspended


def count_strict(int change):
    """Enter (1) or leave (-1) a block of ``scopes.torch.owning(strict=True)`` on this thread."""
    scopes_recording_here().strict_blocks += change


cdef bint is_paused() noexcept:
    return scopes_recording_here().pauses > 0


cdef bint is_strict() noexcept:
    return scopes_recording_here().strict_blocks > 0


@cython.final
cdef class Births:
    """The births recorded between two calls of `fill`."""

    cdef MemberList scope_of(self, PyObject* x):
        """Return the scope where `x` was created, or the nearest open scope around it, or None."""
        cdef MemberList scope
        found = self.notes.find(<size_t>x)
        if found == self.notes.end():
            return None
        scope = self.scopes[dereference(found).second & ~<size_t>1]
        return scope if scope.members.is_open else outer_of(scope)

    cdef bint is_strict(self, PyObject* x):
        return self.notes[<size_t>x] & 1


cdef Births new_births():
    """Return a new, empty `Births` for `fill`."""
    cdef Births made = Births.__new__(Births)
    made.scopes = {}
    return made


cdef bint fill(Births made) noexcept:
    """Move the births since the last call into the new `made`, and return whether there are any.

    It runs no other code, not even the garbage collector.
    """
    global _scopes, _last_scope
    if _notes.empty():
        return False
    made.notes.swap(_notes)
    made.scopes, _scopes = _scopes, made.scopes
    _last_scope = 0
    return True


cdef Births take_one(PyObject* x):
    """Remove the note of `x`, and return it; None if there is none."""
    found = _notes.find(<size_t>x)
    if found == _notes.end():
        return None
    cdef Births made = Births.__new__(Births)
    found = _notes.find(<size_t>x)
    if found == _notes.end():
        return None
    made.notes[<size_t>x] = dereference(found).second
    made.scopes = _scopes
    _notes.erase(found)
    return made
