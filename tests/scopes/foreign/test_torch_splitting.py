"""Batches of PyTorch that do not fit: the pieces give the loss and gradients of the batch."""

from __future__ import annotations

import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import scopes.torch  # noqa: E402
from scopes import new_dispose_scope  # noqa: E402

nn = torch.nn
functional = nn.functional
ROOT = Path(__file__).parents[3]


def no_memory() -> None:
    """Ask PyTorch's allocator for more than there is."""
    torch.empty(1 << 50)


LIMITED = """
import resource
import sys
from pathlib import Path

import torch
import scopes.torch

torch.set_num_threads(1)
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
nn = torch.nn
kind, reduction = sys.argv[1:]
if kind == "linear":
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    x = torch.randn(20_003, 64)
else:
    last = nn.Linear(6272, 10)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.GroupNorm(4, 32), nn.ReLU(), nn.Flatten(), last)
    x = torch.randn(803, 3, 16, 16)
y = torch.randint(0, 10, (len(x),))
split = scopes.torch.splitting("x", "y", reduction=reduction)


def plain(x, y):
    return nn.functional.cross_entropy(model(x), y, reduction=reduction)


loss_of = split(plain)
expected = loss_of(x, y)
assert split.piece_count == 1
gradients = [p.grad for p in model.parameters()]
model.zero_grad()
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 70 * 2**20,) * 2)
try:
    plain(x, y).backward()
except RuntimeError as error:
    assert "can't allocate memory" in str(error), error
else:
    raise AssertionError("the batch fits")
model.zero_grad()
loss = loss_of(x, y)
assert split.piece_count > 1
assert loss.grad_fn is None
assert abs(loss - expected) < 1e-14 * expected, (loss, expected)
for p, g in zip(model.parameters(), gradients, strict=True):
    assert (p.grad - g).abs().max() < 1e-13 * g.abs().max(), (p.grad - g).abs().max() / g.abs().max()
print(split.piece_count, split.shortage_count)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space, as only Linux does")
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_batch_that_does_not_fit_gives_the_same_loss_and_gradients(kind: str, reduction: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, kind, reduction],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    ],
)
def test_each_error_of_short_memory_is_known(error: Exception) -> None:
    @scopes.torch.splitting("x", reduction="sum")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 2:
            raise error
        return x.sum()

    with torch.no_grad():
        assert loss_of(torch.ones(5)).item() == 5


def test_failed_try_frees_its_tensors_and_restores_gradients_and_random_state() -> None:
    w = torch.ones(3, requires_grad=True)
    before = w.grad = torch.full((3,), 7.0)
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []
    drawn: list[list[float]] = []

    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        alive.append(sum(reference() is not None for reference in made))
        y = x * w
        cycle: list[Any] = [y]
        cycle.append(cycle)
        made.append(weakref.ref(y))
        drawn.append(torch.rand(len(x)).tolist())
        if len(drawn) == 3:  # gradients of one piece are there
            assert w.grad is not before
        if len(x) > 4 or len(drawn) == 3:
            no_memory()
        return y.mean()

    x = torch.randn(8, 3)
    with new_dispose_scope(), scopes.torch.owning():
        loss_of(x)
    assert [len(row) for row in drawn] == [8, 4, 4, 2, 2, 2, 2]
    assert (alive[1], alive[3]) == (0, 0)
    assert drawn[0] == drawn[3] + drawn[4] + drawn[5] + drawn[6]
    assert w.grad is before
    torch.testing.assert_close(before, 7 + x.mean(0) / 3)


def test_a_row_that_does_not_fit_raises_pytorchs_error() -> None:
    w = torch.ones(3, requires_grad=True)
    before = w.grad = torch.full((3,), 7.0)

    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        torch.rand(1)
        no_memory()
        return (x * w).mean()

    torch.manual_seed(1)
    expected = torch.rand(2).tolist()
    torch.manual_seed(1)
    with pytest.raises(RuntimeError, match="can't allocate memory") as caught:
        loss_of(torch.ones(4, 3))
    assert caught.value.__notes__ == ["The batch can't be split: it was tried with one row at a time"]
    assert w.grad is before
    assert torch.rand(2).tolist() == expected


def test_shortage_in_backward_restores_gradients() -> None:
    class Hungry(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            if len(gradient) > 2:
                no_memory()
            return gradient

    first, last = (torch.ones(3, requires_grad=True) for _ in range(2))
    seen = []

    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        seen.append((last.grad, first.grad))
        return (Hungry.apply(x * first) * last).mean()

    loss_of(torch.ones(4, 3))
    assert seen[1] == (None, None)  # backward had reached `last`
    torch.testing.assert_close(first.grad, torch.full((3,), 1 / 3))
    torch.testing.assert_close(last.grad, torch.full((3,), 1 / 3))


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(3), lambda x: functional.batch_norm(x, None, None, training=True)]
)
def test_batch_norm_in_training_is_refused_before_it_changes_anything(layer: Any) -> None:
    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 4:
            no_memory()
        return layer(x).mean()

    with pytest.raises(RuntimeError, match="can't allocate memory") as caught, torch.no_grad():
        loss_of(torch.randn(8, 3))
    assert "batch_norm in training uses the mean and variance" in caught.value.__notes__[0]
    assert int(getattr(layer, "num_batches_tracked", 0)) <= 1


def test_batch_norm_in_eval_mode_and_instance_norm_are_split() -> None:
    model = nn.Sequential(nn.InstanceNorm1d(3), nn.BatchNorm1d(3).eval())
    rows = []

    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        rows.append(len(x))
        if len(x) > 4:
            no_memory()
        return model(x).square().mean()

    x = torch.randn(8, 3, 5)
    loss = loss_of(x)
    assert rows == [8, 4, 4]
    torch.testing.assert_close(loss, model(x).square().mean().detach())


def test_batch_norm_in_a_checkpoint_is_refused() -> None:
    norm = nn.BatchNorm1d(3)

    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 4:
            no_memory()
        return torch.utils.checkpoint.checkpoint(norm, x, use_reentrant=False).square().mean()

    with pytest.raises(RuntimeError) as caught:
        loss_of(torch.randn(8, 3))
    assert "batch_norm" in caught.value.__notes__[0]


def test_checkpoints_are_split_and_reentrant_ones_refused() -> None:
    line = nn.Linear(3, 3)

    def loss_of(x: torch.Tensor, use_reentrant: bool, most: int) -> torch.Tensor:
        if len(x) > most:
            no_memory()
        y = torch.utils.checkpoint.checkpoint(line, x * line.bias, use_reentrant=use_reentrant)
        return y.square().mean()

    x = torch.randn(8, 3)
    loss_of(x, False, 8).backward()
    expected = line.weight.grad
    line.zero_grad()
    split = scopes.torch.splitting("x")(loss_of)
    split(x, False, 4)
    torch.testing.assert_close(line.weight.grad, expected)
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        split(x, True, 4)


def test_optimizer_step_in_backward_is_refused() -> None:
    w = torch.ones(3, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda p: None)

    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 4:
            no_memory()
        return (x * w).mean()

    with pytest.raises(RuntimeError, match="can't allocate") as caught:
        loss_of(torch.randn(8, 3))
    assert "post-accumulate hook" in caught.value.__notes__[0]
    assert w.grad is None


@pytest.mark.parametrize("is_sparse_before", [True, False])
def test_sparse_gradients_are_added(is_sparse_before: bool) -> None:
    weight = torch.ones(10, 2, requires_grad=True)

    def plain(x: torch.Tensor, sparse: bool, most: int = 8) -> torch.Tensor:
        if len(x) > most:
            no_memory()
        return functional.embedding(x, weight, sparse=sparse).mean()

    x = torch.arange(8)
    plain(x, is_sparse_before).backward()
    plain(x, False).backward()
    expected = weight.grad.to_dense()
    weight.grad = None
    plain(x, is_sparse_before).backward()
    scopes.torch.splitting("x")(plain)(x, not is_sparse_before, 4)
    torch.testing.assert_close(weight.grad.to_dense(), expected)


def test_loss_scaled_by_a_gradient_scaler_and_autocast() -> None:
    model = nn.Linear(3, 2)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    @scopes.torch.splitting("x", backward=lambda loss: scaler.scale(loss).backward())
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 4:
            no_memory()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).float().square().mean()

    x = torch.randn(8, 3)
    loss = loss_of(x)
    scaled = model.weight.grad.clone()
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = model(x).float().square().mean()
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(scaled / 8, model.weight.grad, rtol=2e-2, atol=1e-3)


def test_function_that_runs_backward_itself_gets_a_note() -> None:
    w = torch.ones(3, requires_grad=True)

    @scopes.torch.splitting("x")
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        loss = (x * w).square().mean()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError) as caught:
        loss_of(torch.ones(4, 3))
    assert "return the loss without calling backward" in caught.value.__notes__[0]


def test_process_group_of_several_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = torch.distributed
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    with pytest.raises(RuntimeError, match="more than one process"):
        scopes.torch.splitting("x")(lambda x: x)(torch.ones(2))
