# cython: language_level=3, auto_pickle=False
"""Objects of other libraries in scopes: PyTorch's tensors, JAX's arrays.

Such objects can't derive from `Disposable`. A `Foreign` represents each of them in its scope and in the
counters, from its registration (*adoption*) until the object is freed. A map finds the `Foreign` by the
object's address, and the `Foreign` has a weak reference to the object. So nothing is written into the object,
and no scope keeps it alive. The adapter of a library (``scopes/adapters/adapter.py``) disposes and measures
its objects. `_Hooks` is what scopes call.

The first part records *births*: the allocations of new instances of another library's classes.

A class allocates its instances with the slot ``tp_alloc`` of its type object, and frees them with
``tp_free``. While births are recorded, the first slot counts each new instance, on any thread, and stores a
note: the address of the instance, its counters, and the scope that owns it. The second one removes the note,
and counts the instance as finalized. Most instances are freed before anything reads their notes. So the notes
are those of living instances, and the end of a scope visits only what is left of its block.

CPython lets an instance change its class only if both classes have the same ``tp_free``. So the slot of each
subclass is replaced, at its creation too (`watch_classes`), whether or not its births are recorded.

No scope owns an instance of a thread that does not record, or of a pause. An instance that wraps an existing
C++ object has no scope either. An example is the gradient that an attribute returns: `exclude_attribute`
pauses for the values of such an attribute.

While objects are tracked, a note also has the line of the allocation.

Arrays of a library that is searched for new objects, such as JAX, have notes of their own (`locate`).
"""

cimport cython
from cpython.contextvars cimport PyContextVar_Get
from cpython.object cimport PyObject, PyTypeObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from scopes.core.counters cimport Counters, counters_of
from scopes.core.scope cimport (
    Disposable, DisposeScope, Hooks, current_scope, is_observed, link_newest, members_of, notify_created,
    notify_written, outer_of, register_as, register_late, set_hooks
)

import warnings
from traceback import format_tb
from weakref import ref

from scopes.core.scope import current as _current_scope
from scopes.core.scope import current_observer, ending_by, is_watched, watch_callbacks
from scopes.core.scope import step_lock as _step_lock


# --- Births ---

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

    // The object of a weak reference, or None: a new reference.
    static PyObject* scopes_object_of(PyObject* reference) {
    #if PY_VERSION_HEX >= 0x030D0000
        PyObject* object = NULL;
        if (PyWeakref_GetRef(reference, &object) < 0)
            return NULL;
        return object == NULL ? Py_NewRef(Py_None) : object;
    #else
        return Py_NewRef(PyWeakref_GetObject(reference));
    #endif
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

    // The initialization of the classes of one metaclass, and what to call after it.
    static initproc scopes_init_before = NULL;
    static void (*scopes_on_class)(PyObject*) = NULL;

    static int scopes_init_class(PyObject* kind, PyObject* args, PyObject* keywords) {
        int failed = scopes_init_before(kind, args, keywords);
        if (!failed)
            scopes_on_class(kind);
        return failed;
    }
    // Call `scopes_on_class` for new classes of the metaclass with this ``__init__``, of C. Later metaclasses
    // that are derived from it take their slot from the descriptor.
    static int scopes_replace_init(PyObject* descriptor) {
        PyWrapperDescrObject* wrapper = (PyWrapperDescrObject*)descriptor;
        if (!Py_IS_TYPE(descriptor, &PyWrapperDescr_Type) || scopes_init_before != NULL)
            return 0;
        scopes_init_before = (initproc)wrapper->d_wrapped;
        wrapper->d_wrapped = (void*)scopes_init_class;
        return 1;
    }
    static void scopes_replace_init_slot(PyObject* metaclass) {
        if (((PyTypeObject*)metaclass)->tp_init == scopes_init_before)
            ((PyTypeObject*)metaclass)->tp_init = scopes_init_class;
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
    static void scopes_set_definition(PyObject* descriptor, scopes_attribute* attribute, int is_excluded) {
        PyGetSetDescrObject* object = (PyGetSetDescrObject*)descriptor;
        object->d_getset = is_excluded ? &attribute->definition : attribute->before;
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
    object scopes_object_of(PyObject* reference)
    void (*scopes_on_set)(PyObject*) noexcept
    allocfunc scopes_allocator_of(PyObject* kind)
    void scopes_set_allocator(PyObject* kind, allocfunc allocator)
    freefunc scopes_deallocator_of(PyObject* kind)
    void scopes_set_deallocator(PyObject* kind, freefunc deallocator)
    void (*scopes_on_class)(PyObject*) noexcept
    bint scopes_replace_init(PyObject* descriptor)
    void scopes_replace_init_slot(PyObject* metaclass)
    scopes_attribute* scopes_exclude(PyObject* descriptor, bint is_gradient)
    void scopes_set_definition(PyObject* descriptor, scopes_attribute* attribute, bint is_excluded)
    Py_ssize_t Py_REFCNT(PyObject* x) nogil
    void PyObject_GC_Del(void* x) noexcept
    PyObject* PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t count)

cdef extern from "Python.h":
    ctypedef int (*pending_call)(void*) except -1
    int Py_AddPendingCall(pending_call function, void* argument) noexcept nogil

cdef extern from "scopes/adapters/births.h" namespace "scopes" nogil:
    cdef struct Note:
        PyObject* counters
        PyObject* scope
        PyObject* site
        unsigned long thread
        uint64_t serial
        bint is_strict

    cdef cppclass Notes:
        void (*on_growth)() noexcept
        bint empty()
        Note* find(size_t address)
        void put(size_t address, const Note& note)
        bint take(size_t address, Note* note)
        void append_to(vector[PyObject*]& found)

cdef object _current = _current_scope
# The notes of living instances that a scope owns, and of the others. They own their references.
cdef Notes _owned, _others
# The number of births so far.
cdef uint64_t _serial = 0
# Returns the current line of the user's code, while objects are tracked; else None.
cdef object _locate = None
# The function of `locate_gradients`, or None.
cdef object _locate_gradient = None
# The notes of living instances of the classes that `locate` was given, until a search finds the instance.
cdef Notes _located
cdef bint _is_counting_located = False
cdef unsigned long _located_owner = 0
# Weak references to the classes whose slots were replaced.
cdef list _watched = []
# The addresses of the classes among them whose instances no scope owns.
cdef unordered_set[size_t] _unowned
cdef bint _is_watching = False
cdef bint _is_suspended = False
# The attributes of `exclude_attribute`, with the addresses of their definitions.
cdef dict _excluded = {}


cdef PyObject* _allocate(PyTypeObject* kind, Py_ssize_t count) noexcept:
    cdef PyObject* made
    cdef Counters counters = None
    cdef scopes_recording* here = scopes_recording_here()
    if not _is_suspended and here.hiding == 0:
        # This may run Python code, so it comes before the allocation.
        counters = counters_of(<type>kind)
        site = None if _locate is None else _line_of_birth()
    made = PyType_GenericAlloc(kind, count)
    if made is not NULL and counters is not None:
        _note(made, counters, site, here)
    return made


cdef void _free(void* x) noexcept:
    cdef Note note
    cdef bint is_noted = _owned.take(<size_t>x, &note) or _others.take(<size_t>x, &note)
    PyObject_GC_Del(x)
    if is_noted:
        _count_end(&note)
        _release(&note)


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
    cdef bint is_noted = _located.take(<size_t>x, &note)
    PyObject_GC_Del(x)
    if is_noted:
        _count_end(&note)
        _release(&note)


cdef void _note_located(PyObject* made, Counters counters, site) noexcept:
    cdef Note note = _new_note(counters, site)
    cdef PyObject* scope = NULL
    note.thread = PyThread_get_thread_ident()
    if note.thread == _located_owner:
        PyContextVar_Get(_current, NULL, &scope)
        if scope is not <PyObject*>None:
            note.scope = scope
        else:
            Py_XDECREF(scope)
    _count_birth(&note)
    _located.put(<size_t>made, note)


cdef Note _new_note(Counters counters, site) noexcept:
    cdef Note note
    note.counters = <PyObject*>counters
    Py_INCREF(counters)
    note.scope = note.site = NULL
    note.thread = note.serial = 0
    note.is_strict = False
    if site is not None:
        Py_INCREF(site)
        note.site = <PyObject*>site
        note.thread = PyThread_get_thread_ident()
    return note


cdef void _count_birth(Note* note) noexcept:
    if note.scope is not NULL:
        (<Counters>note.counters).created_in.fetch_add(1)
    else:
        (<Counters>note.counters).created_outside.fetch_add(1)


cdef void _release(Note* note) noexcept:
    """Release the references of a removed note, which may run Python code."""
    Py_XDECREF(note.counters)
    Py_XDECREF(note.scope)
    Py_XDECREF(note.site)


def locate(kind):
    """Count new instances of `kind` inside `count_located`. Remember their lines while objects are tracked.

    This is for a library that is searched for new objects. An instance that is freed before a search finds it
    counts as created and as finalized. A class with an allocator or a deallocator of its own stays as it is.
    """
    if scopes_allocator_of(<PyObject*>kind) != PyType_GenericAlloc:
        return
    if scopes_deallocator_of(<PyObject*>kind) != PyObject_GC_Del:
        return
    scopes_set_allocator(<PyObject*>kind, _allocate_located)
    scopes_set_deallocator(<PyObject*>kind, _free_located)


def count_located(bint is_counting, unsigned long owner):
    """Begin or stop counting new instances of the classes that `locate` was given.

    The thread `owner` gives its instances to its scopes; 0: no thread does.
    """
    global _is_counting_located, _located_owner
    _is_counting_located = is_counting
    _located_owner = owner


def located():
    """Return the counted instances that are alive and that no search has found yet."""
    return _living(_located)


cdef list _living(Notes& notes):
    """Return the living instances with notes, the oldest first."""
    cdef list found = []
    cdef vector[PyObject*] listed
    # From here on no Python code runs, so nothing is freed.
    notes.append_to(listed)
    for each in listed:
        if Py_REFCNT(each) > 0:  # else it is being freed
            found.append(<object>each)
    return found


def end_located(x):
    """Count the instance `x`, which its library has emptied, as finalized, if no search has found it."""
    cdef Note note
    if _located.take(<size_t><PyObject*>x, &note):
        _count_end(&note)
        _release(&note)


cdef object uncount_located(PyObject* x):
    cdef Note note
    return _uncounted(&note) if _located.take(<size_t>x, &note) else None


cdef void _note(PyObject* made, Counters counters, site, scopes_recording* here) noexcept:
    global _serial
    cdef Note note = _new_note(counters, site)
    # A new reference to the current scope, which may have ended, or to None.
    cdef PyObject* scope = NULL
    if here.blocks > 0 and here.pauses == 0 and not (
        not _unowned.empty() and _unowned.count(<size_t>made.ob_type)
    ):
        PyContextVar_Get(_current, NULL, &scope)
        if scope is not <PyObject*>None:
            note.scope = scope
            note.is_strict = here.strict_blocks > 0
        else:
            Py_XDECREF(scope)
    _serial += 1
    note.serial = _serial
    _count_birth(&note)
    if note.scope is not NULL:
        _owned.put(<size_t>made, note)
    else:
        _others.put(<size_t>made, note)


cdef void _count_end(Note* note) noexcept:
    """Count the instance of `note` as finalized."""
    cdef Counters counters = <Counters>note.counters
    counters.finalized.fetch_add(1)
    if note.scope is not NULL:
        counters.disposed_in.fetch_add(1)
    else:
        counters.disposed_outside.fetch_add(1)


cdef bint _take(PyObject* x, Note* note) noexcept:
    return _owned.take(<size_t>x, note) or _others.take(<size_t>x, note)


cdef Note* _find(PyObject* x) noexcept:
    cdef Note* found = _owned.find(<size_t>x)
    return _others.find(<size_t>x) if found is NULL else found


cdef object uncount(PyObject* x):
    """Remove the note of `x` and its count. Return the line and thread of its birth, or None."""
    cdef Note note
    return _uncounted(&note) if _take(x, &note) else None


cdef object _uncounted(Note* note):
    """Undo the count of a removed note, and release it. Return its line and thread, or None."""
    cdef Counters counters = <Counters>note.counters
    if note.scope is not NULL:
        counters.created_in.fetch_sub(1)
    else:
        counters.created_outside.fetch_sub(1)
    found = None if note.site is NULL else (<object>note.site, note.thread)
    _release(note)
    return found


def begin_recording(kinds, unowned=(), uncounted=()):
    """Record births of instances of `kinds`, and return whether that is possible for all of them.

    No scope owns instances of the classes `unowned`. Births of all threads are recorded. A thread makes
    scopes own its own births with `count_recording`. Instances of the classes `uncounted` have no births, but
    those of `kinds` may become such instances.
    """
    global _is_watching
    _is_watching = True
    _redefine(True)
    are_watched = [watch_frees(kind) for kind in uncounted]
    return all(are_watched + [record_kind(kind, kind in unowned) for kind in kinds])


def record_kind(kind, bint is_unowned=False):
    """Record births of instances of `kind` too, until `end_recording`. Return whether that is possible."""
    cdef allocfunc allocator = scopes_allocator_of(<PyObject*>kind)
    if allocator == _allocate:
        return True
    if allocator != PyType_GenericAlloc or not watch_frees(kind):
        return False
    scopes_set_allocator(<PyObject*>kind, _allocate)
    if is_unowned:
        _unowned.insert(<size_t><PyObject*>kind)
    return True


def watch_frees(kind):
    """Let instances change between `kind` and recorded classes. Return whether that is possible."""
    cdef freefunc deallocator = scopes_deallocator_of(<PyObject*>kind)
    if _is_watching and deallocator == PyObject_GC_Del:
        scopes_set_deallocator(<PyObject*>kind, _free)
        _watched.append(ref(kind))
        return True
    return deallocator == _free


def end_recording():
    """Restore the slots of all classes. Call `read_births` first: the other births are forgotten."""
    global _is_watching
    _is_watching = False
    for reference in _watched:
        kind = reference()
        if kind is not None and scopes_allocator_of(<PyObject*>kind) == _allocate:
            scopes_set_allocator(<PyObject*>kind, PyType_GenericAlloc)
        if kind is not None and scopes_deallocator_of(<PyObject*>kind) == _free:
            scopes_set_deallocator(<PyObject*>kind, PyObject_GC_Del)
    _watched.clear()
    _unowned.clear()
    _forget(True)


def discard_births():
    """Forget all births that were not read yet, as if they had not been counted."""
    _forget(False)


cdef int _forget(bint is_end) except -1:
    """Remove all notes. Count the instances as finalized if `is_end`, or not at all."""
    cdef vector[PyObject*] listed
    cdef Note note
    _owned.append_to(listed)
    _others.append_to(listed)
    for each in listed:
        if _take(each, &note):  # else releasing another one has freed it
            if is_end:
                _count_end(&note)
                _release(&note)
            else:
                _uncounted(&note)
    return 0


cdef object _on_class = None


def watch_classes(metaclass, function):
    """Call `function` with each new class of `metaclass`, a class of C. Return whether that is possible.

    It is called after the class is initialized, also for classes of derived metaclasses.
    """
    global _on_class
    initialize = vars(metaclass).get("__init__")
    if _on_class is None and not scopes_replace_init(<PyObject*>initialize):
        return False
    _on_class = function
    metaclasses = [metaclass]
    while metaclasses:
        each = metaclasses.pop()
        scopes_replace_init_slot(<PyObject*>each)
        metaclasses += type.__subclasses__(each)
    return True


cdef void _tell_of_class(PyObject* kind) noexcept:
    _on_class(<object>kind)


scopes_on_class = _tell_of_class


def _follow_observer():
    """Ask the observer of scopes, if it has a method ``locate``, for the line of each birth."""
    global _locate
    _locate = getattr(current_observer(), "locate", None)


watch_callbacks.append(_follow_observer)
_follow_observer()


def locate_gradients(function):
    """Set the function that returns the line of the gradient of ``x``, when reading it creates an instance.

    It returns None for the current line. None instead of a function: always the current line.
    """
    global _locate_gradient
    _locate_gradient = function


def is_noted_in(x, scope):
    """Return whether `x` has an unread note, and `scope` owns it; None means no scope."""
    cdef Note* found = _find(<PyObject*>x)
    return found is not NULL and found.scope is (NULL if scope is None else <PyObject*>scope)


def exclude_attribute(descriptor, bint is_gradient=False):
    """Keep values of a C attribute out of all scopes, and return whether that is possible.

    A value that is assigned to the attribute leaves its scope: the attribute's object owns it then.
    `locate_gradients` has the lines of the values of an attribute with `is_gradient`.
    """
    cdef scopes_attribute* made
    if descriptor not in _excluded:
        made = scopes_exclude(<PyObject*>descriptor, is_gradient)
        if made is NULL:
            return False
        _excluded[descriptor] = <size_t>made
    return True


def include_attributes():
    """Undo all calls of `exclude_attribute`, until the next recording begins."""
    _redefine(False)


cdef int _redefine(bint is_excluded) except -1:
    for descriptor, address in _excluded.items():
        scopes_set_definition(<PyObject*>descriptor, <scopes_attribute*><size_t>address, is_excluded)
    return 0


def count_recording(int change):
    """Begin (1) or stop (-1) giving births of this thread to its scopes. Calls nest."""
    scopes_recording_here().blocks += change


def pause_births(int change):
    """Pause (1) or resume (-1) giving births of this thread to its scopes. Calls nest."""
    scopes_recording_here().pauses += change


def hide_births(int change):
    """Stop (1) or resume (-1) recording births on this thread. Calls nest."""
    scopes_recording_here().hiding += change


cdef void _log_births(int change) noexcept:
    cdef scopes_recording* here = scopes_recording_here()
    if here.logs == 0:
        here.log_start = _serial
    here.logs += change


def log_births(int change):
    """Begin (1) or end (-1) a log of births, for `may_be_new`. Calls nest. Pauses have no effect on logs."""
    _log_births(change)


cdef bint is_recorded(PyObject* x) noexcept:
    return scopes_allocator_of(<PyObject*>x.ob_type) == _allocate


cdef uint64_t serial_of(PyObject* x) noexcept:
    cdef Note* found = _find(x)
    return 0 if found is NULL else found.serial


cdef bint is_in_log(uint64_t serial) noexcept:
    return serial > scopes_recording_here().log_start


def suspend_births(bint is_suspended):
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


# --- Members for objects of other libraries ---

# Maps the address of an object to its `Foreign`. Each entry owns a reference and is removed with its object.
cdef unordered_map[size_t, PyObject*] _by_address

cdef list _adapters = []
# The adapters by the classes in their ``kinds``, without subclasses.
cdef dict _adapter_by_kind = {}
# The classes of all adapters, as an argument of `issubclass`. `isinstance` may run code of lazy proxies.
cdef tuple _kinds = ()
# Adapters that search for new objects, because their library does not report them.
cdef list _late = []
# The adapter that finds which objects outlive a scope, by `find_kept`. There is at most one.
cdef object _finder = None
# Whether `_warn_of_fault` has warned.
cdef bint _has_warned = False

cdef object _method_wrapper = type(object().__str__)


def add_adapter(adapter):
    """Make scopes own the objects of ``adapter.kinds`` from now on.

    Raises
    ------
    NotImplementedError
        If `adapter` has `find_kept`, and another adapter has it too.
    """
    global _kinds, _finder
    if adapter.find_kept is not None and _finder is not None and _finder is not adapter:
        raise NotImplementedError(
            f"{adapter.library} and {_finder.library} both have find_kept: only one adapter may have it"
        )
    _adapters.append(adapter)
    _adapter_by_kind.update(dict.fromkeys(adapter.kinds, adapter))
    _kinds += tuple(adapter.kinds)
    if adapter.harvest is not None:
        _late.append(adapter)
    if adapter.find_kept is not None:
        _finder = adapter


def count_keepers():
    """Return the number of keepers so far, for `find_kept_by_older`."""
    return -1 if _finder is None else _finder.count_keepers()


def find_kept_by_older(objects, older):
    """Return the ids of the `objects` that one of the first `older` keepers keeps."""
    if _finder is None:
        return set()
    found = {id(x): x for x in objects if issubclass(type(x), _finder.kinds)}
    return _finder.find_kept_by_older(found, older)


cdef int move_out_kept(DisposeScope scope, list members) except -1:
    cdef Disposable member
    cdef list living = []
    cdef object fault = None
    cdef dict loosely, strictly, by_id, kept
    for member in members:
        if not isinstance(member, Foreign) or member.counters is None or member.link.is_attached:
            continue
        if (<Foreign>member).is_noticed and (<Foreign>member).adapter is _finder:
            x = member.subject()
            if x is not None:
                living.append(x)
    x = None  # `find_kept` counts references
    try:
        if not living or _finder.are_explained(living):
            return 0
    except BaseException as error:
        fault = error
    loosely, strictly, by_id = {}, {}, {}
    for x in living:
        member = <Foreign>_by_address[<size_t><PyObject*>x]
        (strictly if (<Foreign>member).is_strict else loosely)[id(x)] = x
        by_id[id(x)] = member
    x = None
    living.clear()
    for objects, is_strict in ((loosely, False), (strictly, True)):
        if objects:
            try:
                if fault is not None:
                    raise fault
                kept = _finder.find_kept(scope, objects, scope.mark, is_strict)
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
            f"scopes could not find out which {_finder.library} {_finder.noun}s outlive their scope, so "
            f"all of them stay alive. This is a fault of disposescope: {type(error).__name__}: {error}. "
            f"Please report it with these lines:\n{where}",
            RuntimeWarning,
            stacklevel=1,
        )
    return 0


cdef object _adapter_of(x):
    known = _adapter_by_kind.get(type(x))
    if known is not None:
        return known
    for adapter in _adapters:
        if issubclass(type(x), adapter.kinds):
            return adapter
    return None


# --- When to look for growing graphs ---

# Called on the main thread, after `_ticks` ended scopes and new members, or when many more instances live.
cdef object _look_for_growth = None
cdef long long _ticks = 1 << 62
# Whether a scope searches for what outlives it, which counts references.
cdef bint _is_searching = False


def look_for_growth_by(function):
    """Set the function that looks for growing graphs. It calls `schedule_growth` for its next call.

    It returns False if it can't look at this moment. Then it is called again soon.
    """
    global _look_for_growth
    _look_for_growth = function
    _owned.on_growth = _request_look
    _others.on_growth = _request_look


def schedule_growth(long long ticks):
    """Look for growing graphs after this many ended scopes and new members."""
    global _ticks
    _ticks = ticks


cdef void _request_look() noexcept nogil:
    """Look soon, between two instructions of the main thread: inside an operation of C++ nothing may run."""
    global _ticks
    _ticks = 1 << 62
    if Py_AddPendingCall(_look, NULL):
        _ticks = 1000  # too many calls are pending


# How often in a row a look was refused. A long search by this library must not be interrupted at each
# instruction.
cdef int _refusals = 0


cdef int _look(void* _) except -1:
    global _ticks, _refusals
    if _look_for_growth is None:
        return 0
    if _is_searching or _look_for_growth() is False:
        _refusals += 1
        if _refusals % 32768:
            _request_look()
        else:
            _ticks = 0  # the next ended scope or new member requests it again
    else:
        _refusals = 0
    return 0


cdef bint is_foreign(x):
    return type(x) in _kinds or (bool(_kinds) and issubclass(type(x), _kinds))


cdef int harvest() except -1:
    if _late:
        for adapter in list(_late):
            adapter.harvest()
    return _read(True)


cdef int _read(bint with_others) except -1:
    """Register the instances with noted births: those that scopes own, or all of them."""
    try:
        if not _owned.empty():
            for x in _living(_owned):
                notice(x)
        if with_others and not _others.empty():
            for x in _living(_others):
                notice(x)
    except Exception as error:  # no scope disposes the instances that were not registered
        _warn_of_fault(error)
    return 0


def read_births():
    """Register all instances with noted births, in the scopes of their births."""
    _read(True)


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
        x = scopes_object_of(<PyObject*>self.reference)
        revive = self.adapter.revive
        if x is not None and revive is not None:
            revive(x)
        return x

    cdef int release(self) except -1:
        cdef DisposeScope scope = self.scope
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

    def _last_op(self):
        x = self.subject()
        return None if x is None else self.adapter.last_op(x)

    def _library(self):
        return self.adapter.library

    def _is_kept_by_library(self, references):
        x = self.subject()
        return x is not None and self.adapter.is_kept_by_library(x, references)

    def _revive(self, x):
        if self.adapter.revive is not None:
            self.adapter.revive(x)


cdef Foreign foreign_of(x):
    found = _by_address.find(<size_t><PyObject*>x)
    if found == _by_address.end():
        if not is_foreign(x):
            return None
        if not notice(x) and _late:
            harvest()
        found = _by_address.find(<size_t><PyObject*>x)
        if found == _by_address.end():
            return None
    return <Foreign>_by_address[<size_t><PyObject*>x]


cdef Foreign _new_foreign(x, adapter, bint is_noticed, bint strictly):
    global _ticks
    cdef Foreign foreign = Foreign.__new__(Foreign)
    _ticks -= 1
    if _ticks < 0:
        _request_look()
    foreign.adapter = adapter
    foreign.address = <size_t><PyObject*>x
    foreign.reference = PyWeakref_NewRef(x, foreign)
    foreign.is_noticed = is_noticed
    foreign.is_strict = strictly
    _by_address[foreign.address] = <PyObject*>foreign
    Py_INCREF(foreign)
    return foreign


cdef int _register_noted(
    Foreign x, Counters counters, DisposeScope scope, site, unsigned long thread
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


cdef bint _own_late(Foreign x, DisposeScope scope) noexcept:
    """Make `scope` own `x` as at its creation. Return False if `x` has an owner, or has ended."""
    cdef DisposeScope _before = x.scope  # see `outer_of`
    if x.counters is None or x.link.owner is not NULL or not scope.members.is_open:
        return False
    with cython.critical_section(_step_lock):
        x.counters.created_outside.fetch_sub(1)
        x.counters.created_in.fetch_add(1)
        x.scope = scope
        link_newest(x, scope)
    return True


cdef bint notice(x) except -1:
    """Register `x`, if its birth is noted, in the note's scope. Return whether it was registered."""
    cdef Note note
    cdef DisposeScope scope = None
    cdef Counters counters
    cdef Foreign foreign
    if not _take(<PyObject*>x, &note):
        return False
    cdef bint is_owned = note.scope is not NULL
    counters = <Counters>note.counters
    if is_owned:
        scope = <DisposeScope>note.scope
    site = None if note.site is NULL else <object>note.site
    _release(&note)
    adapter = _adapter_of(x)
    if _is_adopted(x):
        may_own = None
    elif adapter.is_wrapper is not None and type(x) in _adapter_by_kind:
        may_own = None if adapter.is_wrapper(x) else True
    else:
        may_own = adapter.may_own_new(x)
    if may_own is None:
        if is_owned:
            counters.created_in.fetch_sub(1)
        else:
            counters.created_outside.fetch_sub(1)
        return False
    if is_owned and not scope.members.is_open:
        scope = outer_of(scope)
    if scope is not None and not may_own:
        counters.created_in.fetch_sub(1)
        counters.created_outside.fetch_add(1)
        scope = None
    foreign = _new_foreign(x, adapter, scope is not None, note.is_strict)
    if not is_owned:
        foreign.serial = note.serial
    _register_noted(foreign, counters, scope, site, note.thread)
    return True


cdef Foreign _new(x, adapter, bint is_owned):
    # The registration counts `x`, so its note must not.
    found = uncount(<PyObject*>x)
    cdef Foreign foreign = _new_foreign(x, adapter, is_owned, is_strict())
    if adapter.harvest is not None:
        found = uncount_located(<PyObject*>x)
        if found is None:
            register_late(foreign, type(x), is_owned)
        else:
            register_late(foreign, type(x), is_owned, found[0], found[1])
        return foreign
    try:
        register_as(foreign, type(x), is_owned, None if found is None else found[0])
    except BaseException:  # a limit of the scope raised an error
        if foreign.counters is None and _by_address.erase(foreign.address):
            foreign.reference = None
            Py_DECREF(foreign)
        raise
    return foreign


cdef Foreign foreign_for(x):
    cdef Foreign found = foreign_of(x)
    return _new(x, _adapter_of(x), False) if found is None else found


@cython.final
cdef class _Hooks(Hooks):
    """Fills the hooks of scopes."""

    cdef object scope_opens(self, DisposeScope scope):
        return None if _finder is None else _finder.mark()

    cdef int scope_ends(self, DisposeScope scope, set but) except -1:
        global _ticks, _is_searching
        if _finder is None:
            return 0
        _ticks -= 1
        if _ticks < 0:
            _request_look()
        members = members_of(scope)
        if but is not None:
            members = [x for x in members if id((<Disposable>x).subject()) not in but]
        _is_searching = True
        try:
            return move_out_kept(scope, members)
        finally:
            _is_searching = False

    cdef bint represents(self, x) except -1:
        return is_foreign(x)

    cdef Disposable known_member(self, x):
        found = _by_address.find(<size_t><PyObject*>x)
        return None if found == _by_address.end() else <Foreign>_by_address[<size_t><PyObject*>x]

    cdef Disposable find_member(self, x):
        return foreign_of(x)

    cdef Disposable new_member(self, x):
        return foreign_for(x)

    cdef int find_new(self) except -1:
        return harvest()

    cdef int find_owned(self) except -1:
        if _late:
            for adapter in list(_late):
                adapter.harvest()
        # An observer hears of each instance soon.
        return _read(is_observed())


set_hooks(_Hooks())


def adopt(x):
    """Make the current scope own the new object `x` of another library. A known object keeps its scope."""
    if is_foreign(x):
        if _is_adopted(x):
            _claim(<Foreign>_by_address[<size_t><PyObject*>x], True)
        else:
            _new(x, _adapter_of(x), True)


cdef int _claim(Foreign foreign, bint is_owned) except -1:
    """Decide about an object that was found before the end of the call that returns it."""
    cdef DisposeScope scope
    if foreign.serial:
        foreign.serial = 0
        scope = current_scope() if is_owned else None
        if scope is not None:
            foreign.is_noticed = True
            foreign.is_strict = is_strict()
            _own_late(foreign, scope)
    return 0


cdef bint _is_adopted(x) noexcept:
    return _by_address.find(<size_t><PyObject*>x) != _by_address.end()


def is_adopted(x):
    """Return whether `x` has a `Foreign`, alive or disposed."""
    return _is_adopted(x)


def dispose_adopted(x):
    """Dispose `x` if it has a `Foreign`."""
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        (<Foreign>_by_address[<size_t><PyObject*>x]).dispose()


def forget(x):
    """Count `x`, which no scope owns, as finalized, and keep no reference to it."""
    cdef Foreign foreign
    found = _by_address.find(<size_t><PyObject*>x)
    if found == _by_address.end():
        return
    foreign = <Foreign>_by_address[<size_t><PyObject*>x]
    if foreign.counters is None or foreign.link.owner is not NULL:
        return
    foreign.retire()
    foreign.reference = None
    _by_address.erase(<size_t><PyObject*>x)
    Py_DECREF(foreign)


def detach_adopted(x):
    """Remove `x` from its scope, because it belongs to a module, an optimizer or another tensor."""
    cdef Foreign foreign
    notice(x)
    if _by_address.find(<size_t><PyObject*>x) != _by_address.end():
        foreign = <Foreign>_by_address[<size_t><PyObject*>x]
        foreign.serial = 0
        foreign.detach_from_dispose_scope()


cdef void _detach_quietly(PyObject* x) noexcept:
    detach_adopted(<object>x)


scopes_on_set = _detach_quietly


def leave_alone(x):
    """Keep `x` out of all scopes, even if it is the result of a call that still runs."""
    detach_adopted(x)
    if not _is_adopted(x) and is_foreign(x) and _adapter_of(x).is_adoptable(x):
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


# For errors and reports.


def how_it_ended(x):
    """Return how `x` ended, as text, and the result of ``adapter.end``; None if it is alive or unknown."""
    cdef Foreign found
    if _by_address.find(<size_t><PyObject*>x) == _by_address.end():
        return None
    found = <Foreign>_by_address[<size_t><PyObject*>x]
    return None if found.counters is not None else (ending_by(found._ended_scope), found.ending)


def names_of_ended_scope(x):
    """Return the names of the scope whose end disposed `x` and of those around it, outermost first."""
    cdef DisposeScope scope = None
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


# Calls of functions of a library without a Python frame. A library in C++ attributes its warning to the
# innermost Python frame. A compiled function has no frame, so the warning names the user's line, as it does
# without scopes.


def intercept(self, function, types, args=(), kwargs=None):
    """Call `function` for a mode of PyTorch, and then ``self.take`` with the result."""
    cdef dict keywords = {} if kwargs is None else kwargs
    _log_births(1)
    try:
        result = function(*args, **keywords)
        self.take(function, result, args, keywords)
    finally:
        _log_births(-1)
    return result


def adopting(function, state, take):
    """Return a wrapper of `function` that calls `take` with the result, while ``state.depth`` is not 0."""
    def called(*args, **kwargs):
        if not state.depth:
            return function(*args, **kwargs)
        _log_births(1)
        try:
            result = function(*args, **kwargs)
            take(None, result, args, kwargs)
        finally:
            _log_births(-1)
        return result

    return called


def running_backward(run, watched, state, take):
    """Return a wrapper of `run`, PyTorch's function for a backward: scopes own only the results that it made.

    While scopes are watched, or no block is open, it calls `watched`. `state` and `take`: see `adopting`.
    """
    def called(*args, **kwargs):
        cdef scopes_recording* here = scopes_recording_here()
        # `blocks` comes first, because it takes longer to read `state`, a `threading.local`.
        if (here.blocks == 0 and not state.depth) or is_watched():
            return watched(*args, **kwargs)
        _log_births(1)
        try:
            here.pauses += 1
            try:
                result = run(*args, **kwargs)
            finally:
                here.pauses -= 1
            if result is not None:
                take(None, result, args, kwargs)
        finally:
            _log_births(-1)
        return result

    return called


def pausing(function):
    """Return a wrapper of `function`: no scope owns the tensors that it creates."""
    def called(*args, **kwargs):
        pause_births(1)
        try:
            return function(*args, **kwargs)
        finally:
            pause_births(-1)

    return called


def hiding(function):
    """Return a wrapper of `function` that notes no tensors: they belong to its result, such as an array."""
    def called(*args, **kwargs):
        hide_births(1)
        try:
            return function(*args, **kwargs)
        finally:
            hide_births(-1)

    return called


# Ends of tensors without Python code: a training loop ends a few in each step, because they still have names.


cdef extern from *:
    """
    static PyObject* scopes_value_of(PyObject* descriptor, PyObject* x) {
        PyGetSetDef* definition = ((PyGetSetDescrObject*)descriptor)->d_getset;
        return definition->get(x, definition->closure);
    }
    static int scopes_is_attribute(PyObject* descriptor) {
        return Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)
            && ((PyGetSetDescrObject*)descriptor)->d_getset->get != NULL;
    }
    """
    # The value of an attribute that C code defines for the class of `x`, or a base of it.
    object scopes_value_of(PyObject* descriptor, PyObject* x)
    bint scopes_is_attribute(PyObject* descriptor)


# So many freed bytes are counted together.
cdef double _MUCH_FREED = 65536


@cython.final
cdef class Ender:
    """Disposes the usual tensors of PyTorch; see ``scopes.adapters.torch.disposal``.

    Parameters
    ----------
    kind, disposed
        The class of usual tensors, and that of disposed ones.
    attributes
        The descriptors of ``shape``, ``dtype``, ``is_cpu``, ``nbytes``, ``is_leaf``, ``requires_grad`` and
        ``retains_grad``, and the methods ``_use_count`` and ``untyped_storage``, by name. They are C code.
    shells
        Empty tensors of the class `disposed`.
    mode_count
        Returns the number of active modes, which see uses of attributes.
    swap
        Swaps the implementations of two tensors, or raises a RuntimeError.
    count_uses
        Returns the number of references to a storage from C++, or None.
    own_uses
        The number of them that belong to the tensor, and to the Python object of its storage.
    end_other
        Disposes a tensor in Python: any that `end` can't dispose.
    note_held
        Called with a disposed tensor and what has its memory, if that is not freed yet.
    note_freed
        Called with a number of freed bytes.
    """

    cdef object kind, disposed, mode_count, swap, count_uses, end_other, note_held, note_freed
    cdef object shape, dtype, is_cpu, nbytes, is_leaf, requires_grad, retains_grad, use_count, storage_of
    cdef list shells
    cdef Py_ssize_t own_uses
    cdef bint is_possible
    # The freed bytes that `note_freed` does not know yet.
    cdef double freed

    def __init__(
        self, kind, disposed, dict attributes not None, list shells not None, mode_count, swap, count_uses,
        Py_ssize_t own_uses, end_other, note_held, note_freed,
    ):
        self.kind, self.disposed, self.shells = kind, disposed, shells
        self.mode_count, self.swap = mode_count, swap
        self.count_uses, self.own_uses = count_uses, own_uses
        self.end_other, self.note_held, self.note_freed = end_other, note_held, note_freed
        self.shape, self.dtype = attributes["shape"], attributes["dtype"]
        self.is_cpu, self.nbytes = attributes["is_cpu"], attributes["nbytes"]
        self.is_leaf, self.requires_grad = attributes["is_leaf"], attributes["requires_grad"]
        self.retains_grad = attributes["retains_grad"]
        self.use_count, self.storage_of = attributes["_use_count"], attributes["untyped_storage"]
        self.is_possible = all(
            [
                scopes_is_attribute(<PyObject*>each)
                for each in (
                    self.shape, self.dtype, self.is_cpu, self.nbytes, self.is_leaf, self.requires_grad,
                    self.retains_grad,
                )
            ]
        )

    def end(self, x, bint is_safe):
        """Dispose `x`. Return its shape and dtype; see ``Adapter.end``."""
        # Attributes of PyTorch's own class call no other code, unless a mode is active.
        if not is_safe or type(x) is not self.kind or not self.is_possible or not self.shells:
            return self.end_other(x, is_safe)
        if is_observed() or self.mode_count():
            return self.end_other(x, is_safe)
        try:
            if not self.value(self.is_cpu, x) or self.may_have_gradient(x):
                return self.end_other(x, is_safe)
            shape, dtype = self.value(self.shape, x), self.value(self.dtype, x)
            nbytes = self.value(self.nbytes, x)
        except (RuntimeError, NotImplementedError):  # a nested or sparse tensor lacks some of them
            return self.end_other(x, is_safe)
        shell = self.shells.pop()
        x.__class__ = self.disposed
        try:
            self.swap(x, shell)
        except RuntimeError:
            self.shells.append(shell)
            x.__class__ = self.kind
            return self.end_other(x, is_safe)
        # A graph may return the old implementation as a saved tensor, so keep its class.
        shell.__class__ = self.kind
        if self.is_held(shell):
            self.note_held(x, shell)
        self.freed += nbytes
        if self.freed >= _MUCH_FREED:
            self.note_freed(int(self.freed))
            self.freed = 0
        return shape, dtype

    cdef object value(self, descriptor, x):
        return scopes_value_of(<PyObject*>descriptor, <PyObject*>x)

    cdef bint may_have_gradient(self, x) except -1:
        return self.value(self.requires_grad if self.value(self.is_leaf, x) else self.retains_grad, x)

    cdef bint is_held(self, x) except -1:
        """Return whether something else has the memory of `x`: a graph, a view or an export."""
        if self.count_uses is None:
            return False
        try:
            return self.use_count(x) > 1 or self.count_uses(self.storage_of(x)._cdata) > self.own_uses
        except (RuntimeError, NotImplementedError):  # no storage
            return False
