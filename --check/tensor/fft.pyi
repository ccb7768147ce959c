# Written by .ci/write-stubs.
from tensor.ops.fourier import fft as fft
from tensor.ops.fourier import fftfreq as fftfreq
from tensor.ops.fourier import fftn as fftn
from tensor.ops.fourier import fftshift as fftshift
from tensor.ops.fourier import hfft as hfft
from tensor.ops.fourier import ifft as ifft
from tensor.ops.fourier import ifftn as ifftn
from tensor.ops.fourier import ifftshift as ifftshift
from tensor.ops.fourier import ihfft as ihfft
from tensor.ops.fourier import irfft as irfft
from tensor.ops.fourier import irfftn as irfftn
from tensor.ops.fourier import rfft as rfft
from tensor.ops.fourier import rfftfreq as rfftfreq
from tensor.ops.fourier import rfftn as rfftn

__all__ = ['fft', 'fftfreq', 'fftn', 'fftshift', 'hfft', 'ifft', 'ifftn', 'ifftshift', 'ihfft', 'irfft', 'irfftn', 'rfft', 'rfftfreq', 'rfftn']
