"""Programs that need more memory than they may have: where they stop, and that they can go on."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import scopes
import tensor
from scopes import current_dispose_scope, new_dispose_scope
from scopes.lowlevel import format_bytes
from tensor import Tensor, memory
from tensor.memory.allocator import is_counted

pytestmark = pytest.mark.usefixtures("fresh_allocator")

MIB = 2**20
LARGE = 8_000_000


def live() -> int:
    gc.collect()  # or the limit would, of what the test before has left
    return memory.statistics().bytes_live


def of(number: float, nbytes: int = LARGE) -> Tensor:
    return tensor.full((nbytes // 4,), number, dtype="float32")


def is_all(x: Tensor, number: float) -> bool:
    values = x.detach().numpy()
    return bool(values.min() == values.max() == number)


def fill_up(kept: list[Tensor]) -> tuple[str | None, ...]:
    """Compute until memory is used up; return the lines of this file where it stopped."""
    try:
        while True:
            x = of(len(kept))
            y = x * 2 + 1
            x.add_(y)
            kept.append(x)
    except memory.OutOfMemoryError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return tuple([frame.line for frame in frames if frame.filename == __file__])


def test_a_loop_that_needs_more_fails_at_the_same_line_each_time_and_all_that_lives_is_whole() -> None:
    rounds = []
    for _ in range(3):
        kept: list[Tensor] = []
        with memory.limit("256 MiB"):
            stops = fill_up(kept)
            rounds.append((len(kept), stops, live()))
            assert all(is_all(x, 3 * i + 1) for i, x in enumerate(kept))
            assert live() <= 256 * MIB
    assert rounds[0] == rounds[1] == rounds[2]
    assert rounds[0][0] == 30  # 33 fit in; a step needs four beside what is kept
    assert rounds[0][1][-1] == "y = x * 2 + 1"


def test_a_scope_that_ended_makes_room_for_the_next() -> None:
    with memory.limit("256 MiB"):
        with new_dispose_scope() as outer:
            kept: list[Tensor] = []
            before = of(7)
            for _ in range(3):
                refused: list[Tensor] = []
                with new_dispose_scope():
                    fill_up(refused)
                    assert len(refused) == 29
                assert all(x.is_invalid for x in refused)
                kept.append(of(5, 1000))
            assert is_all(before, 7)
            assert all(is_all(x, 5) for x in kept)
            assert len(outer) == 4


def test_a_cycle_that_holds_half_of_the_memory_is_collected_in_time() -> None:
    class Epoch:
        def __init__(self, number: int) -> None:
            self.me = self
            self.x = of(number, 128 * MIB)

    gc.disable()
    try:
        with memory.limit("256 MiB"):
            for number in range(8):
                Epoch(number)
            x = of(3, 128 * MIB)
            assert is_all(x, 3)
    finally:
        gc.enable()


class Ending:
    """Garbage that holds memory, and whose finalizer works with tensors and leaves settings behind."""

    def __init__(self, seen: list[Any]) -> None:
        self.me = self
        self.seen = seen
        self.x = of(1, 4 * MIB)

    def __del__(self) -> None:
        y = of(3, 8) + 1
        weight = tensor.ones((2,), requires_grad=True)
        (weight * 2).sum().backward()
        self.seen += [y.owning_dispose_scope, y[0].item(), weight.grad.tolist(), is_counted(np.ones(MIB))]
        new_dispose_scope("left open")
        tensor.set_grad_enabled(False)
        np.seterr(all="raise")


@pytest.mark.parametrize("work", [lambda x: x * 2, lambda x: x.sort(), lambda x: x[::2].clone().mul_(2)])
def test_finalizers_that_a_limit_calls_inside_a_kernel_leave_nothing_set_there_or_here(work) -> None:
    seen: list[Any] = []
    x = of(2, 4 * MIB)
    gc.collect()
    gc.disable()
    try:
        with new_dispose_scope("mine") as scope:
            for _ in range(3):
                Ending(seen)
                with (
                    contextlib.suppress(memory.OutOfMemoryError),
                    memory.limit(memory.statistics().bytes_live + 100),
                ):
                    work(x)
                assert seen == [None, 4, [2, 2], False]
                seen.clear()
                assert current_dispose_scope() is scope
                assert tensor.is_grad_enabled()
                assert np.geterr()["divide"] == "warn"
                assert not (of(1, 2 * MIB) / 0).isfinite().any()
    finally:
        gc.enable()


@pytest.mark.parametrize("nbytes", [40, 1000, 4096, 30_000])
def test_small_tensors_are_refused_when_their_sum_exceeds_the_limit(nbytes: int) -> None:
    rounds = []
    for _ in range(2):
        kept: list[Tensor] = []
        with memory.limit(live() + MIB):
            while True:
                try:
                    kept.append(of(len(kept), nbytes))
                except memory.OutOfMemoryError:
                    break
            rounds.append(len(kept))
            assert all(is_all(x, i) for i, x in enumerate(kept))
            del kept[1::2]
            kept += [of(2, nbytes) for _ in range(rounds[0] - len(kept))]
            with pytest.raises(memory.OutOfMemoryError):
                of(2, nbytes)
    assert rounds == [MIB // nbytes] * 2


@pytest.mark.parametrize("nbytes", [1000, LARGE])
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.__setitem__(0, 5.0),
        lambda x: x.__setitem__(slice(2), tensor.ones((2,))),
        lambda x: x.fill_(4),
        lambda x: tensor.exp(x, out=x),
        lambda x: x.numpy(),
        lambda x: x[1:].zero_(),
    ],
)
def test_a_write_whose_copy_is_refused_leaves_both_sides_unchanged(
    nbytes: int, write: Callable[[Tensor], object]
) -> None:
    x = of(1, nbytes)
    clone = x.clone()
    before = live()
    with memory.limit(before):
        with pytest.raises(memory.OutOfMemoryError):
            write(x)
    assert live() == before
    assert is_all(x.clone(), 1)
    assert is_all(clone, 1)
    write(x)
    assert is_all(clone, 1)


@pytest.mark.parametrize("nbytes", [1000, LARGE])
@pytest.mark.parametrize("op", ["exp_", "sigmoid_", "sqrt_"])
def test_a_recorded_write_whose_result_can_not_be_saved_changes_no_value_and_no_history(
    nbytes: int, op: str
) -> None:
    x = of(0.5, nbytes).requires_grad_()
    y = x * 2
    exported = y.detach().numpy()  # so that the result must be copied for backward
    history = y.grad_fn
    with memory.limit(live()):
        with pytest.raises(memory.OutOfMemoryError):
            getattr(y, op)()
    assert (y.grad_fn, exported.min(), exported.max()) == (history, 1, 1)
    getattr(y, op)()
    exported[:] = 0
    y.sum().backward()
    expected = of(0.5, nbytes).requires_grad_()
    getattr(expected * 2, op[:-1])().sum().backward()
    assert is_all(x.grad, expected.grad[0].item())


OPTIMIZERS: dict[str, Callable[..., nn.optim.Optimizer]] = {
    "momentum": lambda parameters: nn.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": nn.optim.Adam,
    "rmsprop": lambda parameters: nn.optim.RMSprop(parameters, momentum=0.9, centered=True),
}


class Training:
    """A network, its optimizer, and a step of them that may be refused."""

    def __init__(self, optimizer: str) -> None:
        tensor.manual_seed(0)
        layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
        self.model = nn.Sequential(*layers)
        self.parameters = list(self.model.parameters())
        self.optimizer = OPTIMIZERS[optimizer](self.parameters)
        rng = np.random.default_rng(0)
        self.inputs = tensor.tensor(rng.standard_normal((128, 784), np.float32))
        self.targets = tensor.tensor(rng.integers(0, 10, 128))
        self.phase = ""

    def step(self) -> None:
        with new_dispose_scope():
            self.phase = "forward"
            loss = nn.functional.cross_entropy(self.model(self.inputs), self.targets)
            self.phase = "backward"
            loss.backward()
            self.phase = "update"
            self.optimizer.step()
            self.phase = "done"

    def is_refused_with(self, more: int) -> bool:
        memory.trim()
        with memory.limit(live() + more):
            try:
                self.step()
            except memory.OutOfMemoryError:
                return True
        return False

    def values(self) -> list[np.ndarray]:
        """Return copies of all parameters, gradients and state."""
        found = [np.array(x.detach()) for x in self.parameters]
        found += [np.array(x.grad) for x in self.parameters if x.grad is not None]
        for x in self.parameters:
            for value in self.optimizer.state.get(x, {}).values():
                found.append(np.array(value))
        return found


def are_equal(some: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return len(some) == len(others) and all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_over_the_limit_leaves_parameters_gradients_and_state_whole(optimizer: str) -> None:
    training, reference = Training(optimizer), Training(optimizer)
    for run in (training, reference):
        run.step()
    phases = set()
    more = 0
    before = training.values()
    while training.is_refused_with(more):
        phases.add(training.phase)
        assert are_equal(training.values(), before)
        more += 150_000
    assert phases >= {"forward", "backward"}
    # The step that was let through is what it would have been without the others.
    reference.step()
    assert are_equal(training.values(), reference.values())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_first_update_over_the_limit_is_made_in_whole_or_not_at_all(optimizer: str) -> None:
    training, reference = Training(optimizer), Training(optimizer)
    reference.step()
    more = 0
    before = [np.array(x.detach()) for x in training.parameters]
    phases = set()
    while training.is_refused_with(more):
        phases.add(training.phase)
        assert are_equal([np.array(x.detach()) for x in training.parameters], before)
        training.optimizer.zero_grad()
        more += 100_000
    assert "update" in phases
    assert are_equal(training.values(), reference.values())


def test_limits_of_several_threads_hold_for_all_of_them_and_end_with_each() -> None:
    steps = [threading.Barrier(2, timeout=300) for _ in range(4)]
    refused: list[bool] = []

    def is_refused(nbytes: int) -> bool:
        try:
            of(1, nbytes)
        except memory.OutOfMemoryError:
            return True
        return False

    def work() -> None:
        with memory.limit(start + 4 * LARGE):
            steps[0].wait()
            steps[1].wait()
            refused.append(is_refused(3 * LARGE))  # the other thread's limit
        steps[2].wait()
        steps[3].wait()

    start = live()
    thread = threading.Thread(target=work)
    thread.start()
    steps[0].wait()
    with memory.limit(start + 2 * LARGE):
        assert is_refused(3 * LARGE)
        assert not is_refused(LARGE)
        steps[1].wait()
        steps[2].wait()
        with memory.limit(start + 9 * LARGE):
            assert is_refused(3 * LARGE)
    assert not is_refused(20 * LARGE)
    steps[3].wait()
    thread.join()
    assert refused == [True]


def test_naming_the_holders_disturbs_no_other_thread() -> None:
    # Tuples that are being made must have one reference: who lists all objects breaks them (a SystemError).
    is_over = threading.Event()
    broken: list[BaseException] = []

    def make_tuples() -> None:
        while not is_over.is_set():
            try:
                tuple(i for i in range(300))
            except SystemError as error:
                broken.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=make_tuples)
    thread.start()
    try:
        with memory.limit(live() + 1000):
            for _ in range(20):
                with pytest.raises(memory.OutOfMemoryError):
                    tensor.zeros((1_000_000,))
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert broken == []


def test_the_largest_are_named_below_the_pools_sizes_too_and_memory_of_others_is_not() -> None:
    large, small, tiny = tensor.ones((400, 400)), tensor.ones((300, 300)), tensor.ones((10,))
    theirs = tensor.from_numpy(np.ones((200, 200)))
    with memory.limit(live() + 1000), pytest.raises(memory.OutOfMemoryError) as caught:
        tensor.zeros((1_000_000,))
    *named, rest = caught.value.holders
    assert "1 x float32[400, 400], 625 KiB (held by Tensor)" in named
    assert "1 x float32[300, 300], 351.6 KiB (held by Tensor)" in named
    assert "smaller buffer" in rest
    assert not any("200, 200" in holder for holder in named)
    del large, small, tiny, theirs


def test_holders_beyond_the_largest_five_are_counted_together() -> None:
    # In a process of its own, because other modules of tests hold tensors too.
    program = """if True:
        import tensor
        from tensor import memory

        kept = [tensor.ones((100_000 + size,)) for size in range(8)]
        kept.append(tensor.ones((10,)))
        with memory.limit("4 MB"):
            try:
                tensor.zeros((1_000_000,))
            except memory.OutOfMemoryError as error:
                print(*error.holders, sep="\\n")
    """
    told = subprocess.check_output([sys.executable, "-c", program], text=True)
    *named, rest = told.splitlines()
    assert [holder.partition(",")[0] for holder in named] == [
        f"1 x float32[{100_000 + size}]" for size in range(7, 2, -1)
    ]
    assert rest == f"4 smaller buffers, {format_bytes(4 * (100_000 + 100_001 + 100_002 + 10))}"


def test_naming_the_holders_keeps_none_of_them() -> None:
    gc.collect()
    gc.disable()
    try:
        start = live()
        x, y = tensor.ones((400, 400)), tensor.ones((100, 100))
        with memory.limit(live() + 1000), pytest.raises(memory.OutOfMemoryError, match="held by Tensor"):
            tensor.zeros((1_000_000,))
        del x, y
        assert live() == start
    finally:
        gc.enable()


HUGE = 2**46  # elements, more than any address space has


@pytest.mark.parametrize(
    "call",
    [
        lambda: tensor.arange(HUGE),
        lambda: tensor.linspace(0, 1, HUGE),
        lambda: tensor.eye(2**23),
        lambda: tensor.rand(HUGE),
        lambda: tensor.randn(HUGE, dtype="float64"),
        lambda: tensor.randperm(HUGE),
        lambda: tensor.normal(0.0, 1.0, (HUGE,)),
        lambda: tensor.multinomial(tensor.ones((2,)), HUGE, replacement=True),
        lambda: tensor.tile(tensor.ones((2,)), (HUGE,)),
        lambda: tensor.ones((2,)).repeat(HUGE),
        lambda: tensor.ones((2,)).repeat_interleave(HUGE),
        lambda: tensor.ones((1,)).expand(HUGE).sort(),
        lambda: tensor.ones((1,)).expand(HUGE).topk(1),
        lambda: tensor.ones((1,)).expand(HUGE).unique(),
    ],
)
def test_a_memory_error_of_numpy_becomes_an_out_of_memory_error(call):
    with pytest.raises(tensor.OutOfMemoryError, match="the system does not have enough memory") as caught:
        call()
    assert caught.value.asked >= HUGE
    assert caught.value.__context__ is None


def test_the_error_of_a_limit_names_the_lines_while_tracking_is_on() -> None:
    def hold() -> list[tensor.Tensor]:
        return [tensor.ones((100_000,)) for _ in range(3)]

    with scopes.track():
        kept = hold()
        with memory.limit("2 MiB"), pytest.raises(tensor.OutOfMemoryError) as caught:
            tensor.ones((1_000_000,))
    text = str(caught.value)
    assert "The lines that created most: " in text
    assert "test_memory_limits.py" in text
    assert "hold" in text
    assert "(1.144 MiB)" in text
    assert len(kept) == 3


def test_a_limit_beside_reserved_memory_is_the_reason_that_the_error_gives() -> None:
    # The rest of the limit is for the reserved bytes, which this tensor does not fit into.
    with (
        memory.limit(live() + 10 * MIB),
        memory.reserve(8 * MIB),
        pytest.raises(memory.OutOfMemoryError, match="the limit of memory is") as caught,
    ):
        of(1.0, 9 * MIB)
    assert caught.value.limit is not None


def test_a_limit_that_limits_nothing_warns() -> None:
    with pytest.warns(
        RuntimeWarning, match=r"limited nothing.* write `with memory\.limit\(\.\.\.\):`"
    ) as found:
        memory.limit("1 TiB")
    assert [each.filename for each in found] == [__file__]


@pytest.mark.filterwarnings("error")
def test_a_limit_of_a_block_or_a_function_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    with memory.limit("1 TiB"):
        pass
    assert memory.limit("1 TiB")(len)([1]) == 1
    with pytest.raises(ValueError, match="limit"):
        memory.limit("much")
    gc.collect()
    assert not recwarn.list
