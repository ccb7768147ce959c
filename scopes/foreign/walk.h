// A walk from keepers to objects that are sought, through what CPython's garbage collector sees: each class
// shows it by `tp_traverse`. No Python code runs in the walk, and Python allocates nothing. So each object that
// it meets stays alive meanwhile.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace scopes {

// As in keepers.pyx.
enum : int {
    SOUGHT = 1, ITEMS = 2, VALUES = 4, ATTRIBUTES = 8, REFERENTS = 16, KEEPER = 32, ALWAYS = 64, EMPTY = 256,
    ASK = 512, CONTAINER = ITEMS | VALUES, WALKED = CONTAINER | ATTRIBUTES | REFERENTS
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
    struct Slot { const PyObject* object; uint32_t walk; uint32_t table; };
    std::vector<Slot> slots = std::vector<Slot>(4096, Slot{nullptr, 0, 0});
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
            std::fill(slots.begin(), slots.end(), Slot{nullptr, 0, 0});
            walk = 1;
        }
    }
    // Adds an object that was met inside of `table` (0: of none), and returns whether it is new: for a table,
    // new in that table.
    bool add(const PyObject* object, uint32_t table) {
        Slot* slot = place_of(object);
        if (slot->walk == walk) {
            if (table == 0 || slot->table == table)
                return false;
            slot->table = table;
            return true;
        }
        *slot = Slot{object, walk, table};
        if (++count * 2 > slots.size()) {
            std::vector<Slot> old(slots.size() * 2, Slot{nullptr, 0, 0});
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

// A large container of names, numbers, and containers of such. The walk passes over it while it has the same
// items, and takes it that nobody exchanges what is deeper in it. `open` are the containers in it that have
// places to be filled: empty ones, and those with None. The walk always looks at them. This owns `object` and
// `open`.
struct Table {
    PyObject* object;
    std::vector<PyObject*> items;  // addresses, to be compared
    Py_ssize_t keeper;  // the number of the keeper that it was found in
    Py_ssize_t newest;  // the keepers in it have no higher numbers
    uint64_t walk;      // that met it last
    std::vector<PyObject*> open;
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
    // Containers of fewer items are no tables, nor those that lead to fewer objects.
    static constexpr Py_ssize_t TABLE_LENGTH = 32;
    static constexpr size_t TABLE_SIZE = 100;
    // Tables that so many walks did not meet are forgotten. What is no table is tried again after as many.
    static constexpr uint64_t TABLE_LIFE = 256;

    Verdicts* verdicts;
    std::unordered_map<PyObject*, bool> sought;  // whether it was found
    size_t missing = 0;
    Met met;
    std::vector<PyObject*> stack, children, items;
    PyObject *keeper = nullptr, *first = nullptr, *second = nullptr;
    int verdict = 0;
    Place place = {nullptr, nullptr};
    Py_ssize_t number = 0;

    std::unordered_map<const PyObject*, Table> tables;
    std::vector<Table> new_tables;
    std::unordered_set<const PyObject*> no_tables;
    uint64_t walk = 0;
    // How many keepers are known, and how many of them are older than the scope.
    Py_ssize_t newest = 0, older = 0;
    // The table that it looks through, 0 outside; how many there were; whether it holds what a table may.
    uint32_t table = 0, table_count = 0;
    bool is_settled = false;
    // How many objects it holds, and its open containers.
    size_t table_size = 0;
    std::vector<PyObject*> open_ones;
    // The container that it looks through now; whether nobody puts other items into it.
    PyObject* holder = nullptr;
    bool is_fixed = false;

public:
    std::vector<PyObject*> unknown;  // classes that nobody has judged; owned
    std::vector<Hit> hits;
    std::vector<PyObject*> released;  // to be released when the walk is over

    explicit Walk(Verdicts* known) : verdicts(known) {}

    // Begins a walk for a scope that `older` of the `newest` keepers are older than.
    void begin(Py_ssize_t newest_keeper, Py_ssize_t older_keepers) {
        newest = newest_keeper;
        older = older_keepers;
        sought.clear();
        met.clear();
        stack.clear();
        new_tables.clear();
        table_count = 0;
        missing = 0;
        ++walk;
    }

    void seek(PyObject* object) { missing += sought.emplace(object, false).second; }
    bool is_done() const { return missing == 0; }

    // Looks at an object that is a part of a keeper.
    void look_at_part(PyObject* object) {
        keeper = first = second = nullptr;
        verdict = ALWAYS;
        place = {nullptr, nullptr};
        number = 0;
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
        number = root.number;
        children.clear();
        traverse(object, gather);
        for (PyObject* child : children) {
            first = child;
            second = nullptr;
            if (PyDict_CheckExact(child) && PyDict_Size(child) < TABLE_LENGTH) {
                if (PyObject_GC_IsTracked(child) && met.add(child, 0)) {
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
        number = 0;
        enter(value);
        go_on();
    }

    // Remembers tables, if all classes were known.
    void end() {
        for (Table& each : new_tables) {
            if (!unknown.empty() || tables.count(each.object))
                continue;
            Py_INCREF(each.object);
            for (PyObject* inner : each.open)
                Py_INCREF(inner);
            tables.emplace(each.object, std::move(each));
        }
        new_tables.clear();
        if (walk % TABLE_LIFE == 0) {
            no_tables.clear();
            for (auto each = tables.begin(); each != tables.end();)
                each = walk - each->second.walk > TABLE_LIFE ? forget(each) : std::next(each);
        }
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
    // Forgets the tables of a keeper, or all (0).
    void forget_tables(Py_ssize_t of) {
        for (auto each = tables.begin(); each != tables.end();)
            each = of == 0 || each->second.keeper == of ? forget(each) : std::next(each);
    }
    bool has_tables() const { return !tables.empty(); }

private:
    std::unordered_map<const PyObject*, Table>::iterator forget(
        std::unordered_map<const PyObject*, Table>::iterator each) {
        Table& known = each->second;
        released.push_back(known.object);
        released.insert(released.end(), known.open.begin(), known.open.end());
        return tables.erase(each);
    }

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

    void enter(PyObject* object) {
        int known = verdicts->of(Py_TYPE(object));
        ++table_size;
        if (known < 0) {
            PyObject* kind = reinterpret_cast<PyObject*>(Py_TYPE(object));
            if (std::find(unknown.begin(), unknown.end(), kind) == unknown.end())
                unknown.push_back(Py_NewRef(kind));
            return;
        }
        if (known & SOUGHT)
            find(object);
        if (table != 0) {
            if (has_a_turn(object, known))
                return;
            if (!can_be_of_a_table(object, known))
                note_in_table(object, known);
        }
        // Modules and optimizers have their own turn. What the collector does not track leads to no tensor.
        if (known & (SOUGHT | ALWAYS) || !(known & WALKED) || !PyObject_GC_IsTracked(object))
            return;
        if (met.add(object, table))
            stack.push_back(object);
    }

    bool can_be_of_a_table(PyObject* object, int known) const {
        if (known & EMPTY)
            return is_fixed;
        if (known & CONTAINER)
            return length_of(object) > 0 || PyTuple_Check(object) || PyFrozenSet_Check(object);
        return !(known & (SOUGHT | WALKED));
    }
    // Whether the walk looks at an object as one of the keepers.
    bool has_a_turn(PyObject* object, int known) const {
        return known & KEEPER && !(known & ASK) && older >= newest && Py_TYPE(object)->tp_weaklistoffset != 0;
    }
    void note_in_table(PyObject* object, int known) {
        if (known & EMPTY && (open_ones.empty() || open_ones.back() != holder))
            open_ones.push_back(holder);
        else if (known & CONTAINER)
            open_ones.push_back(object);
        else if (!(known & EMPTY))
            is_settled = false;
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

    void go_on() {
        while (!stack.empty()) {
            PyObject* object = stack.back();
            stack.pop_back();
            if (length_of(object) < TABLE_LENGTH)
                open(object);
            else
                open_table(object);
        }
    }

    void open(PyObject* object) {
        holder = object;
        is_fixed = is_fixed_container(object);
        if (PyDict_CheckExact(object)) {
            Py_ssize_t position = 0;
            PyObject* value;
            while (PyDict_Next(object, &position, nullptr, &value))
                enter(value);
        } else {
            traverse(object, visit);
        }
    }

    // Whether nobody puts other items into a container. A cache of a function does not exchange its results.
    bool is_fixed_container(PyObject* object) const {
        return PyTuple_Check(object) || PyFrozenSet_Check(object) || (verdict & REFERENTS && object == first);
    }

    void open_table(PyObject* object) {
        auto known = tables.find(object);
        if (known != tables.end()) {
            Table& found = known->second;
            if (older >= found.newest && items_of(object) == found.items) {
                found.walk = walk;
                for (PyObject* inner : found.open)
                    if (met.add(inner, 0))
                        stack.push_back(inner);
                return;
            }
            if (older >= found.newest)
                forget(known);
        }
        if (no_tables.count(object))
            return open(object);
        // A stack of its own: `go_on` is in the middle of the other one.
        std::vector<PyObject*> outside;
        outside.swap(stack);
        table = ++table_count;
        is_settled = true;
        table_size = 0;
        open_ones.clear();
        open(object);
        while (!stack.empty()) {
            PyObject* inner = stack.back();
            stack.pop_back();
            open(inner);
        }
        table = 0;
        stack.swap(outside);
        if (std::find(open_ones.begin(), open_ones.end(), object) != open_ones.end())
            is_settled = false;
        if (is_settled && table_size >= TABLE_SIZE && open_ones.size() * 4 < table_size)
            new_tables.push_back(Table{object, items_of(object), number, newest, walk, open_ones});
        else
            no_tables.insert(object);
    }

    // The addresses of the items of a built-in container, of a set only as many as it has.
    const std::vector<PyObject*>& items_of(PyObject* object) {
        items.clear();
        if (PyDict_Check(object)) {
            Py_ssize_t position = 0;
            PyObject* value;
            while (PyDict_Next(object, &position, nullptr, &value))
                items.push_back(value);
        } else if (PyList_Check(object) || PyTuple_Check(object)) {
            items.assign(PySequence_Fast_ITEMS(object), PySequence_Fast_ITEMS(object) + Py_SIZE(object));
        } else {
            items.resize(static_cast<size_t>(length_of(object)), nullptr);
        }
        return items;
    }

    // The number of items of a built-in container, -1 for other objects.
    static Py_ssize_t length_of(PyObject* object) {
        if (PyDict_Check(object))
            return PyDict_Size(object);
        if (PyList_Check(object) || PyTuple_Check(object))
            return Py_SIZE(object);
        return PyAnySet_Check(object) ? PySet_GET_SIZE(object) : -1;
    }
};

}  // namespace scopes
