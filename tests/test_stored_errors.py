"""A stored error keeps no memory alive: no frame of the library holds an operand or a half-made result."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable

import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, memory


def ones(*shape: int) -> Tensor:
    """Return what only a frame of the library could keep alive: nobody here names it."""
    return tensor.ones(shape)


# Each fails over operands of 40,000 bytes.
FAILING: dict[str, Callable[[], object]] = {
    "an operator": lambda: ones(100, 100) + ones(3, 7),
    "a matrix product": lambda: ones(100, 100) @ ones(3, 7),
    "a function of the table": lambda: tensor.add(ones(100, 100), ones(3, 7)),
    "a form in place": lambda: ones(100, 100).add_(ones(3, 7)),
    "an augmented assignment": lambda: ones(100, 100).__iadd__(ones(3, 7)),
    "a reduction": lambda: tensor.sum(ones(100, 100), axis=5),
    "a reduction method": lambda: ones(100, 100).sum(dim=5),
    "joining": lambda: tensor.concat([ones(100, 100), ones(3, 7)]),
    "a view": lambda: ones(100, 100).view(3, 7),
    "indexing": lambda: ones(100, 100)[:, 200],
    "writing to a part": lambda: ones(100, 100).__setitem__(0, ones(3, 7)),
    "a scan": lambda: ones(100, 100).cumsum(dim=5),
    "einsum": lambda: tensor.einsum("ij,jk", ones(100, 100), ones(3, 7)),
    "backward": lambda: ones(100, 100).requires_grad_().exp().backward(),
    "a gradient": lambda: setattr(ones(100, 100), "grad", ones(3, 7)),
    "data": lambda: setattr(ones(100, 100), "data", "text"),
    "a real part": lambda: setattr(ones(100, 100), "real", ones(3, 7)),
    "an imaginary part": lambda: setattr(ones(100, 100), "imag", ones(3, 7)),
    "requires_grad of integers": lambda: setattr(ones(100, 100).to(tensor.int32), "requires_grad", True),
    "derivatives": lambda: tensor.autograd.grad(ones(100, 100).sum(), ones(100, 100)),
    "nn.functional": lambda: nn.functional.linear(ones(100, 100), ones(3, 7)),
    "a loss": lambda: nn.functional.cross_entropy(ones(100, 100), ones(3, 7)),
    "an op of several ops": lambda: ones(100, 100).fmod(ones(3, 7)),
    "its form in place": lambda: ones(100, 100).fmod_(ones(3, 7)),
    "conversion": lambda: ones(100, 100).item(),
    "a module": lambda: nn.Linear(100, 100)(ones(3, 7)),
    "a sequence of modules": lambda: nn.Sequential(nn.Linear(100, 100), nn.ReLU())(ones(100, 7)),
    "a parameter's assignment": lambda: setattr(nn.Linear(100, 100), "weight", ones(100, 100)),
    "an optimizer": lambda: nn.optim.SGD([ones(100, 100)], lr=-1),
    "a state dict": lambda: nn.Linear(100, 100).load_state_dict({"weight": ones(100, 100), "bias": ones(7)}),
}


@pytest.mark.parametrize("fail", FAILING.values(), ids=FAILING)
def test_without_a_scope_a_stored_error_holds_no_operand(fail: Callable[[], object]) -> None:
    gc.collect()
    before = memory.statistics().bytes_live
    with pytest.raises((ValueError, IndexError, RuntimeError, TypeError)) as stored:
        fail()
    assert stored.value.__traceback__ is not None
    assert memory.statistics().bytes_live == before


def test_users_frames_keep_their_locals() -> None:
    def step() -> None:
        mine = ones(100, 100)
        tensor.sum(mine, axis=5)

    before = memory.statistics().bytes_live
    with pytest.raises(IndexError, match="dimension 5") as stored:
        step()
    assert memory.statistics().bytes_live == before + 40_000
    frame = stored.traceback[1].frame
    assert frame.f_locals["mine"].shape == (100, 100)


def test_a_users_frame_between_ours_keeps_its_locals() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            mine = ones(10)
            return x + mine

    with pytest.raises(ValueError, match="shapes") as stored:
        Broken()(ones(100, 100))
    (frame,) = [entry.frame for entry in stored.traceback if entry.name == "forward"]
    assert frame.f_locals["mine"].shape == (10,)


def test_causes_and_contexts_of_stored_errors_hold_no_tensor_memory() -> None:
    def fail_twice() -> None:
        try:
            ones(100, 100).view(3, 7)
        except ValueError:
            tensor.concat([ones(100, 100), ones(3, 7)])

    before = memory.statistics().bytes_live
    with pytest.raises(ValueError, match="concat") as stored:
        fail_twice()
    assert "reshape" in str(stored.value.__context__)
    assert memory.statistics().bytes_live == before


def test_public_functions_go_through_pickle_by_their_public_name() -> None:
    for function in (tensor.sum, tensor.exp, tensor.autograd.grad, nn.functional.linear):
        assert pickle.loads(pickle.dumps(function)) is function
    assert tensor.sum.__module__ == "tensor"


def test_an_error_caught_inside_a_scope_holds_nothing_after_it() -> None:
    before = memory.statistics().bytes_live
    with new_dispose_scope():
        try:
            tensor.concat([ones(100, 100), ones(3, 7)])
        except ValueError as error:
            kept = error
    assert memory.statistics().bytes_live == before
    assert kept.__traceback__ is not None
