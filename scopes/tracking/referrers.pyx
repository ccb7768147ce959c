"""Find the objects that refer to some objects, and the instances of a class, among all objects.

``gc.get_referrers`` compares each reference of the process with each of the given objects. This module looks
each reference up in a hash table, so the time does not depend on how many objects are given.

The list of ``gc.get_objects()`` contains tuples that another thread still builds. CPython fails to resize a
tuple with another reference. So no Python code and no other thread runs until such a list is empty.
"""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libcpp.utility cimport pair
from libcpp.vector cimport vector

import gc

cdef extern from *:
    """
    #include <cstdint>
    #include <unordered_set>
    #include <utility>
    #include <vector>

    namespace {

    // The references of some objects to the targets, as the garbage collector sees them.
    class References {
        // Most references are to no target. A bit of this table tells it for nearly all of them.
        static constexpr size_t BITS = size_t{1} << 20;
        std::vector<bool> maybe = std::vector<bool>(BITS);
        std::unordered_set<PyObject*> targets;
        Py_ssize_t place = 0;

        static size_t bit_of(PyObject* object) { return (reinterpret_cast<uintptr_t>(object) >> 4) % BITS; }

        static int visit(PyObject* object, void* self) {
            auto* references = static_cast<References*>(self);
            if (references->maybe[bit_of(object)] && references->targets.count(object) != 0)
                references->found.emplace_back(references->place, object);
            return 0;
        }

    public:
        // The place of the referrer in the list, and its target.
        std::vector<std::pair<Py_ssize_t, PyObject*>> found;

        void add_target(size_t address) {
            auto* object = reinterpret_cast<PyObject*>(address);
            maybe[bit_of(object)] = true;
            targets.insert(object);
        }

        // Runs no Python code, so the list and its objects do not change.
        void look(PyObject* objects) {
            for (place = 0; place < PyList_GET_SIZE(objects); ++place) {
                PyObject* object = PyList_GET_ITEM(objects, place);
                traverseproc traverse = Py_TYPE(object)->tp_traverse;
                if (traverse != nullptr && PyObject_IS_GC(object))
                    traverse(object, visit, this);
            }
        }
    };

    }  // namespace
    """
    cdef cppclass References:
        vector[pair[Py_ssize_t, PyObject*]] found
        void add_target(size_t address) except +
        void look(PyObject* objects) except +

    int PyObject_TypeCheck(PyObject* x, PyTypeObject* kind) noexcept


def references_to(set targets not None):
    """Return each reference to an object whose id is in `targets`: the referrer and that id.

    The references are those that the garbage collector sees.
    """
    cdef References references
    cdef vector[PyObject*] referrers
    cdef size_t i
    for address in targets:
        references.add_target(address)
    cdef list objects = gc.get_objects()
    references.look(<PyObject*>objects)
    for i in range(references.found.size()):
        referrers.push_back(<PyObject*>objects[references.found[i].first])
        Py_INCREF(<object>referrers.back())
    objects.clear()
    found = []
    for i in range(referrers.size()):
        found.append((<object>referrers[i], <size_t>references.found[i].second))
        Py_DECREF(<object>referrers[i])
    return found


def object_count():
    """Return the number of objects that the garbage collector sees."""
    cdef list objects = gc.get_objects()
    cdef Py_ssize_t count = len(objects)
    objects.clear()
    return count


def instances_of(kind not None):
    """Return all instances of the class `kind` and its subclasses that the garbage collector sees.

    It runs no code of the instances, unlike ``isinstance``, which asks for ``x.__class__``.
    """
    if not isinstance(kind, type):
        raise TypeError(f"instances_of() takes a class, not {type(kind).__name__}")
    cdef PyTypeObject* base = <PyTypeObject*>kind
    cdef list objects = gc.get_objects()
    cdef list found = []
    for x in objects:
        if PyObject_TypeCheck(<PyObject*>x, base):
            found.append(x)
    objects.clear()
    return found
