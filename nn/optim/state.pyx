# cython: language_level=3, auto_pickle=False
"""Keep the state of an optimizer in the optimizer instead of a scope.

The module is compiled, because a frame of a Python function in a traceback would keep the optimizer alive.
"""

from functools import update_wrapper

from scopes import current_dispose_scope


def keep_state(optimizer):
    """Detach all tensors in the state of `optimizer`, in any nesting, from the current scope."""
    scope = current_dispose_scope()
    state = vars(optimizer).get("state")
    if scope is not None and state:
        scope.detach(*state.values())


def keeping_state(method):
    """Return a function that calls `method` and then `keep_state`, also after an error."""
    def call(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        finally:
            keep_state(self)

    return update_wrapper(call, method)
