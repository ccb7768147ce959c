"""Functions that exist for one, two and three dimensions, such as ``conv1d``, ``conv2d`` and ``conv3d``.

`Family` creates all of them from one function, whose docstring is a template. ``nn.layers.dimensions``
does the same for layers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_COUNTS = {1: "one dimension", 2: "two dimensions", 3: "three dimensions"}
_SPACE = {1: "length", 2: "height, width", 3: "depth, height, width"}


class _Sizes:
    """Writes the sizes of an example: ``{sizes[8,6,4]}`` is ``8, 6`` for two dimensions."""

    def __init__(self, dims: int) -> None:
        self.dims = dims

    def __getitem__(self, sizes: int | str) -> str:
        return ", ".join((str(sizes).split(",") * self.dims)[: self.dims])


class Template(str):
    """The repr of the result of an example, as a template like the docstring."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def filled(template: str, name: str, dims: int) -> str:
    """Return the template of a docstring, filled in for the function `name` over `dims` dimensions.

    Examples
    --------
    >>> filled("{name} over {dimensions}: ({sizes[8,6,4]}), (batch, {space})", "conv2d", 2)
    'conv2d over two dimensions: (8, 6), (batch, height, width)'
    """
    return template.format(
        name=name, dims=dims, dimensions=_COUNTS[dims], space=_SPACE[dims], sizes=_Sizes(dims)
    )


class Family(Generic[P, R]):
    """A family of functions: ``family[dims]`` is a copy of the decorated function for `dims` dimensions.

    Each copy has its own name, docstring and default of `_dims`, the number of dimensions. A copy is as fast
    as the decorated function, and tracebacks show the name of the copy.

    Examples
    --------
    >>> @Family
    ... def _zeros(size: int, *, _dims: int = 1) -> tuple[int, ...]:
    ...     "Return zeros over {dimensions}."
    ...     return (0,) * size * _dims
    >>> zeros2d = _zeros[2]
    >>> zeros2d(3), zeros2d.__name__, zeros2d.__doc__
    ((0, 0, 0, 0, 0, 0), 'zeros2d', 'Return zeros over two dimensions.')
    """

    def __init__(self, template: Callable[P, R]) -> None:
        self.template = template

    def __getitem__(self, dims: int) -> Callable[P, R]:
        template = cast("FunctionType", self.template)
        name = f"{template.__name__.strip('_')}{dims}d"
        code = template.__code__.replace(co_name=name, co_qualname=name)
        member = FunctionType(code, template.__globals__, name, template.__defaults__, template.__closure__)
        member.__kwdefaults__ = {**(template.__kwdefaults__ or {}), "_dims": dims}
        member.__annotations__ = {
            key: hint for key, hint in template.__annotations__.items() if key != "_dims"
        }
        if template.__doc__:  # none with `python -OO`
            member.__doc__ = filled(template.__doc__, name, dims)
        signature = inspect.signature(member)
        shown = [parameter for key, parameter in signature.parameters.items() if key != "_dims"]
        member.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return cast("Callable[P, R]", member)
