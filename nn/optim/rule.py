"""The base classes of this library's optimizers, whose options are annotated attributes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, field
from typing import Any, ClassVar

from nn.module.docstrings import complete
from nn.module.options import options
from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import EXAMPLE, IGNORED, ONE_STEP, OUT_OF_RANGE, TEXTS
from tensor import Tensor
from tensor.lowlevel import Array


@options
class Options(Optimizer):
    """Base class of optimizers with ``params`` as the first argument, followed by the options of groups."""

    params: InitVar[Iterable[Tensor] | Iterable[Group]]

    # The arguments and the result for `EXAMPLE`, which `_complete_docstring` adds.
    _example: ClassVar[tuple[str, float] | None] = None
    _step: ClassVar[str] = ONE_STEP

    def _set_options(self, given: dict[str, Any]) -> None:
        params = given.pop("params")
        super().__init__(params, {name: value for name, value in given.items() if name not in IGNORED})

    @classmethod
    def _complete_docstring(cls) -> None:
        complete(cls, TEXTS, OUT_OF_RANGE)
        if cls._example and cls.__doc__:
            arguments, result = cls._example
            cls.__doc__ += "\n" + EXAMPLE.format(
                name=cls.__name__, arguments=arguments, step=cls._step, result=result
            )


@options
class Rule(Options):
    """Base class of optimizers with the options `maximize` and `foreach`."""

    maximize: InitVar[bool] = field(default=False, kw_only=True)
    foreach: InitVar[bool | None] = field(default=None, kw_only=True)

    def _sign_and_decay(self, group: Group) -> tuple[float, float]:
        """Return the first arguments of `with_sign_and_decay`."""
        return -1 if group["maximize"] else 1, group["weight_decay"]

    def _filled_with(self, value: float, x: Tensor) -> Tensor:
        """Return a state tensor like `x`, filled with `value`: both parts of complex numbers are `value`."""
        return self._filled_like(x, complex(value, value) if x.dtype.kind == "c" else value)


def with_sign_and_decay(sign: float, decay: float, p: Array, g: Array) -> Array:
    """Return the gradient `g`, negated to maximize, with the weight decay of the parameter `p`."""
    g = g * sign
    return g + p * decay if decay else g
