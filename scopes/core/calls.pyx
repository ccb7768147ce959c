# cython: language_level=3, auto_pickle=False
"""Calls with their own scope, scopes of generators, and calls whose errors hold no memory.

Compiled: no interrupt comes between the beginning of a scope and the block that ends it, and no frame of the
call itself is in a traceback.
"""

from functools import update_wrapper

from scopes.core.advice import explain_call
from scopes.core.tracebacks import clear_library_frames

from scopes.core.disposable cimport MemberList, current_scope, make_current, outer_of
from scopes.core.scope cimport DisposeScope


def call_in_scope(name, function, tuple args, dict kwargs):
    """Call `function` in a new scope, and move its result to the current scope."""
    with DisposeScope(name) as scope:
        return scope._hand_out(function(*args, **kwargs))


def clearing(function):
    """Wrap `function` so that the tracebacks of its errors hold no operands and no partial results.

    The frames of this library in its traceback are cleared; those of users in between keep their locals. The
    error of a call that does not fit the parameters says what to write.
    """
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if type(error) is TypeError:
                explain_call(error, call, function, args, kwargs)
            clear_library_frames(error)
            raise

    cleared = update_wrapper(call, function)
    cleared.clears_errors = True
    return cleared


cdef class SuspendableScope(DisposeScope):
    """The scope of a generator. It is current only while the generator runs, not while its consumer runs."""

    # The scope that was current inside at the last yield. None: this scope itself.
    cdef MemberList innermost

    def suspend(self, item):
        """Leave the generator: restore the consumer's scope and give it `item`."""
        cdef MemberList _before = self.innermost  # as told at `outer_of`
        cdef MemberList outer = outer_of(self)
        cdef MemberList scope = current_scope()
        self.innermost = None if scope is self or scope is outer else scope
        while scope is not None and scope is not outer:
            scope.move((item,), outer, False, False)
            scope = outer_of(scope)
        make_current(outer)

    def resume(self):
        """Enter the generator again. The consumer may be in another scope, task or thread now."""
        cdef MemberList _before = self.outer  # as told at `outer_of`
        self.outer = current_scope()
        make_current(self if self.innermost is None else self.innermost)

    def __exit__(self, kind, error, traceback):
        try:
            DisposeScope.__exit__(self, kind, error, traceback)
        finally:
            # Whatever the generator has left open: its end, perhaps by the collector, at any moment, changes
            # nothing for its consumer.
            make_current(outer_of(self))
