"""What was created, disposed, attached and detached: the figures of the process, a type, a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scopes._on_demand import ModuleOnDemand
from scopes.core.counters import CountingThread, reset, total

if TYPE_CHECKING:
    from scopes import _figures
    from scopes._figures import DisposeStatistics
else:
    # `dataclasses` compiles what it makes, and takes two milliseconds to load and do so.
    _figures = ModuleOnDemand("scopes._figures")


class StatisticsView:
    """Live figures of the process, of a type, or of a thread: each read counts again."""

    __slots__ = ("__weakref__", "_kind", "_thread")

    def __init__(self, kind: type | None = None, thread: CountingThread | None = None) -> None:
        self._kind = kind
        self._thread = thread

    def snapshot(self) -> DisposeStatistics:
        """Return the figures of this moment, frozen.

        Examples
        --------
        >>> from scopes import statistics
        >>> print(statistics.snapshot() - statistics.snapshot())  # doctest: +ELLIPSIS
        live_count: 0; created_outside_scope_count: 0; ...; finalized_count: 0
        """
        return _figures.DisposeStatistics(*total(self._kind, self._thread))

    @property
    def live_count(self) -> int:
        """How many are alive: all created less all disposed."""
        return self.snapshot().live_count

    @property
    def created_outside_scope_count(self) -> int:
        """How many were created while no scope was current."""
        return self.snapshot().created_outside_scope_count

    @property
    def disposed_outside_scope_count(self) -> int:
        """How many were disposed while no scope owned them."""
        return self.snapshot().disposed_outside_scope_count

    @property
    def created_in_scope_count(self) -> int:
        """How many were created while a scope was current."""
        return self.snapshot().created_in_scope_count

    @property
    def disposed_in_scope_count(self) -> int:
        """How many were disposed while a scope owned them, by the scope or otherwise."""
        return self.snapshot().disposed_in_scope_count

    @property
    def attached_to_scope_count(self) -> int:
        """How often a scope took something over by ``attach``."""
        return self.snapshot().attached_to_scope_count

    @property
    def detached_from_scope_count(self) -> int:
        """How often something was left without an owner."""
        return self.snapshot().detached_from_scope_count

    @property
    def finalized_count(self) -> int:
        """How many of the disposed went because their last reference did."""
        return self.snapshot().finalized_count

    def __str__(self) -> str:
        return str(self.snapshot())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        return self.snapshot()._repr_html_()


class Statistics(StatisticsView):
    """The figures of the whole process: what ``scopes.statistics`` is.

    Objects that the library makes (tensors above all) are counted when they are created and when they are
    disposed. A user's own resource that is attached counts only in ``attached_to_scope_count`` and
    ``detached_from_scope_count``, because the library did not see its creation.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope, statistics
    >>> before = statistics.snapshot()
    >>> with new_dispose_scope():
    ...     x = tensor.ones((2,))
    ...     (statistics.snapshot() - before).created_in_scope_count
    1
    >>> (statistics.snapshot() - before).disposed_in_scope_count
    1
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()

    def of(self, kind: type) -> StatisticsView:
        """Return the figures of the objects that were created as `kind` or as a subclass of it."""
        if not isinstance(kind, type):
            raise TypeError(f"statistics.of() takes a class, not a {type(kind).__name__}: write of(type(x))")
        return StatisticsView(kind=kind)

    @property
    def this_thread(self) -> StatisticsView:
        """The figures of the objects that the calling thread created, wherever they went since.

        Keep it to read a thread's figures after the thread has ended.
        """
        return StatisticsView(thread=CountingThread())

    def reset(self) -> None:
        """Start again at zero. Objects from before are no longer counted, whatever happens to them."""
        reset()


statistics: Statistics = Statistics()
