"""The work of a step: parameters that the same numbers update, the small ones among them joined."""

from __future__ import annotations

from collections import deque
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from nn.optim.scratch import SMALL, Rule, Scratch
from tensor.lowlevel import are_packed_and_alone, is_alone

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

_NONE: dict[str, Any] = {}


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

    def written(self) -> list[Tensor]:
        """Return all that an update writes to: parameters and their state."""
        rows = [*self.rows, *[x for batch in self.batches for x in batch]]
        del rows[1 :: self.width]  # gradients
        return rows

    def update(self, rule: Rule, scratch: Scratch) -> None:
        """Write the new values, in a block of ``writing_all``.

        ``scratch.make_room(dtype, large)`` comes before.
        """
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
    """Return what a step of `group` has to do, and the state that is new."""
    works: dict[tuple[np.dtype[Any], int], Work] = {}
    fresh: list[tuple[Tensor, dict[str, Tensor]]] = []
    # The age of parameters whose steps nobody counts: 0 where some of the state is new.
    work, state, age = None, _NONE, 1
    for x in group["params"]:
        array = x._array
        if array is None:
            x._raise_disposed()
        grad = None if x._node is None else x._grad
        if grad is None or grad.is_invalid:
            continue
        row = [x, grad]
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
            if counter is not None:
                age = int(state.get(counter, 0))
        if work is None or array.dtype is not work.dtype or age != work.age:
            key = array.dtype, age
            work = works.get(key)
            if work is None:
                work = works[key] = Work(*key, len(row))
        size = array.size
        # One that shares its memory stays by itself: an update of another may be seen in it.
        if 0 < size <= work.joins and are_packed_and_alone(row):
            if work.left < size:
                work.batches.append([])
                work.left = _AT_ONCE
            work.left -= size
            work.batches[-1] += row
        else:
            work.rows += row
            if size > SMALL or work.dtype.kind == "c":
                work.large += size
                work.is_shared = work.is_shared or not all(map(is_alone, row))
    return works.values(), fresh


def _update_joined(rule: Rule, columns: list[list[Any]], dtype: np.dtype[Any]) -> None:
    update, two = rule
    joined = b"".join(columns.pop(1))
    # What is copied to a bytearray can be written to.
    p, *state = flats = [np.frombuffer(bytearray().join(arrays), dtype) for arrays in columns]
    t, more = np.empty(p.shape, dtype), np.empty(p.shape, dtype) if two else None
    update(p, np.frombuffer(joined, dtype), t, more, *state)
    for flat, arrays in zip(flats, columns, strict=True):
        # 0.1 us for each, where a slice of its shape and a copy take 0.5.
        deque(map(BytesIO(flat.data).readinto, arrays), 0)
