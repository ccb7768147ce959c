"""Layers that exist for one, two and three dimensions, such as ``Conv1d``, ``Conv2d`` and ``Conv3d``."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, ClassVar

from nn import functional as F
from nn.functional.dimensions import filled
from nn.layers.described import Described
from nn.module.docstrings import EXAMPLE
from nn.module.lazy import LazyModuleMixin
from nn.module.module import Module


class Dimensional(Described):
    """Base class of a family of layers that differ only in the number of dimensions.

    A family such as ``_Conv`` is a subclass that contains the code. Its `_sections` and `_example` are
    templates, which are appended to the docstrings of its members. A member is a subclass of the family, such
    as ``class Conv2d(_Conv, dims=2):``, often with only a docstring.
    """

    _dims: ClassVar[int]
    _sections: ClassVar[str] = ""
    # The code of an example, and the repr of its result.
    _example: ClassVar[tuple[str, str] | None] = None
    # The prefix of the function names in ``nn.functional``.
    _family: ClassVar[str] = ""
    # The attributes that the repr shows.
    _shown: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, dims: int | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if dims is not None:  # None for a family, and for a user's subclass of a member
            cls._dims = dims
            if cls._family:
                cls._function = getattr(F, f"{cls._family}{dims}d")
            if cls.__doc__:  # `python -OO` removes docstrings
                example = EXAMPLE.format(*cls._example) if cls._example else ""
                template = f"{cleandoc(cls._sections)}\n\n{example}"
                cls.__doc__ = f"{cleandoc(cls.__doc__)}\n\n{filled(template, cls.__name__, dims)}"
            cls._complete_docstring()

    def extra_repr(self) -> str:
        """Return the options."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


class LazyDimensional(LazyModuleMixin, Dimensional):
    """Second base class of families of lazy layers, which become members of another family."""

    cls_to_become: ClassVar[type[Module] | None]

    def __init_subclass__(cls, dims: int | None = None, **options: Any) -> None:
        super().__init_subclass__(dims=dims, **options)
        if dims is not None:
            cls.cls_to_become = cls.__bases__[1]
