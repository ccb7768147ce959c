"""Short-time Fourier transforms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scopes.lowlevel import ModuleOnDemand
from tensor._errors import InvalidArgumentError, shown
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore, wrap
from tensor.ops.data import as_tensor
from tensor.ops.joining import concat

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops import fourier
    from tensor.ops.rare import complex_views
else:
    fourier = ModuleOnDemand("tensor.ops.fourier")
    complex_views = ModuleOnDemand("tensor.ops.rare.complex_views")

_Norm = Literal["backward", "ortho", "forward"]

_PADDING = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "constant": "constant"}


def _window(name: str, window: Tensor | None, n_fft: int, win_length: int, like: Tensor) -> Tensor:
    """Return the window (by default ones), padded with zeros on both sides to the length of a frame."""
    if not 0 < win_length <= n_fft:
        raise InvalidArgumentError(f"{name}: win_length must be from 1 to n_fft ({n_fft}), not {win_length}")
    real = np.float64 if like.dtype.itemsize > (8 if like.is_complex() else 4) else np.float32
    chosen = wrap(np.ones(win_length, real)) if window is None else window
    if chosen.shape != (win_length,):
        raise InvalidArgumentError(
            f"{name}: window must have win_length elements, shape ({win_length},), not {chosen.shape}"
        )
    before = (n_fft - win_length) // 2
    after = n_fft - win_length - before
    ends = [wrap(np.zeros(n, chosen.dtype)) for n in (before, after)]
    return concat([ends[0], chosen, ends[1]]) if before or after else chosen


def _hop(name: str, hop_length: int | None, n_fft: int) -> int:
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop < 1:
        origin = " (the default, n_fft // 4)" if hop_length is None else ""
        raise InvalidArgumentError(f"{name}: hop_length must be at least 1, not {hop}{origin}")
    return hop


class Spectrograms(TensorCore):
    """Short-time Fourier transforms."""

    __slots__ = ()

    @composite
    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
    ) -> Tensor:
        """Return the spectra of overlapping frames of a signal, shape (..., frequencies, frames).

        Parameters
        ----------
        n_fft
            The number of samples of a frame.
        hop_length
            The number of samples between the starts of two frames; a quarter of `n_fft` by default.
        win_length, window
            The length of the window, and the window to multiply each frame by: by default `n_fft` ones.
        center, pad_mode
            Whether the signal is padded so that frame t is centred at sample t * hop_length, and how:
            ``"reflect"``, ``"replicate"``, ``"circular"`` or ``"constant"``.
        normalized
            Whether the result is divided by sqrt(n_fft).
        onesided
            Whether frequencies below 0 are left out; by default if signal and window are real.
        return_complex
            Whether the result is complex, or has real and imaginary parts in a last dimension of size 2.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((8,)).stft(4, return_complex=True).shape
        (3, 9)
        """
        x = as_tensor(self)
        if x.ndim not in (1, 2):
            raise InvalidArgumentError(f"stft takes a signal or a batch of signals, not shape {x.shape}")
        hop = _hop("stft", hop_length, n_fft)
        factors = _window("stft", window, n_fft, n_fft if win_length is None else win_length, x)
        is_complex = x.is_complex() or factors.is_complex()
        if return_complex is None:
            if not is_complex:
                raise InvalidArgumentError(
                    "stft: write return_complex=True for a complex result, or False for pairs of real numbers"
                )
            return_complex = True
        if center:
            x = _padded(x, n_fft // 2, pad_mode)
        if not 0 < n_fft <= x.shape[-1]:
            raise InvalidArgumentError(
                f"stft: n_fft must be from 1 to the length of the signal ({x.shape[-1]}), not {n_fft}"
            )
        frames = x.unfold(-1, n_fft, hop) * factors
        one_sided = not is_complex if onesided is None else onesided
        if one_sided and is_complex:
            raise InvalidArgumentError(
                "stft: onesided=True takes a real signal and a real window: write onesided=False"
            )
        norm: _Norm = "ortho" if normalized else "backward"
        spectra = (fourier.rfft if one_sided else fourier.fft)(frames, norm=norm).mT
        return spectra if return_complex else complex_views.view_as_real(spectra)

    @composite
    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Tensor:
        """Return the signal whose spectra are in the tensor: the inverse of ``stft``, by overlapping sums.

        `length` is the length of the signal, and `return_complex` says whether the signal is complex. The
        other arguments are those of ``stft``.

        Raises
        ------
        InvalidArgumentError
            If the squares of the windows add up to 0 somewhere.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, 2.0, 3.0, 4.0])
        >>> tensor.allclose(x.stft(4, return_complex=True).istft(4), x)
        True
        """
        x = as_tensor(self)
        if not x.is_complex():
            if x.shape[-1:] != (2,):
                raise InvalidArgumentError(
                    "istft takes a complex tensor, or pairs of real numbers in a last dimension of size 2, "
                    f"not {x.dtype} of shape {x.shape}"
                )
            x = complex_views.view_as_complex(x.contiguous())
        if x.ndim not in (2, 3):
            raise InvalidArgumentError(
                f"istft takes spectra of shape (frequencies, frames), or a batch of them, not {x.shape}"
            )
        hop = _hop("istft", hop_length, n_fft)
        factors = _window("istft", window, n_fft, n_fft if win_length is None else win_length, x)
        one_sided = x.shape[-2] != n_fft if onesided is None else onesided
        if one_sided and return_complex:
            raise InvalidArgumentError(
                "istft: a complex signal has spectra of both sides: write onesided=False"
            )
        wanted = n_fft // 2 + 1 if one_sided else n_fft
        if x.shape[-2] != wanted:
            raise InvalidArgumentError(
                f"istft: for n_fft={n_fft} the spectra must have {wanted} frequencies, not {x.shape[-2]}"
            )
        norm: _Norm = "ortho" if normalized else "backward"
        if one_sided:
            frames = fourier.irfft(x.mT, n=n_fft, norm=norm)
        else:
            frames = fourier.ifft(x.mT, norm=norm)
            frames = frames if return_complex else frames.real
        count = x.shape[-1]
        total = n_fft + hop * (count - 1)
        places = wrap((np.arange(count)[:, None] * hop + np.arange(n_fft)).reshape(-1))
        start = n_fft // 2 if center else 0
        end = total - start if center and length is None else total if length is None else start + length
        signal = _overlapped(frames * factors, places, total)[..., start:end]
        squares = factors.square().expand((count, n_fft))
        weights = _overlapped(squares, places, total)[start:end]
        if weights.shape[-1] and weights.abs().min() < 1e-11:
            raise InvalidArgumentError(
                "istft: the squares of the windows add up to 0 somewhere: pass a window without zeros at its "
                "ends, a smaller hop_length, or center=True"
            )
        signal = signal / weights
        missing = 0 if length is None else length - signal.shape[-1]
        if missing > 0:
            rest = wrap(np.zeros((*signal.shape[:-1], missing), signal.dtype))
            signal = concat([signal, rest], axis=-1)
        return signal


def _padded(x: Tensor, count: int, mode: str) -> Tensor:
    how: Any = _PADDING.get(mode)
    if how is None:
        raise InvalidArgumentError(f"stft: pad_mode must be one of {tuple(_PADDING)}, not {shown(mode)}")
    length = x.shape[-1]
    if how == "constant":
        zeros = wrap(np.zeros((*x.shape[:-1], count), x.dtype))
        return concat([zeros, x, zeros], axis=-1)
    if how == "reflect" and count >= length:
        raise InvalidArgumentError(
            f"stft: {count} samples on each side can't be reflected from a signal of {length}: pass a longer "
            "one, pad_mode='constant', or center=False"
        )
    return x[..., np.pad(np.arange(length), count, mode=how)]


def _overlapped(frames: Tensor, places: Tensor, total: int) -> Tensor:
    """Return the signal that is the sum of overlapping frames. `places` has the index of each element."""
    outer = frames.shape[:-2]
    flat = frames.reshape((*outer, math.prod(frames.shape[-2:])))
    return wrap(np.zeros((*outer, total), frames.dtype)).index_add(-1, places, flat)
