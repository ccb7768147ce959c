"""Gradient modes as ``with`` blocks. Entry and exit are atomic: no interrupt can split them."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF

from contextvars import ContextVar

cdef extern from "Python.h":
    int PyContextVar_Get(object variable, PyObject* default, PyObject** value) except -1
    object PyContextVar_Set(object variable, object value)

# Whether ops are recorded: False, True or a Recorder.
cdef object _grad_enabled = ContextVar("grad_enabled", default=True)
# The value that ``enable_grad`` sets `grad_enabled` to.
cdef object _when_enabled = ContextVar("when_enabled", default=True)
# The open blocks as a linked list, the innermost first, each with the modes before it.
cdef object _opened = ContextVar("opened", default=None)

grad_enabled = _grad_enabled
when_enabled = _when_enabled


cdef object _get(object variable):
    cdef PyObject* found = NULL
    PyContextVar_Get(variable, NULL, &found)
    value = <object>found
    Py_DECREF(value)  # PyContextVar_Get returns a new reference
    return value


cdef int _set(object variable, object value) except -1:
    """Set `variable`. If memory is short, try again, because the first try may have freed some."""
    try:
        PyContextVar_Set(variable, value)
    except MemoryError:
        PyContextVar_Set(variable, value)
    return 0


cdef int set_recording(object mode) except -1:
    return _set(_grad_enabled, mode)


cdef tuple _modes():
    """Return the values of `grad_enabled` and `when_enabled`."""
    return _get(_grad_enabled), _get(_when_enabled)


cdef int _set_modes(tuple modes) except -1:
    # Skip values that do not change, because setting one takes as long as an op on one element.
    if _get(_grad_enabled) is not modes[0]:
        _set(_grad_enabled, modes[0])
    if _get(_when_enabled) is not modes[1]:
        _set(_when_enabled, modes[1])
    return 0


def set_modes(tuple modes not None) -> tuple:
    """Set `grad_enabled` and `when_enabled` to `modes`, and return their former values."""
    before = _modes()
    _set_modes(modes)
    return before


cdef class Block:
    """A mode for a ``with`` block. It can be entered several times, by any task, and inside itself."""

    def _inside(self):
        """Return the values of `grad_enabled` and `when_enabled` inside."""
        raise NotImplementedError

    def _restore_modes(self):
        """Undo the change of modes that the constructor made. Called before the block is entered."""

    def __enter__(self):
        self._restore_modes()
        before, opened = _modes(), _get(_opened)
        inside = self._inside()
        try:
            _set(_opened, (self, before, opened))
            _set_modes(inside)
        except BaseException:
            _set_modes(before)
            _set(_opened, opened)
            raise
        return self

    def __exit__(self, *error):
        opened = _get(_opened)
        while opened is not None:
            block, before, opened = opened
            if block is self:
                _set_modes(before)
                _set(_opened, opened)
                return
        # Not found: another context entered the block, for example in a generator that a finalizer closes.


cdef class GradMode(Block):
    """Switches recording on or off."""

    cdef bint _enabled

    def __init__(self, bint enabled):
        self._enabled = enabled

    def _inside(self):
        recorder = _get(_when_enabled)
        return recorder if self._enabled else False, recorder


cdef class Steps:
    """The mode of a decorated generator or async generator, while its body runs.

    Each step of the generator is a ``with`` block. While its callers run, their own modes apply.
    """

    cdef Block block
    # The modes at the end of the last step; None before the first.
    cdef tuple inside
    cdef tuple outside

    def __init__(self, Block block not None):
        self.block = block

    def __enter__(self):
        outside = _modes()
        inside = self.block._inside() if self.inside is None else self.inside
        try:
            _set_modes(inside)
        except BaseException:
            _set_modes(outside)
            raise
        self.outside = outside

    def __exit__(self, *error):
        self.inside = _modes()
        _set_modes(self.outside)
