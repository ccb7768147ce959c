# cython: language_level=3, auto_pickle=False
"""Find the objects that outlive their scope, because an older object keeps them.

A *keeper* is an object that may hold others for longer than a scope: a module, an optimizer, a data set, a
cache, an object of an installed library. A walk follows references from the keepers to the objects of the
scope, the *sought* objects. This finds the usual keepers, and their names.

Nobody knows all keepers. So an object that the walk does not find may end only if each of its references is
*explained*: what the user's own code holds (locals of running functions, globals, closures, instances of the
user's classes) or what the block made has as many references to it as its reference count. The same must
hold for lists, dicts and other plain objects on the way. An object with another reference stays.

The garbage collector's lists of objects contain all keepers. The first search reads all generations. Later
searches read only the youngest: before each collection, which moves objects out of that generation, and when
a scope ends and the locals of running functions do not explain all references. The list of that generation
is in the order of creation, so a mark in it separates the keepers that are older than a scope from later
ones.
"""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF
from cpython.weakref cimport PyWeakref_NewRef
from libcpp.vector cimport vector

from scopes.core.containers cimport dict_of, slot_of, slots_of

import builtins
import gc
import sys
from types import GeneratorType, ModuleType
from weakref import ref

# Flags that `judge` returns for a class (its *verdict*): how a walk treats the instances. A walk skips other
# objects.
SOUGHT = 1  # may be a sought object
ITEMS = 2  # holds its items
VALUES = 4  # is a mapping, and holds its values
ATTRIBUTES = 8  # holds its attributes
REFERENTS = 16  # holds what ``gc.get_referents`` returns, for compiled classes
KEEPER = 32  # is a keeper, in scopes that began after its creation
ALWAYS = 64  # is a keeper in every scope
FOREIGN_CODE = 128  # its class is from an installed library, not from the user
ASK = 512  # is a keeper if `is_keeper` returns True for the instance
OWN = 1024  # its class is the user's
LIBRARY = 2048  # its class is from an installed library that uses the sought objects

cdef enum:
    _SOUGHT = 1
    _MARK = 4096  # is a `Mark`
    _ATTRIBUTES = 8
    _KEEPER = 32
    _ALWAYS = 64
    _FOREIGN_CODE = 128
    _LEAF = 256  # holds nothing and never changes
    _ASK = 512
    _OWN = 1024


cdef dict _builtins = vars(builtins)

# Instances of exactly these classes never change, and hold no object. A list is searched by identity: a set
# asks for the hash of a class, which may run code of its metaclass.
cdef list _LEAVES = [str, bytes, int, float, complex, bool, type(None), type(...), type(NotImplemented)]

# Whose code a file contains, as `author_of_file` returns.
MIXED = 0  # Python's, or from libraries that do not use the sought objects
USER = 1
LIBRARIES = 2  # from installed libraries that use the sought objects

cdef extern from "scopes/adapters/keepers.h" namespace "scopes" nogil:
    cdef cppclass Verdicts:
        int of(PyTypeObject* kind)
        void put(PyTypeObject* kind, int verdict)
        void forget(PyTypeObject* kind)

    int collect(list objects, Verdicts& verdicts, int wanted, list found) except -1

    cdef cppclass Leaves:
        vector[PyObject*] owned
        void clear()

    cdef cppclass Root:
        PyObject* reference
        const void* address
        int verdict
        Py_ssize_t number

    cdef cppclass Global:
        PyObject* module
        PyObject* name

    cdef cppclass Item:
        PyObject* object
        PyObject* keeper
        PyObject* first
        PyObject* second
        int verdict
        Global variable

    cdef cppclass Walk:
        vector[PyObject*] unknown, released
        vector[Item] hits
        Walk(Verdicts* verdicts, Leaves* leaves)
        void begin()
        void add_sought(PyObject* object)
        void visit_part(PyObject* object)
        void visit_sought_keepers(const vector[Root]& roots, Py_ssize_t newest)
        void visit_keepers(
            const vector[Root]& roots, bint of_libraries, Py_ssize_t older, Py_ssize_t newest
        )
        void visit_globals(const vector[Global]& globals)
        void visit_waiting()
        void release_later()

cdef extern from "scopes/adapters/keepers.h" namespace "scopes" nogil:
    cdef cppclass Files:
        void put(PyObject* name, int author)
        void forget_others()

    cdef cppclass Numbers:
        void erase(const void* address)
        Py_ssize_t& operator[](const void* address)

    cdef cppclass Explanation:
        vector[PyObject*] kept_by_functions, functions, finished
        vector[PyObject*] unknown_kinds, unknown_files
        Explanation(Verdicts* verdicts, Leaves* leaves, Files* files, Numbers* numbers)
        void begin(Py_ssize_t older)
        void restart(bint is_wide, size_t most)
        void add_sought(PyObject* object)
        void remove_sought(PyObject* object)
        void add_own(PyObject* object)
        void count_frames(PyObject* hidden)
        void count_globals(PyObject* dict)
        void count_local(PyObject* value)
        void skip(PyObject* object)
        void visit_all(list objects)
        void add_candidates(list objects)
        void count_list(list objects)
        bint is_direct()
        void nearly_direct(vector[PyObject*]& found)
        void follow()
        vector[PyObject*] unexplained()

    cdef cppclass Direct:
        Direct(Files* files, list objects)
        bint are_explained()
        void nearly(vector[PyObject*]& found)
        void add_own(PyObject* object)


# The most objects that the first, narrow search visits.
cdef size_t _MOST_VISITS = 2000
# The most keepers that later walks begin with, because they kept objects before.
cdef Py_ssize_t _MOST_RECENT = 1000


# The most objects for `Keepers.are_explained`, which compares each local with each of them.
cdef Py_ssize_t _FEW = 16


@cython.final
cdef class Mark:
    """Separates older keepers from later ones, because a search meets it between them."""

    # The number of older keepers; -1 before a search has met the mark.
    cdef Py_ssize_t count
    # The garbage collector tracks this, because it may hold an object.
    cdef object nothing


@cython.final
cdef class _Keeper:
    """Weak reference to one keeper, with its verdict."""

    cdef object reference
    cdef size_t address
    cdef Py_ssize_t number
    cdef int verdict
    # Its name for reports, if it is none of the usual keepers.
    cdef object label
    # Its index in the roots.
    cdef size_t index
    cdef Keepers known

    def __call__(self, reference):
        """Remove the freed keeper. Its weak reference calls this."""
        self.known.roots[self.index].reference = NULL
        self.known.gone_count += 1
        self.reference = None  # break the cycle: the reference refers to this
        if self.known.keepers.get(self.address) is self:
            self.known.numbers.erase(<void*>self.address)
            del self.known.keepers[self.address]
            self.known.recent.pop(self.address, None)
            self.known.always.pop(self.address, None)


@cython.final
cdef class _Class:
    """Weak reference to one class, with the data about it that walks use."""

    cdef object reference
    cdef size_t address
    cdef Keepers known
    # The descriptors of its slots, and the names of attributes that hold parts of its instances.
    cdef list slots
    cdef tuple parts
    # The names of attributes that libraries set on instances of the user's class; None if not known yet.
    cdef object set_by_libraries

    def __call__(self, reference):
        """Remove the freed class."""
        self.reference = None
        self.known.verdicts.forget(<PyTypeObject*>self.address)
        self.known.classes.pop(self.address, None)


@cython.final
cdef class Keepers:
    """All keepers of the process, as weak references.

    Parameters
    ----------
    judge
        Returns the flags of a class, from the constants above.
    is_keeper
        Returns whether an object is a keeper, if its class has the flag ``ASK``.
    is_transient
        Returns whether objects of users' classes never keep this sought object.
    globals_of
        Returns the names of a module's globals that may keep objects.
    parts
        Returns the names of a class's attributes that hold *parts* of its instances, such as parameters.
    set_by_libraries
        Returns the names of the attributes that libraries set on instances of a user's class. They keep
        transient objects too.
    author_of_file
        Returns whose code a file contains, as one of the constants above.
    is_users_module
        Returns whether the user wrote a module.
    is_shared
        Returns whether C++ refers to the Python object of a sought object.
    find_holders
        Returns by id what holds each object of a dict: a name with the attribute, the holder or None if it is
        unknown, and its own name.
    """

    cdef object judge, is_keeper, is_transient, globals_of, parts
    cdef object set_by_libraries, author_of_file, is_users_module, is_shared, find_holders
    cdef Verdicts verdicts
    cdef Leaves leaves_met
    cdef Files files
    # The numbers of keepers by address.
    cdef Numbers numbers
    # The keepers that kept objects in recent scopes, by address, the newest last.
    cdef dict recent
    # Weak references to the user's modules.
    cdef list users_modules
    # The globals of the function that calls `find`: its locals are no references of the program.
    cdef object hidden
    # Classes and keepers by address. Keepers are in order of discovery; `roots` has the same ones for walks.
    cdef dict classes, keepers
    # The keepers with the flag ``ALWAYS``, such as modules.
    cdef dict always
    cdef vector[Root] roots
    cdef size_t gone_count
    # The globals of modules that may keep objects. `owned` owns the references in them.
    cdef vector[Global] globals_
    cdef list owned
    # Weak references to known modules by name, and the last module in ``sys.modules``.
    cdef dict modules
    cdef object last_module
    # The numbers of keepers and of modules so far.
    cdef Py_ssize_t count, module_count
    # The number of keepers that the first search found; -1 before it.
    cdef Py_ssize_t first
    # Whether a search failed, so that keepers are missing. The next one reads all generations again.
    cdef bint is_incomplete
    # The function ``gc.freeze`` of Python.
    cdef object freeze_all
    # The walk that ``find`` reuses, unless another thread uses it.
    cdef _Walk walk
    cdef bint is_walking

    def __init__(
        self, judge, is_keeper, is_transient, globals_of, parts, set_by_libraries, author_of_file,
        is_users_module, is_shared, find_holders,
    ):
        self.judge = judge
        self.is_keeper = is_keeper
        self.is_transient = is_transient
        self.globals_of = globals_of
        self.parts = parts
        self.set_by_libraries = set_by_libraries
        self.author_of_file = author_of_file
        self.is_users_module = is_users_module
        self.is_shared = is_shared
        self.find_holders = find_holders
        self.classes, self.keepers, self.always, self.modules, self.owned = {}, {}, {}, {}, []
        self.recent, self.users_modules = {}, []
        self.first = -1
        self.walk = _Walk.__new__(_Walk, self)
        self.verdicts.put(<PyTypeObject*>Mark, _MARK)

    cdef int verdict(self, kind) except -1:
        cdef int verdict = self.verdicts.of(<PyTypeObject*>kind)
        return self.judge_class(kind) if verdict < 0 else verdict

    cdef int judge_class(self, kind) except -1:
        cdef int verdict = _LEAF if any([kind is leaf for leaf in _LEAVES]) else self.judge(kind)
        cdef _Class known = _Class.__new__(_Class)
        known.address = <size_t><PyObject*>kind
        known.known = self
        known.reference = PyWeakref_NewRef(kind, known)
        known.slots = []
        if verdict & _ATTRIBUTES:
            known.slots = slots_of(kind)
        known.parts = self.parts(kind)
        self.classes[known.address] = known
        self.verdicts.put(<PyTypeObject*>kind, verdict)
        return verdict

    cdef _Class class_of(self, x):
        """Return the data about the class of `x`, which may have changed since the last walk."""
        self.verdict(type(x))
        return <_Class>self.classes[id(type(x))]

    def look_into(self, kind):
        """Treat instances of `kind`, a class of a program, as keepers, and follow their attributes."""
        cdef int verdict = self.verdict(kind)
        if verdict & ~_OWN == 0:
            (<_Class>self.classes[id(kind)]).slots = slots_of(kind)
            self.verdicts.put(<PyTypeObject*>kind, verdict | _ATTRIBUTES | _KEEPER)

    def begin(self):
        """Find all keepers, and start to find new ones."""
        if self.first < 0:
            gc.callbacks.append(self._collecting)
            self.register_all()
            self.first = self.count
            self.freeze_all, gc.freeze = gc.freeze, self.freeze

    def end(self):
        """Forget all keepers, and stop finding new ones. The next `begin` finds all keepers again."""
        cdef _Keeper keeper
        if self.first < 0:
            return
        self.first = -1
        gc.callbacks.remove(self._collecting)
        if gc.freeze == self.freeze:  # else other code has replaced it since
            gc.freeze = self.freeze_all
        # First the references: a keeper that is freed from here on no longer looks for its root.
        cdef list known = list(self.keepers.values())
        for keeper in known:
            self.numbers.erase(<void*>keeper.address)
            keeper.reference = None
        self.roots.clear()
        self.gone_count = 0
        self.keepers.clear()
        self.always.clear()
        self.recent.clear()
        self.is_incomplete = False

    cdef int register_all(self) except -1:
        """Find keepers in all generations, and among frozen objects."""
        # `gc.get_objects` does not return the objects that `gc.freeze` has taken out of all generations.
        is_frozen = gc.get_freeze_count() > 0
        if is_frozen:
            gc.collect()  # so that no new garbage is frozen below
            gc.unfreeze()
        self.register(None)
        if is_frozen:
            gc.freeze()
        return 0

    def freeze(self):
        """Find the new keepers, and call Python's ``gc.freeze``, which this function replaces."""
        self.register(0)
        self.freeze_all()

    def _collecting(self, phase, _info):
        if phase == "start":
            try:
                self.register(0)
            except Exception:
                pass  # the next search at the end of a scope looks everywhere: it meets the fault, and warns

    def leaves(self):
        """Return the remembered leaves of earlier walks, such as strings and numbers.

        There are at most 100,000, of at most 8 MiB.
        """
        return _objects_of(self.leaves_met.owned)

    def forget_leaves(self):
        """Forget all leaves of earlier walks."""
        self.leaves_met.clear()

    def mark(self):
        """Return a mark between the keepers so far and later ones, for `find`; None before `begin`."""
        if self.first < 0:
            return None
        cdef Mark mark = Mark.__new__(Mark)
        mark.count = -1
        return mark

    def count_older(self, mark):
        """Find the new keepers, and return the number of those from before `mark`, a result of `mark`."""
        self.register(0)
        if mark is None:
            return self.first
        if (<Mark?>mark).count < 0:
            # Something has moved objects between generations and called neither `_collecting` nor `freeze`.
            # Nobody knows what is older, so all keepers count as older.
            self.register_all()
            (<Mark>mark).count = self.count
        return (<Mark>mark).count

    def find_new(self):
        """Find the new keepers, and return the number of keepers so far; -1 before `begin`."""
        if self.first < 0:
            return -1
        self.register(0)
        return self.count

    cdef int register(self, generation) except -1:
        """Find keepers in one generation or in all (None)."""
        cdef list found = []
        if self.is_incomplete:
            generation = None
        # The list contains tuples that CPython still builds. CPython fails to resize a tuple with another
        # reference. So no Python code and no other thread runs until the list is empty.
        cdef list objects = gc.get_objects(generation)
        collect(objects, self.verdicts, _KEEPER | _ALWAYS | _MARK, found)
        objects.clear()
        try:
            self.register_found(found, generation is not None)
        except BaseException:
            self.is_incomplete = True
            raise
        finally:
            found.clear()  # at the first search it contains itself
        if generation is None:
            self.is_incomplete = False
        if self.gone_count > 64 and self.gone_count * 2 > self.roots.size():
            self.drop_gone()
        return 0

    cdef int drop_gone(self) except -1:
        """Drop the roots of freed keepers."""
        cdef _Keeper keeper
        # To make the list may run the garbage collector, and with it other code that adds or frees keepers.
        # From then on nothing runs until each keeper has its new index.
        cdef list living = list(self.keepers.values())
        self.roots.clear()
        self.gone_count = 0
        for keeper in living:
            if keeper.reference is not None:
                self.add_root(keeper)
        return 0

    cdef int register_found(self, list found, bint is_in_order) except -1:
        """Register the keepers in `found`. With `is_in_order`, those before a mark are older than it."""
        cdef int verdict
        cdef _Keeper keeper
        for x in found:
            verdict = self.verdict(type(x))
            if verdict & _MARK and is_in_order and (<Mark?>x).count < 0:
                (<Mark>x).count = self.count
            if not verdict & (_KEEPER | _ALWAYS) or <size_t><PyObject*>x in self.keepers:
                continue
            if verdict & _ASK and not self.is_keeper(x):
                continue
            # A generator may run because it is being freed: CPython has cleared its weak references already,
            # and would not clear a new one.
            if type(x) is GeneratorType and x.gi_running:
                continue
            keeper = _Keeper.__new__(_Keeper)
            keeper.known = self
            keeper.verdict = verdict
            keeper.address = <size_t><PyObject*>x
            try:
                keeper.reference = PyWeakref_NewRef(x, keeper)
            except TypeError:
                continue
            # A collection that began meanwhile has registered it already.
            if keeper.address in self.keepers:
                continue
            self.count += 1
            keeper.number = self.count
            self.keepers[keeper.address] = keeper
            self.numbers[<void*>keeper.address] = keeper.number
            if verdict & _ALWAYS and not verdict & _SOUGHT:
                self.always[keeper.address] = keeper
            self.add_root(keeper)
        return 0

    cdef int add_found(self, holder, label) except -1:
        """Add a keeper that a search found, so that later walks begin with it."""
        cdef _Keeper keeper = _Keeper.__new__(_Keeper)
        cdef object address = <size_t><PyObject*>holder
        if address not in self.keepers:
            keeper.known, keeper.address, keeper.label = self, address, label
            keeper.verdict = _ATTRIBUTES | _KEEPER | _FOREIGN_CODE
            try:
                keeper.reference = PyWeakref_NewRef(holder, keeper)
            except TypeError:
                return 0
            self.keepers[address] = keeper
            self.add_root(keeper)
        self.recent[address] = None
        return 0

    cdef int add_root(self, _Keeper keeper) except -1:
        cdef Root root
        root.reference, root.address = <PyObject*>keeper.reference, <void*>keeper.address
        root.verdict, root.number = keeper.verdict, keeper.number
        keeper.index = self.roots.size()
        self.roots.push_back(root)
        return 0

    cdef int find_globals(self) except -1:
        """Record the globals of new modules."""
        cdef Global variable
        modules = sys.modules
        last = next(reversed(modules), None)
        if len(modules) == self.module_count and last is self.last_module:
            return 0
        self.module_count, self.last_module = len(modules), last
        self.files.forget_others()
        for name, module in list(modules.items()):
            known = self.modules.get(name)
            if not isinstance(module, ModuleType) or (known is not None and known() is module):
                continue
            self.modules[name] = reference = ref(module)
            if self.is_users_module(name):
                self.users_modules.append(reference)
            for each in self.globals_of(name, module):
                self.owned += reference, each
                variable.module, variable.name = <PyObject*>reference, <PyObject*>each
                self.globals_.push_back(variable)
        return 0

    cdef list held_parts(self, Py_ssize_t newest):
        """Return the parts of modules and optimizers, up to the keeper with the number `newest`."""
        cdef _Keeper keeper
        cdef list found = []
        for keeper in list(self.always.values()):
            if keeper.reference is not None and keeper.number <= newest:
                x = keeper.reference()
                held = None if x is None else dict_of(x)
                if held is not None:
                    for name in self.class_of(x).parts:
                        if name in <dict>held:
                            found.append((<dict>held)[name])
        return found

    cdef int judge_unknown(self, _Walk walk) except -1:
        """Judge the classes and files that a search for explanations did not know."""
        for kind in _objects_of(walk.explanation.unknown_kinds):
            self.verdict(kind)
        for name in _objects_of(walk.explanation.unknown_files):
            self.files.put(<PyObject*>name, self.author_of_file(name))
        return 0

    def are_explained(self, list objects):
        """Return whether the locals of running functions are all references to the `objects`.

        The list has the only references that are not the program's. False means that `find` must search.
        """
        cdef Direct* direct
        cdef vector[PyObject*] found
        cdef bint is_shared = False
        if self.is_incomplete or len(objects) > _FEW:
            return False
        self.find_globals()
        direct = new Direct(&self.files, objects)
        try:
            if direct.are_explained():
                return True
            direct.nearly(found)
            for pointer in found:
                if self.is_shared(<object>pointer):
                    direct.add_own(pointer)
                    is_shared = True
            return is_shared and direct.are_explained()
        finally:
            del direct

    def find(self, dict sought, Py_ssize_t older, bint is_strict, bint is_older=False, hidden=None):
        """Return the kept objects of `sought`, with their keepers.

        Parameters
        ----------
        sought
            The objects by their ids. The dict has the only reference to each that is not the program's.
        older
            The result of `find_new` when the scope began.
        is_strict
            Only modules and optimizers keep objects, and only their parts.
        is_older
            Modules and optimizers, too, keep objects only if they are older than the scope. What is not
            explained is not kept.
        hidden
            The globals of functions whose locals are no references of the program.

        Returns
        -------
        By the id of a kept object: the keeper's name for reports ("" for a part of the keeper), and whether
        it keeps the object permanently, not only beyond this scope.
        """
        cdef _Walk walk = self.walk if not self.is_walking else _Walk.__new__(_Walk, self)
        cdef bint is_first = not self.is_walking
        if self.is_incomplete:
            raise RuntimeError("the search for keepers failed")
        self.find_globals()
        self.is_walking = True
        try:
            if older < 0:
                older = self.first
            if is_strict or is_older:
                return walk.find(sought, older, is_strict, older if is_older else self.count)
            return walk.find_unexplained(sought, older, self.count, hidden)
        finally:
            if is_first:
                self.is_walking = False


@cython.final
cdef class _Walk:
    """One walk from keepers to the sought objects."""

    cdef Walk* walk
    cdef Explanation* explanation
    cdef Keepers known

    def __cinit__(self, Keepers known):
        self.known = known
        self.walk = new Walk(&known.verdicts, &known.leaves_met)
        self.explanation = new Explanation(
            &known.verdicts, &known.leaves_met, &known.files, &known.numbers
        )

    def __dealloc__(self):
        del self.walk
        del self.explanation

    cdef int release(self) except -1:
        """Release all references of the walk."""
        cdef PyObject* last
        self.walk.release_later()
        for i in range(self.explanation.unknown_kinds.size()):
            self.walk.released.push_back(self.explanation.unknown_kinds[i])
        self.explanation.unknown_kinds.clear()
        for i in range(self.explanation.unknown_files.size()):
            self.walk.released.push_back(self.explanation.unknown_files[i])
        self.explanation.unknown_files.clear()
        for i in range(self.explanation.finished.size()):
            self.walk.released.push_back(self.explanation.finished[i])
        self.explanation.finished.clear()
        while not self.walk.released.empty():
            last = self.walk.released.back()
            self.walk.released.pop_back()
            Py_DECREF(<object>last)  # this may run other code, which may also release
        return 0

    cdef dict find(self, dict sought, Py_ssize_t older, bint is_strict, Py_ssize_t newest):
        try:
            while not self.look(sought, self.known.held_parts(newest), older, is_strict, newest):
                # The walk has skipped objects of new classes. Get the flags of these classes, and walk again.
                for kind in _objects_of(self.walk.unknown):
                    self.known.verdict(kind)
                self.release()
            return self.found()
        finally:
            self.release()

    cdef dict find_unexplained(self, dict sought, Py_ssize_t older, Py_ssize_t newest, hidden):
        """Return what keepers hold, and what has a reference that is not explained."""
        cdef dict kept, others
        cdef list left
        self.explanation.begin(older)
        for key in sought:
            self.explanation.add_sought(<PyObject*><size_t>key)
        left = self.left(sought, 0, hidden)
        if not left:
            return {}
        kept = self.kept_by_functions()
        left = self.without(left, kept)
        if left:
            others = self.find_recent({key: sought[key] for key in left}, older, newest)
            kept.update(others)
            left = self.without(left, others)
        if left:
            others = self.find({key: sought[key] for key in left}, older, False, newest)
            kept.update(others)
            left = self.without(left, others)
        if left:
            left = self.left(sought, 1, hidden)
        if left:
            left = self.left(sought, 2, hidden)
        if left:
            holders = self.known.find_holders({key: sought[key] for key in left})
            for key in left:
                label, holder, name = holders[key]
                kept[key] = label, False
                if holder is not None:
                    self.known.add_found(holder, name)
        return kept

    cdef dict kept_by_functions(self):
        """Return the sought objects that are locals of running functions of libraries."""
        cdef dict kept = {}
        for i in range(self.explanation.kept_by_functions.size()):
            name = (<object>self.explanation.functions[i]).co_qualname
            kept[<size_t>self.explanation.kept_by_functions[i]] = f"{name}(), which runs", False
        return kept

    cdef list without(self, list keys, dict kept):
        """Return the keys that are not in `kept`, and seek no explanation for the others."""
        for key in kept:
            self.explanation.remove_sought(<PyObject*><size_t>key)
        return [key for key in keys if key not in kept]

    cdef list left(self, dict sought, int width, hidden):
        """Return the ids of sought objects with a reference that is not explained.

        Begin with the locals of running functions. With `width` 1 or 2, also with the globals of the user's
        modules, and with 2 with all objects of the garbage collector that are the user's.
        """
        cdef Explanation* explanation = self.explanation
        cdef list modules = [], young = [], everything = []
        cdef vector[PyObject*] found
        while True:
            # What makes objects comes first: it may run the garbage collector, other Python code and other
            # threads. From `restart` to `unexplained`, all that was counted must stay alive.
            if width > 0:
                modules = self.globals_of_users()
            if width > 1:
                young, everything = gc.get_objects(0), gc.get_objects()
            self.restart(sought, width, hidden)
            if width == 0 and self.knows_all():
                if explanation.is_direct():
                    return []
                explanation.nearly_direct(found)
                if not found.empty():
                    for pointer in found:
                        if self.known.is_shared(<object>pointer):
                            explanation.add_own(pointer)
                    found.clear()
                    self.restart(sought, width, hidden)
                    if self.knows_all() and explanation.is_direct():
                        return []
            for held in modules:
                explanation.count_globals(<PyObject*>held)
            explanation.skip(<PyObject*>young)
            explanation.skip(<PyObject*>everything)
            explanation.visit_all(everything)
            explanation.add_candidates(young)
            explanation.follow()
            if self.knows_all():
                explanation.count_list(everything)
                explanation.count_list(young)
                found = explanation.unexplained()
                return [<size_t>pointer for pointer in found]
            self.known.judge_unknown(self)
            self.release()

    cdef list globals_of_users(self):
        """Return the dicts of the user's modules."""
        cdef list found = []
        for reference in self.known.users_modules:
            module = reference()
            if module is not None:
                found.append(dict_of(module))
        return found

    cdef int restart(self, dict sought, int width, hidden) except -1:
        """Count from the beginning: the references of running functions. Run no Python code."""
        self.explanation.restart(width > 0, _MOST_VISITS if width == 0 else <size_t>-1)
        self.explanation.skip(<PyObject*>_builtins)
        self.explanation.skip(<PyObject*>sought)
        self.explanation.count_frames(<PyObject*>hidden)
        return 0

    cdef bint knows_all(self):
        """Return whether all classes and files were known that the search has met."""
        return self.explanation.unknown_kinds.empty() and self.explanation.unknown_files.empty()

    cdef dict find_recent(self, dict sought, Py_ssize_t older, Py_ssize_t newest):
        """Return what those keepers hold that kept objects in recent scopes."""
        cdef _Keeper keeper
        cdef vector[Root] roots
        cdef list objects
        if not self.known.recent:
            return {}
        # To make the list may run the garbage collector, which may free keepers. From then on no Python code
        # runs before the walk is done, so the weak references in `roots` stay alive.
        objects = list(sought.values())
        for address in self.known.recent:
            keeper = self.known.keepers[address]
            roots.push_back(self.known.roots[keeper.index])
        try:
            self.walk.begin()
            for x in objects:
                self.walk.add_sought(<PyObject*>x)
            self.walk.visit_keepers(roots, True, older, newest)
            self.walk.visit_keepers(roots, False, older, newest)
            return self.found()
        finally:
            self.release()

    cdef bint look(
        self, dict sought, list parts, Py_ssize_t older, bint is_strict, Py_ssize_t newest
    ) except -1:
        """Walk from all keepers. Return whether the classes of all visited objects are known."""
        cdef Walk* walk = self.walk
        walk.begin()
        for x in sought.values():
            walk.add_sought(<PyObject*>x)
        walk.visit_sought_keepers(self.known.roots, newest)
        for x in parts:
            walk.visit_part(<PyObject*>x)
        walk.visit_waiting()
        if not is_strict:
            # Libraries come first, because they also keep tensors with a graph.
            walk.visit_keepers(self.known.roots, True, older, newest)
            walk.visit_globals(self.known.globals_)
            walk.visit_keepers(self.known.roots, False, older, newest)
        return walk.unknown.empty()

    cdef dict found(self):
        """Return the result of the walk, as `Keepers.find` does."""
        cdef dict found = {}
        # The labels by keeper and path.
        cdef dict labels = {}
        cdef Item hit
        for i in range(self.walk.hits.size()):
            hit = self.walk.hits[i]
            x = <object>hit.object
            key = (
                <size_t>hit.keeper, <size_t>hit.first, <size_t>hit.second, <size_t>hit.variable.module,
                <size_t>hit.variable.name,
            )
            if hit.keeper is not NULL and not hit.verdict & _FOREIGN_CODE and self.known.is_transient(x):
                if not self.is_set_by_library(hit):
                    continue
            if key not in labels:
                labels[key] = self.label(hit)
                self.note_recent(hit)
            found[id(x)] = labels[key], hit.verdict & _ALWAYS != 0
        return found

    cdef int note_recent(self, Item& hit) except -1:
        """Begin the next walk with the keeper of `hit`."""
        cdef dict recent = self.known.recent
        cdef object address = <size_t>hit.keeper
        if address in self.known.keepers:
            recent.pop(address, None)
            recent[address] = None
            if len(recent) > _MOST_RECENT:
                del recent[next(iter(recent))]
        return 0

    cdef bint is_set_by_library(self, Item& hit) except -1:
        """Return whether the code of a library set the attribute of the user's object that keeps `hit`."""
        cdef _Class known
        if hit.first is NULL:
            return False
        known = self.known.class_of(<object>hit.keeper)
        if known.set_by_libraries is None:
            known.set_by_libraries = self.known.set_by_libraries(type(<object>hit.keeper))
        if not known.set_by_libraries:
            return False
        return self.name_of(<object>hit.keeper, hit) in known.set_by_libraries

    cdef object label(self, Item& hit):
        """Return which attribute, cache or global keeps an object."""
        if hit.variable.module is not NULL:
            module = (<object>hit.variable.module)()
            return f"{module.__name__}.{<object>hit.variable.name}"
        if hit.keeper is NULL:
            return ""
        owner = <object>hit.keeper
        keeper = self.known.keepers.get(<size_t>hit.keeper)
        name = None if hit.first is NULL else self.name_of(owner, hit)
        if keeper is not None and (<_Keeper>keeper).label is not None:
            known = (<_Keeper>keeper).label
            return known if name is None else f"{known}.{name}"
        if name is not None:
            return f"{type(owner).__name__}.{name}"
        called = getattr(owner, "__qualname__", None)
        if isinstance(owner, GeneratorType):
            return f"the generator {called}()"
        return type(owner).__name__ if called is None else f"the cache of {called}()"

    cdef object name_of(self, owner, Item& hit):
        held = dict_of(owner)
        if held is not None:
            wanted = hit.second if hit.first is <PyObject*>held else hit.first
            for name, value in list((<dict>held).items()):
                if <PyObject*>value is wanted:
                    return name
        for descriptor in self.known.class_of(owner).slots:
            value = slot_of(descriptor, owner)
            if <PyObject*>value is hit.first:
                return descriptor.__name__
        return None


cdef list _objects_of(vector[PyObject*]& pointers):
    cdef list found = []
    for pointer in pointers:
        found.append(<object>pointer)
    return found
