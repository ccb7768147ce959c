# cython: language_level=3, auto_pickle=False
"""Finding who keeps an object at the end of its scope: a walk from keepers down to the objects sought.

A *keeper* is an object that may hold others for longer than a scope: a module, an optimizer, a data set, a
cache, an object of an installed library. Keepers are found in the lists of the garbage collector. All objects
are looked through once, and from then on only the youngest generation: whenever a scope begins or ends, and
whenever a collection begins, which is when objects leave that generation.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.weakref cimport PyWeakref_NewRef
from cython.operator cimport dereference
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set

from scopes.core.births cimport Births, fill, new_births
from scopes.core.containers cimport dict_of, items_of, slot_of, slots_of
from scopes.core.foreign cimport notice

import gc
import sys
from itertools import islice
from types import GeneratorType

# What `judge` says of a class: how the walk treats its instances. All others are looked at no further.
SOUGHT = 1  # may be among the objects sought
ITEMS = 2  # holds what iterating over it gives
VALUES = 4  # is a mapping, and holds its values
ATTRIBUTES = 8  # holds its attributes
REFERENTS = 16  # is compiled, and holds what the collector sees
KEEPER = 32  # is a keeper, in scopes that began after its creation
ALWAYS = 64  # is a keeper in every scope
FOREIGN_CODE = 128  # is of an installed library; else of the user's own
EMPTY = 256  # None: a place that may be filled
ASK = 512  # is a keeper if `is_keeper` says so of the instance

cdef enum:
    _SOUGHT = 1
    _ITEMS = 2
    _VALUES = 4
    _ATTRIBUTES = 8
    _REFERENTS = 16
    _KEEPER = 32
    _ALWAYS = 64
    _FOREIGN_CODE = 128
    _EMPTY = 256
    _ASK = 512
    _WALKED = 2 | 4 | 8 | 16

# Larger containers are passed over if a sample of their items holds nothing: vocabularies, labels.
cdef Py_ssize_t _LARGE = 500


@cython.final
cdef class _Keeper:
    """One keeper, which this does not keep alive."""

    cdef object reference
    cdef size_t address
    cdef Py_ssize_t number
    cdef int verdict
    cdef Keepers known

    def __call__(self, reference):
        """Note that the keeper has gone: what its weak reference calls."""
        self.reference = None  # a cycle: that refers to this
        if self.known.keepers.get(self.address) is self:
            del self.known.keepers[self.address]


@cython.final
cdef class _Class:
    """What is known of one class, which this does not keep alive."""

    cdef object reference
    cdef size_t address
    cdef Keepers known
    # Descriptors of its slots, and the names of attributes that are parts of its instances.
    cdef list slots
    cdef tuple parts

    def __call__(self, reference):
        """Note that the class has gone."""
        self.reference = None
        self.known.verdicts.erase(self.address)
        self.known.classes.pop(self.address, None)


@cython.final
cdef class Keepers:
    """Knows all keepers of the process, weakly.

    Parameters
    ----------
    judge
        Returns, for a class, the sum of constants above that say how to treat its instances.
    is_keeper
        Tells whether an object is a keeper for whose class `judge` said ``ASK``.
    is_transient
        Tells whether an object sought is never kept by an object of a class of the user's own.
    places
        Returns, for the module of a name, the names of its globals that may keep something.
    parts
        Returns, for a class, the names of the attributes that hold parts of its instances.
    """

    cdef object judge, is_keeper, is_transient, places, parts
    cdef unordered_map[size_t, int] verdicts
    # By address; those of keepers in order of discovery.
    cdef dict classes, keepers
    # By the name of a module: its globals, and names in it. Those of all modules that have been looked at.
    cdef dict globals_
    cdef set modules
    cdef Py_ssize_t count, module_count
    # How many were found by the first look; -1 before it.
    cdef Py_ssize_t first

    def __init__(self, judge, is_keeper, is_transient, places, parts):
        self.judge = judge
        self.is_keeper = is_keeper
        self.is_transient = is_transient
        self.places = places
        self.parts = parts
        self.classes, self.keepers, self.globals_, self.modules = {}, {}, {}, set()
        self.first = -1

    cdef bint may_matter(self, x, bint has_births) noexcept:
        """Tell whether `x` may be a keeper, or sought while births were noted; runs no Python code."""
        kind = type(x)
        if kind is tuple:
            return False
        found = self.verdicts.find(<size_t><PyObject*>kind)
        if found == self.verdicts.end():
            return True
        return dereference(found).second & (_KEEPER | _ALWAYS | (_SOUGHT if has_births else 0)) != 0

    cdef int verdict(self, kind) except -1:
        found = self.verdicts.find(<size_t><PyObject*>kind)
        if found != self.verdicts.end():
            return dereference(found).second
        return self.judge_class(kind)

    cdef int judge_class(self, kind) except -1:
        cdef int verdict = self.judge(kind)
        cdef _Class known = _Class.__new__(_Class)
        known.address = <size_t><PyObject*>kind
        known.known = self
        known.reference = PyWeakref_NewRef(kind, known)
        known.slots = []
        if verdict & _ATTRIBUTES:
            known.slots = slots_of(kind)
        known.parts = self.parts(kind)
        self.classes[known.address] = known
        self.verdicts[known.address] = verdict
        return verdict

    def begin(self):
        """Find all keepers, and notice new ones from now on."""
        if self.first < 0:
            gc.callbacks.append(self._collecting)
            self.register(None)
            self.first = self.count

    def _collecting(self, phase, _info):
        if phase == "start":
            self.register(0)

    def look(self):
        """Find the keepers that are new, and return how many there have been so far; -1 before `begin`.

        Objects sought whose births were noted get into their scopes.
        """
        if self.first < 0:
            return -1
        self.register(0)
        return self.count

    cdef int register(self, generation) except -1:
        """Find keepers, and objects sought whose births were noted, in one generation or in all (None)."""
        cdef int verdict
        cdef _Keeper keeper
        cdef Births births = new_births()
        cdef list found = []
        # The collector's list has tuples that CPython still builds, and CPython fails to resize a tuple that
        # another reference leads to. So no Python code runs, and no other thread, until the list is empty.
        objects = gc.get_objects(generation)
        cdef bint has_births = fill(births)
        for x in objects:
            if self.may_matter(x, has_births):
                found.append(x)
        objects.clear()
        for x in found:
            verdict = self.verdict(type(x))
            if verdict & _SOUGHT and has_births:
                notice(x, births)
            if not verdict & (_KEEPER | _ALWAYS) or <size_t><PyObject*>x in self.keepers:
                continue
            if verdict & _ASK and not self.is_keeper(x):
                continue
            # It may run because it is being freed: CPython has cleared its weak references already, and would
            # not clear a new one.
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
            self.count += 1
            keeper.number = self.count
            self.keepers[keeper.address] = keeper
        return 0

    cdef int look_for_places(self) except -1:
        """Note the globals of modules that are new."""
        modules = sys.modules
        if len(modules) == self.module_count:
            return 0
        self.module_count = len(modules)
        for name, module in list(modules.items()):
            if name not in self.modules:
                self.modules.add(name)
                names = self.places(name, module)
                if names:
                    self.globals_[name] = names
        return 0

    def find(self, dict sought, Py_ssize_t older, bint is_strict, bint is_older=False):
        """Return who keeps which of the objects `sought`.

        Parameters
        ----------
        sought
            The objects by their ids.
        older
            What `look` returned when the scope began.
        is_strict
            Only what is a part of a module or an optimizer is kept.
        is_older
            Modules and optimizers keep only if they are older too.

        Returns
        -------
        By the id of a kept object: the keeper's name for reports, "" for a part of the keeper; and whether it
        keeps the object for good, or only beyond this scope.
        """
        cdef _Keeper keeper
        cdef _Walk walk = _Walk.__new__(_Walk)
        cdef list keepers
        self.look()
        walk.known, walk.sought, walk.found, walk.stack = self, sought, {}, []
        keepers = list(self.keepers.values())
        if older < 0:
            older = self.first
        if is_older:
            keepers = [keeper for keeper in keepers if keeper.number <= older]
        for keeper in keepers:
            if keeper.verdict & _ALWAYS and keeper.reference is not None:
                x = keeper.reference()
                if x is not None and keeper.verdict & _SOUGHT:
                    walk.look_inside(x)
                elif x is not None:
                    walk.look_at_parts(x)
        if is_strict:
            return walk.found
        for keeper in keepers:
            if len(walk.found) == len(sought):
                return walk.found
            if keeper.verdict & _SOUGHT:
                continue
            if keeper.verdict & _ALWAYS or keeper.number <= older:
                x = None if keeper.reference is None else keeper.reference()
                if x is not None:
                    walk.look_at(x, keeper.verdict)
        self.look_for_places()
        walk.is_library = walk.is_good = True
        for name, names in self.globals_.items():
            module = sys.modules.get(name)
            if module is None:
                continue
            walk.owner = name
            held = vars(module)
            for each in names:
                walk.enter(each, (<dict>held).get(each))
        return walk.found


@cython.final
cdef class _Walk:
    """One walk from keepers to the objects sought."""

    cdef Keepers known
    cdef dict sought, found
    cdef unordered_set[size_t] seen
    cdef list stack
    # Where it is: the keeper and its attribute, whether it is a library's, and keeps things for good.
    cdef object owner, name
    cdef bint is_library, is_good

    cdef int look_at_parts(self, x) except -1:
        self.owner, self.is_library, self.is_good = None, True, True
        for name in (<_Class>self.known.classes[id(type(x))]).parts:
            held = dict_of(x)
            if held is not None:
                self.enter(name, held.get(name))
        return 0

    cdef int look_inside(self, x) except -1:
        """Look at what `x`, which is itself sought, is made of."""
        self.owner, self.is_library, self.is_good = None, True, True
        return self.look_at_attributes(x)

    cdef int look_at(self, x, int verdict) except -1:
        """Look at what the keeper `x` holds, by its attributes."""
        self.owner, self.is_library, self.is_good = x, verdict & _FOREIGN_CODE, verdict & _ALWAYS
        if verdict & _REFERENTS:
            self.enter_all(gc.get_referents(x))
            return 0
        if verdict & (_ITEMS | _VALUES):
            self.enter_all(items_of(x))
        return self.look_at_attributes(x)

    cdef int look_at_attributes(self, x) except -1:
        held = dict_of(x)
        if held is not None:
            for name, value in list((<dict>held).items()):
                self.enter(name, value)
        for descriptor in (<_Class>self.known.classes[id(type(x))]).slots:
            self.enter(descriptor.__name__, slot_of(descriptor, x))
        return 0

    cdef int enter(self, name, value) except -1:
        """Note what of the objects sought is the `value` of an attribute, or held by it."""
        cdef int verdict = self.known.verdict(type(value))
        if not verdict & (_WALKED | _SOUGHT):
            return 0
        self.name = name
        self.stack.append(value)
        return self.go_on()

    cdef int enter_all(self, list values) except -1:
        self.name = None
        self.push(values)
        return self.go_on()

    cdef int go_on(self) except -1:
        cdef int verdict
        while self.stack:
            x = self.stack.pop()
            verdict = self.known.verdict(type(x))
            if verdict & _SOUGHT:
                if self.sought.get(id(x)) is x and id(x) not in self.found:
                    if self.is_library or not self.known.is_transient(x):
                        self.found[id(x)] = self.label(), self.is_good
            # Modules and optimizers have their own turn.
            elif not verdict & _ALWAYS and self.seen.insert(<size_t><PyObject*>x).second:
                self.open(x, verdict)
        return 0

    cdef int open(self, x, int verdict) except -1:
        """Put what `x` holds on the stack."""
        if verdict & _REFERENTS:
            self.push(gc.get_referents(x))
        if verdict & (_ITEMS | _VALUES) and len(x):
            items = items_of(x)
            if len(items) <= _LARGE or not self.is_plain(items):
                self.push(items)
        if verdict & _ATTRIBUTES:
            held = dict_of(x)
            if held is not None:
                self.push(list((<dict>held).values()))
            for descriptor in (<_Class>self.known.classes[id(type(x))]).slots:
                self.push([slot_of(descriptor, x)])
        return 0

    cdef int push(self, list items) except -1:
        for item in items:
            if self.known.verdict(type(item)) & (_WALKED | _SOUGHT):
                self.stack.append(item)
        return 0

    cdef bint is_plain(self, list items) except -1:
        for item in islice(items, 0, None, max(1, len(items) // 32)):
            if self.known.verdict(type(item)) & (_WALKED | _SOUGHT | _EMPTY):
                return False
        return not self.known.verdict(type(items[len(items) - 1])) & (_WALKED | _SOUGHT | _EMPTY)

    cdef object label(self):
        if self.owner is None:
            return ""
        if isinstance(self.owner, str):
            return f"{self.owner}.{self.name}"
        if self.name is None:
            called = getattr(self.owner, "__qualname__", None)
            if isinstance(self.owner, GeneratorType):
                return f"the generator {called}()"
            return type(self.owner).__name__ if called is None else f"the cache of {called}()"
        return f"{type(self.owner).__name__}.{self.name}"
