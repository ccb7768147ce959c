"""Layers that exist for one, two and three dimensions, such as ``Conv1d``, ``Conv2d`` and ``Conv3d``."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, ClassVar

from nn.functional.dimensions import filled
from nn.module.module import Module


class Dimensional(Module):
    """Base of a family of layers that differ only in the number of dimensions.

    The family is a subclass with all of the code. Its `_sections` are a template of what follows the first
    line in the docstring of each member. A member is a class of two lines:

    ``class Conv2d(_Conv, dims=2):`` with a docstring of one line.
    """

    _dims: ClassVar[int]
    _sections: ClassVar[str]

    def __init_subclass__(cls, dims: int | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if dims is not None:  # None for a family, and for users' subclasses of a member
            cls._dims = dims
            if cls.__doc__:  # none with `python -OO`
                sections = filled(cleandoc(cls._sections), cls.__name__, dims)
                cls.__doc__ = f"{cleandoc(cls.__doc__)}\n\n{sections}\n"
