"""Tensors that move to the file of a budget while other code reads, writes or shares their memory."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tensor import Tensor, memory
from tensor.core.tensor import view_of, wrap
from tensor.memory.buffer import empty

pytestmark = pytest.mark.usefixtures("fresh_allocator")

SIDE = 128
NBYTES = SIDE * SIDE * 4
FLOAT32 = np.dtype(np.float32)


def budget_of(nbytes: int, folder: Path) -> memory.budget:
    """Return a budget of `nbytes` beside what is live now."""
    gc.collect()
    memory.trim()
    return memory.budget(memory.statistics().bytes_live + nbytes, spill=folder)


def full(value: float) -> Tensor:
    return tensor.full((SIDE, SIDE), float(value))


def is_full(x: Tensor, value: float) -> bool:
    """Return whether each element is `value`. A comparison by an op would need memory of the budget."""
    return bool((x._live_array() == value).all())


def press(count: int = 1) -> bool:
    """Ask for the memory of `count` tensors, and return whether it was there."""
    try:
        tensor.empty((count, SIDE, SIDE)).dispose()
    except memory.OutOfMemoryError:
        return False
    return True


# --- Operands of a running op -------------------------------------------------------------------------------


def test_a_tensor_whose_array_an_op_holds_gets_the_same_memory_back(tmp_path):
    x = full(1)
    with budget_of(0, tmp_path) as budget:
        operand = x._live_array()
        assert not press()
        assert budget.statistics().spilled_bytes == NBYTES
        assert (operand == 1).all()
        x.add_(1)
        assert (operand == 2).all()
        assert budget.statistics().read_bytes == 0
        del operand
        assert press()
        assert is_full(x, 2)
        assert budget.statistics().read_bytes == NBYTES


def test_a_column_major_tensor_gets_the_same_memory_back(tmp_path):
    x = tensor.tensor(np.asfortranarray(np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)))
    wanted = x.tolist()
    with budget_of(0, tmp_path) as budget:
        root = x._buffer.root
        assert not press()
        assert np.shares_memory(root, x._live_array())
        assert x.stride() == (1, SIDE)
        assert x.tolist() == wanted
        assert budget.statistics().read_bytes == 0


@pytest.mark.parametrize(
    "part_of",
    [lambda x: x.permute(1, 0, 2), lambda x: x[:, ::2], lambda x: x[1:]],
    ids=["in another order", "with gaps", "after a gap"],
)
def test_a_tensor_that_does_not_cover_its_memory_in_order_stays(part_of, tmp_path):
    whole = tensor.arange(SIDE * SIDE, dtype="float32").reshape(4, SIDE // 4, SIDE).clone()
    x = part_of(whole)
    whole.dispose()
    wanted, stride = x.tolist(), x.stride()
    with budget_of(0, tmp_path) as budget:
        assert not press()
        assert (x.tolist(), x.stride()) == (wanted, stride)
        assert budget.statistics().spilled_bytes == 0


def test_operands_of_the_last_op_are_evicted_last(tmp_path):
    x, y = full(1), full(2)
    with budget_of(0, tmp_path) as budget:
        x._live_array()
        assert press()
        assert budget.statistics().spilled_bytes == NBYTES
        assert is_full(x, 1)
        assert budget.statistics().read_bytes == 0
        assert is_full(y, 2)
        assert budget.statistics().read_bytes == NBYTES


def test_a_view_made_after_its_tensor_moved_shares_the_memory(tmp_path):
    block = empty((SIDE, SIDE), FLOAT32)
    block[...] = 1
    x = wrap(block)
    with budget_of(0, tmp_path):
        row = block[3]
        assert not press()  # `block` keeps the memory
        view = view_of(x, block, row)
        view.zero_()
        assert x._live_array().sum() == SIDE * (SIDE - 1)


def test_a_bfloat16_tensor_in_the_file_is_an_operand_as_before(tmp_path):
    x = tensor.ones((SIDE, 2 * SIDE), dtype=tensor.bfloat16)
    with budget_of(0, tmp_path) as budget:
        assert press()
        assert budget.statistics().spilled_bytes == NBYTES
    y = nn.functional.softmax(x, dim=0)
    assert y.dtype == tensor.bfloat16
    assert (y.float() == 1 / SIDE).all()


# --- Exports ------------------------------------------------------------------------------------------------


def test_an_exported_tensor_stays(tmp_path):
    x = full(1)
    with budget_of(0, tmp_path) as budget:
        array = x.numpy()
        assert not press()
        assert budget.statistics().spilled_bytes == 0
        array[...] = 2
        assert is_full(x, 2)
        del array
        assert press()
    assert is_full(x, 2)


def test_writes_through_an_export_during_the_write_to_the_file_are_kept(tmp_path, monkeypatch):
    x = full(1)
    with budget_of(0, tmp_path) as budget:
        tape: Any = budget._tape
        write = type(tape)._filed

        def write_and_export(self: Any, array: Any) -> Any:
            filed = write(self, array)
            x.numpy()[...] = 2
            return filed

        monkeypatch.setattr(type(tape), "_filed", write_and_export)
        assert not press()
    assert is_full(x, 2)


def test_a_read_during_the_write_to_the_file_changes_nothing(tmp_path, monkeypatch):
    x = full(1)
    with budget_of(0, tmp_path) as budget:
        tape: Any = budget._tape
        write = type(tape)._filed

        def write_and_clone(self: Any, array: Any) -> Any:
            filed = write(self, array)
            clones.append(x.clone())
            return filed

        clones: list[Tensor] = []
        monkeypatch.setattr(type(tape), "_filed", write_and_clone)
        assert not press()
    x.add_(1)
    assert is_full(clones[0], 1)
    assert is_full(x, 2)


# --- Parameters ---------------------------------------------------------------------------------------------


def test_a_deep_network_predicts_in_the_memory_of_a_few_layers(tmp_path):
    model = nn.Sequential(*[nn.Linear(SIDE, SIDE) for _ in range(12)])
    x = tensor.randn(SIDE, SIDE)
    with tensor.no_grad():
        wanted = model(x).tolist()
        room = memory.statistics().bytes_live - 8 * NBYTES
        with memory.budget(room, spill=tmp_path) as budget:
            assert model(x).tolist() == wanted
            assert model(x).tolist() == wanted
            assert memory.statistics().bytes_live <= room
    assert budget.statistics().spilled_bytes > 0


def test_parameters_leave_after_gradients_and_state(tmp_path):
    weight = nn.Parameter(full(1))
    state = full(2)
    with budget_of(0, tmp_path) as budget:
        assert press()
        assert is_full(weight, 1)
        assert budget.statistics().read_bytes == 0
        assert is_full(state, 2)
        assert budget.statistics().read_bytes == NBYTES


# --- Tensors whose values are saved too ---------------------------------------------------------------------


@pytest.mark.parametrize("recompute", [False, True])
def test_data_and_parameters_leave_together_with_what_is_saved_of_them(recompute, tmp_path):
    x, w = full(2), nn.Parameter(full(3))
    gc.collect()
    limit = memory.statistics().bytes_live + 4 * NBYTES
    with memory.budget(limit, spill=tmp_path, recompute=recompute) as budget:
        y = x @ w
        assert press(5)
        assert budget.statistics().spilled_bytes == 2 * NBYTES
        x.add_(1)
        with tensor.no_grad():
            w.add_(1)
        y.sum().backward()
        assert is_full(x, 3)
        assert is_full(w, 4)
        assert w.grad is not None
        assert is_full(w.grad, 2 * SIDE)


def test_saved_data_with_a_view_stays(tmp_path):
    x, w = full(2), nn.Parameter(full(3))
    view = x[0]
    with budget_of(3 * NBYTES, tmp_path) as budget:
        y = x @ w
        assert press(3)
        assert budget.statistics().spilled_bytes == NBYTES  # those of `w`
        assert not press(4)
        view.fill_(1)
    y.sum().backward()
    assert w.grad is not None
    assert is_full(w.grad, 2 * SIDE)
    assert x._live_array()[0].sum() == SIDE


def test_data_that_is_disposed_while_it_goes_to_the_file_leaves_backward_whole(tmp_path, monkeypatch):
    x, w = full(2), nn.Parameter(full(3))
    with budget_of(3 * NBYTES, tmp_path) as budget:
        y = x @ w
        write = type(budget)._write

        def write_and_dispose(self: Any, data: Any) -> Any:
            handle = write(self, data)
            x.dispose()
            return handle

        monkeypatch.setattr(type(budget), "_write", write_and_dispose)
        press(4)
        y.sum().backward()
    assert w.grad is not None
    assert is_full(w.grad, 2 * SIDE)


# --- Random programs ----------------------------------------------------------------------------------------


class Program:
    """Tensors beside the NumPy arrays that they must equal."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.tensors = [full(i) for i in range(4)]
        self.arrays = [np.full((SIDE, SIDE), i, np.float32) for i in range(4)]
        # Arrays that hold memory for some steps, as running ops do: each with a copy of its values.
        self.read: list[tuple[Any, Any]] = []
        # Exported arrays, each with the number of its tensor.
        self.exported: list[tuple[Any, int]] = []

    def step(self) -> None:
        i = self.draw.randrange(len(self.tensors))
        getattr(self, "do_" + self.draw.choice(STEPS))(i, self.tensors[i], self.arrays[i])

    def do_add(self, i: int, x: Tensor, a: Any) -> None:
        self.read = [(held, copy) for held, copy in self.read if not np.shares_memory(held, x._live_array())]
        x.add_(1)
        a += 1

    def do_write_row(self, i: int, x: Tensor, a: Any) -> None:
        self.read = [(held, copy) for held, copy in self.read if not np.shares_memory(held, x._live_array())]
        x[3] = float(i)
        a[3] = i

    def do_sum(self, i: int, x: Tensor, a: Any) -> None:
        assert x[0, :4].sum().item() == a[0, :4].sum()

    def do_clone(self, i: int, x: Tensor, a: Any) -> None:
        k = self.draw.randrange(len(self.tensors))
        self.exported = [(out, n) for out, n in self.exported if n != k]
        self.tensors[k], self.arrays[k] = x.clone(), a.copy()

    def do_move(self, i: int, x: Tensor, a: Any) -> None:
        self.tensors[i] = Tensor.from_handle(x.move_handle())

    def do_replace(self, i: int, x: Tensor, a: Any) -> None:
        self.exported = [(out, n) for out, n in self.exported if n != i]
        x.dispose()
        self.tensors[i], self.arrays[i] = full(i), np.full((SIDE, SIDE), i, np.float32)

    def do_export(self, i: int, x: Tensor, a: Any) -> None:
        self.exported.append((x.numpy(), i))

    def do_write_export(self, i: int, x: Tensor, a: Any) -> None:
        if self.exported:
            out, n = self.exported.pop()
            out[1] = 7
            self.arrays[n][1] = 7
            self.read = [(held, copy) for held, copy in self.read if not np.shares_memory(held, out)]

    def do_read(self, i: int, x: Tensor, a: Any) -> None:
        self.read.append((x._live_array(), a.copy()))

    def do_end_read(self, i: int, x: Tensor, a: Any) -> None:
        if self.read:
            held, copy = self.read.pop(0)
            assert (held == copy).all()

    def do_press(self, i: int, x: Tensor, a: Any) -> None:
        press(self.draw.randrange(1, 4))

    def check(self) -> None:
        for held, copy in self.read:
            assert (held == copy).all()
        for x, a in zip(self.tensors, self.arrays, strict=True):
            assert (x.detach().numpy() == a).all()


STEPS = [name.removeprefix("do_") for name in vars(Program) if name.startswith("do_")] + ["press"] * 3


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program_has_the_values_that_numpy_has(seed, tmp_path):
    program = Program(seed)
    spilled = 0
    with budget_of(NBYTES, tmp_path) as budget:
        for _ in range(150):
            try:
                program.step()
            except memory.OutOfMemoryError:
                program.read.clear()
                program.exported.clear()
        spilled = budget.statistics().spilled_bytes
    program.check()
    assert spilled > 0


# --- Threads ------------------------------------------------------------------------------------------------


def run_together(*functions: Callable[[], None]) -> None:
    """Run each function on a thread of its own, and raise the first error."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], None]) -> None:
        start.wait()
        try:
            function()
        except BaseException as error:  # noqa: BLE001  # raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def until_it_fits(function: Callable[[], Any]) -> Any:
    """Return ``function()``, called again while other threads hold the memory that it needs."""
    while True:
        try:
            return function()
        except memory.OutOfMemoryError:
            pass


def test_tensors_that_threads_write_while_others_press_lose_no_write(tmp_path):
    rounds, state = 60, [full(i) for i in range(3)]

    def add(x: Tensor) -> Callable[[], None]:
        def run() -> None:
            for _ in range(rounds):
                until_it_fits(lambda: x.add_(1))

        return run

    def export_and_add() -> None:
        for _ in range(rounds):
            array = until_it_fits(state[2].numpy)
            array += 1
            del array

    def press_often() -> None:
        for _ in range(2 * rounds):
            press(2)

    with budget_of(NBYTES, tmp_path) as budget:
        run_together(add(state[0]), add(state[1]), export_and_add, press_often, press_often)
        assert budget.statistics().spilled_bytes > 0
    for i, x in enumerate(state):
        assert is_full(x, i + rounds)


def test_threads_read_the_right_values_while_others_press(tmp_path):
    state = [full(i) for i in range(4)]

    def read() -> None:
        for i in range(100):
            n = i % len(state)
            assert until_it_fits(lambda n=n: (state[n] + 1).sum().item()) == (n + 1) * SIDE * SIDE
            assert until_it_fits(lambda n=n: state[n][5].tolist()) == [n] * SIDE

    def press_often() -> None:
        for _ in range(100):
            press(2)

    with budget_of(NBYTES, tmp_path) as budget:
        run_together(read, read, press_often)
        assert budget.statistics().spilled_bytes > 0
