from typing import NoReturn, final

@final
class Counters:
    """The figures of one type and one creating thread."""

class CountingThread:
    """Stands for the thread that made it; while it exists, that thread's figures are kept apart."""

    def __reduce__(self) -> NoReturn: ...

def total(kind: type | None, thread: CountingThread | None) -> tuple[int, int, int, int, int, int, int]: ...
def block_count() -> int: ...
def reset() -> None: ...
