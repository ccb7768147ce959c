"""``torch.signal.windows``: window functions.

``sym=False`` returns a periodic window: the symmetric window with one more element, without its last element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tensor as tn
from tensor import InvalidArgumentError, Tensor
from tensor.torch.calling import options_for_cpu

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(name: str, m: int, sym: bool, options: dict[str, Any], of: Callable[[Any, int], Any]) -> Tensor:
    """Return ``of(n, last)`` for the indices `n` and the last index of the symmetric window."""
    if m < 0:
        raise InvalidArgumentError(f"{name}: M must be at least 0, not {m}")
    given = options_for_cpu(options)
    dtype = given.pop("dtype", None) or "float32"
    if tn.asarray(0, dtype=dtype).dtype not in (tn.float32, tn.float64):
        raise TypeError(f"{name}: dtype must be float32 or float64, not {dtype}")
    last = max(m - 1 if sym else m, 1)
    values = np.ones(m) if m < 2 else np.asarray(of(np.arange(m, dtype=np.float64), last))
    made = tn.from_numpy(values.astype(np.float64)).to(dtype)
    return made.requires_grad_() if given.get("requires_grad") else made


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, **options: Any) -> Tensor:
    """Return the general cosine window: the sum of ``(-1)**i * a[i] * cos(i * angle)``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5]).tolist()
    [0.0, 1.0, 0.0]
    """
    weights = [float(weight) for weight in a]
    if not weights:
        raise InvalidArgumentError("general_cosine takes at least one weight: write a=[0.5, 0.5]")

    def of(n: Any, last: int) -> Any:
        terms = [(-1) ** i * w * np.cos(2 * math.pi * i * n / last) for i, w in enumerate(weights)]
        return np.sum(terms, 0)

    return _window("general_cosine", M, sym, options, of)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """Return the general Hamming window: ``alpha - (1 - alpha) * cos``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.general_hamming(3, alpha=0.5).tolist()
    [0.0, 1.0, 0.0]
    """
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return the Hamming window.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.hamming(3).shape
    (3,)
    """
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return the Hann window: ``(1 - cos) / 2``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.hann(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return the Blackman window.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.blackman(3)[1].item()
    1.0
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return the Nuttall window in Heinzel's definition.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.nuttall(3)[1].item()
    1.0
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return the Bartlett window: a triangle.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("bartlett", M, sym, options, lambda n, last: 1 - np.abs(2 * n / last - 1))


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return the cosine window: half a period of a sine.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.cosine(3)[1].item()
    1.0
    """
    return _window("cosine", M, sym, options, lambda n, last: np.sin(math.pi * (n + 0.5) / (last + 1)))


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """Return the exponential window: exp(-distance / tau) from the middle, or from `center` if not `sym`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.exponential(3)[1].item()
    1.0
    """
    if tau <= 0:
        raise InvalidArgumentError(f"exponential: tau must be above 0, not {tau}")
    if sym and center is not None:
        raise InvalidArgumentError(
            "exponential: a symmetric window has its center in the middle: omit center=, or write sym=False"
        )

    def of(n: Any, last: int) -> Any:
        return np.exp(-np.abs(n - (last / 2 if center is None else center)) / tau)

    return _window("exponential", M, sym, options, of)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """Return the Gaussian window with standard deviation `std`, in elements.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.gaussian(3)[1].item()
    1.0
    """
    if std <= 0:
        raise InvalidArgumentError(f"gaussian: std must be above 0, not {std}")
    return _window("gaussian", M, sym, options, lambda n, last: np.exp(-0.5 * ((n - last / 2) / std) ** 2))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """Return the Kaiser window with shape parameter `beta`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.signal.windows.kaiser(3)[1].item()
    1.0
    """
    if beta < 0:
        raise InvalidArgumentError(f"kaiser: beta must be at least 0, not {beta}")

    def of(n: Any, last: int) -> Any:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * n / last - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser", M, sym, options, of)
