from typing import ParamSpec, Protocol, TypeVar

_P = ParamSpec("_P")
_R_co = TypeVar("_R_co", covariant=True)

class _HasForward(Protocol[_P, _R_co]):
    def forward(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...

def is_plain(module: object) -> bool: ...

class Callable:
    # A call takes what `forward` takes and returns what it returns.
    def __call__(self: _HasForward[_P, _R_co], *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
