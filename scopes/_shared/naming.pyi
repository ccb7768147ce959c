from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T", bound=Callable[..., Any])

def set_module(module: str) -> Callable[[_T], _T]: ...
