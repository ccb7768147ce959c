"""The work of a step: parameters that the same numbers update, the small ones among them joined."""

from __future__ import annotations

from collections import deque
from io import BytesIO
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from nn.optim.scratch import SMALL, Rule, Scratch
from tensor.lowlevel import writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tensor import Tensor

# Parameters of up to so many elements are joined, so that NumPy is called once for many of them: for 1,000
# parameters of 100 elements SGD takes 0.3 of the time, Adam 0.4; of 1,024 0.6 and 0.7, of 2,048 as long.
_JOINED = 1024
# So many elements at once: what an update works on stays in the cache.
_AT_ONCE = 16_384
# Fewer parameters are updated one by one: joined they would take as long, or longer.
_FEW = 4

# Flags of an array that is contiguous, the owner of its memory, aligned and writable.
_OWN = 0x1 | 0x4 | 0x100 | 0x400


class _Probe:
    __slots__ = ("_array",)

    def __init__(self) -> None:
        self._array = np.empty(1)


def _references(x: Any) -> int:
    return getrefcount(x._array)


_NONE: dict[str, Any] = {}

# What an interpreter counts when nobody else holds the array.
_SOLE = _references(_Probe())


class Work:
    """Parameters of a group that are of one dtype and one age: one rule updates them all."""

    __slots__ = ("age", "batches", "dtype", "is_shared", "joins", "large", "left", "rows", "width")

    def __init__(self, dtype: np.dtype[Any], age: int, width: int) -> None:
        self.dtype = dtype
        self.age = age
        # Up to which size parameters are joined.
        self.joins = _JOINED if dtype.kind == "f" else 0
        # How many tensors a row has: a parameter, its gradient, the tensors of its state.
        self.width = width
        # Those to be joined, row after row, and how many elements the last batch has room for.
        self.batches: list[list[Tensor]] = []
        self.left = 0
        # All others, and how many elements those have together that need memory of the scratch.
        self.rows: list[Tensor] = []
        self.large = 0
        # Whether some of these may share memory with others: then no two are updated at the same time.
        self.is_shared = False

    def count(self, states: dict[Tensor, dict[str, Any]], counter: str) -> None:
        """Make the parameters one step older."""
        for rows in (self.rows, *self.batches):
            for x in rows[:: self.width]:
                states[x][counter] = self.age + 1

    def update(self, rule: Rule, scratch: Scratch) -> None:
        """Write the new values; ``scratch.make_room(dtype, large)`` comes before."""
        width, single, dtype = self.width, self.rows, self.dtype
        for batch in self.batches:
            if len(batch) < _FEW * width:
                single = single + batch
            else:
                arrays: list[Any] = [x._array for x in batch]
                _update_joined(rule, [arrays[i::width] for i in range(width)], dtype)
        update, two = rule
        large = []
        for i in range(0, len(single), width):
            p, g, *state = arrays = [x._array for x in single[i : i + width]]
            if p.size > SMALL or (dtype.kind == "c" and p.size):
                large.append(arrays)
            else:
                update(p, g, np.empty(p.shape, dtype), np.empty(p.shape, dtype) if two else None, *state)
        if large:
            scratch.update(rule, large, alone=self.is_shared)


def collect(
    group: dict[str, Any],
    states: dict[Tensor, dict[str, Any]],
    names: tuple[str, ...],
    counter: str | None,
    new_state: Callable[[Tensor], Tensor],
) -> tuple[Iterable[Work], list[tuple[Tensor, dict[str, Tensor]]]]:
    """Return what a step of `group` has to do, and the state that is new; all can be written to."""
    works: dict[tuple[np.dtype[Any], int], Work] = {}
    fresh: list[tuple[Tensor, dict[str, Tensor]]] = []
    # The age of parameters whose steps nobody counts: 0 where some of the state is new.
    work, state, age = None, _NONE, 1
    for x in group["params"]:
        if x._array is None:
            x._raise_disposed()
        node = x._node
        if node is None:
            continue
        grad = getattr(x, "_grad", None)  # one that an op made has none
        if grad is None or grad._array is None:
            continue
        row = [x, grad]
        # One that shares its memory stays by itself: an update of another may be seen in it.
        joins = grad._seat is None
        # What `writable` asks, of an array that owns its memory: 0.15 us in place of 0.5.
        if x._seat is not None or getrefcount(x._array) != _SOLE or x._array.flags.num & _OWN != _OWN:
            writable(x)
            joins = False
        if names:
            state, age = states.get(x, _NONE), 1
            for name in names:
                held: Any = state.get(name)
                if held is None:
                    if age:
                        fresh.append((x, {}))
                        age = 0
                    held = fresh[-1][1][name] = new_state(x)
                row.append(held)
                if (
                    held._seat is not None
                    or getrefcount(held._array) != _SOLE
                    or held._array.flags.num & _OWN != _OWN
                ):
                    writable(held)
                    joins = False
                elif held._array.dtype != node.dtype:
                    joins = False
            if counter is not None:
                age = int(state.get(counter, 0))
        if work is None or node.dtype is not work.dtype or age != work.age:
            key = node.dtype, age
            work = works.get(key)
            if work is None:
                work = works[key] = Work(*key, len(row))
        size = x._array.size
        if joins and 0 < size <= work.joins:
            if work.left < size:
                work.batches.append([])
                work.left = _AT_ONCE
            work.left -= size
            work.batches[-1] += row
        else:
            work.rows += row
            if size > SMALL or work.dtype.kind == "c":
                work.large += size
                work.is_shared = work.is_shared or any(map(_is_shared, row))
    return works.values(), fresh


def _is_shared(x: Tensor) -> bool:
    seat = x._seat
    return seat is not None and (seat.storage.borrowed is not None or seat.storage.is_shared())


def _update_joined(rule: Rule, columns: list[list[Any]], dtype: np.dtype[Any]) -> None:
    update, two = rule
    grads = columns.pop(1)
    try:
        joined = b"".join(grads)
    except TypeError:  # of one that is not contiguous
        joined = b"".join([g.tobytes() for g in grads])
    # What is copied to a bytearray can be written to.
    p, *state = flats = [np.frombuffer(bytearray().join(arrays), dtype) for arrays in columns]
    t, more = np.empty(p.shape, dtype), np.empty(p.shape, dtype) if two else None
    update(p, np.frombuffer(joined, dtype), t, more, *state)
    for flat, arrays in zip(flats, columns, strict=True):
        # 0.1 us for each, where a slice of its shape and a copy take 0.5.
        deque(map(BytesIO(flat.data).readinto, arrays), 0)
