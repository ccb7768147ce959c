"""Methods of modules and data sets that programs written for PyTorch call."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from nn.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset
from scopes import disposing, new_dispose_scope


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))


def test_parameters_and_buffers_are_found_by_their_dotted_names() -> None:
    net = model()
    assert net.get_parameter("0.weight") is net[0].weight
    assert net.get_buffer("1.0.running_mean") is net[1][0].running_mean
    with pytest.raises(
        AttributeError, match=r"has no parameter 'wieght'. Its parameters are \['weight', 'bias'\]"
    ):
        net.get_parameter("0.wieght")
    with pytest.raises(AttributeError, match="no buffer 'weight'"):
        net.get_buffer("0.weight")


def test_a_module_inside_is_replaced_and_the_old_one_disposed() -> None:
    net = model()
    old = net[1][0]
    net.set_submodule("1.0", nn.Identity())
    assert isinstance(net[1][0], nn.Identity)
    assert old.weight.is_invalid
    with pytest.raises(AttributeError, match="there is no module"):
        net.set_submodule("1.7", nn.Identity(), strict=True)
    with pytest.raises(ValueError, match="the name of the module to replace must not be empty"):
        net.set_submodule("", nn.Identity())


def test_a_module_takes_a_dtype_by_each_method() -> None:
    assert model().type(tensor.float64)[0].weight.dtype == tensor.float64
    assert model().to_empty(device="cpu").share_memory()[0].weight.shape == (2, 2)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def get_extra_state(self) -> Any:
        return self.count

    def set_extra_state(self, state: Any) -> None:
        self.count = state


def test_extra_state_is_saved_and_loaded_by_its_name() -> None:
    first, second = nn.Sequential(Counter(), nn.Linear(1, 1)), nn.Sequential(Counter(), nn.Linear(1, 1))
    first[0].count = 7
    state = first.state_dict()
    assert list(state) == ["1.weight", "1.bias", "0._extra_state"]
    second.load_state_dict(state)
    assert second[0].count == 7
    del state["0._extra_state"]
    with pytest.raises(ValueError, match="_extra_state"):
        second.load_state_dict(state)


# Data sets own their tensors


def test_a_data_set_made_in_a_scope_lives_on() -> None:
    with new_dispose_scope():
        data = TensorDataset(tensor.ones((4, 2)))
    assert data[3][0].tolist() == [1.0, 1.0]


class Own(Dataset[Any]):
    """A data set of the user's own, with a list of tensors."""

    def __init__(self) -> None:
        self.rows = [tensor.full((2,), float(i)) for i in range(3)]

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


@pytest.mark.parametrize(
    "make",
    [
        Own,
        lambda: Subset(Own(), [0, 2]),
        lambda: ConcatDataset([Own(), Own()]),
        lambda: DataLoader(Own(), batch_size=2),
    ],
)
def test_a_data_set_that_is_returned_from_disposing_lives_on(make: Any) -> None:
    with new_dispose_scope() as scope:
        found = disposing(lambda: make())()
        loader = found if isinstance(found, DataLoader) else DataLoader(found, batch_size=2)
        assert next(iter(loader)).shape == (2, 2)
        own = found
        while not isinstance(own, Own):
            own = own.datasets[0] if isinstance(own, ConcatDataset) else own.dataset
        assert own.rows[0].owning_dispose_scope is scope
    assert own.rows[0].is_invalid


# Conversion


def test_to_disposes_the_tensor_afterwards_unless_it_is_the_result() -> None:
    x = tensor.ones((2,))
    y = x.to(tensor.float64, dispose_after=True)
    assert x.is_invalid
    assert y.to(tensor.float64, dispose_after=True) is y
    assert not y.is_invalid
