"""The base class of layers that call a function of ``nn.functional`` with their options."""

from __future__ import annotations

from typing import Any, ClassVar

from nn.layers.described import Described
from tensor import Tensor


class FunctionLayer(Described):
    """Base class of layers without parameters, whose annotated attributes are the options of `_function`."""

    _option_names: ClassVar[tuple[str, ...]] = ()

    def _set_options(self, given: dict[str, Any]) -> None:
        super().__init__()
        for name, value in given.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        """Return the options."""
        shown = (name for name in self._option_names if name != "inplace")
        options = [f"{name}={getattr(self, name)!r}" for name in shown]
        return ", ".join([*options, "inplace=True"] if vars(self).get("inplace") else options)

    def _computed(self, *inputs: Any) -> Tensor:
        """Return the result of the function with the options."""
        return type(self)._function(*inputs, **{name: getattr(self, name) for name in self._option_names})


class Unary(FunctionLayer):
    """Base class of layers that call a function of one tensor."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the result of the function."""
        return self._computed(input)
