"""``torch.fft``: `tensor.fft` in PyTorch's call forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tensor import Tensor
from tensor import fft as _ours
from tensor.torch.calling import place, placed, with_out

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def _along_one(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(function)
    def call(input: Tensor, n: int | None = None, dim: int = -1, norm: Any = None) -> Tensor:
        return function(input, n=n, axis=dim, norm=norm or "backward")

    del call.__wrapped__  # the signature of `call` is PyTorch's
    return with_out(call)


def _over_several(
    function: Callable[..., Tensor], last: tuple[int, int] | None = None
) -> Callable[..., Tensor]:
    @wraps(function)
    def call(
        input: Tensor,
        s: int | Sequence[int] | None = None,
        dim: int | Sequence[int] | None = last,
        norm: Any = None,
    ) -> Tensor:
        axes = (dim,) if isinstance(dim, int) else dim
        sizes = (s,) if isinstance(s, int) else s
        return function(input, s=sizes, axes=axes, norm=norm or "backward")

    del call.__wrapped__  # the signature of `call` is PyTorch's
    return with_out(call)


def _shifting(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(function)
    def call(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        return function(input, axes=dim)

    del call.__wrapped__  # the signature of `call` is PyTorch's
    return with_out(call)


# A Hermitian transform is the inverse transform of the conjugate, with the opposite normalization.
_OTHER_SCALING = {None: "forward", "backward": "forward", "forward": "backward"}


def _hfftn(input: Tensor, *, s: Any, axes: Any, norm: Any) -> Tensor:
    """Return the transform of a Hermitian-symmetric signal over several dimensions: real numbers."""
    return _ours.irfftn(input.conj(), s=s, axes=axes, norm=_OTHER_SCALING.get(norm, norm))


def _ihfftn(input: Tensor, *, s: Any, axes: Any, norm: Any) -> Tensor:
    """Return the inverse of ``hfftn``: the first half of the signal."""
    return _ours.rfftn(input, s=s, axes=axes, norm=_OTHER_SCALING.get(norm, norm)).conj()


fft = _along_one(_ours.fft)
ifft = _along_one(_ours.ifft)
rfft = _along_one(_ours.rfft)
irfft = _along_one(_ours.irfft)
hfft = _along_one(_ours.hfft)
ihfft = _along_one(_ours.ihfft)
fftn = _over_several(_ours.fftn)
ifftn = _over_several(_ours.ifftn)
rfftn = _over_several(_ours.rfftn)
irfftn = _over_several(_ours.irfftn)
hfftn = _over_several(_hfftn)
ihfftn = _over_several(_ihfftn)
fft2 = _over_several(_ours.fftn, (-2, -1))
ifft2 = _over_several(_ours.ifftn, (-2, -1))
rfft2 = _over_several(_ours.rfftn, (-2, -1))
irfft2 = _over_several(_ours.irfftn, (-2, -1))
hfft2 = _over_several(_hfftn, (-2, -1))
ihfft2 = _over_several(_ihfftn, (-2, -1))
fftshift = _shifting(_ours.fftshift)
ifftshift = _shifting(_ours.ifftshift)


@with_out
@placed
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the frequencies of ``fft`` for `n` samples with spacing `d`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    found = _ours.fftfreq(n, d=d, dtype=dtype)
    return found.requires_grad_() if requires_grad else found


@with_out
@placed
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the frequencies of ``rfft`` for `n` samples with spacing `d`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    found = _ours.rfftfreq(n, d=d, dtype=dtype)
    return found.requires_grad_() if requires_grad else found


place(globals(), __all__)
