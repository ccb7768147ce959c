"""Budgets: memory limits that evict values saved for backward, so that training can continue."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from scopes._shared.guard import Closing, Guard
from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand
from scopes._shared.sizes import format_bytes, parse_size
from scopes._shared.spill import SpillError, SpillFile
from tensor._dtypes import Array
from tensor.memory.allocator import Bound, Watch, live_or_pinned, set_relief
from tensor.memory.out_of_memory import forget_failure, note_failure

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from scopes._shared.spill import Spilled


class Tape(Protocol):
    """The method of a tape that a budget calls."""

    def evict(self, nbytes: int, more: int) -> int:
        """Evict `nbytes` if possible, and up to `more` in addition. Return the number of evicted bytes."""


# Imported at its first use: it imports this package, and most programs use no budget.
_tapes: Any = ModuleOnDemand("tensor.autograd.evictions")
# The budgets that are open, the innermost last; a new list at each change.
_opened: list[budget] = []
_changing = Guard()


@set_module("tensor.memory")
@dataclass(frozen=True, slots=True)
class BudgetStatistics:
    """Counts of a budget.

    Attributes
    ----------
    pressure_count : int
        How often the budget had to free memory for an allocation.
    recomputed_count, recomputed_bytes : int
        How many values were computed again for backward, and their bytes.
    forgotten_bytes : int
        The bytes of evicted values that were not written to the file.
    spilled_bytes : int
        The bytes written to the file.
    read_bytes : int
        The bytes read from the file.
    peak_bytes : int
        The most bytes that were live at once.
    peak_reserved_bytes : int
        The most bytes that arrays, free blocks of the pool and reserved memory took from the system at once.
        The resident size of the process rises by about as much. The pool releases blocks that no longer fit
        in the budget. Python objects are not included: with many small tensors add ``bytes_overhead`` of
        ``memory.statistics()``.
    """

    pressure_count: int
    recomputed_count: int
    recomputed_bytes: int
    forgotten_bytes: int
    spilled_bytes: int
    read_bytes: int
    peak_bytes: int
    peak_reserved_bytes: int

    def __str__(self) -> str:
        return (
            f"peak {format_bytes(self.peak_bytes)}, with the pool "
            f"{format_bytes(self.peak_reserved_bytes)}; short of memory {self.pressure_count} times; "
            f"{self.recomputed_count} values recomputed ({format_bytes(self.recomputed_bytes)}); "
            f"{format_bytes(self.spilled_bytes)} spilled, {format_bytes(self.read_bytes)} read back"
        )


@set_module("tensor.memory")
class budget(Closing):  # noqa: N801  # it is called like a function
    """Keep the memory of the process within a limit in a ``with`` block, so that training can continue.

    If an op needs more memory than is left, the budget evicts values that the tape has saved for backward.
    When backward needs a value, it is computed again or read from a file, whichever is cheaper. Losses,
    gradients and random numbers are bit-identical to those without a budget.

    With a file, gradients, the state of optimizers and parameters may be in it between their uses, and
    optimizer steps run in blocks where all of them do not fit together.

    The limit applies to the whole process, like ``memory.limit``. Values that are recorded by other threads,
    or by tasks that do not inherit the block's context, stay in memory.

    Parameters
    ----------
    size
        Bytes, or text such as ``"512 MiB"``.
    spill
        A folder for a file of values that are expensive to compute again. The file has no name. It is removed
        with the last value in it, or when the process ends. None: no file.
    recompute
        Whether the budget may compute values again.
    on_pressure
        A function to call before anything is evicted, with the number of missing bytes, on the thread that
        allocates. It may dispose tensors or empty caches. It runs without the caller's scope and settings.

    Raises
    ------
    OutOfMemoryError
        In an op, if its operands and result do not fit, and nothing is left to evict.
    SpillError
        If the file can't be created; in an op, if the disk is full or fails; in backward, if the file can't
        be read. It is an ``OSError``.

    Examples
    --------
    >>> import tensor
    >>> from tensor import memory
    >>> x = tensor.ones((512, 512), requires_grad=True)
    >>> with memory.budget("8 MiB") as budget:
    ...     y = x
    ...     for _ in range(20):  # each saves 1 MiB
    ...         y = y.sin()
    ...     y.sum().backward()
    >>> budget.statistics().peak_bytes <= 8 * 2**20
    True
    """

    def __init__(
        self,
        size: int | str,
        *,
        spill: str | os.PathLike[str] | None = None,
        recompute: bool = True,
        on_pressure: Callable[[int], object] | None = None,
    ) -> None:
        self.nbytes: int = parse_size(size, "size")
        self.recompute: bool = recompute
        self._folder = spill
        self._on_pressure = on_pressure
        self._file: SpillFile | None = None
        self._tape: Tape | None = None
        # The context manager in which the tape records nodes; None if the budget is not open.
        self._recording: AbstractContextManager[object] | None = None
        self._bound = Bound(self.nbytes)
        # One thread evicts at a time. Its own allocations must not start another eviction.
        self._evicting = Guard()
        self._watch = Watch()
        self._figures = dict.fromkeys(BudgetStatistics.__slots__, 0)

    def __enter__(self) -> Self:
        if self._recording is not None:
            raise RuntimeError(
                "this budget is open already: write a new `with memory.budget(...):` for an inner block"
            )
        self._file = None if self._folder is None else SpillFile(self._folder)
        self._tape, recording = _tapes.new_tape(self)
        try:
            self._recording = recording
            recording.__enter__()
            self._bound.set()
            _changing.run(_add, self)
            self._watch.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _close(self) -> None:
        self._bound.lift()
        _changing.run(_remove, self)
        self._watch.stop()
        self._keep_peaks()
        forget_failure()
        if self._recording is not None:
            self._recording.__exit__(None, None, None)
        self._recording = self._tape = None
        self._file = None  # values in the file keep it open

    def statistics(self) -> BudgetStatistics:
        """Return the counts so far, over all blocks of this object."""
        self._keep_peaks()
        return BudgetStatistics(**self._figures)

    def __repr__(self) -> str:
        state = "open" if self._recording is not None else "not open"
        return f"<budget of {format_bytes(self.nbytes)}: {state}>"

    @property
    def can_spill(self) -> bool:
        """Whether the budget has a file."""
        return self._file is not None

    # --- Memory pressure --------------------------------------------------------------------------------

    def _relieve(self, missing: int) -> bool:
        """Free some memory, and return whether the allocation should be tried again."""
        if self._evicting.is_held_here():
            return False
        freed: list[bool] = []
        if self._evicting.run_if_free(lambda: freed.append(self._free(missing))):
            return freed[0]
        self._evicting.run(_do_nothing)  # wait for the other thread, which is freeing memory
        return True

    def _free(self, missing: int) -> bool:
        """Call the user's function, evict if necessary, and return whether that freed memory."""
        self._figures["pressure_count"] += 1
        forget_failure()
        if self._on_pressure is not None and self._freed_by_user(missing):
            return True
        tape = self._tape
        # Free a little more, so that the next op does not have to evict.
        return tape is not None and tape.evict(missing, self.nbytes // 64) > 0

    def _freed_by_user(self, missing: int) -> bool:
        """Call the user's function, and return whether it freed enough."""
        assert self._on_pressure is not None
        _, before = live_or_pinned()
        try:
            self._on_pressure(missing)
        except Exception as error:  # noqa: BLE001  # the op that asks for memory raises it
            note_failure(error)
            return False
        _, after = live_or_pinned()
        return before - after >= missing

    def _write_or_raise(self, data: Array) -> Spilled:
        """Write bytes to the file, which must be there."""
        assert self._file is not None
        return self._file.write(data.data)

    def _write(self, data: Array) -> Spilled | None:
        """Write bytes to the file. If that fails, note the error and return None."""
        file = self._file
        if file is None:
            return None
        try:
            return file.write(data.data)
        except SpillError as error:
            note_failure(error)
            return None

    # --- Statistics -----------------------------------------------------------------------------------------

    def _keep_peaks(self) -> None:
        """Store the peaks, because the next block of this object starts new ones."""
        figures = self._figures
        figures["peak_bytes"] = max(figures["peak_bytes"], self._watch.nbytes)
        figures["peak_reserved_bytes"] = max(figures["peak_reserved_bytes"], self._bound.reserved_peak)

    def _count_forgotten(self, nbytes: int) -> None:
        self._figures["forgotten_bytes"] += nbytes

    def _count_recomputed(self, nbytes: int) -> None:
        self._figures["recomputed_count"] += 1
        self._figures["recomputed_bytes"] += nbytes

    def _count_written(self, nbytes: int) -> None:
        self._figures["spilled_bytes"] += nbytes

    def _count_read(self, nbytes: int) -> None:
        self._figures["read_bytes"] += nbytes


def spilling_budget() -> budget | None:
    """Return the innermost open budget with a file."""
    for each in reversed(_opened):
        if each.can_spill:
            return each
    return None


def _relieve(missing: int) -> bool:
    return any(each._relieve(missing) for each in reversed(_opened))


def _do_nothing() -> None:
    pass


def _add(one: budget) -> None:
    global _opened
    _opened = [*_opened, one]
    set_relief(_relieve, note_failure)


def _remove(one: budget) -> None:
    global _opened
    _opened = [each for each in _opened if each is not one]
    if not _opened:
        set_relief(None, None)
