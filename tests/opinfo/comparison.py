"""Whether a result of `tensor.torch` equals PyTorch's: structure, shapes, dtypes, values."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import tensor.torch as ours

# The largest relative error; as absolute error for values below 1. float32: some sums of PyTorch's are
# less exact than ours.
_TOLERANCES = {
    "bfloat16": 1.6e-2,
    "float16": 2e-3,
    "float32": 2e-5,
    "float64": 1e-7,
    "complex64": 2e-5,
    "complex128": 1e-7,
}

# As absolute error, where PyTorch itself allows less.
_LEAST = {"bfloat16": 1e-5}


def difference(found: Any, expected: Any, *, values: bool = True, tolerance: float = 1.0) -> str | None:
    """Return how `found` differs from PyTorch's `expected`, or None.

    Without `values` shapes and dtypes alone count. `tolerance` multiplies the usual one.
    """
    if isinstance(expected, torch.Tensor):
        return _of_tensors(found, expected, values, tolerance)
    if isinstance(expected, torch.Size):
        return None if tuple(found) == tuple(expected) else f"{found}, not {tuple(expected)}"
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return f"{type(found).__name__}, not {type(expected).__name__} of {len(expected)}"
        for i, (x, y) in enumerate(zip(found, expected, strict=True)):
            told = difference(x, y, values=values, tolerance=tolerance)
            if told is not None:
                return f"[{i}]: {told}"
        return None
    if isinstance(expected, dict):
        if found.keys() != expected.keys():
            return f"keys {list(found)}, not {list(expected)}"
        return difference(list(found.values()), list(expected.values()), values=values, tolerance=tolerance)
    if isinstance(expected, (bool, int, float, complex)):
        if isinstance(found, ours.Tensor):
            return "a tensor, not a number"
        same = np.allclose(found, expected, rtol=1e-5, equal_nan=True) or not values
        return None if same else f"{found}, not {expected}"
    if isinstance(expected, torch.dtype):
        return None if str(found) == str(expected).removeprefix("torch.") else f"{found}, not {expected}"
    return None if found == expected else f"{found!r}, not {expected!r}"


def _of_tensors(found: Any, expected: torch.Tensor, values: bool, tolerance: float) -> str | None:
    if not isinstance(found, ours.Tensor):
        return f"{type(found).__name__}, not a tensor"
    if tuple(found.shape) != tuple(expected.shape):
        return f"shape {tuple(found.shape)}, not {tuple(expected.shape)}"
    dtype = str(expected.dtype).removeprefix("torch.")
    if str(found.dtype) != dtype:
        return f"dtype {found.dtype}, not {dtype}"
    if not values:
        return None
    if expected.dtype == torch.bfloat16:
        found, expected = found.float(), expected.float()
    x = found.detach().numpy()
    y = expected.numpy(force=True)
    if x.dtype.kind not in "fc":
        return None if np.array_equal(x, y) else _worst(x, y)
    bound = _TOLERANCES[dtype] * tolerance
    least = _LEAST.get(dtype, bound)
    return None if np.allclose(x, y, rtol=bound, atol=least, equal_nan=True) else _worst(x, y)


def _worst(x: Any, y: Any) -> str:
    differs = ~np.isclose(x, y, rtol=1e-5, atol=1e-5, equal_nan=True) if x.dtype.kind in "fc" else x != y
    if not differs.any():
        return "values differ in the last places"
    place = tuple(int(i) for i in np.argwhere(differs)[0])
    return f"{int(differs.sum())} of {x.size} values; at {place} {x[place]}, not {y[place]}"
