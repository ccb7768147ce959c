"""Creation functions of ``torch``, in PyTorch's call forms: separate sizes, ``device=``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import tensor as tn
from tensor import Generator, InvalidArgumentError, Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike, is_floating
from tensor._errors import shown
from tensor.core.dims import sizes_of
from tensor.torch.calling import filling, options_for_cpu, placed, placed_like, sized, with_out

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "complex",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "scalar_tensor",
    "tensor",
    "zeros",
    "zeros_like",
]

empty: Final = sized(tn.empty)
zeros: Final = sized(tn.zeros)
ones: Final = sized(tn.ones)
rand: Final = sized(tn.rand)
randn: Final = sized(tn.randn)
empty_like: Final = placed_like(tn.empty_like)
zeros_like: Final = placed_like(tn.zeros_like)
ones_like: Final = placed_like(tn.ones_like)
full_like: Final = placed_like(tn.full_like)
rand_like: Final = placed_like(tn.rand_like)
randn_like: Final = placed_like(tn.randn_like)
tensor: Final = placed(tn.tensor)
randperm: Final = filling(placed(tn.randperm))
normal: Final = with_out(placed(tn.normal))


@filling
def eye(n: int, m: int | None = None, **options: Any) -> Tensor:
    """Return a matrix of `n` rows and `m` columns, by default as many, with ones on the diagonal, else zeros.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.eye(n=2, m=3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    return tn.eye(n, m, **options_for_cpu(options))


def scalar_tensor(s: float, **options: Any) -> Tensor:
    """Return a tensor without dimensions, of float32 unless `dtype` is given.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.scalar_tensor(2).item()
    2.0
    """
    options.setdefault("dtype", "float32")
    return tensor(s, **options)


def as_tensor(data: object, dtype: DtypeLike | None = None, device: str | None = None) -> Tensor:
    """Return `data` as a tensor. Tensors and arrays of the wanted dtype are not copied.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> str(torch.as_tensor([1, 2]).dtype)
    'int64'
    """
    require_cpu(device)
    return tn.asarray(data, dtype=dtype)


def asarray(
    obj: object,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `obj` as a tensor. By default tensors and arrays of the wanted dtype are not copied.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> str(torch.asarray([1.0, 2.0]).dtype)
    'float32'
    """
    require_cpu(device)
    return tn.asarray(obj, dtype=dtype, copy=copy, requires_grad=requires_grad)


@filling
def full(size: int | Sequence[int], fill_value: Any, **options: Any) -> Tensor:
    """Return a new tensor of shape `size`, filled with `fill_value`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.full((2,), 7, device="cpu").tolist()
    [7, 7]
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return tn.full(sizes_of("full", (size,)), value, **options_for_cpu(options))


@filling
def arange(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Return the numbers from `start` (default 0) to `end`, exclusive, in steps of `step`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.arange(3).tolist(), torch.arange(0, 6, 2, device="cpu").tolist()
    ([0, 1, 2], [0, 2, 4])
    """
    first, last, by = _number(start), _number(end), _number(step)
    if last is not None and by != 0 and (last - first) * by < 0:
        raise InvalidArgumentError(f"arange: steps of {by} do not lead from {first} to {last}")
    given = options_for_cpu(options)
    if given.get("dtype") is not None and tn.asarray(0, dtype=given["dtype"]).dtype.kind in "iu":
        # With an integer dtype, truncate the arguments, not the results.
        first, last, by = int(first), None if last is None else int(last), int(by)
    return tn.arange(first, last, by, **given)


@filling
def linspace(start: float, end: float, steps: int, **options: Any) -> Tensor:
    """Return `steps` evenly spaced numbers from `start` to `end`, inclusive; float32 or `dtype`.

    The default dtype is complex64 if a number is complex.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linspace(0, 1, steps=3).tolist()
    [0.0, 0.5, 1.0]
    """
    given = options_for_cpu(options)
    first, last = _number(start), _number(end)
    wanted = given.get("dtype")
    _require_steps("linspace", steps, wanted, first, last)
    if wanted is not None and tn.asarray(0, dtype=wanted).dtype.kind in "iu":
        return tn.from_numpy(_integers(int(first), int(last), steps)).to(wanted)
    return tn.linspace(first, last, steps, **given)


def _require_steps(name: str, steps: int, dtype: DtypeLike | None, *numbers: object) -> None:
    """Raise an error for fewer than 0 steps, and for a complex number that `dtype` can't hold."""
    if steps < 0:
        raise InvalidArgumentError(f"{name}: steps must be at least 0, not {steps}")
    found = [x for x in numbers if isinstance(x, builtins.complex)]
    if found and dtype is not None and tn.asarray(0, dtype=dtype).dtype.kind != "c":
        raise InvalidArgumentError(
            f"{name}: dtype {dtype} can't hold the complex number {found[0]}: write its real part, or a "
            "complex dtype"
        )


def _integers(first: int, last: int, steps: int) -> Any:
    """Return evenly spaced, truncated numbers. The second half is computed from `last`, as in PyTorch."""
    step = (last - first) / (steps - 1) if steps > 1 else 0.0
    places = np.arange(steps)
    from_first, from_last = first + step * places, last - step * (steps - places - 1)
    return np.trunc(np.where(places < steps // 2, from_first, from_last) if steps > 1 else from_first).astype(
        np.int64
    )


@filling
def logspace(start: float, end: float, steps: int, base: float = 10.0, **options: Any) -> Tensor:
    """Return `base` to the power of ``linspace(start, end, steps)``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    options = options_for_cpu(options)
    wanted = options.pop("dtype", None)
    first, last, base = _number(start), _number(end), _number(base)
    _require_steps("logspace", steps, wanted, first, last, base)
    if any(isinstance(x, builtins.complex) for x in (first, last, base)):
        powers = tn.pow(base, tn.linspace(first, last, steps, dtype="complex128")).to(wanted or "complex64")
        return powers.requires_grad_() if options.pop("requires_grad", False) else powers
    if wanted is not None and tn.asarray(0, dtype=wanted).dtype.kind in "iu":
        first, last = int(first), int(last)
    powers = tn.pow(base, tn.linspace(first, last, steps, dtype="float64")).to(wanted or "float32")
    return powers.requires_grad_() if options.pop("requires_grad", False) else powers


@filling
def randint(
    low: int = 0,
    high: int | Sequence[int] | None = None,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return random integers from `low` (default 0) to `high`, exclusive.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.randint(1, (2,)).tolist(), torch.randint(3, 4, size=(1,), device="cpu").tolist()
    ([0, 0], [3])
    """
    if size is None:
        low, high, size = 0, low, high  # type: ignore[assignment]  # randint(high, size)
    elif high is None:
        low, high = 0, low
    if not hasattr(size, "__iter__"):
        raise TypeError(
            f"randint takes a tuple of sizes, not {shown(size)}: write torch.randint(0, 10, (2, 3))"
        )
    drawn = tn.randint(low, high, tuple(size), generator=generator, **options_for_cpu(options))  # type: ignore[arg-type]
    return drawn.requires_grad_() if requires_grad else drawn


def randint_like(input: Tensor, low: int, high: int | None = None, **options: Any) -> Tensor:
    """Return random integers from `low` to `high`, exclusive, with the shape and dtype of `input`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.randint_like(torch.zeros(2), 1).tolist()
    [0.0, 0.0]
    """
    options.setdefault("dtype", input.dtype)
    return randint(low, high, input.shape, **options)


@with_out
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Return a complex tensor with these real and imaginary parts.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.complex(torch.ones(1), torch.ones(1)).tolist()
    [(1+1j)]
    """
    for x in (real, imag):
        if not isinstance(x, Tensor):
            raise TypeError(f"complex takes tensors, not {type(x).__name__}: write torch.tensor(x)")
    if real.dtype != imag.dtype or not is_floating(real.dtype):
        raise TypeError(f"complex takes floating tensors of one dtype, not {real.dtype} and {imag.dtype}")
    return real + imag * 1j


def _number(x: Any) -> Any:
    if isinstance(x, Tensor) and x.ndim:
        raise InvalidArgumentError(f"start, end and step must be numbers, not a tensor of shape {x.shape}")
    return x.item() if isinstance(x, Tensor) else x
