"""Functions of ``torch`` that make tensors, in PyTorch's call forms: sizes one by one, ``device=``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import tensor as tn
from tensor import Tensor
from tensor.lowlevel import require_cpu, sizes_of
from tensor.torch.calling import here, placed, sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Generator
    from tensor.lowlevel import DtypeLike

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
empty_like: Final = placed(tn.empty_like)
zeros_like: Final = placed(tn.zeros_like)
ones_like: Final = placed(tn.ones_like)
full_like: Final = placed(tn.full_like)
rand_like: Final = placed(tn.rand_like)
randn_like: Final = placed(tn.randn_like)
tensor: Final = placed(tn.tensor)
scalar_tensor: Final = tensor
eye: Final = placed(tn.eye)
randperm: Final = placed(tn.randperm)
normal: Final = placed(tn.normal)


def as_tensor(data: object, dtype: DtypeLike | None = None, device: str | None = None) -> Tensor:
    """Return `data` as a tensor: itself, or over an array's memory, else with a copy.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.as_tensor([1, 2]).dtype
    dtype('int64')
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
    """Return `obj` as a tensor: itself, or over an array's memory, else with a copy.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.asarray([1.0, 2.0]).dtype
    dtype('float32')
    """
    require_cpu(device)
    return tn.asarray(obj, dtype=dtype, copy=copy, requires_grad=requires_grad)


def full(size: int | Sequence[int], fill_value: Any, **options: Any) -> Tensor:
    """Return a new tensor of `size` with `fill_value` everywhere.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.full((2,), 7, device="cpu").tolist()
    [7, 7]
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return tn.full(sizes_of("full", (size,)), value, **here(options))


def arange(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Return the numbers from `start` (0 when only one is given) up to `end`, not included, by `step`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.arange(3).tolist(), torch.arange(0, 6, 2, device="cpu").tolist()
    ([0, 1, 2], [0, 2, 4])
    """
    first, last, by = _number(start), _number(end), _number(step)
    return tn.arange(first, last, by, **here(options))


def linspace(start: float, end: float, steps: int, **options: Any) -> Tensor:
    """Return `steps` numbers at equal distances from `start` to `end`; float32, or `dtype`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.linspace(0, 1, steps=3).tolist()
    [0.0, 0.5, 1.0]
    """
    return tn.linspace(_number(start), _number(end), steps, **here(options))


def logspace(start: float, end: float, steps: int, base: float = 10.0, **options: Any) -> Tensor:
    """Return `base` to the powers of ``linspace(start, end, steps)``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    options = here(options)
    wanted = options.pop("dtype", None)
    powers = tn.pow(base, tn.linspace(start, end, steps, dtype="float64")).to(wanted or "float32")
    return powers.requires_grad_() if options.pop("requires_grad", False) else powers


def randint(
    low: int,
    high: int | Sequence[int] | None = None,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return integers drawn evenly from `low` (0 when left out) to `high`, not included.

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
    drawn = tn.randint(low, high, tuple(size), generator=generator, **here(options))  # type: ignore[arg-type]
    return drawn.requires_grad_() if requires_grad else drawn


def randint_like(input: Tensor, low: int, high: int | None = None, **options: Any) -> Tensor:
    """Return integers drawn evenly from `low` to `high`, in the shape and dtype of `input`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.randint_like(torch.zeros(2), 1).tolist()
    [0.0, 0.0]
    """
    options.setdefault("dtype", input.dtype)
    return randint(low, high, input.shape, **options)


def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Return the complex numbers of these parts.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.complex(torch.ones(1), torch.ones(1)).tolist()
    [(1+1j)]
    """
    return real + imag * 1j


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x
