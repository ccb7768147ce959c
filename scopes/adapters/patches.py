"""Wrap functions of a library while scopes own its new tensors, and restore them afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scopes._shared.guard import Guard

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

_ABSENT = object()


class Patches:
    """Wraps functions at the first ``begin()``, and restores them at the last ``end()``.

    Parameters
    ----------
    wrappers
        The functions that create wrappers, by owner (a module or class) and name.
    register_hooks
        Registers hooks, and returns handles whose ``remove()`` ends them.
    """

    def __init__(
        self, wrappers: Mapping[tuple[Any, str], Wrapper], register_hooks: Callable[[], Iterable[Any]] = tuple
    ) -> None:
        self._wrappers = dict(wrappers)
        self._register_hooks = register_hooks
        self._guard = Guard()
        self._count = 0
        self._before: dict[tuple[Any, str], object] = {}
        self._after: dict[tuple[Any, str], object] = {}
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Wrap the functions, unless they are wrapped already."""
        self._guard.run(self._begin)

    def _begin(self) -> None:
        self._count += 1
        if self._count > 1:
            return
        try:
            self._wrap()
            self._handles = list(self._register_hooks())
        except BaseException:
            self._end()
            raise

    def _wrap(self) -> None:
        for (owner, name), wrap in self._wrappers.items():
            function = getattr(owner, name, None)
            if function is None:
                continue  # another version of the library
            made: Any = functools.wraps(function)(wrap(function))
            if name == "__new__":
                made = staticmethod(made)
            self._after[owner, name] = made
            self._before[owner, name] = vars(owner).get(name, _ABSENT)
            setattr(owner, name, made)

    def end(self) -> None:
        """Restore the functions at the last nested call, unless other code has wrapped them again."""
        self._guard.run(self._end)

    def _end(self) -> None:
        self._count -= 1
        if self._count:
            return
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for (owner, name), before in self._before.items():
            if vars(owner).get(name, _ABSENT) is not self._after[owner, name]:
                continue
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        self._before.clear()
        self._after.clear()
