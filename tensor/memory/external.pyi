from collections.abc import Callable
from typing import Self, final

from tensor._dtypes import Array

@final
class Exported:
    def __new__(cls, exporter: object) -> Self: ...

@final
class External:
    def __new__(
        cls,
        source: object,
        nbytes: int,
        *,
        owner: object = None,
        on_release: Callable[[], object] | None = None,
    ) -> Self: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def has_release_action(self) -> bool: ...
    def over(self, array: Array) -> Array: ...
    def at(self, address: int) -> Array: ...

def cancel_callbacks() -> list[object]: ...
