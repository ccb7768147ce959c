"""``functional_call`` calls a module with other tensors, and leaves the module as it is."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from nn.utils.stateless import functional_call
from scopes import new_dispose_scope


class Counting(nn.Module):
    """Has a buffer that each call replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", tensor.zeros((1,)))
        self.layer = nn.Linear(1, 1)

    def forward(self, x: Any) -> Any:
        self.count = self.count + 1
        return self.layer(x) + self.count


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(1, 1, bias=False)
        self.other = nn.Linear(1, 1, bias=False)
        self.other.weight = self.one.weight

    def forward(self, x: Any) -> Any:
        return self.other(self.one(x))


X = tensor.ones((1, 1))
NETWORKS = (
    (nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 1)), (4, 2)),
    (nn.LSTM(2, 3), (5, 1, 2)),
    (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), (3, 1, 4)),
)


class Scaled(nn.Module):
    """Has a tensor that is neither a parameter nor a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = tensor.ones((1,))

    def forward(self, x: Any) -> Any:
        return x * self.scale


def first_of(output: Any) -> tensor.Tensor:
    return output[0] if isinstance(output, tuple) else output


@pytest.mark.parametrize(("network", "shape"), NETWORKS)
def test_it_computes_with_the_given_tensors_and_changes_no_other(network: Any, shape: Any) -> None:
    x = tensor.randn(*shape)
    given = {name: (value.detach() * 0.5).requires_grad_() for name, value in network.named_parameters()}
    found = first_of(functional_call(network, dict(given), x))
    found.sum().backward()
    assert all(value.grad is not None for value in given.values())
    assert all(value.grad is None for value in network.parameters())
    network.load_state_dict({**network.state_dict(), **given})
    assert found.tolist() == first_of(network(x)).tolist()


def test_it_replaces_a_tensor_that_is_a_plain_attribute_as_in_pytorch() -> None:
    module = nn.Sequential(Scaled())
    scale = module[0].scale
    three = tensor.tensor([3.0])
    assert functional_call(module, {"0.scale": three, "0.other": X, "1.scale": X}, X).tolist() == [[3.0]]
    assert module[0].scale is scale
    assert (scale.tolist(), three.tolist()) == ([1.0], [3.0])
    with pytest.raises(KeyError, match=r"unknown names \['0.scale'\]"):
        functional_call(module, {"0.scale": three}, X, strict=True)


def test_a_replaced_buffer_is_returned_in_the_dict_and_disposes_nothing() -> None:
    module = Counting()
    count = tensor.tensor([5.0])
    given = {"count": count}
    held = module.count
    with new_dispose_scope():
        functional_call(module, given, X)
    assert count.tolist() == [5.0]
    assert given["count"].tolist() == [6.0]
    assert module.count is held
    assert held.tolist() == [0.0]
    replaced = functional_call(module, {"count": held}, (X,))
    assert module.count is held
    assert not replaced.is_invalid
    module.count = tensor.zeros((1,))
    assert held.is_invalid


def test_an_error_of_the_module_leaves_its_tensors_in_place() -> None:
    layer = nn.Linear(2, 1)
    held = layer.weight
    with pytest.raises(RuntimeError):
        functional_call(layer, {"weight": tensor.ones((1, 7))}, tensor.ones((1, 2)))
    assert layer.weight is held


def test_a_tied_parameter_is_replaced_under_all_its_names() -> None:
    module, two, three = Tied(), tensor.tensor([[2.0]]), tensor.tensor([[3.0]])
    assert functional_call(module, {"one.weight": two}, X).item() == 4
    both = {"one.weight": two, "other.weight": three}
    assert functional_call(module, both, X, tie_weights=False).item() == 6
    with pytest.raises(ValueError, match=r"'one\.weight' and 'other\.weight' are one tensor"):
        functional_call(module, both, X)


def test_several_dicts_and_keywords() -> None:
    layer = nn.Linear(1, 1)
    weight, bias = {"weight": tensor.tensor([[2.0]])}, {"bias": tensor.tensor([3.0])}
    assert functional_call(layer, (weight, bias), kwargs={"input": X}, strict=True).item() == 5
    with pytest.raises(ValueError, match="'weight' is in several dicts"):
        functional_call(layer, (weight, weight), X)


def test_strict_names() -> None:
    given = {"weight": tensor.tensor([[2.0]]), "wait": X}
    functional_call(nn.Linear(1, 1), given, X)
    with pytest.raises(KeyError, match=r"missing names \['bias'\], unknown names \['wait'\]"):
        functional_call(nn.Linear(1, 1), given, X, strict=True)


def test_a_value_must_be_a_tensor() -> None:
    given: Any = {"weight": 2.0}
    with pytest.raises(TypeError, match=r"the value of 'weight' must be a tensor, not 2\.0"):
        functional_call(nn.Linear(1, 1), given, X)
