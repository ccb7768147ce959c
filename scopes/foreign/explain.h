// Whether a program's own objects explain all references to some sought objects. The search starts from what
// the user's code holds, counts each reference that it follows, and compares with the reference counts. It runs
// no Python code, so all objects stay alive during the search.
#pragma once

#include <unordered_set>

#include "scopes/foreign/walk.h"

// Locals of running functions: CPython has no other way to read them with their cells and without side effects.
#if PY_VERSION_HEX < 0x030E0000
#define Py_BUILD_CORE
#include "internal/pycore_frame.h"
#undef Py_BUILD_CORE
#endif

namespace scopes {

// Whether the locals of running functions can be read. If not, no search for explanations is possible.
constexpr bool READS_LOCALS = PY_VERSION_HEX < 0x030E0000;

// The same flags as in keepers.pyx.
enum : int { OWN = 1024, LIBRARY = 2048 };

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
        if (PyObject_IS_GC(object) && PyObject_GC_IsTracked(object)) {
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

    void count(PyObject* object) {
        switch (role_of(object)) {
        case SOUGHT_ONE:
        case PLAIN: {
            auto [node, is_new] = nodes.emplace(object, Node{});
            ++node->second.count;
            if (is_new)
                waiting.push_back(object);
            break;
        }
        case USERS:
            if (users.add(object))
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
        if (verdict & LEAF)
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

#if PY_VERSION_HEX < 0x030E0000
#if PY_VERSION_HEX < 0x030D0000
    static const _PyInterpreterFrame* innermost_frame(const PyThreadState* thread) {
        return thread->cframe->current_frame;
    }
    static PyCodeObject* code_of(const _PyInterpreterFrame* frame) {
        PyObject* code = reinterpret_cast<PyObject*>(frame->f_code);
        return code != nullptr && PyCode_Check(code) ? frame->f_code : nullptr;
    }
#else
    static const _PyInterpreterFrame* innermost_frame(const PyThreadState* thread) {
        return thread->current_frame;
    }
    static PyCodeObject* code_of(const _PyInterpreterFrame* frame) {
        PyObject* code = frame->f_executable;  // None in a frame of the interpreter itself
        return code != nullptr && PyCode_Check(code) ? reinterpret_cast<PyCodeObject*>(code) : nullptr;
    }
#endif
    // Notes the sought objects among the locals of a running function of a library.
    void keep_locals(const _PyInterpreterFrame* frame, PyCodeObject* code) {
        for (int i = 0; i < code->co_nlocalsplus; ++i)
            if (frame->localsplus[i] != nullptr && sought.count(frame->localsplus[i])) {
                kept_by_functions.push_back(frame->localsplus[i]);
                functions.push_back(Py_NewRef(reinterpret_cast<PyObject*>(code)));
            }
    }
    bool count_frames_of(PyThreadState* thread, PyObject* hidden) {
        for (const _PyInterpreterFrame* frame = innermost_frame(thread); frame != nullptr; frame = frame->previous) {
            PyCodeObject* code = code_of(frame);
            if (code == nullptr || frame->f_globals == hidden)
                continue;
            Author author = author_of(code);
            if (author == LIBRARIES)
                keep_locals(frame, code);
            if (author == LIBRARIES || author == UNKNOWN)
                continue;
            if (code->co_flags & CO_OPTIMIZED) {
                for (int i = 0; i < code->co_nlocalsplus; ++i)
                    if (frame->localsplus[i] != nullptr)
                        count(frame->localsplus[i]);
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
#else
    bool count_frames_of(PyThreadState*, PyObject*) { return false; }
#endif
};

}  // namespace scopes
