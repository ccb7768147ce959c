"""What lazy layers share."""

from __future__ import annotations

from nn.module.lazy import LazyModuleMixin
from nn.module.uninitialized import UninitializedBuffer, UninitializedParameter
from tensor._dtypes import DtypeLike


def forget_shapes(layer: LazyModuleMixin, dtype: DtypeLike | None, *buffers: str) -> None:
    """Replace the layer's weight and bias and these buffers by ones without shapes, except for None."""
    for name in ("weight", "bias"):
        if getattr(layer, name) is not None:
            layer.register_parameter(name, UninitializedParameter(dtype=dtype))
    for name in buffers:
        if getattr(layer, name) is not None:
            layer.register_buffer(name, UninitializedBuffer(dtype=dtype))


def set_shapes(layer: LazyModuleMixin, **shapes: tuple[int, ...]) -> None:
    """Give these parameters and buffers of the layer their shapes. None has no shape."""
    for name, shape in shapes.items():
        value = getattr(layer, name)
        if isinstance(value, (UninitializedParameter, UninitializedBuffer)):
            value.materialize(shape)
