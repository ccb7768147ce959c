"""Find the objects that refer to some objects.

``gc.get_referrers`` compares each reference of the process with each of the given objects. This module looks
each reference up in a hash table, so the time does not depend on how many objects are given.
"""

from cpython.object cimport PyObject
from libcpp.utility cimport pair
from libcpp.vector cimport vector

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


def references_to(list objects not None, set targets not None):
    """Return each reference of `objects` to an object whose id is in `targets`: the referrer and that id.

    The references are those that the garbage collector sees.
    """
    cdef References references
    for address in targets:
        references.add_target(address)
    references.look(<PyObject*>objects)
    return [
        (objects[references.found[i].first], <size_t>references.found[i].second)
        for i in range(references.found.size())
    ]
