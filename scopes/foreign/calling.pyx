# cython: language_level=3, auto_pickle=False
"""Call functions of a library without a Python frame.

A library in C++ attributes its warning to the innermost Python frame. A compiled function has no frame, so
the warning names the user's line, as it does without scopes.
"""

from scopes.core.births import hide, log, pause


def intercept(self, function, types, args=(), kwargs=None):
    """Call `function` for a mode of PyTorch, and then ``self.take`` with the result."""
    cdef dict keywords = {} if kwargs is None else kwargs
    log(1)
    try:
        result = function(*args, **keywords)
        self.take(function, result, args, keywords)
    finally:
        log(-1)
    return result


def adopting(function, state, take):
    """Return a wrapper of `function` that calls `take` with the result, while ``state.depth`` is not 0."""
    def called(*args, **kwargs):
        if not state.depth:
            return function(*args, **kwargs)
        log(1)
        try:
            result = function(*args, **kwargs)
            take(None, result, args, kwargs)
        finally:
            log(-1)
        return result

    return called


def pausing(function):
    """Return a wrapper of `function`: no scope owns the tensors that it creates."""
    def called(*args, **kwargs):
        pause(1)
        try:
            return function(*args, **kwargs)
        finally:
            pause(-1)

    return called


def hiding(function):
    """Return a wrapper of `function` that notes no tensors: they belong to its result, such as an array."""
    def called(*args, **kwargs):
        hide(1)
        try:
            return function(*args, **kwargs)
        finally:
            hide(-1)

    return called
