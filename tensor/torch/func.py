"""``torch.func``: ``functional_call``. Transforms of functions, such as ``vmap``, do not exist."""

from nn.utils.stateless import functional_call

__all__ = ["functional_call"]
