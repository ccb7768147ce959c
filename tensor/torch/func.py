"""``torch.func``: gradients of functions, loops over batches, and modules with other parameters."""

from nn.utils.stateless import functional_call
from tensor.torch.mapping import vmap
from tensor.torch.transforms import grad, grad_and_value, jacrev, vjp

__all__ = ["functional_call", "grad", "grad_and_value", "jacrev", "vjp", "vmap"]
