"""The base class of layers whose docstrings copy the descriptions of options from other texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from nn.module.docstrings import complete, texts_of
from nn.module.module import Module
from tensor import Tensor


class Described(Module):
    """Base class of layers that copy texts on their options from `_texts` and the docstring of `_function`.

    A subclass passes its function: ``class ReLU(..., function=F.relu)``.
    """

    _function: ClassVar[Callable[..., Tensor]]
    _texts: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, function: Callable[..., Tensor] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if function is not None:
            cls._function = function
            cls._complete_docstring()

    @classmethod
    def _complete_docstring(cls) -> None:
        function = getattr(cls, "_function", None)
        complete(cls, {**(texts_of(function) if function else {}), **cls._texts})
