# cython: language_level=3, auto_pickle=False
"""Whose an optimizer's state is.

Compiled: no frame of the call itself is in a traceback, where it would hold the optimizer.
"""

from functools import update_wrapper

from scopes import current_dispose_scope


def keep_state(optimizer):
    """Take all tensors in the state of `optimizer` from the current scope, in lists and dicts too."""
    scope = current_dispose_scope()
    state = vars(optimizer).get("state")
    if scope is not None and state:
        scope.detach(*state.values())


def keeping_state(method):
    """Return `method` so that the state which it makes belongs to its optimizer, also when it fails."""
    def call(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        finally:
            keep_state(self)

    return update_wrapper(call, method)
