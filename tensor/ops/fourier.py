"""Discrete Fourier transforms over some dimensions, and their frequencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike, as_dtype, float32, is_floating
from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dims_of
from tensor.core.tensor import wrap
from tensor.kernels.lapack import of_any_dtype
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_tensor
from tensor.ops.elementwise import conj
from tensor.ops.messages import explain
from tensor.ops.moving import roll
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from typing import Any

    from tensor._tensor import Tensor

Norm = Literal["backward", "ortho", "forward"]
Ints = Sequence[int] | None

_INVERSE: dict[str, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_KERNELS: dict[str, Callable[..., Any]] = {
    # Lambdas, because NumPy loads `np.fft` when it is first used.
    "fftn": of_any_dtype(lambda *args, **options: np.fft.fftn(*args, **options)),
    "ifftn": of_any_dtype(lambda *args, **options: np.fft.ifftn(*args, **options)),
    "rfftn": of_any_dtype(lambda *args, **options: np.fft.rfftn(*args, **options)),
    "irfftn": of_any_dtype(lambda *args, **options: np.fft.irfftn(*args, **options)),
}


def _transformed(
    name: str, kernel: str, x: object, s: Sequence[int | None] | None, axes: Sequence[int] | None, norm: str
) -> Tensor:
    """Return the transform of `x` by `kernel`, over several dimensions. Errors begin with `name`."""
    y = as_tensor(x)
    array = y._live_array()
    if norm not in _INVERSE:
        raise InvalidArgumentError(
            f"{name}: norm must be 'backward', 'ortho' or 'forward', not {shown(norm)}"
        )
    if kernel == "rfftn" and array.dtype.kind == "c":
        raise TypeError(f"{name} takes real tensors, not {array.dtype}: write fft or fftn for complex ones")
    if axes is None:
        axes = range(-(array.ndim if s is None else len(s)), 0)
    places = dims_of(name, tuple(axes), array.ndim)
    if s is None:
        sizes = [array.shape[i] for i in places]
        if kernel == "irfftn" and sizes:
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        if len(s) != len(places):
            raise InvalidArgumentError(
                f"{name}: {len(s)} sizes for {len(places)} dimensions: give one for each"
            )
        sizes = [array.shape[i] if n is None or n == -1 else n for n, i in zip(s, places, strict=True)]
        if kernel == "irfftn" and s and s[-1] in (None, -1):
            sizes[-1] = 2 * (sizes[-1] - 1)
    if not places:
        raise InvalidArgumentError(f"{name} needs at least one dimension: shape {array.shape}, axes {axes}")
    if min(sizes) < 1:
        raise InvalidArgumentError(f"{name}: all sizes of a transform must be at least 1, not {tuple(sizes)}")
    failure: Exception
    try:
        out = np.asarray(run_kernel(_KERNELS[kernel], array, s=tuple(sizes), axes=places, norm=norm))
    except (TypeError, ValueError) as error:
        failure = explain(name, error, (array,))
    else:
        parameters = {"s": tuple(sizes), "axes": places, "norm": norm}
        return wrap_recorded(out, record(RULES[kernel], (y,), out, parameters))
    try:
        raise failure  # outside of `except`, so that its context keeps no traceback with arrays
    finally:
        del failure  # the variable and the traceback would be a cycle, which keeps the callers' tensors


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the discrete Fourier transform along `axis`: complex, of size `n`.

    Parameters
    ----------
    n
        The size. A longer dimension is truncated, a shorter one is padded with zeros. None keeps the size.
    norm
        The transform that is divided by n: ``"backward"`` the inverse, ``"forward"`` this one. ``"ortho"``
        divides both by the root of n.

    The gradient is the inverse transform with the norms exchanged. It can be differentiated again.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.fft(tensor.tensor([1.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    return _transformed("fft", "fftn", x, (n,), (axis,), norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of ``fft`` along `axis`.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.ifft(tensor.tensor([3.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    return _transformed("ifft", "ifftn", x, (n,), (axis,), norm)


def fftn(x: Tensor, /, *, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """Return the discrete Fourier transform over several dimensions: `axes`, of sizes `s`.

    Without `axes` it runs over the last ``len(s)`` dimensions, or over all without `s`.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.fftn(tensor.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _transformed("fftn", "fftn", x, s, axes, norm)


def ifftn(x: Tensor, /, *, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """Return the inverse of ``fftn``.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.ifftn(tensor.ones((2, 2))).tolist()
    [[(1+0j), 0j], [0j, 0j]]
    """
    return _transformed("ifftn", "ifftn", x, s, axes, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the transform of real numbers along `axis`: frequencies 0 to n // 2. Others are conjugates.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.rfft(tensor.tensor([1.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j)]
    """
    return _transformed("rfft", "rfftn", x, (n,), (axis,), norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of ``rfft`` along `axis`: `n` real numbers, by default 2 * (size - 1).

    It ignores imaginary parts at frequency 0, and for an even `n` at the middle frequency.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.irfft(tensor.tensor([2.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    return _transformed("irfft", "irfftn", x, (n,), (axis,), norm)


def rfftn(x: Tensor, /, *, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """Return the transform of real numbers over several dimensions: ``rfft`` along the last of them.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.rfftn(tensor.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _transformed("rfftn", "rfftn", x, s, axes, norm)


def irfftn(x: Tensor, /, *, s: Ints = None, axes: Ints = None, norm: Norm = "backward") -> Tensor:
    """Return the inverse of ``rfftn``.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.irfftn(tensor.tensor([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transformed("irfftn", "irfftn", x, s, axes, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the transform of a Hermitian-symmetric signal: `n` real numbers.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.hfft(tensor.tensor([1.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    y = as_tensor(x)
    return _transformed("hfft", "irfftn", conj(y) if y.is_complex() else y, (n,), (axis,), _inverse(norm))


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of ``hfft``: the first half of the signal, `n` // 2 + 1 complex numbers.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.ihfft(tensor.tensor([1.0, 1.0])).tolist()
    [(1-0j), -0j]
    """
    return conj(_transformed("ihfft", "rfftn", x, (n,), (axis,), _inverse(norm)))


def _inverse(norm: str) -> str:
    return _INVERSE.get(norm, norm)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DtypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return the frequencies of ``fft`` of `n` samples that are `d` apart, in cycles per unit of `d`.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DtypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return the frequencies of ``rfft`` of `n` samples that are `d` apart.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(
    name: str, kernel: Callable[..., Any], n: int, d: float, dtype: DtypeLike | None, device: str | None
) -> Tensor:
    require_cpu(device)
    wanted = float32 if dtype is None else as_dtype(dtype)
    if not is_floating(wanted):
        raise TypeError(f"{name} returns floating numbers, not {wanted}: pass dtype=tensor.float32")
    if n < 1:
        raise InvalidArgumentError(f"{name}: n must be at least 1, not {n}")
    return wrap(run_kernel(kernel, n, d).astype(wanted))


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return `x` with frequency 0 moved to the middle of each of `axes`, by default of all.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.fftshift(tensor.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the inverse of ``fftshift``.

    Examples
    --------
    >>> import tensor
    >>> tensor.fft.ifftshift(tensor.fft.fftshift(tensor.tensor([0, 1, 2]))).tolist()
    [0, 1, 2]
    """
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: Tensor, axes: int | Sequence[int] | None, direction: int) -> Tensor:
    y = as_tensor(x)
    places = dims_of(name, tuple(range(y.ndim)) if axes is None else axes, y.ndim)
    # `direction` matters for an odd size, whose halves differ.
    shifts = tuple(direction * (y.shape[i] // 2) for i in places)
    return roll(y, shifts, axis=places)
