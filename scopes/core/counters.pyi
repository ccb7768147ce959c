from typing import NoReturn, final

@final
class Counters:
    """The figures of one type and one creating thread."""

class CountingThread:
    """Handle of the thread that created it. While it exists, the counts of the thread are not merged."""

    def __reduce__(self) -> NoReturn: ...

def total(kind: type | None, thread: CountingThread | None) -> tuple[int, int, int, int, int, int, int]: ...
def block_count() -> int: ...
def reset() -> None: ...
