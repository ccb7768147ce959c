"""Methods that cast, and that convert to and from Python, NumPy and other libraries.

The functions are in ``tensor/ops/casts.py`` and `tensor.io`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast, overload

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._devices import Device, require_cpu
from tensor._dtypes import (
    Array,
    DtypeLike,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    is_bfloat16,
    load_bfloat16,
    uint8,
)
from tensor._errors import InvalidArgumentError, first_element, shown
from tensor.core.tensor import TensorCore, export, wrap_snapshot, wrap_snapshot_unowned
from tensor.memory.buffer import capsule_of
from tensor.ops.casts import astype, dtype_asked
from tensor.ops.data import as_tensor
from tensor.tape.recording import Leaf, become_leaf

if TYPE_CHECKING:
    from typing_extensions import Buffer, CapsuleType

    from tensor._tensor import Tensor
    from tensor.io import dlpack, pickling, printing, standard
    from tensor.io import numpy as protocols
else:
    dlpack = ModuleOnDemand("tensor.io.dlpack")
    pickling = ModuleOnDemand("tensor.io.pickling")
    printing = ModuleOnDemand("tensor.io.printing")
    protocols = ModuleOnDemand("tensor.io.numpy")
    standard = ModuleOnDemand("tensor.io.standard")

# PyTorch's older names of types of tensors.
_TYPES = {
    "bool": "torch.BoolTensor",
    "uint8": "torch.ByteTensor",
    "uint16": "torch.UInt16Tensor",
    "uint32": "torch.UInt32Tensor",
    "uint64": "torch.UInt64Tensor",
    "int8": "torch.CharTensor",
    "int16": "torch.ShortTensor",
    "int32": "torch.IntTensor",
    "int64": "torch.LongTensor",
    "float16": "torch.HalfTensor",
    "bfloat16": "torch.BFloat16Tensor",
    "float32": "torch.FloatTensor",
    "float64": "torch.DoubleTensor",
    "complex64": "torch.ComplexFloatTensor",
    "complex128": "torch.ComplexDoubleTensor",
}


# Annotations in the class say `builtins.bool`, because it has methods such as `bool`.
class Conversion(TensorCore):
    """Methods that cast, and that convert to and from Python, NumPy and other libraries."""

    __slots__ = ()

    # --- Casts ----------------------------------------------------------------------------------------------

    def to(
        self,
        target: DtypeLike | Tensor | None = None,
        dtype: DtypeLike | builtins.bool | None = None,
        non_blocking: builtins.bool = False,
        copy: builtins.bool = False,
        *,
        device: str | None = None,
        dispose_after: builtins.bool = False,
        memory_format: object = None,
    ) -> Tensor:
        """Return the tensor in another dtype, or itself if nothing changes and `copy` is False.

        Parameters
        ----------
        target
            A dtype, a tensor whose dtype is used, or the device, which is always ``"cpu"``.
        dtype
            The dtype, if `target` is a device or omitted.
        device
            ``"cpu"``.
        non_blocking, memory_format
            No effect, because the CPU is the only device, and elements are in row-major order.
        copy
            Whether to return a copy even if nothing changes.
        dispose_after
            Dispose this tensor afterwards, unless it is the result.

        Raises
        ------
        InvalidArgumentError
            If the device is not the CPU.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((1,))
        >>> x.to(tensor.float64).dtype, x.to("cpu", dtype="int8").dtype, x.to("cpu") is x
        (dtype('float64'), dtype('int8'), True)
        >>> x.to(tensor.float64, dispose_after=True).dtype, x.is_invalid
        (dtype('float64'), True)
        """
        del memory_format
        if isinstance(dtype, builtins.bool):  # x.to(dtype, non_blocking, copy)
            dtype, copy = None, non_blocking
        self._raise_if_disposed()
        wanted = dtype_asked(target, dtype, device)
        x = as_tensor(self)
        found = astype(x, x.dtype if wanted is None else wanted, copy=copy)
        if dispose_after and found is not x:
            x.dispose()
        return found

    @overload
    def type(self, dtype: None = None) -> str: ...

    @overload
    def type(self, dtype: DtypeLike) -> Tensor: ...

    def type(self, dtype: DtypeLike | None = None) -> Tensor | str:
        """Return the tensor as `dtype`, or itself if it has that dtype. None: return the name of its type.

        That is PyTorch's older name, such as ``"torch.FloatTensor"`` for float32. `dtype` may be one too.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).type(tensor.int64).tolist(), tensor.ones((1,)).type()
        ([1], 'torch.FloatTensor')
        """
        if dtype is None:
            return _TYPES[str(as_tensor(self).dtype)]
        if isinstance(dtype, str):
            dtype = next((name for name, typed in _TYPES.items() if typed == dtype), dtype)
        return self.to(dtype)

    def astype(self, dtype: DtypeLike, *, copy: builtins.bool = True) -> Tensor:
        """Return the values as `dtype`, as NumPy's method does.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).astype("int8").dtype)
        'int8'
        """
        return astype(self, dtype, copy=copy)  # type: ignore[arg-type]  # every instance is a Tensor

    def type_as(self, other: Tensor) -> Tensor:
        """Return the tensor in the dtype of `other`.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).type_as(tensor.tensor([1])).dtype)
        'int64'
        """
        return self.to(other)

    def cpu(self) -> Self:
        """Return the tensor itself, because all tensors are on the CPU.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((1,))
        >>> x.cpu() is x
        True
        """
        self._raise_if_disposed()
        return self

    def half(self, memory_format: object = None) -> Tensor:
        """Return the tensor as float16, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).half().dtype)
        'float16'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(float16)

    def bfloat16(self, memory_format: object = None) -> Tensor:
        """Return the tensor as bfloat16, or itself if it already is. Needs ml_dtypes.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).bfloat16().dtype)
        'bfloat16'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(load_bfloat16())

    def float(self, memory_format: object = None) -> Tensor:
        """Return the tensor as float32, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).float().dtype)
        'float32'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(float32)

    def double(self, memory_format: object = None) -> Tensor:
        """Return the tensor as float64, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).double().dtype)
        'float64'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(float64)

    def char(self, memory_format: object = None) -> Tensor:
        """Return the tensor as int8, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).char().dtype)
        'int8'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(int8)

    def short(self, memory_format: object = None) -> Tensor:
        """Return the tensor as int16, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).short().dtype)
        'int16'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(int16)

    def int(self, memory_format: object = None) -> Tensor:
        """Return the tensor as int32, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).int().dtype)
        'int32'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(int32)

    def long(self, memory_format: object = None) -> Tensor:
        """Return the tensor as int64, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).long().dtype)
        'int64'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(int64)

    def byte(self, memory_format: object = None) -> Tensor:
        """Return the tensor as uint8, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).byte().dtype)
        'uint8'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(uint8)

    def bool(self, memory_format: object = None) -> Tensor:
        """Return the tensor as bool, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).bool().dtype)
        'bool'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(bool_)

    def cfloat(self, memory_format: object = None) -> Tensor:
        """Return the tensor as complex64, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).cfloat().dtype)
        'complex64'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(complex64)

    def cdouble(self, memory_format: object = None) -> Tensor:
        """Return the tensor as complex128, or itself if it already is.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.ones((1,)).cdouble().dtype)
        'complex128'
        """
        del memory_format  # all tensors are in row-major order
        return self.to(complex128)

    # --- Devices --------------------------------------------------------------------------------------------

    def cuda(self, device: str | builtins.int | None = None, non_blocking: builtins.bool = False) -> Tensor:
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
    def is_cuda(self) -> builtins.bool:
        """Whether the tensor is on a CUDA device, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_xpu(self) -> builtins.bool:
        """Whether the tensor is on an XPU device, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_mps(self) -> builtins.bool:
        """Whether the tensor is on an MPS device, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_cpu(self) -> builtins.bool:
        """Whether the tensor is on the CPU, which is always True."""
        self._raise_if_disposed()
        return True

    @property
    def is_sparse(self) -> builtins.bool:
        """Whether the tensor is sparse, which is always False."""
        self._raise_if_disposed()
        return False

    @property
    def is_quantized(self) -> builtins.bool:
        """Whether the tensor is quantized, which is always False."""
        self._raise_if_disposed()
        return False

    def get_device(self) -> builtins.int:
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

    def is_pinned(self) -> builtins.bool:
        """Return False, because memory is never pinned."""
        self._raise_if_disposed()
        return False

    # --- Python numbers and lists ---------------------------------------------------------------------------

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises
        ------
        ValueError
            If the tensor does not have exactly one element.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2.5]).item()
        2.5
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.size != 1:
            self._raise_not_one("item()")
        return array.item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers. Without dimensions, return a number.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        return array.tolist()

    def numpy(self, *, force: builtins.bool = False) -> Array:
        """Return an array over the tensor's memory, without a copy. A write to one changes both.

        The array stays valid after the tensor is disposed. A write through the array never changes a clone of
        the tensor.

        Parameters
        ----------
        force
            Whether to allow a tensor that requires grad.

        Raises
        ------
        RuntimeError
            If the tensor requires grad: the history would not include writes through the array.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2,))
        >>> x.numpy()[0] = 5
        >>> x.tolist()
        [5.0, 0.0]
        """
        self._raise_if_disposed()
        if self._node is not None and not force:
            raise RuntimeError(
                "can't convert a tensor that requires grad to an array: its history would not include writes "
                "through the array. Use x.detach().numpy()"
            )
        return export(self)

    def __bool__(self) -> builtins.bool:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.size != 1:
            self._raise_not_one("bool()", ", x.any(), x.all()")
        return bool(array.item())

    def __int__(self) -> builtins.int:
        return int(self._one("int()"))

    def __float__(self) -> builtins.float:
        return float(self._one("float()"))

    def __complex__(self) -> complex:
        return complex(self._one("complex()"))

    def __index__(self) -> builtins.int:
        value = self._one("index()")
        if not isinstance(value, int):
            raise TypeError(f"an index must be an integer, not {value}: write int(x), or x.long()")
        return int(value)

    def _one(self, use: str) -> Any:
        array = self._array
        if array is None:
            self._raise_disposed()
        if array.size != 1:
            self._raise_not_one(use)
        return array.item()

    def _raise_not_one(self, use: str, hint: str = "") -> NoReturn:
        shape = self._live_array().shape
        advice = "check x.numel() first"
        if 0 not in shape:
            advice = (
                f"select one ({first_element(shape)}), reduce the tensor (x.sum(){hint}), or write x.tolist()"
            )
        raise ValueError(f"{use} takes a tensor of one element, not of shape {shape}: {advice}")

    # --- NumPy ----------------------------------------------------------------------------------------------

    # Use the tensor's operators if the left operand is an array or NumPy scalar.
    __array_priority__ = 1000

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> Array:
        """Return an array over the tensor's memory. Copy only if `dtype` or `copy` requires it."""
        self._raise_if_disposed()
        if self._node is not None:
            raise RuntimeError(
                "can't convert a tensor that requires grad to an array: its history would not include writes "
                "through the array. Use x.detach().numpy()"
            )
        array = self._array
        if array is None:
            self._raise_disposed()
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        if wanted != array.dtype:
            if copy is False:
                raise ValueError(f"a tensor of {array.dtype} can't be an array of {wanted} without a copy")
            return array.astype(wanted)
        return array.copy() if copy else export(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run the op of this library for `ufunc` if there is one. Run other ufuncs on the values."""
        return protocols.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[builtins.type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run NumPy's function on the values, and return its result.

        Examples
        --------
        >>> import numpy, tensor
        >>> numpy.median(tensor.tensor([1.0, 5.0, 2.0])).item()
        2.0
        """
        return protocols.call_function(function, args, kwargs)

    # --- DLPack and the buffer protocol ---------------------------------------------------------------------

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[builtins.int, builtins.int] | None = None,
        dl_device: tuple[builtins.int, builtins.int] | None = None,
        copy: builtins.bool | None = None,
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
        if dl_device not in (None, (dlpack.CPU, 0)):
            raise BufferError(
                f"DLPack: this tensor is on device {(dlpack.CPU, 0)}, the CPU, and can't be exported to "
                f"{shown(dl_device)}. Move it there with the other library"
            )
        if copy:
            # Do not call `export`, after which clones copy at once instead of at the first write.
            return capsule_of(self._live_array(), max_version, copy=True)
        self._require_no_backward_strides()
        return capsule_of(export(self), max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:
        """Return the DLPack device: ``(1, 0)``, the CPU."""
        self._raise_if_disposed()
        return dlpack.CPU, 0

    def __buffer__(self, flags: builtins.int, /) -> memoryview:
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

    # --- The array API standard -----------------------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """Return the namespace for this tensor: the module `tensor`, which follows version 2024.12.

        In version 2025.12 `meshgrid`, `broadcast_arrays` and `devices` of `__array_namespace_info__()` return
        tuples instead of lists. For that version, the result is a namespace that differs from `tensor` in
        these functions.

        Raises
        ------
        ValueError
            If `api_version` is not supported.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,))
        >>> x.__array_namespace__() is tensor
        True
        >>> type(tensor.meshgrid(x)), type(x.__array_namespace__(api_version="2025.12").meshgrid(x))
        (<class 'list'>, <class 'tuple'>)
        """
        self._raise_if_disposed()  # so that a library which gets a disposed tensor fails here
        return standard.namespace_for(api_version)

    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """Return the tensor itself, because all tensors are on the CPU.

        Raises
        ------
        ValueError
            If `device` is not the CPU, or `stream` is not None.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((1,))
        >>> x.to_device("cpu") is x
        True
        """
        self._raise_if_disposed()
        require_cpu(device)
        if stream is not None:
            raise InvalidArgumentError(f"a tensor on the CPU has no streams: omit stream={shown(stream)}")
        return self

    # --- Copies and pickles ---------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        """Return another tensor on the same storage: a leaf for a leaf that requires grad, else an alias."""
        self._raise_if_disposed()
        if isinstance(self._node, Leaf):
            return self.detach().requires_grad_()  # type: ignore[attr-defined,no-any-return]  # every instance is a Tensor
        return self.alias()  # type: ignore[attr-defined,no-any-return]  # every instance is a Tensor

    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Self:
        """Return a leaf with the same values in its own memory, and a copy of the gradient.

        Copies of views that share memory do not share memory. The result of a recorded op can't be copied.
        """
        known = memo.get(id(self))
        if known is not None:
            return known  # type: ignore[no-any-return]  # the memo holds what this returned before
        self._raise_if_disposed()
        node = self._node
        if node is not None and not isinstance(node, Leaf):
            raise RuntimeError(
                f"deepcopy() can only copy leaves, but this tensor was computed by {node.name()}: "
                "use x.clone(), which keeps its history, or copy x.detach()"
            )
        copied = memo[id(self)] = wrap_snapshot(self)
        if node is not None:
            become_leaf(copied)
            gradient = self._grad
            if gradient is not None and not gradient.is_invalid:
                copied._grad = wrap_snapshot_unowned(gradient)
        return copied  # type: ignore[return-value]  # subclasses define their own

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return pickling.reduced(self)

    # --- Printing -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return printing.repr_of(self)

    def __str__(self) -> str:
        # Print an integer or bool without dimensions as a number: libraries use it as a label in tables.
        array = self._array
        is_label = array is not None and array.ndim == 0 and array.dtype.kind in "biu"
        return str(array.item()) if array is not None and is_label else repr(self)

    def __format__(self, spec: str) -> str:
        array = self._array
        if array is not None and array.size == 1 and (spec or (array.ndim == 0 and self._node is None)):
            return format(array.item(), spec)
        try:
            return format(repr(self), spec)
        except ValueError:
            array = self._live_array()  # a disposed tensor raises TensorDisposedError
            advice = "call tensor.set_printoptions"
            if array.size:
                one = first_element(array.shape)
                advice = f"format one element, {one}, or x.mean(); or {advice} for all elements"
            raise TypeError(
                f"the format {spec!r} needs a number, not a tensor of shape {array.shape}: {advice}"
            ) from None
