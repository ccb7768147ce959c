"""Collate samples into a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tensor as tn
from tensor.core.tensor import TensorCore


def default_collate(samples: Sequence[Any]) -> Any:
    """Return a batch with the structure of `samples`: tensors are stacked along a new first dimension.

    Tensors, arrays and numbers become one tensor. Named tuples keep their type, other tuples become a tuple,
    mappings a dict, other sequences a list, all with tensors as items. Text and bytes become a list of them.

    Raises
    ------
    TypeError
        If a sample has another type.
    ValueError
        If samples have different shapes, lengths or keys.

    Examples
    --------
    >>> import nn, tensor
    >>> batch = nn.data.default_collate([(1.0, "a"), (2.0, "b")])
    >>> batch[0].tolist(), batch[1]
    ([1.0, 2.0], ['a', 'b'])
    """
    return _collated(samples, 0)


def default_convert(sample: Any) -> Any:
    """Convert NumPy arrays in a sample to tensors, also in nested tuples, lists and mappings.

    A `DataLoader` uses it for single samples (``batch_size=None``). The tensors share memory with the arrays.
    Other objects are returned unchanged.

    Examples
    --------
    >>> import numpy
    >>> from nn.data import default_convert
    >>> default_convert({"x": numpy.arange(2), "name": "a"})
    {'x': tensor([0, 1]), 'name': 'a'}
    """
    return _converted(sample, 0)


def _converted(sample: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"a sample has more than {_DEEPEST} levels of nesting, or contains itself")
    if isinstance(sample, np.ndarray) and sample.dtype.kind not in "SUOMmV":
        return tn.from_numpy(sample)
    if isinstance(sample, Mapping):
        return {key: _converted(part, depth + 1) for key, part in sample.items()}
    if isinstance(sample, tuple):
        parts = [_converted(part, depth + 1) for part in sample]
        return type(sample)(*parts) if hasattr(sample, "_fields") else tuple(parts)
    if isinstance(sample, list):
        return [_converted(part, depth + 1) for part in sample]
    return sample


_DEEPEST = 100


def _collated(samples: Sequence[Any], depth: int) -> Any:
    if not samples:
        raise ValueError("a batch must have at least one sample")
    if depth > _DEEPEST:
        raise ValueError(
            f"samples have more than {_DEEPEST} levels of nesting, or contain themselves: return tensors, or "
            "tuples, lists and mappings of them, or pass a collate_fn"
        )
    first = samples[0]
    _require_one_kind(samples)
    if isinstance(first, TensorCore):
        _require_one_shape(samples)
        return tn.stack(list(samples))
    if isinstance(first, (np.ndarray, np.generic)):
        _require_one_shape(samples)
        return tn.tensor(np.stack(samples))
    if isinstance(first, (bool, int, float, complex)):
        return tn.tensor(list(samples))
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, Mapping):
        _require_alike([sorted(map(str, sample)) for sample in samples], "keys")
        return {key: _collated([sample[key] for sample in samples], depth + 1) for key in first}
    if isinstance(first, Sequence):
        _require_alike([len(sample) for sample in samples], "lengths")
        parts = [_collated(part, depth + 1) for part in zip(*samples, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return tuple(parts) if isinstance(first, tuple) else parts
    raise TypeError(
        f"default_collate does not support samples of type {type(first).__name__}: return tensors, arrays, "
        "numbers, text, or tuples, lists and mappings of them, or pass a collate_fn"
    )


# The types that `default_collate` does not mix in one batch.
_KINDS: tuple[tuple[type, ...], ...] = (
    (TensorCore, np.ndarray, np.generic),
    (bool, int, float, complex, TensorCore, np.ndarray, np.generic),
    (str, bytes),
    (Mapping,),
    (Sequence,),
)


def _require_one_kind(samples: Sequence[Any]) -> None:
    """Raise TypeError for samples of types that do not go together, such as a number and a tuple."""
    if len(set(map(type, samples))) == 1:
        return
    kinds = next((kinds for kinds in _KINDS if isinstance(samples[0], kinds)), None)
    if kinds is None:
        return
    for sample in samples:
        if not isinstance(sample, kinds) or (isinstance(sample, (str, bytes)) and str not in kinds):
            raise TypeError(
                f"the samples of a batch have different types, {type(samples[0]).__name__} and "
                f"{type(sample).__name__}: return the same type for all samples, or pass a collate_fn"
            )


def _require_one_shape(samples: Sequence[Any]) -> None:
    _require_alike([tuple(x.shape) for x in samples], "shapes")


def _require_alike(found: list[Any], what: str) -> None:
    if any(each != found[0] for each in found):
        other = next(each for each in found if each != found[0])
        raise ValueError(
            f"the samples of a batch have different {what}, {found[0]} and {other}: make them equal, or pass "
            "a collate_fn"
        )
