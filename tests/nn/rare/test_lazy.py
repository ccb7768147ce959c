"""Lazy modules take sizes from their first input, and are then the modules that PyTorch makes of them."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import nn
import tensor
import tensor.torch
from scopes import new_dispose_scope, statistics

# Lazy modules, and the shapes of inputs; those of PyTorch's, and of the plain module that each becomes.
LAZY = [
    ("LazyLinear(3)", (2, 4)),
    ("LazyLinear(3, bias=False)", (4,)),
    ("LazyLinear(2)", (0, 5)),
    *[
        (f"Lazy{kind}{n}d(4, 2, groups={groups}, bias={groups == 1})", (2, 6, 5, 4, 3)[: n + 2])
        for kind in ("Conv", "ConvTranspose")
        for n in (1, 2, 3)
        for groups in (1, 2)
    ],
    ("LazyConv2d(4, 3, stride=2, padding=1, dilation=2, padding_mode='reflect')", (3, 7, 9)),
    ("LazyConvTranspose1d(4, 3, stride=2, padding=1, output_padding=1)", (0, 3, 7)),
    *[
        (f"Lazy{kind}Norm{n}d({options})", (2, 3, 5, 4, 3)[: n + 2])
        for kind in ("Batch", "Instance")
        for n in (1, 2, 3)
        for options in ("", "eps=0.1, momentum=0.3, affine=True", "affine=False, track_running_stats=True")
    ],
    ("LazyBatchNorm1d()", (4, 3)),
]


def small() -> Any:
    return nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))


@pytest.mark.parametrize(("source", "shape"), LAZY)
def test_lazy_modules_become_those_of_pytorch(source: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = eval(f"nn.{source}", {"nn": nn}), eval(f"torch.nn.{source}", {"torch": torch})
    assert repr(ours) == repr(theirs)
    assert ours.has_uninitialized_params() == theirs.has_uninitialized_params()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    ours(tensor.tensor(x))
    theirs(torch.tensor(x))
    assert type(ours).__name__ == type(theirs).__name__
    assert repr(ours) == repr(theirs)
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    assert {name: value.shape for name, value in ours.state_dict().items()} == {
        name: value.shape for name, value in state.items()
    }
    ours.load_state_dict(state)
    for layer in (ours, theirs):
        layer.eval()
    expected = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(tensor.tensor(x)).detach().numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("source", "shape"), LAZY)
def test_a_materialized_module_starts_as_its_plain_class_does(source: str, shape: tuple[int, ...]) -> None:
    layer = eval(f"nn.{source}", {"nn": nn})
    layer(tensor.zeros(shape))
    found = {name: x.tolist() for name, x in layer.named_parameters()}
    bound = max([abs(value) for value in np.concatenate([np.ravel(x) for x in found.values()] or [[0.0]])])
    assert bound <= 1.0
    layer.reset_parameters()
    assert {name: np.shape(x.tolist()) for name, x in layer.named_parameters()} == {
        name: np.shape(x) for name, x in found.items()
    }


def test_an_optimizer_made_before_the_first_call_trains_the_same_parameters() -> None:
    model = small()
    parameters = list(model.parameters())
    optimizer = nn.optim.SGD(parameters, lr=0.1)
    loss = model(tensor.randn(5, 3, 6)).square().sum()
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert all(type(p) is nn.Parameter for p in parameters)
    before = parameters[0].tolist()
    loss.backward()
    optimizer.step()
    assert parameters[0].tolist() != before


def test_parameters_stay_out_of_the_scope_of_the_first_call() -> None:
    model = small()
    before = statistics.live_count
    with new_dispose_scope():
        model(tensor.randn(5, 3, 6))
    assert statistics.live_count == before
    assert not any(x.is_invalid for x in (*model.parameters(), *model.buffers()))
    model.dispose()
    assert model[0].weight.is_invalid


def test_a_state_dict_gives_shapes_and_other_parameters_stay_uninitialized() -> None:
    first, second, third = small(), small(), small()
    second.load_state_dict(third.state_dict())
    assert isinstance(second[0].weight, nn.UninitializedParameter)
    x = tensor.randn(5, 3, 6)
    first(x)
    second.load_state_dict(first.state_dict())
    assert second[0].weight.shape == (4, 3, 3)
    for model in (first, second):
        model.eval()
    assert tensor.torch.equal(second(x), first(x))
    assert repr(second) == repr(first)
    with pytest.raises(ValueError, match="has shape"):
        first.load_state_dict(third.state_dict())
    with pytest.raises(TypeError, match="must be a tensor or an array"):
        third.load_state_dict({**first.state_dict(), "0.weight": "none"})
    assert isinstance(third[0].bias, nn.UninitializedParameter)


def test_copies_pickles_and_files_of_lazy_modules_are_lazy() -> None:
    model = small().double()
    file = io.BytesIO()
    tensor.torch.save(model, file)
    copies = [
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        tensor.torch.load(file, weights_only=False),
    ]
    for found in copies:
        assert repr(found) == repr(model)
        assert isinstance(found[1].running_mean, nn.UninitializedBuffer)
        found(tensor.randn(5, 3, 6, dtype="float64"))
        assert found[0].weight.dtype == found[1].running_var.dtype == tensor.float64
    assert isinstance(model[0].weight, nn.UninitializedParameter)


def test_use_of_an_uninitialized_parameter_raises_an_error_that_says_so() -> None:
    layer = nn.LazyLinear(3)
    assert repr(layer.weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="no shape yet: call the lazy module"):
        _ = layer.weight.shape
    layer.reset_parameters()
    assert layer.has_uninitialized_params()
    frozen = nn.UninitializedParameter(requires_grad=False)
    frozen.materialize((2, 2), dtype="float64")
    assert (frozen.requires_grad, frozen.dtype, type(frozen)) == (False, tensor.float64, nn.Parameter)


def test_an_instance_norm_finds_the_channels_of_a_sample_without_a_batch() -> None:
    layer = nn.LazyInstanceNorm2d()
    layer(tensor.randn(3, 5, 4))
    assert layer.num_features == 3


def test_inputs_that_do_not_fit_leave_a_module_lazy() -> None:
    for layer, shape, match in (
        (nn.LazyConv2d(4, 3), (3, 5), "with 2 sizes"),
        (nn.LazyConv1d(4, 3, groups=2), (1, 3, 5), "groups must divide the channels"),
        (nn.LazyBatchNorm2d(), (3, 5), "input must have shape"),
    ):
        with pytest.raises(ValueError, match=match):
            layer(tensor.ones(shape))
        assert layer.has_uninitialized_params()


def test_a_module_of_a_users_own_is_initialized_once() -> None:
    class Scale(nn.LazyModuleMixin):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()
            self.calls = 0

        def initialize_parameters(self, x: Any) -> None:
            self.calls += 1
            self.weight.materialize(x.shape[1:])
            nn.init.ones_(self.weight)

        def forward(self, x: Any) -> Any:
            return x * self.weight

    class Forgetful(Scale):
        def initialize_parameters(self, x: Any) -> None:
            pass

    model = Scale()
    for _ in range(2):
        assert model(tensor.ones((2, 3))).tolist() == [[1.0] * 3] * 2
    assert model.calls == 1
    with pytest.raises(RuntimeError, match="some parameters have no shape"):
        Forgetful()(tensor.ones((2, 3)))
    with pytest.raises(NotImplementedError, match="define `def initialize_parameters"):
        nn.LazyModuleMixin()(tensor.ones((2, 3)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("kind", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_pickles_without_a_shape_keep_the_dtype(kind: Any, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    found = pickle.loads(pickle.dumps(kind(dtype=dtype)))
    found.materialize((2,))
    assert found.dtype == kind(dtype=dtype).dtype
