"""The base class of lazy layers."""

from __future__ import annotations

from typing import Any, ClassVar

from nn.layers.weighted import Weighted
from nn.module.lazy import LazyModuleMixin
from nn.module.uninitialized import UninitializedBuffer, UninitializedParameter


class LazyWeighted(LazyModuleMixin, Weighted):
    """Base class of layers that infer the shapes of their parameters from the first input."""

    # The name of the option that the first input determines, such as "in_features".
    _inferred: ClassVar[str]
    # The names of the buffers whose shapes the first input determines.
    _inferred_buffers: ClassVar[tuple[str, ...]] = ()

    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options({self._inferred: 0, **given})
        for name in ("weight", "bias"):
            if getattr(self, name) is not None:
                self.register_parameter(name, UninitializedParameter(dtype=given["dtype"]))
        for name in self._inferred_buffers:
            if getattr(self, name) is not None:
                self.register_buffer(name, UninitializedBuffer(dtype=given["dtype"]))

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
