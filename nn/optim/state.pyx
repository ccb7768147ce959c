# cython: language_level=3, auto_pickle=False
"""Wrap methods of optimizers: keep their state in them instead of a scope, and call hooks.

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


def calling_hooks(step):
    """Return a function that calls the method `step` between the hooks of the optimizer.

    A step that calls the step of its base class runs the hooks once.
    """
    def call(self, *args, **kwargs):
        if self._is_stepping:
            return step(self, *args, **kwargs)
        self._is_stepping = True
        try:
            optimizer = self
            for hook in list(self._pre_hooks.values()):
                changed = hook(self, (optimizer, *args), kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise TypeError(
                            "a hook before a step must return None, or a tuple of the new args and kwargs, "
                            f"not {type(changed).__name__}"
                        )
                    (optimizer, *args), kwargs = changed
            result = step(optimizer, *args, **kwargs)
            for hook in list(self._post_hooks.values()):
                hook(self, (optimizer, *args), kwargs)
            return result
        finally:
            self._is_stepping = False

    return update_wrapper(call, step)
