from tensor.kernels.elementwise import SlopeKernel, UnaryKernel

erf: UnaryKernel
erfc: UnaryKernel
gelu: UnaryKernel
gelu_by_tanh: UnaryKernel
erf_slope: SlopeKernel
gelu_slope: SlopeKernel
gelu_by_tanh_slope: SlopeKernel
