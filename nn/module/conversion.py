"""Convert the tensors of a module to another dtype. They stay the same objects."""

from __future__ import annotations

from nn.module.gradients import gradient_of
from tensor import Tensor
from tensor._dtypes import Array, Dtype
from tensor.core.tensor import TensorCore, wrap_unowned
from tensor.kernels.running import run_kernel
from tensor.tape.recording import become_leaf


def dtype_of(x: TensorCore) -> Dtype:
    """Return the dtype of a tensor that is not disposed."""
    return x._live_array().dtype


def convert(tensors: list[Tensor], wanted: Dtype) -> None:
    """Give `tensors` and their gradients the dtype `wanted`. An error leaves all as they were."""
    held = [x for x in tensors if dtype_of(x) != wanted]
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
