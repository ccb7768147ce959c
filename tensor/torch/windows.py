"""``torch.hann_window`` and others: the window functions of ``torch.signal.windows``, periodic by default."""

from __future__ import annotations

from typing import Any

from tensor import Tensor
from tensor.torch.signal import windows

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Return the Hann window of `window_length` elements, shape (window_length,).

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.hann_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return windows.hann(window_length, sym=not periodic, **options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Tensor:
    """Return the Hamming window ``alpha - beta * cos``, shape (window_length,).

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.hamming_window(3, alpha=0.5, beta=0.5, periodic=False).tolist()
    [0.0, 1.0, 0.0]
    """
    return windows.general_cosine(window_length, a=[alpha, beta], sym=not periodic, **options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Return the Blackman window of `window_length` elements, shape (window_length,).

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.blackman_window(3, periodic=False)[1].item()
    1.0
    """
    return windows.blackman(window_length, sym=not periodic, **options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Return the Bartlett window of `window_length` elements, shape (window_length,).

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.bartlett_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return windows.bartlett(window_length, sym=not periodic, **options)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """Return the Kaiser window with shape parameter `beta`, shape (window_length,).

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.kaiser_window(3, periodic=False)[1].item()
    1.0
    """
    return windows.kaiser(window_length, beta=beta, sym=not periodic, **options)
