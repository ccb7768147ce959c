from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

def keep_state(optimizer: object) -> None: ...
def keeping_state(method: Method) -> Method: ...
