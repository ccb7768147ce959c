"""The base class of layers that call a function of ``nn.functional`` with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nn.module.docstrings import complete, texts_of
from nn.module.module import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tensor import Tensor


class FunctionLayer(Module):
    """Base class of layers without parameters, whose annotated attributes are the options of `_function`.

    The docstring of a layer takes the descriptions of options from the docstring of the function.
    """

    _function: ClassVar[Callable[..., Tensor]]
    _option_names: ClassVar[tuple[str, ...]] = ()
    # Descriptions of options that replace those of the function.
    _texts: ClassVar[Mapping[str, str]] = {}

    def _set_options(self, given: dict[str, Any]) -> None:
        super().__init__()
        for name, value in given.items():
            setattr(self, name, value)

    @classmethod
    def _complete_docstring(cls) -> None:
        if hasattr(cls, "_function"):
            complete(cls, {**texts_of(cls._function), **cls._texts})

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
