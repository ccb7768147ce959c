"""What a user keeps of a batch does not keep the batch: copies of small views have their own memory."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, memory

COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "clone": lambda x: x.clone(),
    "a clone of a detached tensor": lambda x: x.detach().clone(),
    "a deep copy": copy.deepcopy,
    "contiguous": lambda x: x.contiguous(),
    "a parameter of a clone": lambda x: nn.Parameter(x.clone()),
    "a parameter": nn.Parameter,
    "a deep copy of a parameter": lambda x: copy.deepcopy(nn.Parameter(x)),
}
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "a column": lambda x: x[:, :1],
    "a row": lambda x: x[:1],
    "a transposed row": lambda x: x[:1].T,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("kept", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_small_view_keeps_its_own_bytes_alone(kept, view) -> None:
    copies = []
    before = memory.statistics().bytes_live
    for _ in range(5):
        with new_dispose_scope() as scope:
            batch = tensor.ones((1000, 200))
            copies.append(scope.detach(kept(view(batch))))
            del batch
    assert memory.statistics().bytes_live - before <= 5 * 4000
    assert all(bool((x == 1).all()) for x in copies)


def test_a_parameter_of_a_small_view_keeps_its_place_and_gradient() -> None:
    batch = tensor.ones((100, 2))
    with new_dispose_scope() as scope:
        row = batch[:1].detach().requires_grad_()
        loss = (row * 3).sum()
        weight = nn.Parameter(row)
        assert weight in scope
        loss.backward()
        assert weight.grad.tolist() == [[3.0, 3.0]]
        assert row.is_invalid


def test_a_clone_of_half_of_the_memory_copies_at_its_first_write() -> None:
    x = tensor.ones((1000, 200))
    before = memory.statistics().bytes_live
    y = x[:500].clone()
    assert memory.statistics().bytes_live == before
    y[0, 0] = 3.0
    assert memory.statistics().bytes_live > before
    assert x[0, 0].item() == 1.0


def test_gradients_flow_through_a_clone_of_a_small_view() -> None:
    x = tensor.ones((100, 2), requires_grad=True)
    (x[:1].clone() * 2 + x[:1].contiguous()).sum().backward()
    assert x.grad[0].tolist() == [3.0, 3.0]
    assert x.grad[1].tolist() == [0.0, 0.0]
