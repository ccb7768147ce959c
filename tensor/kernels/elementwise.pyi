from collections.abc import Callable
from typing import Any, final

from tensor._dtypes import Array

@final
class UnaryKernel:
    @property
    def plain(self) -> Callable[..., Any]: ...
    def __call__(self, x: Any, out: Array | None = None) -> Any: ...

@final
class BinaryKernel:
    @property
    def plain(self) -> Callable[..., Any]: ...
    def __call__(self, a: Any, b: Any, out: Array | None = None) -> Any: ...

@final
class SlopeKernel:
    def __call__(self, g: Any, x: Any, out: Array | None = None, number: float = 0.0) -> Array | None: ...
