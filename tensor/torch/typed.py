"""``torch.FloatTensor`` and its like: PyTorch's old names for tensors of one dtype."""

from __future__ import annotations

from typing import Any

import tensor as tn
from tensor import Tensor
from tensor.lowlevel import Dtype, legacy_tensor

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
    """The type of such names: called they make a tensor, and ``isinstance`` asks for the dtype."""

    dtype: Dtype

    def __call__(cls, *given: Any) -> Tensor:
        """Return a tensor with a copy of the data given, or of the sizes given, its values not set."""
        return legacy_tensor(given, cls.dtype)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.dtype


class FloatTensor(metaclass=TypedTensor):
    """Tensors of float32: ``FloatTensor([1, 2])`` has these data, ``FloatTensor(2, 3)`` these sizes."""

    dtype: Dtype = tn.float32


class DoubleTensor(metaclass=TypedTensor):
    """Tensors of float64, as `FloatTensor`."""

    dtype: Dtype = tn.float64


class HalfTensor(metaclass=TypedTensor):
    """Tensors of float16, as `FloatTensor`."""

    dtype: Dtype = tn.float16


class BFloat16Tensor(metaclass=TypedTensor):
    """Tensors of bfloat16, as `FloatTensor`."""

    dtype: Dtype = tn.bfloat16


class LongTensor(metaclass=TypedTensor):
    """Tensors of int64, as `FloatTensor`."""

    dtype: Dtype = tn.int64


class IntTensor(metaclass=TypedTensor):
    """Tensors of int32, as `FloatTensor`."""

    dtype: Dtype = tn.int32


class ShortTensor(metaclass=TypedTensor):
    """Tensors of int16, as `FloatTensor`."""

    dtype: Dtype = tn.int16


class CharTensor(metaclass=TypedTensor):
    """Tensors of int8, as `FloatTensor`."""

    dtype: Dtype = tn.int8


class ByteTensor(metaclass=TypedTensor):
    """Tensors of uint8, as `FloatTensor`."""

    dtype: Dtype = tn.uint8


class BoolTensor(metaclass=TypedTensor):
    """Tensors of bools, as `FloatTensor`."""

    dtype: Dtype = tn.bool
