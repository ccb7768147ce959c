from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

def run_kernel(kernel: Callable[_P, _R], /, *arguments: _P.args, **options: _P.kwargs) -> _R: ...

class in_kernels:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
