from collections.abc import Callable
from typing import Any, TypeVar

from scopes.core.scope import DisposeScope

_T = TypeVar("_T")

def call_in_scope(
    name: str | None, function: Callable[..., _T], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _T: ...
def clearing(function: Callable[..., Any]) -> Callable[..., Any]: ...

class SuspendableScope(DisposeScope):
    def suspend(self, item: object) -> None: ...
    def resume(self) -> None: ...
