from collections.abc import Callable
from typing import final

from tensor._dtypes import Array

@final
class External:
    def __init__(
        self,
        source: object,
        nbytes: int,
        *,
        owner: object = None,
        on_release: Callable[[], object] | None = None,
    ) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_cared_for(self) -> bool: ...
    def over(self, array: Array) -> Array: ...
    def at(self, address: int) -> Array: ...

def call_off() -> list[object]: ...
