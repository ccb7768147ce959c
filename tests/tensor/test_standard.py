"""The array API standard beside its functions: the namespace, what it tells of itself, devices, promotion."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor
from tests.tensor.arrays import FLOATING, INTEGERS


def test_a_tensor_names_its_namespace_and_refuses_versions_to_come():
    x = tensor.ones((2,))
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is tensor
    with pytest.raises(ValueError, match=r"'2031\.12'.*2024\.12"):
        x.__array_namespace__(api_version="2031.12")


def test_the_namespace_of_version_2025_has_tuples_where_those_before_it_have_lists():
    x, y = tensor.ones((2,)), tensor.zeros((2,))
    later = x.__array_namespace__(api_version="2025.12")
    assert later is y.__array_namespace__(api_version=later.__array_api_version__)
    for xp, kind in ((tensor, list), (later, tuple)):
        assert [type(xp.meshgrid(x, y, indexing="ij")), type(xp.broadcast_arrays(x, y))] == [kind, kind]
        assert xp.__array_namespace_info__().devices() == kind(["cpu"])
    assert [a.tolist() for a in later.meshgrid(x, y)] == [a.tolist() for a in tensor.meshgrid(x, y)]


def test_the_namespace_of_version_2025_has_all_else_that_tensor_has():
    later = tensor.ones((1,)).__array_namespace__(api_version="2025.12")
    differ = {"__array_api_version__", "__array_namespace_info__", "broadcast_arrays", "meshgrid"}
    assert {name for name in tensor.__all__ if getattr(later, name) is not getattr(tensor, name)} == differ
    assert set(dir(later)) == set(dir(tensor))
    with pytest.raises(AttributeError, match="no_such_name"):
        later.no_such_name  # noqa: B018


def test_array_namespace_info_describes_the_namespace():
    info = tensor.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes()["real floating"] == tensor.zeros((1,)).dtype
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}
    assert "float16" not in info.dtypes()
    with pytest.raises(ValueError, match="'floats' is not a kind of dtype"):
        info.dtypes(kind="floats")


def test_constants_are_python_floats():
    assert (tensor.e, tensor.pi, tensor.inf) == (math.e, math.pi, math.inf)
    assert math.isnan(tensor.nan)
    assert tensor.ones((2,))[tensor.newaxis].shape == (1, 2)


CREATING = {
    "zeros": (2,), "ones": (2,), "empty": (2,), "full": (2, 1.0), "arange": (3,), "linspace": (0, 1, 3),
    "eye": (2,), "asarray": ([1.0],), "zeros_like": (tensor.ones((1,)),), "ones_like": (tensor.ones((1,)),),
    "empty_like": (tensor.ones((1,)),), "full_like": (tensor.ones((1,)), 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CREATING)
def test_a_function_that_makes_tensors_takes_the_cpu_and_no_other_device(name):
    make = getattr(tensor, name)
    assert make(*CREATING[name], device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="device 'cuda' does not exist"):
        make(*CREATING[name], device="cuda")


def test_a_move_to_the_own_device_returns_the_tensor_itself():
    x = tensor.ones((1,))
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match="device 'cuda' does not exist"):
        x.to_device("cuda")
    with pytest.raises(ValueError, match="no streams"):
        x.to_device("cpu", stream=1)


def test_asarray_takes_any_dtype_at_its_word():
    x = tensor.ones((2,), dtype="float32")
    assert tensor.asarray(x, dtype="float64").dtype == tensor.float64
    assert tensor.asarray(np.ones(2, np.float32), dtype=tensor.float64).dtype == tensor.float64


@pytest.mark.parametrize("floating", [*FLOATING, "complex64", "complex128"])
@pytest.mark.parametrize("integer", ["bool", *INTEGERS])
def test_integers_with_floats_promote_to_the_dtype_of_the_floats(floating, integer):
    x, y = tensor.ones((2,), dtype=floating), tensor.ones((2,), dtype=integer)
    for result in (
        x + y,
        y * x,
        x**y,
        tensor.where(y == 1, x, y),
        tensor.concat([y, x]),
        tensor.stack([y, x]),
    ):
        assert result.dtype == x.dtype == tensor.result_type(x, y)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_integers_that_must_become_floats_become_the_default_dtype(dtype):
    x = tensor.ones((2, 2), dtype=dtype)
    for result in (
        x / x,
        x * 2.5,
        tensor.sqrt(x),
        tensor.mean(x),
        tensor.std(x),
        tensor.linalg.inv(tensor.eye(2)),
    ):
        assert result.dtype == tensor.float32
    assert (x * 1j).dtype == tensor.fft.fft(x).dtype == tensor.complex64


def test_integers_that_no_dtype_holds_promote_to_the_default_dtype():
    x, y = tensor.ones((2,), dtype="uint64"), tensor.ones((2,), dtype="int8")
    assert (x + y).dtype == tensor.result_type("uint64", "int64") == tensor.float32


def test_float64_of_numpy_arrays_and_scalars_gives_float64():
    x = tensor.tensor([1, 2])
    assert (x * np.float64(2.5)).dtype == tensor.add(x, np.ones(2)).dtype == tensor.float64


def test_in_place_integers_are_added_to_floats_in_their_dtype():
    x = tensor.ones((2,))
    x += tensor.tensor([1, 2])
    assert (x.tolist(), x.dtype) == ([2.0, 3.0], tensor.float32)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_running_sums_and_products_keep_the_dtype_that_is_asked_for(dtype):
    x = tensor.tensor([1, 2, 3], dtype="int8")
    for function in (tensor.cumulative_sum, tensor.cumulative_prod):
        assert function(x, dtype=dtype).dtype == np.dtype(dtype)
        assert function(x, include_initial=True).shape == (4,)
    assert tensor.tensor([1, 2], dtype="int8").cumsum(0, dtype=dtype).dtype == np.dtype(dtype)


def test_vecdot_keeps_small_integers_along_any_axis():
    x = tensor.ones((2, 3), dtype="int8")
    assert {tensor.vecdot(x, x, axis=axis).dtype for axis in (0, 1)} == {tensor.int8}


def test_differences_of_several_orders_with_prepend_and_append():
    x = np.array([[1.0, 4.0, 9.0], [0.0, 2.0, 5.0]])
    y = tensor.tensor(x)
    for options in (
        {},
        {"n": 2},
        {"axis": 0},
        {"n": 0},
        {"prepend": np.zeros((2, 1)), "append": np.ones((2, 2))},
    ):
        given = {k: tensor.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        np.testing.assert_array_equal(tensor.diff(y, **given).numpy(), np.diff(x, **options))
    with pytest.raises(ValueError, match="n must be at least 0"):
        tensor.diff(y, n=-1)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("step", [1, 2])
def test_floor_division_of_infinities_follows_the_array_api_standard(dtype, step):
    def every(values):
        return tensor.tensor(np.repeat(np.array(values, dtype), step))[::step]

    x, y = every([math.inf, -math.inf, 3.0, -3.0]), every([2.0, 2.0, -math.inf, math.inf])
    assert (x // y).tolist() == [math.inf, -math.inf, 0.0, 0.0]
    assert tensor.signbit(x // y).tolist() == [False, True, True, True]
    x //= y
    assert x.tolist() == [math.inf, -math.inf, 0.0, 0.0]


def test_infinite_numbers_divide_as_infinite_tensors_do():
    x = tensor.tensor([-3.0, 0.0, 3.0])
    for infinity in (math.inf, np.float32(math.inf), np.float64(math.inf)):
        assert (x // infinity).tolist() == [0.0, 0.0, 0.0]
        assert (infinity // x[2:]).tolist() == [math.inf]
    assert (tensor.tensor([7, -7]) // 2).tolist() == [3, -4]
    assert math.isnan((tensor.tensor([math.inf]) // math.inf).item())


def test_the_last_of_many_elements_may_be_the_one_that_is_infinite():
    x = tensor.zeros((20_000,))
    x[-1] = math.inf
    assert (x // 2)[-2:].tolist() == [0.0, math.inf]


def test_expm1_and_tanh_of_complex_infinities_equal_their_limits():
    x = tensor.tensor([complex(math.inf, 0.0), complex(-math.inf, math.inf), 0j])
    assert tensor.expm1(x).tolist()[::2] == [complex(math.inf, 0.0), 0j]
    assert tensor.expm1(x).tolist()[1].real == -1
    assert tensor.tanh(tensor.tensor([complex(math.inf, 3.0)])).tolist() == [1 + 0j]


def test_transpose_takes_all_dimensions_in_a_tuple():
    x = tensor.zeros((2, 3, 4))
    assert (x.transpose((2, 0, 1)).shape, x.transpose().shape) == ((4, 2, 3), (4, 3, 2))
    with pytest.raises(TypeError, match="two dimensions, or one tuple"):
        x.transpose((0, 1), 2)


def test_new_dimensions_are_named_once():
    assert tensor.expand_dims(tensor.ones((2,)), axis=(0, 2)).shape == (1, 2, 1)
    with pytest.raises(ValueError, match="twice"):
        tensor.expand_dims(tensor.ones((2,)), axis=(0, 0))


def test_isin_looks_up_each_element():
    x = tensor.tensor([1, 2, 3])
    assert tensor.isin(x, tensor.tensor([3, 1]), invert=True).tolist() == [False, True, False]
    assert tensor.isin(2, x).item() is True
