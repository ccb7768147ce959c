// A walk from keepers to objects that are sought, through what CPython's garbage collector sees: each class
// shows it by `tp_traverse`. No Python code runs in the walk, and Python allocates nothing. So each object that
// it meets stays alive meanwhile.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace scopes {

// As in keepers.pyx.
enum : int {
    SOUGHT = 1, ITEMS = 2, VALUES = 4, ATTRIBUTES = 8, REFERENTS = 16, ALWAYS = 64,
    WALKED = ITEMS | VALUES | ATTRIBUTES | REFERENTS
};

inline size_t spread(const void* address) {
    return static_cast<size_t>((static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address) >> 4)
                                * 0x9E3779B97F4A7C15ull) >> 32);
}

// What is known of classes, by address. Its owner forgets each class that goes.
class Verdicts {
    struct Recent { const PyTypeObject* kind = nullptr; int verdict = 0; };
    static constexpr size_t COUNT = 1024;
    std::unordered_map<const PyTypeObject*, int> all;
    Recent recent[COUNT];

public:
    // Returns -1 for a class that nobody has judged.
    int of(const PyTypeObject* kind) {
        Recent& last = recent[spread(kind) % COUNT];
        if (last.kind != kind) {
            auto found = all.find(kind);
            if (found == all.end())
                return -1;
            last = Recent{kind, found->second};
        }
        return last.verdict;
    }
    void put(const PyTypeObject* kind, int verdict) {
        all[kind] = verdict;
        recent[spread(kind) % COUNT] = Recent{kind, verdict};
    }
    void forget(const PyTypeObject* kind) {
        all.erase(kind);
        recent[spread(kind) % COUNT] = Recent{};
    }
};

// The objects that a walk has met. A new walk forgets all of them at no cost.
class Met {
    struct Slot { const PyObject* object; uint32_t walk; };
    std::vector<Slot> slots = std::vector<Slot>(4096, Slot{nullptr, 0});
    size_t count = 0;
    uint32_t walk = 0;

    Slot* place_of(const PyObject* object) {
        size_t i = spread(object) & (slots.size() - 1);
        while (slots[i].walk == walk && slots[i].object != object)
            i = (i + 1) & (slots.size() - 1);
        return &slots[i];
    }

public:
    void clear() {
        count = 0;
        if (++walk == 0) {
            std::fill(slots.begin(), slots.end(), Slot{nullptr, 0});
            walk = 1;
        }
    }
    // Adds an object, and returns whether it is new.
    bool add(const PyObject* object) {
        Slot* slot = place_of(object);
        if (slot->walk == walk)
            return false;
        *slot = Slot{object, walk};
        if (++count * 2 > slots.size()) {
            std::vector<Slot> old(slots.size() * 2, Slot{nullptr, 0});
            old.swap(slots);
            for (const Slot& each : old)
                if (each.walk == walk)
                    *place_of(each.object) = each;
        }
        return true;
    }
};

// A keeper: its weak reference (null when it has gone), what is known of its class, and its number.
struct Root { PyObject* reference; int verdict; Py_ssize_t number; };

// A global of a module, which is known by a weak reference.
struct Place { PyObject* module; PyObject* name; };

// How an object that is sought was found. This owns its references to objects.
// `first` is what the keeper holds, `second` the value if that is a dict: they tell the attribute's name.
struct Hit {
    PyObject *object, *keeper, *first, *second;
    int verdict;
    Place place;
};

// The object of a weak reference, or null. It is borrowed: it has an owner, and no other code runs.
inline PyObject* object_of(PyObject* reference) {
    if (reference == nullptr)
        return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* object = nullptr;
    if (PyWeakref_GetRef(reference, &object) <= 0)
        return nullptr;
    Py_DECREF(object);
    return object;
#else
    PyObject* object = PyWeakref_GetObject(reference);
    return object == Py_None ? nullptr : object;
#endif
}

class Walk {
    static constexpr size_t AHEAD = 16;

    Verdicts* verdicts;
    std::unordered_map<PyObject*, bool> sought;  // whether it was found
    size_t missing = 0;
    Met met;
    std::vector<PyObject*> stack, children;
    PyObject* coming[AHEAD] = {};
    size_t next = 0;
    PyObject *keeper = nullptr, *first = nullptr, *second = nullptr;
    int verdict = 0;
    Place place = {nullptr, nullptr};

public:
    std::vector<PyObject*> unknown;  // classes that nobody has judged; owned
    std::vector<Hit> hits;
    std::vector<PyObject*> released;  // to be released when the walk is over

    explicit Walk(Verdicts* known) : verdicts(known) {}

    void begin() {
        sought.clear();
        met.clear();
        stack.clear();
        missing = 0;
    }

    void seek(PyObject* object) { missing += sought.emplace(object, false).second; }
    bool is_done() const { return missing == 0; }

    // Looks at an object that is a part of a keeper.
    void look_at_part(PyObject* object) {
        keeper = first = second = nullptr;
        verdict = ALWAYS;
        place = {nullptr, nullptr};
        enter(object);
        go_on();
    }
    // Looks at all that a keeper holds; `is_part` if that is a part of the keeper.
    void look_inside(const Root& root, bool is_part) {
        PyObject* object = object_of(root.reference);
        if (object == nullptr)
            return;
        keeper = is_part ? nullptr : object;
        first = second = nullptr;
        verdict = is_part ? ALWAYS : root.verdict;
        place = {nullptr, nullptr};
        children.clear();
        traverse(object, gather);
        for (PyObject* child : children) {
            first = child;
            second = nullptr;
            if (PyDict_CheckExact(child)) {
                if (PyObject_GC_IsTracked(child) && met.add(child)) {
                    Py_ssize_t position = 0;
                    while (PyDict_Next(child, &position, nullptr, &second)) {
                        enter(second);
                        go_on();
                    }
                }
            } else {
                enter(child);
                go_on();
            }
        }
    }
    void look_at_place(const Place& known) {
        PyObject* module = object_of(known.module);
        PyObject* value = module == nullptr ? nullptr : PyDict_GetItem(PyModule_GetDict(module), known.name);
        if (value == nullptr)
            return;
        keeper = first = second = nullptr;
        verdict = ALWAYS;
        place = known;
        enter(value);
        go_on();
    }

    // Hands on what it owns to be released: hits and unknown classes.
    void drop() {
        released.insert(released.end(), unknown.begin(), unknown.end());
        unknown.clear();
        for (const Hit& each : hits)
            for (PyObject* object : {each.object, each.keeper, each.first, each.second})
                if (object != nullptr)
                    released.push_back(object);
        hits.clear();
    }
private:
    void traverse(PyObject* object, visitproc visit) {
        if (PyObject_GC_IsTracked(object))
            Py_TYPE(object)->tp_traverse(object, visit, this);
    }
    static int gather(PyObject* object, void* self) {
        static_cast<Walk*>(self)->children.push_back(object);
        return 0;
    }
    static int visit(PyObject* object, void* self) {
        static_cast<Walk*>(self)->enter(object);
        return 0;
    }

    // Looks at an object when AHEAD others have come. Most of the walk's time is the wait for memory: the processor
    // fetches an object meanwhile.
    void enter(PyObject* object) {
#ifdef __GNUC__
        __builtin_prefetch(&object->ob_type);
#endif
        PyObject* earlier = coming[next];
        coming[next] = object;
        next = (next + 1) % AHEAD;
        if (earlier != nullptr)
            look_at(earlier);
    }

    void look_at(PyObject* object) {
        int known = verdicts->of(Py_TYPE(object));
        if (known < 0) {
            PyObject* kind = reinterpret_cast<PyObject*>(Py_TYPE(object));
            if (std::find(unknown.begin(), unknown.end(), kind) == unknown.end())
                unknown.push_back(Py_NewRef(kind));
            return;
        }
        if (known & SOUGHT)
            find(object);
        // Modules and optimizers have their own turn. What the collector does not track leads to no tensor.
        if (known & (SOUGHT | ALWAYS) || !(known & WALKED) || !PyObject_GC_IsTracked(object))
            return;
        if (met.add(object))
            stack.push_back(object);
    }

    void find(PyObject* object) {
        auto found = sought.find(object);
        if (found == sought.end() || found->second)
            return;
        found->second = true;
        --missing;
        for (PyObject* owned : {object, keeper, first, second})
            Py_XINCREF(owned);
        hits.push_back(Hit{object, keeper, first, second, verdict, place});
    }

    // Looks at all that is waiting, and at all that it leads to.
    void go_on() {
        for (size_t idle = 0; idle < AHEAD || !stack.empty();) {
            if (stack.empty()) {
                PyObject* object = std::exchange(coming[next], nullptr);
                next = (next + 1) % AHEAD;
                ++idle;
                if (object != nullptr)
                    look_at(object);
                continue;
            }
            idle = 0;
            PyObject* object = stack.back();
            stack.pop_back();
            if (PyDict_CheckExact(object)) {
                Py_ssize_t position = 0;
                PyObject* value;
                while (PyDict_Next(object, &position, nullptr, &value))
                    enter(value);
            } else {
                traverse(object, visit);
            }
        }
    }
};

}  // namespace scopes
