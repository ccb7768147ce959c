"""``torch.nn.utils.stateless``: `nn.utils.stateless`, name by name."""

from nn.utils.stateless import functional_call

__all__ = ["functional_call"]
