"""Convert a module to another dtype. Its parameters and buffers stay the same objects."""

from __future__ import annotations

from typing import Self

from nn.module.gradients import gradient_of
from nn.module.traversal import Traversal
from tensor import Device, Tensor, float16, float32, float64
from tensor.lowlevel import (
    Array,
    Dtype,
    DtypeLike,
    TensorCore,
    as_dtype,
    become_leaf,
    clear_gradients,
    dtype_asked,
    is_floating,
    is_inexact,
    run_kernel,
    wrap_unowned,
)


class Conversion(Traversal):
    """Methods that change all tensors of a module in place."""

    def to(
        self,
        target: DtypeLike | Tensor | None = None,
        dtype: DtypeLike | None = None,
        *,
        device: str | None = None,
        non_blocking: bool = False,
    ) -> Self:
        """Convert floating and complex parameters, gradients and buffers, and return this module.

        The tensors stay the same objects, with new memory. Integer tensors do not change. A real dtype drops
        the imaginary parts of complex tensors.

        Parameters
        ----------
        target
            A dtype, a tensor with the wanted dtype, or the device, which must be ``"cpu"`` and changes
            nothing.
        dtype
            The dtype, if `target` is a device or omitted.
        device
            ``"cpu"``.
        non_blocking
            No effect: there is no other device.

        Raises
        ------
        TypeError, InvalidArgumentError
            If the dtype is not floating or complex, or the device is not the CPU.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.Linear(2, 2).to("float64").weight.dtype)
        'float64'
        """
        del non_blocking
        asked = dtype_asked(target, dtype, device)
        if asked is None:
            return self
        wanted = as_dtype(asked)
        if not is_inexact(wanted):
            raise TypeError(f"a module's parameters can't be {wanted}: pass a floating or a complex dtype")
        _convert([x for x in (*self.parameters(), *self.buffers()) if is_inexact(_dtype_of(x))], wanted)
        return self

    def cpu(self) -> Self:
        """Return this module: its memory is always on the CPU."""
        return self

    def cuda(self, device: str | int | None = None) -> Self:
        """Raise an error: there is no CUDA device, and ``tensor.torch.cuda.is_available()`` returns False.

        Examples
        --------
        >>> import nn
        >>> nn.Linear(1, 1).cuda()
        Traceback (most recent call last):
        tensor.InvalidArgumentError: device 'cuda' does not exist: all tensors are on the CPU. Omit
        .cuda() and device=, or write 'cpu'
        """
        return self.to(device=Device("cuda", device) if isinstance(device, int) else device or "cuda")

    def half(self) -> Self:
        """Convert all floating parameters and buffers to float16, not complex ones. Return this module."""
        return self._with_floats(float16)

    def float(self) -> Self:
        """Convert all floating parameters and buffers to float32, not complex ones. Return this module."""
        return self._with_floats(float32)

    def double(self) -> Self:
        """Convert all floating parameters and buffers to float64, not complex ones. Return this module.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.Linear(2, 2).double().bias.dtype)
        'float64'
        """
        return self._with_floats(float64)

    def bfloat16(self) -> Self:
        """Convert all floating parameters and buffers to bfloat16, not complex ones. Return this module.

        It needs ml_dtypes.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.Linear(2, 2).bfloat16().weight.dtype)
        'bfloat16'
        """
        return self._with_floats("bfloat16")

    def _with_floats(self, dtype: DtypeLike) -> Self:
        _convert(
            [x for x in (*self.parameters(), *self.buffers()) if is_floating(_dtype_of(x))], as_dtype(dtype)
        )
        return self

    def type(self, dst_type: DtypeLike) -> Self:
        """Convert all floating and complex parameters and buffers to the dtype `dst_type`, as ``to`` does.

        Examples
        --------
        >>> import nn
        >>> nn.Linear(2, 2).type("float64").bias.dtype
        dtype('float64')
        """
        return self.to(dst_type)

    def to_empty(self, *, device: str | None, recurse: bool = True) -> Self:
        """Return this module unchanged: its memory is already on the only device.

        Parameters
        ----------
        device
            ``"cpu"``, or None for the current device.
        recurse
            No effect.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Linear(2, 1).to_empty(device="cpu").weight.shape
        (1, 2)
        """
        del recurse
        return self.to(device=device)

    def share_memory(self) -> Self:
        """Return this module, without moving it to shared memory: see ``nn.parallel`` for several workers.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Linear(2, 1).share_memory().weight.shape
        (1, 2)
        """
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Dispose the gradients of all parameters, or fill them with zeros.

        Examples
        --------
        >>> import nn, tensor
        >>> layer = nn.Linear(2, 1)
        >>> layer(tensor.ones((1, 2))).sum().backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        clear_gradients(self.parameters(), set_to_none)


def _dtype_of(x: TensorCore) -> Dtype:
    return x._live_array().dtype


def _convert(tensors: list[Tensor], wanted: Dtype) -> None:
    held = [x for x in tensors if _dtype_of(x) != wanted]
    # Allocate all memory before the first tensor changes.
    arrays = [run_kernel(_converted, x._live_array(), wanted) for x in held]
    grads = [
        None if grad is None else run_kernel(_converted, grad._live_array(), wanted)
        for grad in map(gradient_of, held)
    ]
    for x, array, grad in zip(held, arrays, grads, strict=True):
        _replace(x, array, grad)


def _converted(array: Array, wanted: Dtype) -> Array:
    return (array.real if array.dtype.kind == "c" and wanted.kind != "c" else array).astype(wanted)


def _replace(x: TensorCore, array: Array, grad: Array | None) -> None:
    requires_grad = x._node is not None
    x._set_memory(array)
    if requires_grad:
        become_leaf(x)
        x._grad = None if grad is None else wrap_unowned(grad)
