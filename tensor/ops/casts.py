"""Conversions of tensors to other dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, overload

from tensor._devices import require_cpu
from tensor._dtypes import (
    DtypeLike,
    as_dtype,
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
    load_bfloat16,
    uint8,
)
from tensor._errors import shown
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor, cast
from tensor.ops.dispatch import apply_as_is
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

# Another name for `bool`, which is a method of the class.
Flag = bool

# The types of devices in PyTorch. Only the first one is supported.
_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "xla", "mtia", "meta")

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

_ASTYPE = RULES["astype"]


def astype(x: Tensor, dtype: DtypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Return the values of `x` as `dtype`. With ``copy=False``, return `x` itself if it has that dtype.

    A copy of the same dtype shares memory until the first write to either tensor. A conversion to a real
    dtype drops imaginary parts.

    Examples
    --------
    >>> import tensor
    >>> tensor.astype(tensor.tensor([1.5, -2.5]), "int64").tolist()
    [1, -2]
    """
    require_cpu(device)
    x = as_tensor(x)
    wanted = as_dtype(dtype)
    if x.dtype == wanted:
        return x.clone() if copy else x
    return apply_as_is(_ASTYPE, lambda a: cast(a, wanted), (x,))


def dtype_asked(
    target: DtypeLike | TensorCore | None, dtype: DtypeLike | None, device: str | None
) -> DtypeLike | None:
    """Return the dtype in the arguments of ``to()``, or None. Raise an error if the device is not the CPU."""
    if isinstance(target, str) and target.partition(":")[0] in _DEVICES:
        target, device = None, target
    require_cpu(device)
    if target is not None and dtype is not None:
        raise TypeError("to() takes one dtype: write x.to(dtype), or x.to(device, dtype)")
    wanted = dtype if target is None else target
    if isinstance(target, str) and not _names_dtype(target):
        raise TypeError(
            f"to() takes a dtype or a device, but {shown(target)} is neither: write x.to(tensor.float64) or "
            "x.to('float64'); the one device is 'cpu'"
        )
    return as_tensor(wanted).dtype if isinstance(wanted, TensorCore) else wanted


def _names_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except TypeError:
        return False
    return True


class Casts(TensorCore):
    """Methods that return the tensor in another dtype."""

    __slots__ = ()

    def to(
        self,
        target: DtypeLike | Tensor | None = None,
        dtype: DtypeLike | Flag | None = None,
        non_blocking: Flag = False,
        copy: Flag = False,
        *,
        device: str | None = None,
        dispose_after: Flag = False,
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
        if isinstance(dtype, Flag):  # x.to(dtype, non_blocking, copy)
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

    def astype(self, dtype: DtypeLike, *, copy: Flag = True) -> Tensor:
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
