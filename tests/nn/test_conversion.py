import pytest

import nn
import tensor


def test_to_converts_floating_values_and_leaves_the_objects(window):
    layer = nn.BatchNorm1d(2)
    weight, live = layer.weight, window().live_count
    assert layer.double() is layer
    assert layer.weight is weight
    assert weight.dtype == layer.running_mean.dtype == tensor.float64
    assert layer.num_batches_tracked.dtype == tensor.int64
    assert window().live_count == live
    assert layer.half().weight.dtype == tensor.float16
    assert layer.float().weight.dtype == tensor.float32


def test_to_converts_gradients(window):
    layer = nn.Linear(2, 1)
    layer(tensor.ones((1, 2))).sum().backward()
    live = window().live_count
    layer.to("float64")
    assert layer.weight.grad.dtype == tensor.float64
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]
    assert window().live_count == live
    layer(tensor.ones((1, 2), dtype="float64")).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0]]


def test_frozen_parameters_stay_frozen():
    assert not nn.Linear(1, 1).requires_grad_(False).double().weight.requires_grad


def test_to_refuses_what_carries_no_gradients():
    with pytest.raises(TypeError, match="int64"):
        nn.Linear(1, 1).to("int64")


def test_to_cpu_changes_nothing():
    layer = nn.Linear(1, 1)
    assert layer.to("cpu") is layer


def test_zero_grad_disposes_or_fills():
    layer = nn.Linear(1, 1)
    layer(tensor.ones((1, 1))).sum().backward()
    grad = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    assert grad.item() == 0.0
    layer.zero_grad()
    assert layer.weight.grad is None
    assert grad.is_invalid


@pytest.mark.parametrize("name", ["half", "float", "double", "bfloat16"])
def test_conversions_to_a_float_leave_complex_and_integer_tensors(name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    layer = nn.Linear(1, 1)
    layer.phase = nn.Parameter(tensor.ones((1,), dtype="complex64"))
    layer.register_buffer("wide", tensor.ones((1,), dtype="complex128"))
    layer.register_buffer("count", tensor.ones((1,), dtype="int64"))
    assert getattr(layer, name)() is layer
    wanted = {"half": "float16", "float": "float32", "double": "float64"}.get(name, name)
    assert str(layer.weight.dtype) == str(layer.bias.dtype) == wanted
    assert layer.phase.dtype == tensor.complex64
    assert layer.wide.dtype == tensor.complex128
    assert layer.count.dtype == tensor.int64
    assert layer.to("float64").phase.dtype == tensor.float64  # as in PyTorch
