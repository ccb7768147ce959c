"""Create constructors of layers and optimizers from their options, which are annotated attributes."""

from __future__ import annotations

import inspect
import sys
from dataclasses import MISSING, Field, InitVar, field, make_dataclass
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast, dataclass_transform

Class = TypeVar("Class", bound=type)


class _Option(NamedTuple):
    annotation: str
    default: Any
    is_keyword_only: bool


class _Described(NamedTuple):
    """The arguments of `option`."""

    default: Any
    init: bool
    alias: str | None


def option(*, default: Any = MISSING, init: bool = True, alias: str | None = None) -> Any:
    """Describe an option, as the value of its annotated attribute.

    Parameters
    ----------
    default
        The default.
    init
        False for an attribute that the constructor does not take, even if it is an option of a base class.
    alias
        The name of the constructor's parameter, if an attribute of that name has another type.

    Examples
    --------
    >>> class Scaling:
    ...     _factor: "float" = option(default=2.0, alias="factor")
    ...
    ...     def _set_options(self, given):
    ...         self.factor = -given["factor"]
    >>> options(Scaling)(factor=3.0).factor
    -3.0
    """
    return _Described(default, init, alias)


@dataclass_transform(eq_default=False, field_specifiers=(field, option))
def options(cls: Class) -> Class:
    """Add a constructor with the options of a class and of its bases, as ``dataclasses.dataclass`` does.

    Each annotation in the class is an option, except for ``ClassVar`` and ``option(init=False)``. The
    constructor passes the values to the method ``_set_options``, as a dict. If the class has a method
    ``_complete_docstring``, the decorator calls it at the end. Type checkers treat the class
    as a dataclass, but a user's subclass without this decorator is not one. The class must use
    ``from __future__ import annotations``.

    Examples
    --------
    >>> class Scaling:
    ...     factor: "float" = 2.0
    ...
    ...     def _set_options(self, given):
    ...         vars(self).update(given)
    >>> options(Scaling)(factor=3.0).factor
    3.0
    """
    own: dict[str, _Option | None] = {}
    is_keyword_only = False
    for name, annotation in inspect.get_annotations(cls).items():
        if annotation == "KW_ONLY":
            is_keyword_only = True
        elif not annotation.startswith("ClassVar"):
            if annotation.startswith("InitVar["):
                annotation = annotation[len("InitVar[") : -1]
            default = vars(cls).get(name, MISSING)
            if name in vars(cls):
                delattr(cls, name)
            if isinstance(default, Field):
                own[name] = _Option(annotation, default.default, default.kw_only is True)
            elif isinstance(default, _Described):
                described = _Option(annotation, default.default, is_keyword_only)
                own[default.alias or name] = described if default.init else None
            else:
                own[name] = _Option(annotation, default, is_keyword_only)
    every: dict[str, _Option | None] = {}
    for base in reversed(cls.__mro__[1:]):
        every |= vars(base).get("_own_options", {})
    found = {name: given for name, given in (every | own).items() if given is not None}
    cls._own_options = own  # type: ignore[attr-defined]
    cls._option_names = tuple(found)  # type: ignore[attr-defined]

    def set_options(self: Any, *values: object) -> None:
        self._set_options(dict(zip(found, values, strict=True)))

    fields = [
        (name, InitVar[object], field(default=option.default, kw_only=option.is_keyword_only))
        for name, option in found.items()
    ]
    made = make_dataclass(
        cls.__name__, fields, namespace={"__post_init__": set_options}, eq=False, repr=False
    )
    template = cast("FunctionType", vars(made)["__init__"])
    # Give the constructor the globals of the class's module, by which errors recognize this library's frames.
    space = vars(sys.modules[cls.__module__])
    constructor = FunctionType(
        template.__code__, space, "__init__", template.__defaults__, template.__closure__
    )
    constructor.__kwdefaults__ = template.__kwdefaults__
    constructor.__module__, constructor.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    constructor.__annotations__ = {name: option.annotation for name, option in found.items()}
    constructor.__annotations__["return"] = "None"
    cls.__init__ = constructor  # type: ignore[misc]
    cls.__post_init__ = set_options  # type: ignore[attr-defined]
    if hasattr(cls, "_complete_docstring"):
        cls._complete_docstring()
    return cls
