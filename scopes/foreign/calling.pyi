from collections.abc import Callable
from typing import Any, Protocol

class _State(Protocol):
    depth: int

def intercept(
    self: Any, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any: ...
def adopting(
    function: Callable[..., Any], state: _State, take: Callable[..., None]
) -> Callable[..., Any]: ...
def pausing(function: Callable[..., Any]) -> Callable[..., Any]: ...
def hiding(function: Callable[..., Any]) -> Callable[..., Any]: ...
