// The C++ part of keepers.pyx: a walk, and an explanation of references.
//
// A walk from keepers to sought objects. It follows the references that CPython's garbage collector sees, with
// the `tp_traverse` of each class. The walk runs no Python code and allocates no Python object, so all visited
// objects stay alive during the walk.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace scopes {

// The same flags as in keepers.pyx.
enum : int {
    SOUGHT = 1, ITEMS = 2, VALUES = 4, ATTRIBUTES = 8, REFERENTS = 16, KEEPER = 32, ALWAYS = 64, FOREIGN_CODE = 128,
    LEAF = 256, WALKED = ITEMS | VALUES | ATTRIBUTES | REFERENTS
};

inline void prefetch(const void* address) {
#ifdef __GNUC__
    __builtin_prefetch(address);
#endif
}

inline size_t hash_of(const void* address) {
    return static_cast<size_t>((static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address) >> 4)
                                * 0x9E3779B97F4A7C15ull) >> 32);
}

// The verdict (flags) of each known class, by address. The owner of this object removes freed classes.
class Verdicts {
    struct Recent { const PyTypeObject* kind = nullptr; int verdict = 0; };
    static constexpr size_t COUNT = 1024;
    std::unordered_map<const PyTypeObject*, int> all;
    Recent recent[COUNT];

public:
    // Returns -1 for a class without a verdict.
    int of(const PyTypeObject* kind) {
        Recent& last = recent[hash_of(kind) % COUNT];
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
        recent[hash_of(kind) % COUNT] = Recent{kind, verdict};
    }
    void forget(const PyTypeObject* kind) {
        all.erase(kind);
        recent[hash_of(kind) % COUNT] = Recent{};
    }
};

// Appends to `found` the objects in a list whose class has no verdict, or one with a bit of `wanted`.
// Returns -1 if out of memory. Runs no Python code.
inline int collect(PyObject* objects, Verdicts& verdicts, int wanted, PyObject* found) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
        PyObject* object = PyList_GET_ITEM(objects, i);
        // Skip tuples, because CPython may still be building one. A missing verdict is -1, which has all bits.
        if (!PyTuple_CheckExact(object) && verdicts.of(Py_TYPE(object)) & wanted)
            if (PyList_Append(found, object) < 0)
                return -1;
    }
    return 0;
}

// A set of living objects, as a bitmap of addresses: a page has one bit for each possible start of an object.
// Objects are at least `sizeof(PyObject)` apart. Objects of one class are often adjacent, so there are few pages.
class Objects {
    static constexpr uintptr_t BITS = 256;
    struct Page { uintptr_t number; uint64_t bits[BITS / 64]; uint32_t turn; };
    std::vector<Page> pages = std::vector<Page>(256, Page{});
    Page* last = nullptr;
    size_t count = 0;
    uint32_t turn = 1;

    static uintptr_t place_of(const PyObject* object) { return reinterpret_cast<uintptr_t>(object) / sizeof(PyObject); }

    // Returns the page with this number, or a free slot for it. A slot of an earlier `turn` is free.
    Page* find(uintptr_t number) {
        size_t i = static_cast<size_t>((number * 0x9E3779B97F4A7C15ull) >> 32) & (pages.size() - 1);
        while (pages[i].turn == turn && pages[i].number != number)
            i = (i + 1) & (pages.size() - 1);
        return &pages[i];
    }
    Page* page_of(uintptr_t number) {
        if (last == nullptr || last->number != number) {
            Page* page = find(number);
            if (page->turn != turn)
                return nullptr;
            last = page;
        }
        return last;
    }
    Page* new_page(uintptr_t number) {
        if (++count * 2 > pages.size()) {
            std::vector<Page> old(pages.size() * 2, Page{});
            old.swap(pages);
            for (const Page& each : old)
                if (each.turn == turn)
                    *find(each.number) = each;
        }
        last = find(number);
        *last = Page{number, {}, turn};
        return last;
    }

public:
    void clear() {
        count = 0;
        last = nullptr;
        if (++turn == 0) {
            std::fill(pages.begin(), pages.end(), Page{});
            turn = 1;
        }
    }
    bool has(const PyObject* object) {
        uintptr_t place = place_of(object);
        const Page* page = page_of(place / BITS);
        return page != nullptr && (page->bits[place % BITS / 64] >> (place % 64) & 1);
    }
    // Adds an object, and returns whether it is new.
    bool add(const PyObject* object) {
        uintptr_t place = place_of(object);
        Page* page = page_of(place / BITS);
        if (page == nullptr)
            page = new_page(place / BITS);
        uint64_t &bits = page->bits[place % BITS / 64], bit = uint64_t(1) << (place % 64);
        bool is_new = !(bits & bit);
        bits |= bit;
        return is_new;
    }
};

// Leaves that walks have visited: strings, numbers and so on, of exactly Python's classes. They are immutable and
// refer to nothing, so later walks skip them by address. This owns them, so that their addresses are not reused.
class Leaves {
    static constexpr size_t MAX_COUNT = 100000, MAX_BYTES = size_t(8) << 20, MAX_LENGTH = 200;
    // A full set is emptied after this many walks, because the program may no longer use its leaves.
    static constexpr size_t MAX_WALKS = 1000;
    Objects known;
    size_t bytes = 0, walks = 0;

    // Returns an upper bound for the bytes of a leaf, or 0 if the leaf is too large to keep.
    static size_t size_of(PyObject* leaf) {
        if (PyUnicode_CheckExact(leaf)) {
            size_t length = static_cast<size_t>(PyUnicode_GET_LENGTH(leaf));
            return length > MAX_LENGTH ? 0 : 80 + 4 * length;
        }
        if (PyBytes_CheckExact(leaf)) {
            size_t length = static_cast<size_t>(PyBytes_GET_SIZE(leaf));
            return length > MAX_LENGTH ? 0 : 48 + length;
        }
        if (PyLong_CheckExact(leaf)) {
            int overflow = 0;
            PyLong_AsLongLongAndOverflow(leaf, &overflow);
            return overflow ? 0 : 48;
        }
        return 48;
    }

public:
    std::vector<PyObject*> owned;

    ~Leaves() { clear(); }

    bool has(const PyObject* object) { return known.has(object); }
    void add(PyObject* leaf) {
        size_t size = size_of(leaf);
        if (size == 0 || owned.size() == MAX_COUNT || bytes + size > MAX_BYTES || !known.add(leaf))
            return;
        owned.push_back(Py_NewRef(leaf));
        bytes += size;
    }
    void begin_walk() {
        if (++walks >= MAX_WALKS) {
            walks = 0;
            if (owned.size() == MAX_COUNT || bytes + 1024 > MAX_BYTES)
                clear();
        }
    }
    // Frees the leaves. This runs no Python code.
    void clear() {
        known.clear();
        bytes = 0;
        std::vector<PyObject*> freed;
        freed.swap(owned);
        for (PyObject* leaf : freed)
            Py_DECREF(leaf);
    }
};

// A keeper: a weak reference (null after it was freed), its address, the verdict of its class, and its number.
struct Root { PyObject* reference; const void* address; int verdict; Py_ssize_t number; };

// A global of a module: a weak reference to the module, and the name.
struct Global { PyObject* module; PyObject* name; };

// An object to visit, or a sought object that was found, and the path to it. The path is the keeper, the object
// `first` that it refers to, and, if `first` is a dict, its value `second`. The path gives the attribute's name.
struct Item {
    PyObject *object, *keeper, *first, *second;
    int verdict;
    Global variable;
};

// The object of a weak reference, or null. It is a borrowed reference: no other code runs, so its owner keeps it.
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

// Whether an object is an empty container of exactly one of Python's classes, without attributes. Each
// torch.nn.Module has a dozen of them.
inline bool is_empty(PyObject* object) {
    PyTypeObject* kind = Py_TYPE(object);
    if (kind == &PyODict_Type) {
        PyObject** attributes = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + kind->tp_dictoffset);
        return PyDict_GET_SIZE(object) == 0 && *attributes == nullptr;
    }
    if (kind == &PyDict_Type)
        return PyDict_GET_SIZE(object) == 0;
    if (kind == &PySet_Type)
        return PySet_GET_SIZE(object) == 0;
    return kind == &PyList_Type && PyList_GET_SIZE(object) == 0;
}

// A queue that delays items by `COUNT` steps, because a walk mostly waits for memory. The memory of an
// item is prefetched when it enters, so it is in the cache when the item leaves.
class Pipe {
    static constexpr size_t COUNT = 16;
    Item items[COUNT] = {};
    size_t next = 0, count = 0;

public:
    // Adds an item and returns the one that leaves the queue; its object is null if there is none.
    Item put(const Item& item) {
        count += (item.object != nullptr) - (items[next].object != nullptr);
        Item earlier = std::exchange(items[next], item);
        next = (next + 1) % COUNT;
        return earlier;
    }
    // Returns the oldest item.
    Item take() {
        while (items[next].object == nullptr)
            next = (next + 1) % COUNT;
        return put(Item{});
    }
    bool is_empty() const { return count == 0; }
};

class Walk {
    Verdicts* verdicts;
    Leaves* leaves;
    std::unordered_map<PyObject*, bool> sought;  // whether each object was found
    size_t missing = 0;
    Objects visited;
    std::vector<Item> stack;
    Pipe to_visit, to_traverse;
    // The objects that some keepers refer to. They are visited together, after a prefetch.
    std::vector<Item> group;
    Item now = {};
    // The class of the object whose references are being visited.
    const PyTypeObject* kind = nullptr;

public:
    std::vector<PyObject*> unknown;  // classes without a verdict; owned references
    std::vector<Item> hits;  // the found objects; owned references
    std::vector<PyObject*> released;  // references to release after the walk

    Walk(Verdicts* verdicts_known, Leaves* leaves_known) : verdicts(verdicts_known), leaves(leaves_known) {}

    void begin() {
        sought.clear();
        visited.clear();
        missing = 0;
        leaves->begin_walk();
    }

    void add_sought(PyObject* object) { missing += sought.emplace(object, false).second; }

    // Visits an object that is a part of a keeper.
    void visit_part(PyObject* object) {
        now = Item{};
        now.verdict = ALWAYS;
        visit_later(object);
    }
    // Visits the parts of keepers that may be sought objects themselves, up to the keeper number `newest`.
    void visit_sought_keepers(const std::vector<Root>& roots, Py_ssize_t newest) {
        for (const Root& root : roots)
            if (root.verdict & ALWAYS && root.verdict & SOUGHT && root.number <= newest)
                visit_keeper(root, true);
        visit_group();
    }
    // Visits the references of all keepers with a number up to `older`, or up to `newest` with the flag ALWAYS.
    void visit_keepers(const std::vector<Root>& roots, bool of_libraries, Py_ssize_t older, Py_ssize_t newest) {
        constexpr size_t AHEAD = 16;
        for (size_t i = 0; i < roots.size() && missing != 0; ++i) {
            if (i + AHEAD < roots.size()) {
                prefetch(roots[i + AHEAD].reference);
                prefetch(roots[i + AHEAD].address);
            }
            const Root& root = roots[i];
            if (root.verdict & SOUGHT || bool(root.verdict & FOREIGN_CODE) != of_libraries)
                continue;
            if (root.number <= older || (root.verdict & ALWAYS && root.number <= newest))
                visit_keeper(root, false);
        }
        visit_group();
        visit_waiting();
    }
    void visit_globals(const std::vector<Global>& globals) {
        for (const Global& variable : globals) {
            PyObject* module = object_of(variable.module);
            PyObject* value = module == nullptr ? nullptr : PyDict_GetItem(PyModule_GetDict(module), variable.name);
            if (value == nullptr)
                continue;
            now = Item{};
            now.verdict = ALWAYS;
            now.variable = variable;
            visit_later(value);
        }
        visit_waiting();
    }
    // Visits all waiting objects, and everything they refer to.
    void visit_waiting() {
        for (;;) {
            if (!stack.empty()) {
                Item item = stack.back();
                stack.pop_back();
                prefetch_body(item.object);
                visit_references(to_traverse.put(item));
            } else if (!to_visit.is_empty()) {
                visit_now(to_visit.take());
            } else if (!to_traverse.is_empty()) {
                visit_references(to_traverse.take());
            } else {
                return;
            }
        }
    }

    // Moves the owned references, of hits and unknown classes, to `released`.
    void release_later() {
        released.insert(released.end(), unknown.begin(), unknown.end());
        unknown.clear();
        for (const Item& each : hits)
            for (PyObject* object : {each.object, each.keeper, each.first, each.second})
                if (object != nullptr)
                    released.push_back(object);
        hits.clear();
    }

private:
    void traverse(PyObject* object, visitproc visit) {
        if (PyObject_GC_IsTracked(object)) {
            kind = Py_TYPE(object);
            kind->tp_traverse(object, visit, this);
        }
    }
    // `tp_traverse` also visits the object's class, which keeps no tensors.
    bool is_kind(const PyObject* object) const { return object == reinterpret_cast<const PyObject*>(kind); }
    // Whether an object is the globals or the built-in functions of the function that is visited. It does not keep them.
    bool is_namespace_of_function(const PyObject* object) const {
        if (now.keeper == nullptr || !PyFunction_Check(now.keeper))
            return false;
        const PyFunctionObject* function = reinterpret_cast<PyFunctionObject*>(now.keeper);
        return object == function->func_globals || object == function->func_builtins;
    }
    static int gather(PyObject* object, void* self) {
        Walk* walk = static_cast<Walk*>(self);
        if (walk->is_kind(object) || walk->is_namespace_of_function(object))
            return 0;
        prefetch(object);
        walk->now.object = walk->now.first = object;
        walk->group.push_back(walk->now);
        return 0;
    }
    static int visit(PyObject* object, void* self) {
        Walk* walk = static_cast<Walk*>(self);
        if (!walk->is_kind(object))
            walk->visit_later(object);
        return 0;
    }
    static void prefetch_body(PyObject* object) {
        const char* begin = reinterpret_cast<const char*>(object);
        if (PyDict_Check(object)) {
            const PyDictObject* dict = reinterpret_cast<PyDictObject*>(object);
            const char* keys = reinterpret_cast<const char*>(dict->ma_keys);
            prefetch(keys);
            prefetch(keys + 64);
            if (dict->ma_values != nullptr)
                prefetch(dict->ma_values);
        } else if (PyAnySet_Check(object)) {
            const char* table = reinterpret_cast<const char*>(reinterpret_cast<PySetObject*>(object)->table);
            prefetch(table);
            prefetch(table + 64);
        }
        prefetch(begin + 64);
    }

    // Adds all references of a keeper to the group. With `is_part`, they are parts of the keeper.
    void visit_keeper(const Root& root, bool is_part) {
        PyObject* object = object_of(root.reference);
        if (object == nullptr)
            return;
        now = Item{};
        now.keeper = is_part ? nullptr : object;
        now.verdict = is_part ? ALWAYS : root.verdict;
        traverse(object, gather);
        if (group.size() >= 64)
            visit_group();
    }
    void visit_group() {
        for (const Item& each : group)
            if (PyDict_CheckExact(each.object))
                prefetch_body(each.object);
        for (const Item& each : group) {
            now = each;
            if (!PyDict_CheckExact(each.object)) {
                visit_later(each.object);
            } else if (PyObject_GC_IsTracked(each.object) && visited.add(each.object)) {
                Py_ssize_t position = 0;
                while (PyDict_Next(each.object, &position, nullptr, &now.second))
                    visit_later(now.second);
            }
        }
        group.clear();
        if (stack.size() >= 64)
            visit_waiting();
    }

    // Prefetches an object, and visits it later.
    void visit_later(PyObject* object) {
        if (leaves->has(object))
            return;
        prefetch(object);
        now.object = object;
        visit_now(to_visit.put(now));
    }

    void visit_now(const Item& item) {
        PyObject* object = item.object;
        if (object == nullptr)
            return;
        int known = verdicts->of(Py_TYPE(object));
        if (known < 0) {
            PyObject* kind = reinterpret_cast<PyObject*>(Py_TYPE(object));
            if (std::find(unknown.begin(), unknown.end(), kind) == unknown.end())
                unknown.push_back(Py_NewRef(kind));
            return;
        }
        if (known & LEAF)
            leaves->add(object);
        if (known & SOUGHT)
            find(item);
        // Modules and optimizers are visited as keepers. Objects that the collector does not track hold no tensor.
        if (known & (SOUGHT | ALWAYS) || !(known & WALKED) || is_empty(object) || !PyObject_GC_IsTracked(object))
            return;
        if (visited.add(object))
            stack.push_back(item);
    }

    void find(const Item& item) {
        auto found = sought.find(item.object);
        if (found == sought.end() || found->second)
            return;
        found->second = true;
        --missing;
        for (PyObject* owned : {item.object, item.keeper, item.first, item.second})
            Py_XINCREF(owned);
        hits.push_back(item);
    }

    void visit_references(const Item& item) {
        if (item.object == nullptr)
            return;
        now = item;
        if (PyDict_CheckExact(item.object)) {
            Py_ssize_t position = 0;
            PyObject* value;
            while (PyDict_Next(item.object, &position, nullptr, &value))
                visit_later(value);
        } else {
            traverse(item.object, visit);
        }
    }
};

}  // namespace scopes

// Whether a program's own objects explain all references to some sought objects. The search starts from what
// the user's code holds, counts each reference that it follows, and compares with the reference counts. It runs
// no Python code, so all objects stay alive during the search.

// Locals of running functions: CPython has no other way to read them with their cells and without side effects.
#define Py_BUILD_CORE
#if PY_VERSION_HEX < 0x030E0000
#include "internal/pycore_frame.h"
#else
#include "internal/pycore_interpframe_structs.h"
#endif
#undef Py_BUILD_CORE

namespace scopes {

// The same flags as in keepers.pyx.
enum : int { OWN = 1024, LIBRARY = 2048, MARK = 4096 };

// Whose code a file contains. `MIXED` is code of Python, and of libraries that do not use the sought objects.
enum Author : int { UNKNOWN = -1, MIXED = 0, USER = 1, LIBRARIES = 2 };

// The author of each known file, by the address of its name. This owns the names.
class Files {
    std::unordered_map<PyObject*, int> authors;

public:
    Author of(PyObject* name) const {
        auto found = authors.find(name);
        return found == authors.end() ? UNKNOWN : static_cast<Author>(found->second);
    }
    void put(PyObject* name, int author) {
        if (authors.emplace(name, author).second)
            Py_INCREF(name);
        else
            authors[name] = author;
    }
    // Forgets the files that are no code of libraries: a library may begin to use the sought objects.
    void forget_others() {
        for (auto each = authors.begin(); each != authors.end();) {
            if (each->second == LIBRARIES) {
                ++each;
            } else {
                Py_DECREF(each->first);
                each = authors.erase(each);
            }
        }
    }
};

// The numbers of keepers by address.
using Numbers = std::unordered_map<const void*, Py_ssize_t>;

#if PY_VERSION_HEX < 0x030D0000
inline const _PyInterpreterFrame* innermost_frame(const PyThreadState* thread) { return thread->cframe->current_frame; }
#else
inline const _PyInterpreterFrame* innermost_frame(const PyThreadState* thread) { return thread->current_frame; }
#endif

// What a frame has for each local, and for each value on its evaluation stack. From Python 3.14 on, the lowest bit
// says that the reference is borrowed: the reference count has only the one that a local of the same function or of a
// caller owns. Arguments and values on the stack may be borrowed. Two bits mean a number, not an object.
#if PY_VERSION_HEX < 0x030E0000
using Slot = PyObject*;
inline PyObject* object_in(Slot slot) { return slot; }
inline bool is_borrowed(Slot) { return false; }
#else
using Slot = _PyStackRef;
inline PyObject* object_in(Slot slot) {
    return (slot.bits & 3) == 3 ? nullptr : reinterpret_cast<PyObject*>(slot.bits & ~uintptr_t(3));
}
inline bool is_borrowed(Slot slot) { return slot.bits & 1; }
#endif

// The code that a frame runs, or null.
inline PyCodeObject* code_of(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX < 0x030D0000
    PyObject* code = reinterpret_cast<PyObject*>(frame->f_code);
#else
    PyObject* code = object_in(frame->f_executable);  // None in a frame of the interpreter itself
#endif
    return code != nullptr && PyCode_Check(code) ? reinterpret_cast<PyCodeObject*>(code) : nullptr;
}

// The generator or coroutine that a frame belongs to, or null.
inline const PyObject* generator_of(const _PyInterpreterFrame* frame) {
    if (frame->owner != FRAME_OWNED_BY_GENERATOR)
        return nullptr;
    return reinterpret_cast<const PyObject*>(reinterpret_cast<const char*>(frame) - offsetof(PyGenObject, gi_iframe));
}

// Calls `use` with each local of a frame to which the frame owns a reference.
template <class Use>
void for_owned_locals(const _PyInterpreterFrame* frame, const PyCodeObject* code, Use use) {
    for (int i = 0; i < code->co_nlocalsplus; ++i)
        if (object_in(frame->localsplus[i]) != nullptr && !is_borrowed(frame->localsplus[i]))
            use(object_in(frame->localsplus[i]));
}

// Calls `use` with each object that the evaluation stack of a frame borrows, and with each borrowed local if
// `with_locals`. They are in use, such as the result of a function that returns: `use` takes back the reference of
// their owner, so that the search finds a reference too few, as if these were references of their own.
template <class Use>
void for_borrowed(const _PyInterpreterFrame* frame, const PyCodeObject* code, bool with_locals, Use use) {
#if PY_VERSION_HEX >= 0x030E0000
    const Slot* stack = frame->localsplus + code->co_nlocalsplus;
    for (const Slot* slot = with_locals ? frame->localsplus : stack; slot < frame->stackpointer; ++slot)
        if (is_borrowed(*slot) && object_in(*slot) != nullptr)
            use(object_in(*slot));
#else
    (void)frame, (void)code, (void)with_locals, (void)use;
#endif
}

// Whether running functions of the program alone refer to a few objects. Most scopes that end leave no others, so this
// comes before an `Explanation`, and compares each local with each object. It runs no Python code.
class Direct {
    struct One { PyObject* object; Py_ssize_t own, left; };

    Files* files;
    // The objects, with the number of references that belong to this search or to C++, and of those to find.
    std::vector<One> ones;
    std::vector<PyObject*> dicts;  // that were searched
    size_t missing = 0;

public:
    // The list has the only references that are not the program's.
    Direct(Files* files_known, PyObject* objects) : files(files_known) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i)
            ones.push_back(One{PyList_GET_ITEM(objects, i), 1, 0});
    }
    // Adds a reference that C++ has.
    void add_own(PyObject* object) {
        for (One& each : ones)
            each.own += each.object == object;
    }
    // The objects for which one reference was not found: C++ may have it.
    void nearly(std::vector<PyObject*>& found) const {
        for (const One& each : ones)
            if (each.left == 1)
                found.push_back(each.object);
    }
    bool are_explained() {
        missing = 0;
        dicts.clear();
        for (One& each : ones) {
            each.left = Py_REFCNT(each.object) - each.own;
            missing += each.left != 0;
        }
        PyThreadState* here = PyThreadState_Get();
        search_frames(here, false);
        for (PyThreadState* thread = PyInterpreterState_ThreadHead(here->interp); thread != nullptr && missing != 0;
             thread = PyThreadState_Next(thread))
            if (thread != here)
                search_frames(thread, false);
        if (missing != 0)
            search_frames(here, true);
        return missing == 0;
    }

private:
    void count(const PyObject* value, Py_ssize_t references = 1) {
        for (One& each : ones)
            if (each.object == value) {
                missing -= each.left != 0;
                each.left -= references;
                missing += each.left != 0;
            }
    }
    void search_dict(PyObject* dict) {
        if (std::find(dicts.begin(), dicts.end(), dict) != dicts.end())
            return;
        dicts.push_back(dict);
        Py_ssize_t position = 0;
        PyObject* value;
        while (PyDict_Next(dict, &position, nullptr, &value))
            count(value);
    }
    // Searches the locals of running functions but those of libraries, or the globals of the user's.
    void search_frames(const PyThreadState* thread, bool of_globals) {
        for (const _PyInterpreterFrame* frame = innermost_frame(thread); frame != nullptr && missing != 0;
             frame = frame->previous) {
            PyCodeObject* code = code_of(frame);
            if (code == nullptr)
                continue;
            Author author = files->of(code->co_filename);
            bool is_program = author == USER || author == MIXED;
            if (of_globals) {
                if (author == USER && PyDict_CheckExact(frame->f_globals))
                    search_dict(frame->f_globals);
                continue;
            }
            // An owner is in the same frame or in an outer one, so no search ends between a borrower and its owner.
            for_borrowed(frame, code, !is_program, [this](PyObject* value) { count(value, -1); });
            if (!is_program)
                continue;
            if (code->co_flags & CO_OPTIMIZED)
                for_owned_locals(frame, code, [this](PyObject* value) { count(value); });
            else if (frame->f_locals != nullptr && PyDict_CheckExact(frame->f_locals))
                search_dict(frame->f_locals);
        }
    }
};

class Explanation {
    enum Role { NOTHING, SOUGHT_ONE, PLAIN, USERS, OTHER };
    struct Node { Py_ssize_t count = 0; bool is_open = false; };

    Verdicts* verdicts;
    Leaves* leaves;
    Files* files;
    Numbers* numbers;
    // The sought objects with the number of references that belong to this search or to C++.
    std::unordered_map<PyObject*, Py_ssize_t> sought;
    // The counted references of sought objects, and of plain objects on the way to them.
    std::unordered_map<PyObject*, Node> nodes;
    Objects users;  // the user's objects that were visited
    Objects running;  // generators that run: their locals were counted as those of running functions
    std::vector<PyObject*> waiting;
    std::vector<PyObject*> users_globals;
    std::unordered_set<PyObject*> noted;  // what `unknown_kinds` and `unknown_files` have
    const PyTypeObject* kind = nullptr;
    bool is_users = false;
    Py_ssize_t older = 0;
    size_t visits = 0, most_visits = 0;

public:
    // The sought objects that are locals of running functions of libraries, and the code of each function: owned
    // references. `finished` has those of earlier counts, to be released.
    std::vector<PyObject*> kept_by_functions, functions, finished;
    // Classes and names of files to judge before the next search; owned references.
    std::vector<PyObject*> unknown_kinds, unknown_files;
    // Whether functions, classes and keepers of the user's classes count as the user's.
    bool is_wide = false;

    Explanation(Verdicts* verdicts_known, Leaves* leaves_known, Files* files_known, Numbers* numbers_known)
        : verdicts(verdicts_known), leaves(leaves_known), files(files_known), numbers(numbers_known) {}

    void begin(Py_ssize_t older_keepers) {
        sought.clear();
        restart(false, 0);
        older = older_keepers;
    }
    // Counts from the beginning.
    void restart(bool wide, size_t most) {
        nodes.clear();
        users.clear();
        running.clear();
        waiting.clear();
        users_globals.clear();
        noted.clear();
        kept_by_functions.clear();
        finished.insert(finished.end(), functions.begin(), functions.end());
        functions.clear();
        visits = 0;
        is_wide = wide;
        most_visits = most;
    }
    // Adds a sought object, which the caller refers to once.
    void add_sought(PyObject* object) { sought.emplace(object, 1); }
    void remove_sought(PyObject* object) { sought.erase(object); }
    // Adds a reference that C++ has.
    void add_own(PyObject* object) { ++sought[object]; }

    // Counts the references of the locals of all running functions but those of libraries, and of the globals of the
    // user's functions among them. Functions with the globals `hidden`, those of this search, have none. Ends as soon
    // as the counted references are all that there are.
    void count_frames(PyObject* hidden) {
        PyThreadState* here = PyThreadState_Get();
        for (PyThreadState* thread = PyInterpreterState_ThreadHead(here->interp); thread != nullptr;
             thread = PyThreadState_Next(thread)) {
            if (count_frames_of(thread, hidden))
                return;
            for (const _PyErr_StackItem* item = thread->exc_info; item != nullptr; item = item->previous_item)
                if (item->exc_value != nullptr)
                    count(item->exc_value);
        }
    }
    // Counts the references in a dict of the user's, such as the globals of a module.
    void count_globals(PyObject* dict) {
        if (std::find(users_globals.begin(), users_globals.end(), dict) != users_globals.end())
            return;
        users_globals.push_back(dict);
        users.add(dict);
        Py_ssize_t position = 0;
        PyObject* value;
        while (PyDict_Next(dict, &position, nullptr, &value))
            count(value);
    }
    void count_local(PyObject* value) { count(value); }
    // Skips an object, such as the dict of the built-in functions.
    void skip(PyObject* object) { users.add(object); }
    // Visits the user's objects among all objects of the garbage collector, and plain objects, which may be garbage.
    void visit_all(PyObject* objects) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
            PyObject* object = PyList_GET_ITEM(objects, i);
            if (object == objects || PyTuple_CheckExact(object) || PyType_Check(object))
                continue;
            if (role_of(object) == USERS)
                count(object);
        }
    }
    // Adds plain objects that nothing else explains. If only their own group refers to them, they are garbage.
    void add_candidates(PyObject* objects) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
            PyObject* object = PyList_GET_ITEM(objects, i);
            if (object != objects && !PyTuple_CheckExact(object) && role_of(object) == PLAIN
                && nodes.emplace(object, Node{}).second)
                waiting.push_back(object);
        }
    }

    // Counts the references of a list of this search to objects that were counted. Call it after `follow`.
    void count_list(PyObject* objects) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
            PyObject* object = PyList_GET_ITEM(objects, i);
            auto node = nodes.find(object);
            if (node != nodes.end())
                ++node->second.count;
            else if (sought.count(object))
                nodes[object].count = 1;
        }
    }

    bool is_direct() const {
        for (auto& [object, own] : sought) {
            auto found = nodes.find(object);
            if (found == nodes.end() || Py_REFCNT(object) != own + found->second.count)
                return false;
        }
        return true;
    }
    // The sought objects whose reference count is one above the counted references: C++ may have the last one.
    void nearly_direct(std::vector<PyObject*>& found_ones) const {
        for (auto& [object, own] : sought) {
            auto found = nodes.find(object);
            Py_ssize_t count = found == nodes.end() ? 0 : found->second.count;
            if (own == 1 && Py_REFCNT(object) > own + count)
                found_ones.push_back(object);
        }
    }
    // Follows all references, or as many as `restart` allows. Objects behind the others are not explained then.
    void follow() {
        while (!waiting.empty() && ++visits <= most_visits) {
            PyObject* object = waiting.back();
            waiting.pop_back();
            traverse(object, count_visited);
        }
    }
    // Returns the sought objects with a reference that is not explained.
    std::vector<PyObject*> unexplained() {
        std::vector<PyObject*> found;
        waiting.clear();
        for (auto& [object, node] : nodes) {
            auto own = sought.find(object);
            if (Py_REFCNT(object) != node.count + (own == sought.end() ? 0 : own->second))
                open(object, node);
        }
        while (!waiting.empty()) {
            PyObject* object = waiting.back();
            waiting.pop_back();
            traverse(object, open_visited);
        }
        for (auto& [object, own] : sought) {
            auto node = nodes.find(object);
            if (node == nodes.end() ? Py_REFCNT(object) != own : node->second.is_open)
                found.push_back(object);
        }
        return found;
    }

private:
    void open(PyObject* object, Node& node) {
        if (!node.is_open) {
            node.is_open = true;
            waiting.push_back(object);
        }
    }
    void traverse(PyObject* object, visitproc visit) {
        if (PyObject_IS_GC(object) && PyObject_GC_IsTracked(object) && !running.has(object)) {
            kind = Py_TYPE(object);
            is_users = users.has(object);
            kind->tp_traverse(object, visit, this);
        }
    }
    static int count_visited(PyObject* object, void* self) {
        Explanation* search = static_cast<Explanation*>(self);
        // The class of an object belongs to the user if the object does.
        if (object != reinterpret_cast<const PyObject*>(search->kind) || search->is_users)
            search->count(object);
        return 0;
    }
    static int open_visited(PyObject* object, void* self) {
        Explanation* search = static_cast<Explanation*>(self);
        auto node = search->nodes.find(object);
        if (node != search->nodes.end())
            search->open(object, node->second);
        return 0;
    }

    void count(PyObject* object, Py_ssize_t references = 1) {
        switch (role_of(object)) {
        case SOUGHT_ONE:
        case PLAIN: {
            auto [node, is_new] = nodes.emplace(object, Node{});
            node->second.count += references;
            if (is_new)
                waiting.push_back(object);
            break;
        }
        case USERS:
            if (references > 0 && users.add(object))
                waiting.push_back(object);
            break;
        default:
            break;
        }
    }

    Author author_of(PyCodeObject* code) {
        Author author = files->of(code->co_filename);
        if (author == UNKNOWN)
            note(unknown_files, code->co_filename);
        return author;
    }
    int verdict_of(PyTypeObject* type) {
        int verdict = verdicts->of(type);
        if (verdict < 0)
            note(unknown_kinds, reinterpret_cast<PyObject*>(type));
        return verdict;
    }
    void note(std::vector<PyObject*>& unknown, PyObject* object) {
        if (noted.insert(object).second)
            unknown.push_back(Py_NewRef(object));
    }
    // A keeper that the block made is plain.
    Role role_by_age(PyObject* object) const {
        auto number = numbers->find(object);
        return number != numbers->end() && number->second > older ? PLAIN : OTHER;
    }
    Role role_by(Author author, PyObject* object) const {
        switch (author) {
        case USER: return USERS;
        case MIXED: return PLAIN;
        default: return role_by_age(object);
        }
    }

    Role role_of(PyObject* object) {
        if (leaves->has(object))
            return NOTHING;
        int verdict = verdict_of(Py_TYPE(object));
        if (verdict < 0)
            return OTHER;
        if (verdict & (LEAF | MARK))
            return NOTHING;
        if (verdict & SOUGHT)
            return sought.count(object) ? SOUGHT_ONE : OTHER;
        if (!PyObject_IS_GC(object) || !PyObject_GC_IsTracked(object))
            return NOTHING;
        if (PyDict_CheckExact(object))
            return users.has(object) ? USERS : PLAIN;
        // An immutable object is not older than what it holds.
        if (PyTuple_Check(object) || PyFrozenSet_Check(object))
            return PLAIN;
        // Nobody uses the locals of functions that have ended. A frame object refers to no others.
        if (PyFrame_Check(object) || PyTraceBack_Check(object))
            return USERS;
        if (PyModule_Check(object))
            return OTHER;
        if (PyFunction_Check(object)) {
            if (!is_wide)
                return OTHER;
            Author author = author_of(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(object)));
            return author == LIBRARIES || author == UNKNOWN ? OTHER : role_by(author, object);
        }
        if (PyGen_Check(object) || PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object)) {
            Author author = author_of_generator(object);
            return author == UNKNOWN ? OTHER : role_by(author, object);
        }
        if (PyType_Check(object))
            return is_wide && verdict_of(reinterpret_cast<PyTypeObject*>(object)) > 0
                    && verdicts->of(reinterpret_cast<PyTypeObject*>(object)) & OWN ? USERS : OTHER;
        if (verdict & OWN)
            return verdict & (KEEPER | ALWAYS) && !is_wide ? OTHER : USERS;
        if (verdict & ALWAYS)
            return OTHER;
        if (verdict & (KEEPER | FOREIGN_CODE | LIBRARY))
            return role_by_age(object);
        return PLAIN;
    }

    Author author_of_generator(PyObject* generator) {
#if PY_VERSION_HEX < 0x030C0000
        return author_of(reinterpret_cast<PyGenObject*>(generator)->gi_code);
#else
        PyCodeObject* code = PyGen_GetCode(reinterpret_cast<PyGenObject*>(generator));
        Author author = author_of(code);
        Py_DECREF(code);
        return author;
#endif
    }

    // Notes the sought objects among the locals of a running function of a library.
    void keep_locals(const _PyInterpreterFrame* frame, PyCodeObject* code) {
        for (int i = 0; i < code->co_nlocalsplus; ++i) {
            PyObject* value = object_in(frame->localsplus[i]);
            if (value != nullptr && sought.count(value)) {
                kept_by_functions.push_back(value);
                functions.push_back(Py_NewRef(reinterpret_cast<PyObject*>(code)));
            }
        }
    }
    bool count_frames_of(PyThreadState* thread, PyObject* hidden) {
        for (const _PyInterpreterFrame* frame = innermost_frame(thread); frame != nullptr; frame = frame->previous) {
            PyCodeObject* code = code_of(frame);
            if (code == nullptr || frame->f_globals == hidden)
                continue;
            if (generator_of(frame) != nullptr)
                running.add(generator_of(frame));
            Author author = author_of(code);
            for_borrowed(frame, code, author == LIBRARIES, [this](PyObject* value) { count(value, -1); });
            if (author == LIBRARIES)
                keep_locals(frame, code);
            if (author == LIBRARIES || author == UNKNOWN)
                continue;
            if (code->co_flags & CO_OPTIMIZED) {
                for_owned_locals(frame, code, [this](PyObject* value) { count(value); });
                if (nodes.size() >= sought.size() && is_direct())
                    return true;
            } else if (frame->f_locals != nullptr && PyDict_CheckExact(frame->f_locals)) {
                count_globals(frame->f_locals);
            }
            if (author == USER && PyDict_CheckExact(frame->f_globals))
                count_globals(frame->f_globals);
        }
        return false;
    }
};

}  // namespace scopes
