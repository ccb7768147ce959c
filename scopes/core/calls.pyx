# cython: language_level=3, auto_pickle=False
"""Calls with their own scope, scopes of generators, and calls whose errors hold no memory.

This module is compiled. So no interrupt can arrive between the beginning of a scope and the block that ends
it, and tracebacks have no frame of the call itself.
"""

from functools import WRAPPER_ASSIGNMENTS as _COPIED

from scopes.core.advice import explain_call
from scopes.core.tracebacks import clear_library_frames

from scopes.core.disposable cimport MemberList, current_scope, make_current, outer_of
from scopes.core.scope cimport DisposeScope


def call_in_scope(name, function, tuple args, dict kwargs):
    """Call `function` in a new scope, and move its result to the current scope."""
    with DisposeScope(name) as scope:
        return scope._hand_out(function(*args, **kwargs))


cdef object _named_as(function, wrapper):
    """Do the same as ``functools.update_wrapper``, but faster: `import tensor` calls it 700 times."""
    for name in _COPIED:
        try:
            value = getattr(function, name)
        except AttributeError:
            continue
        setattr(wrapper, name, value)
    wrapper.__dict__.update(getattr(function, "__dict__", ()))
    wrapper.__wrapped__ = function
    return wrapper


def clearing(function):
    """Wrap `function` so that the tracebacks of its errors hold no operands and no partial results.

    The frames of this library in the traceback are cleared; users' frames keep their locals. If the arguments
    do not fit the parameters, the error says what to write.
    """
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if type(error) is TypeError:
                explain_call(error, call, function, args, kwargs)
            clear_library_frames(error)
            raise

    cleared = _named_as(function, call)
    cleared.clears_errors = True
    return cleared


cdef class SuspendableScope(DisposeScope):
    """Scope of a generator, which is current only while the generator runs, not while its consumer runs."""

    # The generator's current scope at the last yield; None if that was this scope or the consumer's.
    cdef MemberList innermost

    def suspend(self, item):
        """Leave the generator: move `item` to the consumer's scope, and make that scope current."""
        cdef MemberList _before = self.innermost  # see `outer_of`
        cdef MemberList outer = outer_of(self)
        cdef MemberList scope = current_scope()
        self.innermost = None if scope is self or scope is outer else scope
        while scope is not None and scope is not outer:
            scope.move((item,), outer, False, False)
            scope = outer_of(scope)
        make_current(outer)

    def resume(self):
        """Enter the generator again. The consumer may be in another scope, task or thread now."""
        cdef MemberList _before = self.outer  # see `outer_of`
        self.outer = current_scope()
        make_current(self if self.innermost is None else self.innermost)

    def __exit__(self, kind, error, traceback):
        try:
            DisposeScope.__exit__(self, kind, error, traceback)
        finally:
            # Restore the consumer's scope even if the generator left scopes open: the garbage collector may
            # close the generator at any ``yield``.
            make_current(outer_of(self))
