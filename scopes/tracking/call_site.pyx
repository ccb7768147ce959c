"""The line of the user's code that this thread runs.

This module is compiled, because tracking calls it for each new and each disposed object.
"""

from cpython.object cimport PyObject

from scopes.tracking import sites

cdef extern from *:
    """
    #include <frameobject.h>

    // Return the frame of the innermost Python function, and the frame that called it, as objects, or None.
    static PyObject* innermost_frame() {
        PyObject* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());  // borrowed
        return Py_NewRef(frame == nullptr ? Py_None : frame);
    }

    static PyObject* frame_around(PyObject* frame) {
        PyFrameObject* back = PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame));
        return back == nullptr ? Py_NewRef(Py_None) : reinterpret_cast<PyObject*>(back);
    }

    static PyObject* code_of(PyObject* frame) {
        return reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame)));
    }

    static int instruction_of(PyObject* frame) {
        return PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame));
    }
    """
    object innermost_frame()
    object frame_around(object frame)
    object code_of(object frame)
    int instruction_of(object frame)

# The known sites in each code object, by the object's id; see `scopes.tracking.sites`.
cdef dict _known = sites.known


cpdef object call_site(long depth=1):
    """Return the site of the innermost `depth` lines of the user's code on this thread's call stack."""
    cdef list found = None
    frame = innermost_frame()
    while frame is not None:
        code = code_of(frame)
        key = <size_t><PyObject*>code
        places = _known[key] if key in _known else sites.places_in(frame)
        if places is not None:
            at = instruction_of(frame)
            site = (<dict>places).get(at)
            if site is None:
                site = sites.site_at(frame)
                (<dict>places)[at] = site
            if depth == 1:
                return site
            if found is None:
                found = []
            found.append(site)
            if len(found) == depth:
                break
        frame = frame_around(frame)
    return sites.site_of_several(found) if found else sites.site_without_user()
