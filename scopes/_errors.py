"""What scopes raise."""


class ScopeDisposedError(RuntimeError):
    """A scope was used after it had ended.

    Open a new one with ``new_dispose_scope()``, or move what should live longer before the scope ends
    (``scope.move_to_outer(x)``, ``scope.detach(x)``).
    """
