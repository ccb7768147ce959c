"""Devices: the CPU alone; and errors that are both Python's ValueError and PyTorch's RuntimeError."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensor
from tensor import Device, InvalidArgumentError


def test_a_device_is_its_name_and_has_pytorchs_parts() -> None:
    device = tensor.zeros((1,)).device
    assert device == "cpu"
    assert (device.type, device.index, repr(device), str(device)) == (
        "cpu",
        None,
        "device(type='cpu')",
        "cpu",
    )
    assert Device("cuda", 1) == Device("cuda:1") == "cuda:1"
    assert (Device("cuda:1").type, Device("cuda:1").index) == ("cuda", 1)
    assert Device(device) is device


@pytest.mark.parametrize("name", ["", "cuda:", "cuda:x", ":0", "a b"])
def test_an_invalid_device_name_raises(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not the name of a device"):
        Device(name)


def test_a_device_is_named_by_a_string() -> None:
    with pytest.raises(TypeError, match="must be a string"):
        Device(0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="not the name of a device"):
        Device("cuda:0", 1)


def test_devices_are_copied_and_pickled() -> None:
    device = Device("cuda:1")
    for other in (copy.copy(device), copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        assert (type(other), other) == (Device, device)


def test_a_tensor_moves_to_the_cpu_and_to_no_other_device() -> None:
    x = tensor.zeros((2,))
    assert x.to("cpu", non_blocking=True) is x
    assert x.to(Device("cpu", 0)) is x
    assert x.to(Device("cpu"), tensor.float64).dtype == tensor.float64
    for device in ("cuda", Device("cuda", 0), "mps:0"):
        with pytest.raises(InvalidArgumentError, match=r"device .* does not exist: .* or write 'cpu'"):
            x.to(device)
    with pytest.raises(TypeError, match="must be a string"):
        x.to(device=0)  # type: ignore[arg-type]


def test_shapes_that_do_not_fit_are_errors_of_python_and_of_pytorch() -> None:
    x, y = tensor.ones((2, 3)), tensor.ones((4,))
    for fail in (lambda: x + y, lambda: x @ y, lambda: x.view(5), lambda: tensor.concat([x, y])):
        with pytest.raises(RuntimeError) as caught:
            fail()
        assert isinstance(caught.value, ValueError)
