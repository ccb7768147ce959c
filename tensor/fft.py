"""Discrete Fourier transforms: the ``fft`` extension of the array API standard, and derivatives.

Transforms keep the precision of the data; integers, float16 and bfloat16 are computed in float32.
"""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import public_names as _public_names
from tensor.ops.fourier import (
    fft,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftfreq,
    rfftn,
)

__all__ = _public_names(globals())

_clear_errors_of(globals(), __all__)
