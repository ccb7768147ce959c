"""``torch.testing``: assertions that report the differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tensor as tn
from tensor import InvalidArgumentError, Tensor
from tensor._dtypes import Array, DtypeLike

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# Relative and absolute tolerances, as in PyTorch.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Assert that `actual` is close to `expected`: tensors, arrays, numbers, or sequences and dicts.

    Parameters
    ----------
    rtol, atol
        The tolerances: pass both or none. By default they depend on the dtype, as in PyTorch. Elements are
        close if ``abs(actual - expected) <= atol + rtol * abs(expected)``.
    equal_nan
        Whether nan equals nan.
    check_dtype
        Whether dtypes must be equal.
    msg
        The error message, or a function that converts the default message.

    Raises
    ------
    AssertionError
        If they are not close. The message gives the number and size of the differences.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    Traceback (most recent call last):
    ...
    AssertionError: Tensor-likes are not close!
    ...
    """
    del allow_subclasses, check_device, check_layout, check_stride
    if (rtol is None) != (atol is None):
        raise InvalidArgumentError("assert_close takes rtol and atol, or none of them")
    found = _difference(actual, expected, rtol, atol, equal_nan, check_dtype, "")
    if found is not None:
        raise AssertionError(found if msg is None else msg if isinstance(msg, str) else msg(found))


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True
) -> None:
    """Assert as ``assert_close`` does, without checking dtypes. nan equals nan by default."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False)


def _difference(
    actual: Any,
    expected: Any,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_dtype: bool,
    path: str,
) -> str | None:
    """Return a text about the differences; None if both are close."""
    where = f"\n\nThe failure occurred for item {path}" if path else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return f"The keys of the mappings do not match: {list(actual)} != {list(expected)}{where}"
        pairs = [(f"{path}[{key!r}]", actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(actual, expected, strict=True))]
    else:
        found = _difference_of_arrays(actual, expected, rtol, atol, equal_nan, check_dtype)
        return None if found is None else found + where
    for inner, first, second in pairs:
        found = _difference(first, second, rtol, atol, equal_nan, check_dtype, inner)
        if found is not None:
            return found
    return None


def _is_sequence(x: object) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, Tensor))


def _array(x: Any) -> Array:
    return x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x)


def _difference_of_arrays(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, check_dtype: bool
) -> str | None:
    first, second = _array(actual), _array(expected)
    if first.shape != second.shape:
        return f"The values for attribute 'shape' do not match: {first.shape} != {second.shape}."
    if check_dtype and first.dtype != second.dtype:
        return f"The values for attribute 'dtype' do not match: {first.dtype} != {second.dtype}."
    if rtol is None or atol is None:
        limits = [_TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (first, second)]
        rtol, atol = max(limit[0] for limit in limits), max(limit[1] for limit in limits)
    wide: Any = np.complex128 if "c" in (first.dtype.kind, second.dtype.kind) else np.float64
    if first.dtype.kind in "biu" and second.dtype.kind in "biu":
        wide = np.int64
    a, b = first.astype(wide), second.astype(wide)
    if wide is np.int64 and not rtol and not atol:
        wrong = first != second  # np.isclose compares as float64, which rounds integers above 2**53
    else:
        wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if not wrong.any():
        return None
    with np.errstate(all="ignore"):
        difference = np.abs(a - b)
        relative = np.where(wrong, difference / np.abs(b), 0)
    kind = "Scalars" if not first.shape else "Tensor-likes"
    count, size = int(wrong.sum()), max(1, wrong.size)
    return (
        f"{kind} are not close!\n\nMismatched elements: {count} / {size} ({100 * count / size:.1f}%)\n"
        f"Greatest absolute difference: {_worst(np.where(wrong, difference, 0))} (up to {atol} allowed)\n"
        f"Greatest relative difference: {_worst(relative)} (up to {rtol} allowed)"
    )


def _worst(difference: Array) -> str:
    place = int(np.argmax(np.nan_to_num(difference, nan=np.inf)))
    index = tuple(int(i) for i in np.unravel_index(place, difference.shape)) if difference.shape else ()
    return f"{difference.flat[place]} at index {index}"


def make_tensor(
    *shape: Any,
    dtype: DtypeLike,
    device: str | None = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
) -> Tensor:
    """Return random values from `low` to below `high`. Values of bool are random whatever the limits.

    The default of `low` is -9, or 0 for unsigned integers; that of `high` is 9, or 10 for integers.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> x = torch.testing.make_tensor(2, 3, dtype=torch.float32, low=0, high=1)
    >>> x.shape, bool((x >= 0).all())
    ((2, 3), True)
    """
    del device, noncontiguous
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    wanted = tn.zeros((), dtype=dtype).dtype
    if wanted.kind == "b":
        return tn.randint(0, 2, sizes).to(wanted)
    least = (0 if wanted.kind == "u" else -9) if low is None else low
    is_integer = wanted.kind in "iu"
    most = (10 if is_integer else 9) if high is None else high
    if is_integer:
        made = tn.randint(int(least), int(most), sizes).to(wanted)
    else:
        drawn = tn.rand(*sizes, dtype="float64") * (most - least) + least
        if wanted.kind == "c":
            drawn = drawn + 1j * (tn.rand(*sizes, dtype="float64") * (most - least) + least)
        made = drawn.to(wanted)
    if exclude_zero:
        made = tn.where(made == 0, tn.ones((), dtype=wanted), made)
    return made.requires_grad_(requires_grad) if requires_grad else made
