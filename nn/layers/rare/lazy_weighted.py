"""The base class of lazy layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn.layers.weighted import Weighted
from nn.module.lazy import LazyModuleMixin
from nn.module.uninitialized import UninitializedBuffer, UninitializedParameter

if TYPE_CHECKING:
    from tensor.lowlevel import DtypeLike


class LazyWeighted(LazyModuleMixin, Weighted):
    """Base class of layers that infer the shapes of their parameters from the first input."""

    def _forget_shapes(self, dtype: DtypeLike | None, *buffers: str) -> None:
        """Replace the weight, the bias and `buffers` by ones without shapes."""
        for name in ("weight", "bias"):
            if getattr(self, name) is not None:
                self.register_parameter(name, UninitializedParameter(dtype=dtype))
        for name in buffers:
            if getattr(self, name) is not None:
                self.register_buffer(name, UninitializedBuffer(dtype=dtype))

    def _set_shapes(self, **shapes: tuple[int, ...]) -> None:
        """Set the shapes of parameters and buffers, unless a state dict has set them."""
        if self.has_uninitialized_params():
            for name, shape in shapes.items():
                value = getattr(self, name)
                if isinstance(value, (UninitializedParameter, UninitializedBuffer)):
                    value.materialize(shape)
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters, if they have shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()
