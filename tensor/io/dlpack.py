"""Memory exchanged with other libraries: DLPack in both directions, and Python's buffer protocol."""

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

# DLPack's numbers for memory that this process reads and writes: plain, pinned (CUDA, ROCm), managed.
_CPU = 1
_HOST_DEVICES = frozenset({_CPU, 3, 11, 13})


class Exchange(TensorCore):
    """What other libraries ask of a tensor to share its memory."""

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

        Both see each other's writes, and either may go first. A clone never sees a write through it.

        Memory that is read-only (a loaded file, ``bytes``) is marked so. PyTorch 2.13 does not heed the mark:
        writing there to a mapped file ends the process. Ask for a copy: ``torch.from_dlpack(x, copy=True)``.

        Parameters
        ----------
        stream
            None: there are no streams on a CPU.
        max_version
            The newest version that the consumer knows. None is a consumer from before version 1, which
            can't be told that memory is read-only.
        dl_device
            Where the consumer wants it: None or ``(1, 0)``, the CPU.
        copy
            True: a copy. None or False: never one.

        Raises
        ------
        BufferError
            If the tensor requires grad, if a dimension of it runs backwards (``x[::-1]``; its copy has none),
            or if it can't be given as asked.

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
                f"DLPack: a tensor is on device {(_CPU, 0)}, the CPU, and is not given on "
                f"{shown(dl_device)}. Take it there with the other library"
            )
        if copy:
            # What is copied at once is not lent: clones stay lazy.
            return capsule_of(self._live_array(), max_version, copy=True)
        self._require_no_backward_strides()
        return capsule_of(export(self), max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's name of the device: ``(1, 0)``, the CPU."""
        self._raise_if_disposed()
        return _CPU, 0

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return a memoryview over the tensor's memory: ``memoryview(x)``, from Python 3.12 on.

        Python 3.11 does not ask for it: write ``memoryview(numpy.asarray(x))`` there. The tensor and the
        memoryview see each other's writes, and either may be disposed first.

        Python keeps the object that a buffer came from as long as the buffer: from 3.12 on a tensor without
        other references lives on, until it is disposed, under ``memoryview(x)`` and ``numpy.asarray(x)``,
        which asks for a buffer too. ``x.numpy()`` keeps the memory alone, on every version.

        Raises
        ------
        BufferError
            If the tensor requires grad; if a writable buffer is asked for and the memory is read-only.

        Examples
        --------
        >>> import numpy, tensor
        >>> x = tensor.zeros((2,))
        >>> view = memoryview(numpy.asarray(x))
        >>> view[0] = 5.0
        >>> x.tolist()
        [5.0, 0.0]
        """
        del flags  # Python holds what we return against them
        self._require_no_history_for("the buffer protocol")
        if is_bfloat16(self._live_array().dtype):
            raise BufferError(
                "the buffer protocol has no bfloat16: write memoryview(x.float()), or x.numpy().view('i2')"
            )
        return memoryview(cast("Buffer", export(self)))

    def _require_no_backward_strides(self) -> None:
        array = self._live_array()
        if array.size and any(s < 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
            # PyTorch 2.13 ends the process over one instead of raising.
            steps = tuple(s // array.itemsize for s in array.strides)
            raise BufferError(
                f"DLPack: a dimension of this tensor runs backwards (strides {steps}), which not every "
                "library reads. Pass x.contiguous(), or ask for a copy with copy=True"
            )

    def _require_no_history_for(self, what: str) -> None:
        self._raise_if_disposed()
        if self._node is not None:
            raise BufferError(
                f"a tensor that requires grad is not exported by {what}: writes through it would be missing "
                "in its history. Use x.detach()"
            )


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of `x`, an array or tensor of another library, by DLPack.

    Without a copy: both see each other's writes, and either may go first. Over memory that the producer
    calls read-only the first write makes a private copy; so it does when the producer speaks only DLPack
    before version 1, which can't tell.

    Parameters
    ----------
    x
        Anything with ``__dlpack__`` and ``__dlpack_device__``.
    device
        None: wherever `x` is, which must be memory of the CPU. ``"cpu"``: the producer is asked to bring
        it there.
    copy
        None: only where it must. True: always. False: the producer's error where it must.

    Raises
    ------
    TypeError
        If `x` does not speak DLPack, or has a dtype that tensors can't hold.
    BufferError
        If `x` is on another device, or its library does not give it away (PyTorch: if it requires grad).

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
        raise ValueError(f"from_dlpack(): tensors are on device 'cpu', not {shown(device)}")
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError(
            f"from_dlpack() takes what has __dlpack__ and __dlpack_device__, not {type(x).__name__}: write "
            "tensor.asarray(x)"
        )
    producer = cast("Any", x)
    kind, number = producer.__dlpack_device__()
    if device is None and kind not in _HOST_DEVICES:
        raise BufferError(
            f"from_dlpack(): {type(x).__name__} is on DLPack's device ({int(kind)}, {number}), not on the "
            "CPU. Bring it there with its own library, or write from_dlpack(x, device='cpu')"
        )
    # A copy is ours to make: producers before version 1 know none.
    wanted = None if copy else copy
    try:
        array = array_of(producer, "cpu" if device else None, wanted)
    except RuntimeError as error:
        # NumPy's word for a dtype or a number of dimensions that arrays don't have.
        dtype = getattr(x, "dtype", "unknown dtype")
        raise TypeError(
            f"from_dlpack(): {type(x).__name__} of {dtype} can't become a tensor: {error} Convert it first, "
            "with its own library"
        ) from None
    require_supported(array.dtype)
    if copy:
        return wrap(copied(array))
    return over_memory_of(array)
