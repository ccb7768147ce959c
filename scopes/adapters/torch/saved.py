"""Tensors that PyTorch's graphs save for backward: which of them can leave memory, and their versions."""

from __future__ import annotations

from typing import Any

from scopes.adapters.torch.library import torch

is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# The least size in bytes of a storage to move. In the file even a scalar would take a whole page.
SMALL = 4096
_empty: dict[Any, Any] = {}


class Version:
    """Checks whether a saved tensor was changed in place, which PyTorch does not check with hooks."""

    __slots__ = ("alias", "expected", "kind", "shape")

    def __init__(self, x: Any) -> None:
        # This shares the version counter of `x`, but has no graph.
        self.alias: Any = x.detach()
        self.expected: int = x._version
        self.kind, self.shape = x.type(), x.shape

    def check(self) -> None:
        """Raise PyTorch's error if the tensor has changed."""
        if self.alias._version != self.expected:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: [{self.kind} {list(self.shape)}] is at version {self.alias._version}; expected "
                f"version {self.expected} instead. Change a copy of it: x = x + 1 instead of x += 1"
            )

    def check_again(self) -> None:
        """Raise an error if the tensor has changed and a value must be computed from it again."""
        if self.alias._version != self.expected:
            raise RuntimeError(
                f"a value that the budget dropped can't be computed again: [{self.kind} {list(self.shape)}] "
                "was changed in place outside the block. Change it inside the block, or after backward"
            )


def nothing_on(device: Any) -> Any:
    """Return an empty tensor on `device`."""
    if device not in _empty:
        _empty[device] = torch.empty(0, device=device)
    return _empty[device]


def is_movable(x: Any) -> bool:
    """Return whether the memory of `x` can be moved out, and whether that would free memory."""
    if type(x) not in _PLAIN or x.layout is not torch.strided or is_wrapped(x):
        return False
    if not x.untyped_storage().resizable():  # memory of NumPy or of another library
        return False
    if x.device.type not in ("cpu", "cuda") or x.is_conj() or x.is_neg():
        return False
    # A leaf stays in memory, because the graph refers to the tensor itself.
    base = x if x._base is None else x._base
    return x.untyped_storage().nbytes() >= SMALL and not (base.is_leaf and base.requires_grad)
