"""``torch.FloatTensor`` and so on: PyTorch's older types for tensors of one dtype."""

from __future__ import annotations

from typing import Any

import tensor as tn
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Dtype
from tensor.creation.legacy import legacy_tensor

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class TypedTensor(type):
    """Metaclass of these types: a call creates a tensor, and ``isinstance`` checks the dtype."""

    dtype: Dtype

    def __call__(cls, *given: Any) -> Tensor:
        """Return a tensor with a copy of the given data, or an uninitialized one of the given sizes."""
        return legacy_tensor(given, cls.dtype)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.dtype


@set_module("tensor.torch")
class FloatTensor(metaclass=TypedTensor):
    """Type of float32 tensors: ``FloatTensor([1, 2])`` takes data, ``FloatTensor(2, 3)`` sizes."""

    dtype: Dtype = tn.float32


@set_module("tensor.torch")
class DoubleTensor(metaclass=TypedTensor):
    """Type of float64 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.float64


@set_module("tensor.torch")
class HalfTensor(metaclass=TypedTensor):
    """Type of float16 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.float16


@set_module("tensor.torch")
class BFloat16Tensor(metaclass=TypedTensor):
    """Type of bfloat16 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.bfloat16


@set_module("tensor.torch")
class LongTensor(metaclass=TypedTensor):
    """Type of int64 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.int64


@set_module("tensor.torch")
class IntTensor(metaclass=TypedTensor):
    """Type of int32 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.int32


@set_module("tensor.torch")
class ShortTensor(metaclass=TypedTensor):
    """Type of int16 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.int16


@set_module("tensor.torch")
class CharTensor(metaclass=TypedTensor):
    """Type of int8 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.int8


@set_module("tensor.torch")
class ByteTensor(metaclass=TypedTensor):
    """Type of uint8 tensors; see `FloatTensor`."""

    dtype: Dtype = tn.uint8


@set_module("tensor.torch")
class BoolTensor(metaclass=TypedTensor):
    """Type of bool tensors; see `FloatTensor`."""

    dtype: Dtype = tn.bool
