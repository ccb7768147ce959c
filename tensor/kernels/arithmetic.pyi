from tensor.kernels.elementwise import BinaryKernel, UnaryKernel

add: BinaryKernel
subtract: BinaryKernel
multiply: BinaryKernel
divide: BinaryKernel
maximum: BinaryKernel
minimum: BinaryKernel
negative: UnaryKernel
absolute: UnaryKernel
square: UnaryKernel
sqrt: UnaryKernel
reciprocal: UnaryKernel
reciprocal_root: UnaryKernel
relu: UnaryKernel
hardsigmoid: UnaryKernel
hardswish: UnaryKernel
