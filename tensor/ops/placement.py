"""Methods for devices, as in PyTorch. All tensors are on the CPU; other devices are errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tensor._devices import Device, require_cpu
from tensor.core.tensor import TensorCore

if TYPE_CHECKING:
    from tensor._tensor import Tensor

# Another name for `bool`: in the stub of `Tensor`, `bool` is the method.
Flag = bool


class Placement(TensorCore):
    """Methods that name a device."""

    __slots__ = ()

    def cuda(self, device: str | int | None = None, non_blocking: Flag = False) -> Tensor:
        """Raise an error unless `device` is the CPU. ``tensor.torch.cuda.is_available()`` returns False.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1,)).cuda()
        Traceback (most recent call last):
        tensor.InvalidArgumentError: device 'cuda' does not exist: all tensors are on the CPU. Omit
        .cuda() and device=, or write 'cpu'
        """
        del non_blocking
        self._raise_if_disposed()
        require_cpu(Device("cuda", device) if isinstance(device, int) else device or "cuda")
        return self  # type: ignore[return-value]  # every instance is a Tensor

    @property
    def is_cuda(self) -> Flag:
        """Whether the tensor is on a CUDA device, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_xpu(self) -> Flag:
        """Whether the tensor is on an XPU device, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_mps(self) -> Flag:
        """Whether the tensor is on an MPS device, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_cpu(self) -> Flag:
        """Whether the tensor is on the CPU, which is always True."""
        self._raise_if_disposed()
        return True

    @property
    def is_sparse(self) -> Flag:
        """Whether the tensor is sparse, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_quantized(self) -> Flag:
        """Whether the tensor is quantized, which is always False."""
        self._raise_if_disposed()
        return False

    def get_device(self) -> int:
        """Return the index of the device: -1 for the CPU."""
        self._raise_if_disposed()
        return -1

    def pin_memory(self) -> Self:
        """Return the tensor itself. Pinned memory is only useful with other devices.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((1,))
        >>> x.pin_memory() is x
        True
        """
        self._raise_if_disposed()
        return self

    def is_pinned(self) -> Flag:
        """Return False, because memory is never pinned."""
        self._raise_if_disposed()
        return False
