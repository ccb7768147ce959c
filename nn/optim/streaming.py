"""Optimizer steps in blocks, where parameters, gradients and state do not fit in memory together.

Within a budget with a file, such a step reads a block of a parameter, of its gradient and of its state from
the file, updates it, and writes the new values to the file. The old values stay there until all parameters
have new ones. Then they are exchanged, so after an error no parameter has changed.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from tensor import Tensor
from tensor.autograd.evictions import FiledBlocks, file_in_blocks
from tensor.kernels import empty, run_kernel
from tensor.kernels.updates import Step
from tensor.memory.budgets import budget, spilling_budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn.optim.optimizer import Group, Optimizer
    from tensor.core.tensor import FiledValues, StorageReference

# Parameters with fewer elements are updated in memory.
_LEAST = 1 << 16
_DTYPES = frozenset({"float32", "float64"})
# The optimizers whose step did not fit, by budget.
_short: WeakKeyDictionary[budget, WeakSet[Optimizer]] = WeakKeyDictionary()


def steps_in_blocks(optimizer: Optimizer) -> bool:
    """Return whether an earlier step of `optimizer` did not fit in the budget."""
    here = spilling_budget()
    return here is not None and optimizer in _short.get(here, ())


def step_in_blocks(optimizer: Optimizer) -> bool:
    """Run a step in blocks. Return False if no budget with a file is open."""
    here = spilling_budget()
    if here is None:
        return False
    _short.setdefault(here, WeakSet()).add(optimizer)
    blocks = _Blocks(optimizer, here)
    for group in optimizer.param_groups:
        for params, names in optimizer._parts(group):
            blocks.add(group, params, names)
    blocks.run()
    return True


class _Blocks:
    """A step whose large parameters have their new values in the file."""

    def __init__(self, optimizer: Optimizer, here: budget) -> None:
        self.optimizer = optimizer
        self.budget = here
        self.step = Step(optimizer._rule)
        self.exchanges: list[tuple[StorageReference, FiledValues, FiledValues]] = []
        self.fresh: list[tuple[Any, Any, dict[str, Any]]] = []
        self.counted: list[tuple[dict[str, Any], str, int]] = []

    def add(self, group: Group, params: list[Tensor], names: tuple[str, ...]) -> None:
        """Add parameters of a group, each with tensors of these names in its state."""
        optimizer = self.optimizer

        def new_state(x: Any, name: str) -> Tensor:
            return optimizer._new_state(group, x, name)

        def numbers(steps: int) -> tuple[float, ...]:
            return optimizer._numbers(group, steps)

        others = [x for x in params if not (_is_large(x) and self._add_large(x, names, new_state, numbers))]
        self.step.gather(others, optimizer.state, names, optimizer._counter, new_state, numbers)

    def _add_large(
        self,
        x: Tensor,
        names: tuple[str, ...],
        new_state: Callable[[Any, str], Tensor],
        numbers: Callable[[int], tuple[float, ...]],
    ) -> bool:
        """Compute the new values of a parameter. Return False if it can't be in the file."""
        counter = self.optimizer._counter
        state = self.optimizer.state.get(x)
        made: dict[str, Any] = {}
        row: list[Any] = [x, x._grad]
        for name in names:
            held = None if state is None else state.get(name)
            if held is None:
                held = made[name] = new_state(x, name)
            row.append(held)
        is_new = bool(made) or (counter is not None and state is None)
        steps = (0 if made else 1) if counter is None else int((state or {}).get(counter, 0))
        filed = [file_in_blocks(each, self.budget) for each in row]
        before = [each for each in filed if each is not None]
        if len(before) < len(row) or len({_layout(each) for each in before}) > 1:
            return False
        after = self._updated(numbers(steps), before)
        self.exchanges += zip([x, *row[2:]], [before[0], *before[2:]], after, strict=True)
        if is_new:
            if counter is not None:
                made[counter] = steps + 1
            self.fresh.append((self.optimizer.state, x, made))
        elif counter is not None and state is not None:
            self.counted.append((state, counter, steps + 1))
        return True

    def _updated(self, numbers: tuple[float, ...], before: list[FiledBlocks]) -> list[FiledBlocks]:
        """Return the new values of a parameter and of its state; `before` has its gradient too."""
        first = before[0]
        size = prod(first.shape)
        after = [FiledBlocks(first.shape, first.dtype, first.is_in_columns, self.budget) for _ in before[1:]]
        room = [empty((min(size, first.block_size),), first.dtype) for _ in before]
        for number in range(len(first.blocks)):
            count = min(first.block_size, size - number * first.block_size)
            arrays = [array[:count] for array in room]
            for values, array in zip(before, arrays, strict=True):
                values.read_block(number, array)
            run_kernel(self.optimizer._update_plainly, numbers, arrays)
            for values, array in zip(after, [arrays[0], *arrays[2:]], strict=True):
                values.append(array)
        return after

    def run(self) -> None:
        """Update all parameters."""
        self.step.exchange(self.exchanges, self.fresh, self.counted)
        self.step.run(self.optimizer._update_plainly)


def _is_large(x: Tensor) -> bool:
    """Return whether `x` has a gradient to step with, and is worth blocks."""
    if x.is_invalid or x._node is None or x._grad is None or x._grad.is_invalid:
        return False
    return prod(x.shape) >= _LEAST and str(x.dtype) in _DTYPES


def _layout(values: FiledBlocks) -> tuple[object, ...]:
    return values.shape, values.dtype, values.is_in_columns
