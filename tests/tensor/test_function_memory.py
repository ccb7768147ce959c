"""Users' own ops give their memory back, whatever fails; and they go with the rest of the engine."""

from __future__ import annotations

import gc
import threading
from typing import Any
from weakref import ref

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, autograd, memory
from tests.tensor.functions import (
    Exp,
    ExpInPlace,
    Identity,
    Linear,
    Multiply,
    Returning,
    SinCos,
    SquareInPlace,
    doubles,
    returning,
)
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing


class Failing(autograd.Function):
    """Fails where ``where`` says, with much in its hands."""

    where = ""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, x * 2)
        if Failing.where == "forward":
            raise KeyError("mine")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        temporary = grad * ctx.saved_tensors[1]
        raise KeyError("mine", temporary.shape)


@pytest.mark.parametrize("where", ["forward", "backward", "backward with create_graph"])
def test_an_error_of_the_users_leaves_no_memory_and_no_gradient(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(Failing, "where", where)
    x, z = leaf(*[1.0] * 1000), leaf(*[1.0] * 1000)

    def fail() -> None:
        with pytest.raises(KeyError, match="mine"):
            (Failing.apply(x * 3) * z).sum().backward(create_graph="create_graph" in where)

    with leaving_nothing():
        fail()
    assert (x.grad, z.grad) == (None, None)


def test_a_stored_error_of_forward_holds_no_tensor_memory() -> None:
    class Refusing(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x * 2)
            del x
            raise KeyError("mine")

    x = leaf(*[1.0] * 1000)
    before = bytes_live()
    with pytest.raises(KeyError) as caught:
        Refusing.apply(x * 3)
    assert caught.traceback[-1].name == "forward"
    assert bytes_live() == before


def use_all() -> None:
    x = leaf(1.0, 2.0)
    Exp.apply(x).sum().backward()
    Multiply.apply(x, Exp.apply(x)).sum()
    y = Exp.apply(x * 1)
    y.retain_grad()
    y.register_hook(lambda grad: grad * 2)
    (dx,) = autograd.grad(y.sum(), x, create_graph=True)
    (dx * dx).sum().backward()
    outputs = SinCos.apply(x)
    outputs[2].sum().backward()
    ExpInPlace.apply(SquareInPlace.apply(x * 1)).sum().backward()
    Identity.apply(Identity.apply(x)).sum().backward(create_graph=True)


def test_nothing_is_left_and_no_cycle_is_made() -> None:
    use_all()
    with leaving_nothing():
        use_all()


def test_a_saved_output_makes_no_cycle_and_counts_once() -> None:
    x = tensor.ones((1000,), requires_grad=True)
    before = bytes_live()
    y = Exp.apply(x)
    assert bytes_live() - before == 4000
    gone = ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert gone() is None
        assert bytes_live() == before
    finally:
        gc.enable()


def test_a_copy_of_an_exported_argument_counts_once() -> None:
    counted = []

    class Reading(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            before = bytes_live()
            again = ctx.saved_tensors
            counted.append(bytes_live() - before)
            return grad * again[0]

    x = leaf(*[1.0] * 1000)
    exported = x.detach().numpy()
    Reading.apply(x).sum().backward()
    assert counted == [0]
    assert exported[0] == 1


def test_nothing_is_shared_with_a_graph_that_is_not_recorded() -> None:
    x = tensor.ones((2**18,))
    with memory.measure() as measured:
        SquareInPlace.apply(x)
    assert measured.allocated_bytes == 0


def test_large_gradients_are_added_up_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 2**20
    returning(monkeypatch, lambda grad: (grad * 2, grad * 3))
    x = tensor.ones((n,), dtype=tensor.float32, requires_grad=True)
    y = Returning.apply(x, x).sum()
    before = bytes_live()
    with memory.measure() as measured:
        y.backward()
    assert x.grad.numpy()[0] == 5
    # The gradients of both arguments, and no third block for their sum.
    assert measured.peak_bytes - before <= 2 * 4 * n + 4096


def test_the_current_scope_owns_the_tensors_that_backward_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    def keep(grad: Tensor) -> Any:
        kept.append(grad)
        return grad * 2, None

    returning(monkeypatch, keep)
    x = leaf(1.0)
    with new_dispose_scope():
        Returning.apply(x, 4).backward()
    assert kept[0].is_invalid
    assert x.grad.tolist() == [2.0]


def test_threads_use_one_function_at_once() -> None:
    results = {}

    def work(i: int) -> None:
        x = tensor.full((100,), float(i), requires_grad=True)
        for _ in range(20):
            x.grad = None
            y = Multiply.apply(x, x, 2.0)
            (Exp.apply(y * 0) * y).sum().backward()
        results[i] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [4.0 * i] * 100 for i in range(4)}


def test_threads_derive_one_graph_at_once() -> None:
    x = doubles(50)
    y = Exp.apply(x).sum()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(autograd.grad(y, x, create_graph=True)[0].tolist()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [x.exp().tolist()] * 4


def test_hooks_and_retained_gradients_of_outputs() -> None:
    seen = []
    x = leaf(1.0)
    sine, _, cosine, _ = SinCos.apply(x)
    sine.retain_grad()
    cosine.register_hook(lambda grad: seen.append(grad.item()) or grad * 2)
    (sine * 3 + cosine * 5).backward()
    assert (sine.grad.item(), seen) == (3.0, [5.0])
    np.testing.assert_allclose(x.grad.item(), 3 * np.cos(1) - 10 * np.sin(1), rtol=1e-6)


def test_gradients_by_an_output_itself() -> None:
    x = leaf(1.0, 2.0)
    y = Exp.apply(x)
    z = (y * y).sum()
    dy, dx = autograd.grad(z, [y, x], create_graph=True)
    np.testing.assert_allclose(dy.tolist(), 2 * np.exp([1, 2]), rtol=1e-6)
    (again,) = autograd.grad(dx.sum(), y)
    # dx = dy * y = 2 * y * y, with y as it was saved.
    np.testing.assert_allclose(again.tolist(), 4 * np.exp([1, 2]), rtol=1e-6)


def test_only_the_part_of_the_graph_that_is_asked_for_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    returning(monkeypatch, lambda grad: pytest.fail("backward ran"))
    x, z = leaf(1.0), leaf(2.0)
    (dz,) = autograd.grad(Returning.apply(x, 4) * z, z)
    assert dz.tolist() == [1.0]


def test_anomaly_detection_names_the_function_and_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    returning(monkeypatch, lambda grad: (grad * float("nan"), None))
    with autograd.detect_anomaly():
        y = Returning.apply(leaf(1.0), 4)
        with pytest.raises(RuntimeError, match=r"(?s)ReturningBackward has a gradient of nan.*y = Returning"):
            y.backward()


def test_a_checkpoint_runs_forward_again_and_saves_nothing() -> None:
    runs = []

    class Counted(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            runs.append(1)
            return Exp.forward(ctx, x)

    x = tensor.ones((1000,), requires_grad=True)
    before = bytes_live()
    y = autograd.checkpoint(lambda x: Counted.apply(x * 2) * 3, x)
    assert bytes_live() - before == 4000
    y.sum().backward()
    assert len(runs) == 2
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.exp(2), rtol=1e-6)
    double = doubles(3)
    assert autograd.gradgradcheck(
        lambda x: autograd.checkpoint(lambda x: Counted.apply(x * 2) * 3, x), double
    )


def test_another_function_the_second_time_is_an_error() -> None:
    turns = iter([Exp, Identity])
    y = autograd.checkpoint(lambda x: next(turns).apply(x), leaf(1.0))
    with pytest.raises(RuntimeError, match="'Identity' instead of 'Exp'"):
        y.backward()


def test_a_module_may_use_one() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tensor.ones((2, 3)))
            self.bias = nn.Parameter(tensor.zeros((2,)))

        def forward(self, x: Tensor) -> Tensor:
            return Linear.apply(x, self.weight, self.bias)

    layer = Layer()
    optimizer = nn.optim.SGD(layer.parameters(), lr=0.1)
    x = tensor.ones((4, 3))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]
