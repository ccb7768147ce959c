"""Memory shared with other libraries: DLPack in both directions, and Python's buffer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tensor._dtypes import require_supported
from tensor._errors import shown
from tensor.core.tensor import wrap
from tensor.creation.from_data import over_memory_of
from tensor.memory.buffer import array_of
from tensor.memory.buffer import copy as copied

if TYPE_CHECKING:
    from tensor._tensor import Tensor

# DLPack's device types with memory that the CPU can access: the CPU, pinned (CUDA, ROCm), managed (CUDA).
CPU = 1
_HOST_DEVICES = frozenset({CPU, 3, 11, 13})


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of `x`, an array or tensor of another library, by DLPack.

    Without a copy, a write to one changes both, and either may be freed first. If the producer marks the
    memory as read-only, or only supports DLPack before version 1, which has no such mark, the first write
    makes a private copy.

    Parameters
    ----------
    x
        An object with ``__dlpack__`` and ``__dlpack_device__``.
    device
        None: the device of `x`; the CPU must have access to its memory. ``"cpu"``: ask the producer to move
        `x` to the CPU.
    copy
        None: copy only if necessary. True: always copy. False: if a copy is necessary, raise the producer's
        error.

    Raises
    ------
    TypeError
        If `x` does not support DLPack, or tensors do not support its dtype.
    BufferError
        If `x` is on another device, or its library refuses to export it (PyTorch: if it requires grad).

    Examples
    --------
    >>> import numpy, tensor
    >>> array = numpy.zeros(2)
    >>> x = tensor.from_dlpack(array)
    >>> x[0] = 5
    >>> array.tolist()
    [5.0, 0.0]
    """
    if device not in (None, "cpu"):
        raise ValueError(f"from_dlpack(): tensors are always on device 'cpu', not {shown(device)}")
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError(
            f"from_dlpack() takes an object with __dlpack__ and __dlpack_device__, not {type(x).__name__}: "
            "write tensor.asarray(x)"
        )
    producer = cast("Any", x)
    kind, number = producer.__dlpack_device__()
    if device is None and kind not in _HOST_DEVICES:
        raise BufferError(
            f"from_dlpack(): {type(x).__name__} is on DLPack device ({int(kind)}, {number}), not on the "
            "CPU. Move it there with its own library, or write from_dlpack(x, device='cpu')"
        )
    # Make the copy here, because producers before version 1 do not support copies.
    wanted = None if copy else copy
    try:
        array = array_of(producer, "cpu" if device else None, wanted)
    except RuntimeError as error:
        # NumPy raises this for a dtype or number of dimensions that arrays do not support.
        dtype = getattr(x, "dtype", "unknown dtype")
        raise TypeError(
            f"from_dlpack(): {type(x).__name__} of {dtype} can't become a tensor: {error} Convert it first "
            "with its own library"
        ) from None
    require_supported(array.dtype)
    if copy:
        return wrap(copied(array))
    return over_memory_of(array)
