from tensor.kernels.elementwise import SlopeKernel, UnaryKernel

exp: UnaryKernel
log: UnaryKernel
tanh: UnaryKernel
sigmoid: UnaryKernel
silu: UnaryKernel
softplus: UnaryKernel
logsigmoid: UnaryKernel
tanh_slope: SlopeKernel
sigmoid_slope: SlopeKernel
silu_slope: SlopeKernel
softplus_slope: SlopeKernel
logsigmoid_slope: SlopeKernel
