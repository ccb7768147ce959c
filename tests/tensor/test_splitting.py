"""Batches that do not fit: pieces give the same loss and gradients, and a failed try leaves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import nn
import tensor
from nn.functional import cross_entropy, mse_loss
from scopes import new_dispose_scope
from tensor import OutOfMemoryError, Tensor, memory

pytestmark = pytest.mark.usefixtures("fresh_allocator")


class Network:
    """A network, a batch of 1601 rows, and what the whole batch gives."""

    def __init__(self, *layers: nn.Module, reduction: str = "mean") -> None:
        tensor.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(20, 400), *layers, nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 5)
        )
        self.reduction = reduction
        rng = np.random.default_rng(0)
        self.x = tensor.tensor(rng.standard_normal((1601, 20), np.float32))
        self.y = tensor.tensor(rng.integers(0, 5, 1601))
        with memory.measure() as used:
            self.expected = self.loss(self.x, self.y)
            self.expected.backward()
        self.needed = used.peak_bytes_change
        self.gradients = self.taken()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.model(x), y, reduction=self.reduction)

    def taken(self) -> list[np.ndarray]:
        gradients = [parameter.grad.numpy().copy() for parameter in self.model.parameters()]
        self.model.zero_grad()
        return gradients

    def limit(self, part: float) -> memory.limit:
        """Return a limit of a part of what the batch needs."""
        memory.trim()
        return memory.limit(memory.statistics().bytes_live + int(part * self.needed))


def assert_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max())


def no_memory() -> None:
    """Ask for more than a limit allows."""
    with memory.limit(1):
        tensor.ones((1000, 1000))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("part", [0.75, 0.5])
def test_batch_that_does_not_fit_gives_the_same_loss_and_gradients(part: float, reduction: Any) -> None:
    network = Network(reduction=reduction)
    split = memory.splitting("x", "y", reduction=reduction)
    loss_of = split(network.loss)
    with pytest.raises(OutOfMemoryError), network.limit(part):
        network.loss(network.x, network.y).backward()
    network.model.zero_grad()
    with network.limit(part):
        loss = loss_of(network.x, network.y)
    assert split.piece_count > 1
    assert loss.grad_fn is None
    assert loss.item() == pytest.approx(network.expected.item(), rel=1e-6)
    assert_close(network.taken(), network.gradients)


def test_batch_that_fits_gives_the_same_bits() -> None:
    network = Network()
    split = memory.splitting("x", "y")
    loss = split(network.loss)(network.x, network.y)
    assert (split.piece_count, split.rows, split.shortage_count) == (1, None, 0)
    assert loss.item() == network.expected.item()
    assert all((a == b).all() for a, b in zip(network.taken(), network.gradients, strict=True))


def test_failed_try_gives_all_its_memory_back() -> None:
    starts, kept = [], []

    @memory.splitting("x")
    def loss_of(x: Tensor, w: Tensor) -> Tensor:
        starts.append((len(x), memory.statistics().bytes_live))
        y = x @ w
        cycle: list[Any] = [y]
        cycle.append(cycle)
        if len(x) > 100:
            try:
                raise ValueError("the frame of this traceback holds a tensor")
            except ValueError:
                no_memory()
        kept.append(y.detach().sum().item())
        return y.square().mean()

    w = tensor.ones((300, 300), requires_grad=True)
    with new_dispose_scope():
        loss_of(tensor.ones((300, 300)), w)
    before = starts[0][1]
    assert [rows for rows, _ in starts] == [300, 150, 75, 75, 75, 75]
    assert [live for _, live in starts[:3]] == [before, before, before]


def test_error_of_the_caller_keeps_its_variables() -> None:
    @memory.splitting("x")
    def loss_of(x: Tensor) -> Tensor:
        if len(x) > 2:
            no_memory()
        return x.sum()

    def fail() -> None:
        local = "still here"
        raise ValueError(local)

    try:
        fail()
    except ValueError as error:
        with tensor.no_grad():
            loss_of(tensor.ones((4,)))
        trace = error.__traceback__
    assert trace is not None
    assert trace.tb_next is not None
    assert trace.tb_next.tb_frame.f_locals["local"] == "still here"


@pytest.mark.parametrize("part", [2.0, 0.6])
def test_gradients_from_before_are_added_in_place(part: float) -> None:
    network = Network()
    before = [tensor.full(p.shape, 0.5) for p in network.model.parameters()]
    for parameter, gradient in zip(network.model.parameters(), before, strict=True):
        parameter.grad = gradient
    with network.limit(part):
        memory.splitting("x", "y")(network.loss)(network.x, network.y)
    found = [p.grad for p in network.model.parameters()]
    assert all(a is b for a, b in zip(found, before, strict=True))
    expected = [g + np.float32(0.5) for g in network.gradients]
    assert_close(network.taken(), expected)


def test_training_takes_the_same_steps() -> None:
    losses = []
    for part in (10.0, 0.6):
        network = Network()
        optimizer = nn.optim.SGD(network.model.parameters(), lr=0.1, momentum=0.9)
        step = memory.splitting("x", "y")(network.loss)
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            with network.limit(part):
                found.append(step(network.x, network.y).item())
            optimizer.step()
        losses.append(found)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < losses[0][0]


# --- Errors -------------------------------------------------------------------------------------------------


def failing(error: BaseException, at: int = 2) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return a function that runs in pieces of two rows, and raises an error in one; and its weight."""
    w = tensor.ones((3,), requires_grad=True)
    calls = []

    @memory.splitting("x")
    def loss_of(x: Tensor) -> Tensor:
        if len(x) > 2:
            no_memory()
        calls.append(len(x))
        if len(calls) == at:
            raise error
        return (x * w).mean()

    return loss_of, w


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_other_errors_pass_unchanged_and_restore_gradients(error: BaseException) -> None:
    loss_of, w = failing(error)
    before = w.grad = tensor.full((3,), 7.0)
    with pytest.raises(type(error)) as caught:
        loss_of(tensor.ones((8, 3)))
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert w.grad is before
    assert before.tolist() == [7.0, 7.0, 7.0]


def test_shortage_in_a_later_piece_begins_again_with_smaller_pieces() -> None:
    loss_of, w = failing(MemoryError(), at=3)
    loss_of(tensor.ones((8, 3)))
    np.testing.assert_allclose(w.grad.numpy(), [1 / 3] * 3, rtol=1e-6)


def test_a_row_that_does_not_fit_raises_the_error_and_leaves_all_as_before() -> None:
    w = tensor.ones((3,), requires_grad=True)
    before = w.grad = tensor.full((3,), 7.0)

    @memory.splitting("x")
    def loss_of(x: Tensor) -> Tensor:
        tensor.rand(5)
        no_memory()
        return (x * w).mean()

    tensor.manual_seed(1)
    expected = tensor.rand(2).tolist()
    tensor.manual_seed(1)
    with pytest.raises(OutOfMemoryError) as caught:
        loss_of(tensor.ones((5, 3)))
    assert caught.value.__notes__ == ["The batch can't be split: it was tried with one row at a time"]
    assert w.grad is before
    assert tensor.rand(2).tolist() == expected


def test_pieces_draw_the_random_numbers_that_the_failed_try_drew() -> None:
    drawn: list[list[float]] = []

    @memory.splitting("x")
    def loss_of(x: Tensor) -> Tensor:
        drawn.append(tensor.rand(len(x)).tolist())
        if len(x) > 3:
            no_memory()
        return x.sum()

    with tensor.no_grad():
        loss_of(tensor.ones((6,)))
    assert drawn[0] == drawn[1] + drawn[2]


def test_batch_norm_in_training_is_refused() -> None:
    network = Network(nn.BatchNorm1d(400))
    loss_of = memory.splitting("x", "y")(network.loss)
    with pytest.raises(OutOfMemoryError) as caught, network.limit(0.6):
        loss_of(network.x, network.y)
    assert "batch_norm in training uses the mean and variance" in caught.value.__notes__[0]
    assert all(p.grad is None for p in network.model.parameters())


def test_batch_norm_in_eval_mode_and_instance_norm_are_split() -> None:
    layers = nn.Unflatten(1, (4, 100)), nn.InstanceNorm1d(4), nn.Flatten()
    network = Network(*layers, nn.BatchNorm1d(400).eval())
    split = memory.splitting("x", "y")
    with network.limit(0.6):
        split(network.loss)(network.x, network.y)
    assert split.piece_count > 1
    assert_close(network.taken(), network.gradients)


def test_batch_norm_after_a_split_call_in_eval_mode_gets_the_whole_batch() -> None:
    norm = nn.BatchNorm1d(3)
    norm.eval()
    rows = []

    split = memory.splitting("x")

    @split
    def loss_of(x: Tensor) -> Tensor:
        rows.append(len(x))
        if len(x) > 4 and not norm.training:
            no_memory()
        return norm(x).square().mean()

    x = tensor.randn(8, 3)
    loss_of(x)
    norm.train()
    loss_of(x)
    assert rows == [8, 4, 4, 4, 8]
    assert split.piece_count == 1


def test_optimizer_step_in_backward_is_refused() -> None:
    network = Network()
    for parameter in network.model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(OutOfMemoryError) as caught, network.limit(0.6):
        memory.splitting("x", "y")(network.loss)(network.x, network.y)
    # Either the whole batch ran short before backward, and a piece was refused, or in backward.
    assert "post-accumulate hook" in caught.value.__notes__[0]


def test_function_that_runs_backward_itself_gets_a_note() -> None:
    w = tensor.ones((3,), requires_grad=True)

    @memory.splitting("x")
    def loss_of(x: Tensor) -> Tensor:
        loss = (x * w).square().mean()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError) as caught:
        loss_of(tensor.ones((4, 3)))
    assert "return the loss without calling backward" in caught.value.__notes__[0]


def test_of_nested_functions_only_one_may_run_backward() -> None:
    w = tensor.ones((3,), requires_grad=True)

    @memory.splitting("x")
    def inner(x: Tensor) -> Tensor:
        if len(x) > 2:
            no_memory()
        return (x * w).mean()

    @memory.splitting("x")
    def outer(x: Tensor) -> Tensor:
        with tensor.no_grad():
            assert inner(x).item() == 1
        return inner(x)

    with pytest.raises(RuntimeError, match="decorate only the outer function"):
        outer(tensor.ones((4, 3)))
    assert w.grad is None


# --- Sizes --------------------------------------------------------------------------------------------------


def test_size_that_fitted_is_remembered_for_rows_of_the_same_shape() -> None:
    sizes = []
    split = memory.splitting("x")

    @split
    def loss_of(x: Tensor) -> Tensor:
        sizes.append(len(x))
        if x.numel() > 90:
            no_memory()
        return x.sum()

    with tensor.no_grad():
        loss_of(tensor.ones((50, 3)))
        assert (sizes, split.rows) == ([50, 25, 25], 25)
        loss_of(tensor.ones((60, 3)))
        assert sizes[3:] == [20, 20, 20]
        loss_of(tensor.ones((60, 1)))
        assert (sizes[6:], split.rows) == ([60], None)
        split.forget()
        loss_of(tensor.ones((40, 3)))
        assert sizes[7:] == [40, 20, 20]
    assert split.shortage_count == 2
    assert repr(split) == "<splitting of 'x': 20 rows at once, 2 times short>"


# --- Arguments and results ----------------------------------------------------------------------------------


class Pair(NamedTuple):
    a: Tensor
    b: Tensor | None


def test_nested_arguments_and_numpy_arrays_are_split_and_others_passed_on() -> None:
    seen = []

    @memory.splitting("pair", "more", "late", reduction="sum")
    def loss_of(
        scale: float, pair: Pair, more: dict[str, list[Any]], *, other: str = "", **rest: Any
    ) -> Tensor:
        assert pair.b is None
        seen.append((type(pair).__name__, len(pair.a), len(more["x"][0]), len(rest["late"]), other))
        if len(pair.a) > 3:
            no_memory()
        return scale * (pair.a.sum() + float(more["x"][0].sum()) + rest["late"].sum())

    with tensor.no_grad():
        loss = loss_of(
            2.0, Pair(tensor.ones(5), None), {"x": [np.ones(5)]}, other="o", late=tensor.ones((5, 2))
        )
    assert loss.item() == 40
    assert seen == [("Pair", 5, 5, 5, "o"), ("Pair", 2, 2, 2, "o"), ("Pair", 3, 3, 3, "o")]


def test_mean_over_words_counts_words() -> None:
    rng = np.random.default_rng(0)
    w = tensor.tensor(rng.standard_normal((4, 6), np.float32), requires_grad=True)
    words = tensor.tensor(rng.standard_normal((9, 5, 4), np.float32))
    labels = rng.integers(0, 6, (9, 5))
    labels[rng.random((9, 5)) < 0.6] = -100
    labels[0:2] = -100  # a piece without words

    def plain(words: Tensor, labels: Any, most: int = 9) -> Tensor:
        if len(words) > most:
            no_memory()
        return cross_entropy((words @ w).reshape(-1, 6), tensor.tensor(labels).reshape(-1))

    expected = plain(words, labels)
    expected.backward()
    gradient = w.grad.numpy().copy()
    w.grad = None

    @memory.splitting("words", "labels", count=lambda words, labels: (labels != -100).sum())
    def loss_of(words: Tensor, labels: Any) -> Tensor:
        return plain(words, labels, 2)

    assert loss_of(words, labels).item() == pytest.approx(expected.item(), rel=1e-6)
    assert_close([w.grad.numpy()], [gradient])


def test_outputs_of_pieces_are_concatenated() -> None:
    w = tensor.ones((3,), requires_grad=True)

    @memory.splitting("x")
    def loss_of(x: Tensor) -> tuple[Tensor, Tensor]:
        if len(x) > 2:
            no_memory()
        y = x * w
        return y.mean(), y

    x = tensor.randn(5, 3)
    loss, y = loss_of(x)
    assert loss.item() == pytest.approx(x.mean().item(), abs=1e-6)
    assert y.tolist() == x.tolist()
    assert not y.requires_grad


def test_values_of_each_row_are_concatenated_without_backward() -> None:
    w = tensor.ones((3,), requires_grad=True)

    @memory.splitting("x", reduction="none")
    def predict(x: Tensor) -> Tensor:
        if len(x) > 2:
            no_memory()
        return x * w

    x = tensor.randn(5, 3)
    with tensor.no_grad():
        assert predict(x).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match=r"call it under no_grad\(\)"):
        predict(x[:2])


def test_own_backward_gets_the_weighted_loss() -> None:
    w = tensor.ones((3,), requires_grad=True)
    given = []

    def backward(loss: Tensor) -> None:
        given.append(loss.item())
        (loss * 2).backward()

    @memory.splitting("x", backward=backward)
    def loss_of(x: Tensor) -> Tensor:
        if len(x) > 2:
            no_memory()
        return (x * w).mean()

    loss = loss_of(tensor.ones((4, 3)))
    assert loss.item() == 1
    assert given == [0.5, 0.5]
    np.testing.assert_allclose(w.grad.numpy(), [2 / 3] * 3, rtol=1e-6)


def test_method_of_a_module_is_split() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(3, 1)

        @memory.splitting("x", "y")
        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            if len(x) > 2:
                no_memory()
            return mse_loss(self.line(x), y)

    model = Model()
    model.loss(tensor.ones((4, 3)), y=tensor.zeros((4, 1)))
    assert model.line.weight.grad is not None


def test_batch_without_rows_runs_whole() -> None:
    @memory.splitting("x")
    def loss_of(x: Tensor) -> Tensor:
        return x.sum()

    with tensor.no_grad():
        assert loss_of(tensor.ones((0, 3))).item() == 0


def identity(x: Any) -> Any:
    return x


def test_bad_decorations_are_refused() -> None:
    async def later(x: Any) -> Any:
        return x

    def many(*x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match="write the names"):
        memory.splitting()
    with pytest.raises(TypeError, match="write the names"):
        memory.splitting(identity)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reduction must be"):
        memory.splitting("x", reduction="average")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leave count out"):
        memory.splitting("x", reduction="sum", count=len)
    with pytest.raises(ValueError, match="leave backward out"):
        memory.splitting("x", reduction="none", backward=identity)
    with pytest.raises(TypeError, match=r"identity\(\) has no parameter 'y'.*: x"):
        memory.splitting("y")(identity)
    with pytest.raises(TypeError, match="async or a generator"):
        memory.splitting("x")(later)
    with pytest.raises(TypeError, match=r"can't split \*x"):
        memory.splitting("x")(many)


ONES = tensor.ones((2, 3))
CALLS: list[tuple[Any, type[Exception], str]] = [
    ("text", TypeError, "can't split the str in 'x'"),
    ([ONES, 1.0], TypeError, "can't split the float in 'x'"),
    (tensor.ones(()), ValueError, "no dimensions"),
    ([ONES, tensor.ones((3,))], ValueError, "'x' has 2, and 'x' has 3"),
    (None, TypeError, "nothing to split"),
    (tensor.ones((2,), requires_grad=True) * 2, ValueError, r"pass x\.detach\(\)"),
]


@pytest.mark.parametrize(("x", "kind", "text"), CALLS)
def test_arguments_that_can_not_be_split_are_refused(x: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        memory.splitting("x")(identity)(x)


RESULTS: list[tuple[Any, str, type[Exception], str]] = [
    (1.0, "mean", TypeError, "must return its loss as a tensor"),
    ((), "mean", TypeError, "but returned NoneType"),
    (ONES, "sum", ValueError, r"not of shape \(2, 3\)"),
    ((ONES.mean(), 3), "mean", TypeError, "an output of type int"),
    ((ONES.mean(), ONES.mean()), "mean", ValueError, r"of shape \(\) for 2 rows"),
    (tensor.ones((3,)), "none", ValueError, r"of shape \(3,\) for 2 rows"),
]


@pytest.mark.parametrize(("result", "reduction", "kind", "text"), RESULTS)
def test_results_that_can_not_be_joined_are_refused(
    result: Any, reduction: Any, kind: type[Exception], text: str
) -> None:
    @memory.splitting("x", reduction=reduction)
    def function(x: Tensor) -> Any:
        return result

    with pytest.raises(kind, match=text):
        function(ONES)
