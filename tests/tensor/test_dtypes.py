"""Dtypes: limits, promotion, kinds."""

import numpy as np
import pytest

import tensor


def test_limits_are_python_numbers():
    info = tensor.finfo(tensor.float32)
    assert (info.bits, info.dtype, type(info.eps)) == (32, tensor.float32, float)
    assert info.tiny == info.smallest_normal == float(np.finfo("f4").tiny)
    assert tensor.finfo("complex128").dtype == tensor.float64
    assert (tensor.iinfo("uint8").max, tensor.iinfo(tensor.tensor([1])).bits) == (255, 64)
    with pytest.raises(TypeError, match=r"iinfo\(\)"):
        tensor.finfo("int8")
    with pytest.raises(TypeError, match=r"finfo\(\)"):
        tensor.iinfo("float32")


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        (("int8", "uint8"), "int16"),
        (("float32", 2), "float32"),
        (("int8", True), "int8"),
        ((tensor.ones((1,)), "float16"), "float32"),
        ((1.5,), "float32"),
    ],
)
def test_promotion_is_numpys_and_python_numbers_are_weak(operands, expected):
    assert tensor.result_type(*operands) == np.dtype(expected)


def test_safe_casts():
    assert tensor.can_cast(tensor.ones((1,)), "float64")
    assert not tensor.can_cast("float64", "float32")


@pytest.mark.parametrize(
    ("dtype", "kinds"),
    [
        ("bool", {"bool"}),
        ("int8", {"signed integer", "integral", "numeric"}),
        ("uint8", {"unsigned integer", "integral", "numeric"}),
        ("float16", {"real floating", "numeric"}),
        ("complex64", {"complex floating", "numeric"}),
    ],
)
def test_kinds(dtype, kinds):
    names = (
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    )
    assert {name for name in names if tensor.isdtype(dtype, name)} == kinds
    assert tensor.isdtype(dtype, (dtype, "bool"))


@pytest.mark.parametrize("name", ["float", "int", "bool", "complex"])
def test_python_types_as_dtype_equal_the_dtype_of_python_numbers(name):
    kind = {"float": float, "int": int, "bool": bool, "complex": complex}[name]
    assert tensor.zeros((1,), dtype=kind).dtype == tensor.tensor(kind(1)).dtype


@pytest.mark.parametrize("name", ["bool", "int64", "float32", "complex128"])
def test_equal_dtypes_are_one_object(name):
    known = tensor.zeros((1,), dtype=name).dtype
    for given in (np.dtype(name), np.dtype(name).newbyteorder("="), np.dtype(name).newbyteorder(">")):
        array = np.zeros((2, 2)).astype(given)
        assert tensor.tensor(array).dtype is known
        assert tensor.zeros((2,), dtype=given).dtype is known
