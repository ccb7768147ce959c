"""Optimizer steps within a budget that parameters, gradients and state together exceed: the same bits."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from scopes import SpillError
from scopes._shared.spill import SpillFile
from tensor import OutOfMemoryError, memory
from tests.interrupts import interrupted_at

pytestmark = pytest.mark.usefixtures("fresh_allocator")

SHAPES = [(700, 500), (500,), (300, 400)]
MOST = 700 * 500 * 4  # bytes of the largest parameter
KINDS: dict[str, Any] = {
    "SGD": lambda p: nn.optim.SGD(p, lr=0.1),
    "momentum": lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "nesterov": lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "Adam": lambda p: nn.optim.Adam(p, lr=0.1, weight_decay=0.01),
    "amsgrad": lambda p: nn.optim.Adam(p, lr=0.1, amsgrad=True),
    "AdamW": lambda p: nn.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: nn.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.9),
}


class Training:
    """Parameters with gradients, and an optimizer."""

    def __init__(self, kind: str, dtype: Any = np.float32, order: str = "C") -> None:
        gc.collect()
        memory.trim()
        self.others = memory.statistics().bytes_live  # of other tests
        self.dtype = np.dtype(dtype)
        rng = np.random.default_rng(0)
        self.parameters = [
            nn.Parameter(tensor.tensor(np.asarray(rng.standard_normal(shape), dtype, order=order)))
            for shape in SHAPES
        ]
        self.optimizer = KINDS[kind](self.parameters)
        self.rng = np.random.default_rng(1)

    def set_gradients(self) -> None:
        for parameter in self.parameters:
            values = self.rng.standard_normal(parameter.shape).astype(self.dtype)
            if parameter.ndim > 1 and not parameter.is_contiguous():
                values = np.asfortranarray(values)
            parameter.grad = tensor.tensor(values)

    def crowd_out(self, most: float = 2.0) -> None:
        """Take `most` times the bytes of the largest parameter, so that the budget moves idle tensors out."""
        tensor.zeros((int(most * MOST) // 4,), dtype=tensor.float32)

    def step(self) -> None:
        self.set_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def budget(self, most: float, folder: Path) -> memory.budget:
        """Return a budget of `most` times the bytes of the largest parameter."""
        gc.collect()
        memory.trim()
        size = SHAPES[0][0] * SHAPES[0][1] * self.dtype.itemsize
        return memory.budget(self.others + int(most * size), spill=folder)

    def values(self) -> list[Any]:
        """Return the bytes of parameters and state, and the numbers of steps."""
        found: list[Any] = []
        for parameter in self.parameters:
            found.append(parameter.detach().numpy().tobytes())
            state = self.optimizer.state.get(parameter, {})
            found += [
                x.numpy().tobytes() if isinstance(x, tensor.Tensor) else (name, x)
                for name, x in state.items()
            ]
        return found


def expected(kind: str, steps: int, **options: Any) -> list[Any]:
    training = Training(kind, **options)
    for _ in range(steps):
        training.step()
    return training.values()


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_do_not_fit_together_have_the_same_bits(kind: str, tmp_path: Path) -> None:
    wanted = expected(kind, 3)
    training = Training(kind)
    training.set_gradients()
    # Room for one parameter with new state beside it, and for blocks. SGD itself needs no more than two.
    with training.budget(2.9 if kind != "SGD" else 1.9, tmp_path) as budget:
        training.optimizer.step()
        training.optimizer.zero_grad()
        for _ in range(2):
            training.step()
    assert budget.statistics().spilled_bytes > 0
    assert training.values() == wanted
    assert list(tmp_path.iterdir()) == []


def test_a_step_takes_less_memory_than_one_parameter_with_its_state(tmp_path: Path) -> None:
    training = Training("Adam")
    training.step()
    training.set_gradients()
    budget = training.budget(2.5, tmp_path)
    with budget:
        training.crowd_out()
        training.optimizer.step()
        with memory.measure() as used:
            training.optimizer.step()
    # A parameter, its gradient and its two averages alone take four times MOST.
    assert used.peak_bytes - training.others <= 2.5 * MOST


@pytest.mark.parametrize(("dtype", "order"), [(np.float64, "C"), (np.float32, "F")])
def test_other_dtypes_and_layouts_have_the_same_bits(dtype: Any, order: str, tmp_path: Path) -> None:
    wanted = expected("Adam", 3, dtype=dtype, order=order)
    training = Training("Adam", dtype, order)
    with training.budget(3.5, tmp_path):
        for _ in range(3):
            training.step()
    assert training.values() == wanted


def test_values_of_clones_stay_and_the_state_is_whole_after_the_budget(tmp_path: Path) -> None:
    wanted = expected("Adam", 4)
    training = Training("Adam")
    before = training.parameters[2].detach().numpy().copy()
    with training.budget(3.5, tmp_path):
        training.step()
        clone = training.parameters[2].detach().clone()
        after_one = clone.numpy().copy()
        training.step()
        training.step()
        saved = training.optimizer.state_dict()
    assert (clone.numpy() == after_one).all()
    assert (after_one != before).any()
    assert saved["state"][0]["step"] == 3
    training.step()
    assert training.values() == wanted


@pytest.mark.parametrize("failing", range(0, 24, 3))
def test_after_a_full_disk_nothing_has_changed(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training("Adam")
    plain = Training("Adam")
    for each in (training, plain):
        each.step()
    before = training.values()
    training.set_gradients()
    write = SpillFile.write
    count = 0

    def limited(self: SpillFile, data: Any) -> Any:
        nonlocal count
        count += 1
        if count > failing:
            raise SpillError(28, "the disk is full", str(tmp_path))
        return write(self, data)

    with training.budget(2.5, tmp_path):
        training.crowd_out()
        monkeypatch.setattr(SpillFile, "write", limited)
        with pytest.raises((SpillError, OutOfMemoryError)):
            training.optimizer.step()
        monkeypatch.undo()
        training.optimizer.step()
    plain.step()
    assert training.values() == plain.values()
    assert training.values() != before


@pytest.mark.parametrize("kind", ["Adam", "momentum"])
def test_an_interrupt_leaves_all_as_before_or_after_the_step(kind: str, tmp_path: Path) -> None:
    before, after = expected(kind, 0), expected(kind, 1)
    outcomes = []
    for event in sorted({int(1.3**i) for i in range(27)}):
        training = Training(kind)
        training.set_gradients()
        with training.budget(2.4, tmp_path):
            training.crowd_out()
            is_stopped = interrupted_at(event, training.optimizer.step)
            found = training.values()
        assert found in ((before, after) if is_stopped else (after,))
        outcomes.append(found == before)
        del training  # the next one's budget does not count it
    assert sum(outcomes) > 10


def test_a_tensor_that_is_used_during_the_step_leaves_all_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training("Adam")
    training.step()
    before = training.values()
    training.set_gradients()
    formula = type(training.optimizer)._formula

    def reading(self: Any, *args: Any) -> None:
        training.parameters[0].sum().item()
        formula(self, *args)

    with training.budget(2.9, tmp_path):
        training.crowd_out()
        monkeypatch.setattr(nn.optim.Adam, "_formula", reading)
        with pytest.raises(RuntimeError, match="during its step"):
            training.optimizer.step()
        monkeypatch.undo()
        assert training.values() == before
        training.optimizer.step()
    assert training.values() == expected("Adam", 2)


def test_parameters_that_share_memory_need_all_of_it(tmp_path: Path) -> None:
    training = Training("Adam")
    training.step()
    training.set_gradients()
    views = [parameter.detach()[:1] for parameter in training.parameters]
    before = training.values()
    with training.budget(2.5, tmp_path):
        training.crowd_out(1.0)
        with pytest.raises(OutOfMemoryError):
            training.optimizer.step()
        assert training.values() == before
    del views


def test_without_a_file_the_step_raises_as_before() -> None:
    training = Training("Adam")
    training.set_gradients()
    before = training.values()
    with memory.budget(memory.statistics().bytes_live + MOST), pytest.raises(OutOfMemoryError):
        training.optimizer.step()
    assert training.values() == before
