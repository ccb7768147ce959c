from contextvars import ContextVar
from types import TracebackType
from typing import Self

from tensor.tape.modes import Answers, Recorder

grad_enabled: ContextVar[bool | Recorder]
when_enabled: ContextVar[bool | Recorder]

def turn_to(answers: Answers) -> Answers: ...

class Block:
    def _inside(self) -> Answers: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

class Steps:
    def __init__(self, block: Block) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
