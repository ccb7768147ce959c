"""Memory shared with other libraries: DLPack in both directions, and Python's buffer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tensor._dtypes import is_bfloat16, require_supported
from tensor._errors import shown
from tensor.core.storage import export
from tensor.core.tensor import TensorCore, wrap
from tensor.creation.from_data import over_memory_of
from tensor.memory.buffer import copy as copied
from tensor.memory.exchange import array_of, capsule_of

if TYPE_CHECKING:
    from typing_extensions import Buffer, CapsuleType

    from tensor._tensor import Tensor

# DLPack's device types with memory that the CPU can access: the CPU, pinned (CUDA, ROCm), managed (CUDA).
_CPU = 1
_HOST_DEVICES = frozenset({_CPU, 3, 11, 13})


class Exchange(TensorCore):
    """Base class of tensors with the protocols for sharing memory with other libraries."""

    __slots__ = ()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """Return a DLPack capsule over the tensor's memory, for ``from_dlpack`` of another library.

        A write to the tensor or through the capsule changes both, and either may be freed first. A write
        through the capsule never changes a clone of the tensor.

        Read-only memory (a loaded file, ``bytes``) is marked as read-only. PyTorch 2.13 ignores the mark:
        writing to a mapped file there crashes the process. Ask for a copy: ``torch.from_dlpack(x,
        copy=True)``.

        Parameters
        ----------
        stream
            Must be None, because a CPU has no streams.
        max_version
            The newest version that the consumer supports. None means a version before 1, which can't mark
            memory as read-only.
        dl_device
            The device that the consumer wants: None or ``(1, 0)``, the CPU.
        copy
            True: copy. None or False: never copy.

        Raises
        ------
        BufferError
            If the tensor requires grad, if it has a negative stride (``x[::-1]``; a copy has none), if its
            memory is read-only and `max_version` is before 1, or if an argument is not supported.

        Examples
        --------
        >>> import numpy, tensor
        >>> x = tensor.zeros((2,))
        >>> numpy.from_dlpack(x)[0] = 5
        >>> x.tolist()
        [5.0, 0.0]
        """
        self._require_no_history_for("DLPack")
        if stream is not None:
            raise BufferError(
                f"DLPack: a tensor on the CPU has no streams: pass stream=None, not {shown(stream)}"
            )
        if dl_device not in (None, (_CPU, 0)):
            raise BufferError(
                f"DLPack: this tensor is on device {(_CPU, 0)}, the CPU, and can't be exported to "
                f"{shown(dl_device)}. Move it there with the other library"
            )
        if copy:
            # Do not call `export`, after which clones copy at once instead of at the first write.
            return capsule_of(self._live_array(), max_version, copy=True)
        self._require_no_backward_strides()
        return capsule_of(export(self), max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device: ``(1, 0)``, the CPU."""
        self._raise_if_disposed()
        return _CPU, 0

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return a memoryview over the tensor's memory, for ``memoryview(x)`` in Python 3.12 and later.

        In Python 3.11, write ``memoryview(numpy.asarray(x))``. A write to one changes both, and either may be
        freed first.

        A buffer keeps its exporter alive. So in Python 3.12 and later, ``memoryview(x)`` and
        ``numpy.asarray(x)``, which uses the buffer protocol too, keep a tensor without other references alive
        until it is disposed. ``x.numpy()`` only keeps the memory alive, in all versions.

        Raises
        ------
        BufferError
            If the tensor requires grad or is bfloat16, or a writable buffer of read-only memory is requested.

        Examples
        --------
        >>> import numpy, tensor
        >>> x = tensor.zeros((2,))
        >>> view = memoryview(numpy.asarray(x))
        >>> view[0] = 5.0
        >>> x.tolist()
        [5.0, 0.0]
        """
        del flags  # Python checks the result against the flags
        self._require_no_history_for("the buffer protocol")
        if is_bfloat16(self._live_array().dtype):
            raise BufferError(
                "the buffer protocol has no bfloat16: write memoryview(x.float()), or x.numpy().view('i2')"
            )
        return memoryview(cast("Buffer", export(self)))

    def _require_no_backward_strides(self) -> None:
        array = self._live_array()
        if array.size and any(s < 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
            # PyTorch 2.13 crashes on negative strides instead of raising an error.
            steps = tuple(s // array.itemsize for s in array.strides)
            raise BufferError(
                f"DLPack: a dimension of this tensor has a negative stride (strides {steps}), which not "
                "every library supports. Pass x.contiguous(), or ask for a copy with copy=True"
            )

    def _require_no_history_for(self, what: str) -> None:
        self._raise_if_disposed()
        if self._node is not None:
            raise BufferError(
                f"can't export a tensor that requires grad by {what}: its history would not include writes "
                "through the export. Use x.detach()"
            )


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
