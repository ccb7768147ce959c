from typing import NoReturn, final

@final
class Counters:
    """The counts of one type and one creating thread."""

class CountingThread:
    """Refers to the thread that created it. While it exists, the counts of that thread are not merged."""

    def __reduce__(self) -> NoReturn: ...

def total(kind: type | None, thread: CountingThread | None) -> tuple[int, int, int, int, int, int, int]: ...
def block_count() -> int: ...
def reset() -> None: ...
