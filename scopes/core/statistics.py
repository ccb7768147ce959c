"""Statistics of created, disposed, attached and detached objects, by process, type or thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand
from scopes.core.counters import CountingThread, reset, total
from scopes.core.scope import settle

if TYPE_CHECKING:
    from scopes.core import figures
    from scopes.core.figures import DisposeStatistics
else:
    # Imported at first use: loading `dataclasses` and creating the class take two milliseconds.
    figures = ModuleOnDemand("scopes.core.figures")


@set_module("scopes")
class StatisticsView:
    """Live statistics of the process, a type, or a thread: each access returns the current counts."""

    __slots__ = ("__weakref__", "_kind", "_thread")

    def __init__(self, kind: type | None = None, thread: CountingThread | None = None) -> None:
        self._kind = kind
        self._thread = thread

    if not TYPE_CHECKING:  # with this method, type checkers would accept any name

        def __getattr__(self, name: str) -> None:
            hint = f": did you mean '{name}_count'?" if hasattr(type(self), f"{name}_count") else ""
            text = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(text, name=name) if hint else AttributeError(text, name=name, obj=self)

    def snapshot(self) -> DisposeStatistics:
        """Return a frozen copy of the current counts.

        Examples
        --------
        >>> from scopes import statistics
        >>> print(statistics.snapshot() - statistics.snapshot())  # doctest: +ELLIPSIS
        live_count: 0; created_outside_scope_count: 0; ...; finalized_count: 0
        """
        settle()
        return figures.DisposeStatistics(*total(self._kind, self._thread))

    @property
    def live_count(self) -> int:
        """The number of objects alive: created minus disposed."""
        return self.snapshot().live_count

    @property
    def created_outside_scope_count(self) -> int:
        """The number of objects created without an owner, such as outside of scopes."""
        return self.snapshot().created_outside_scope_count

    @property
    def disposed_outside_scope_count(self) -> int:
        """The number of objects disposed while no scope owned them."""
        return self.snapshot().disposed_outside_scope_count

    @property
    def created_in_scope_count(self) -> int:
        """The number of objects that a scope owned when they were created."""
        return self.snapshot().created_in_scope_count

    @property
    def disposed_in_scope_count(self) -> int:
        """The number of objects disposed while a scope owned them, by the scope or otherwise."""
        return self.snapshot().disposed_in_scope_count

    @property
    def attached_to_scope_count(self) -> int:
        """How often an object was attached to a scope."""
        return self.snapshot().attached_to_scope_count

    @property
    def detached_from_scope_count(self) -> int:
        """How often an object was removed from its scope and got no new owner."""
        return self.snapshot().detached_from_scope_count

    @property
    def finalized_count(self) -> int:
        """The number of objects that were disposed because their last reference was deleted."""
        return self.snapshot().finalized_count

    def __str__(self) -> str:
        return str(self.snapshot())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        return self.snapshot()._repr_html_()


@set_module("scopes")
class Statistics(StatisticsView):
    """Statistics of the whole process: the class of ``scopes.statistics``.

    The library counts its own objects, such as tensors, when they are created and disposed. A user's
    resource, such as a file, counts only in ``attached_to_scope_count`` and ``detached_from_scope_count``,
    because the library did not see its creation.

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
        """Return the statistics of `kind` and its subclasses."""
        if not isinstance(kind, type):
            raise TypeError(f"statistics.of() takes a class, not {type(kind).__name__}: write of(type(x))")
        return StatisticsView(kind=kind)

    @property
    def this_thread(self) -> StatisticsView:
        """The statistics of the objects that the calling thread created.

        Keep this object to read a thread's counts after the thread has ended.
        """
        return StatisticsView(thread=CountingThread())

    def reset(self) -> None:
        """Set all counts to zero. Objects created before are no longer counted."""
        settle()
        reset()


statistics: Statistics = Statistics()
