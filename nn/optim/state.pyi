from collections.abc import Callable
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])

def keep_state(optimizer: object) -> None: ...
def keeping_state(method: _Method) -> _Method: ...
