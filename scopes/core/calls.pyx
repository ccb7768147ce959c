# cython: language_level=3, auto_pickle=False
"""Calls in a scope of their own, and the scopes of generators: what ``disposing`` stands on.

Compiled, so that no interrupt comes between the beginning of a scope and the block that ends it.
"""

from scopes.core.disposable cimport MemberList, current_scope, make_current, outer_of
from scopes.core.scope cimport DisposeScope


def call_in_scope(name, function, tuple args, dict kwargs):
    """Call `function` in a scope of its own, and move what it returns to the scope that is current here."""
    with DisposeScope(name) as scope:
        return scope.move_to_outer(function(*args, **kwargs))


cdef class SuspendableScope(DisposeScope):
    """A generator's scope: current while the generator runs, out of sight while its consumer does."""

    # What is current inside, a scope that the generator has open at its yield; None: this one.
    cdef MemberList innermost

    def suspend(self, item):
        """Give way to the consumer, and `item` to the consumer's scope."""
        cdef MemberList _before = self.innermost  # as told at `outer_of`
        cdef MemberList outer = outer_of(self)
        cdef MemberList scope = current_scope()
        self.innermost = None if scope is self or scope is outer else scope
        while scope is not None and scope is not outer:
            scope.move((item,), outer, False, False)
            scope = outer_of(scope)
        make_current(outer)

    def resume(self):
        """Go on inside. The consumer may have gone on in another scope, task or thread."""
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
