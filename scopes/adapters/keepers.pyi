from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, final

SOUGHT: Final = 1
ITEMS: Final = 2
VALUES: Final = 4
ATTRIBUTES: Final = 8
REFERENTS: Final = 16
KEEPER: Final = 32
ALWAYS: Final = 64
FOREIGN_CODE: Final = 128
ASK: Final = 512
OWN: Final = 1024
LIBRARY: Final = 2048
MIXED: Final = 0
USER: Final = 1
LIBRARIES: Final = 2

@final
class Mark: ...

@final
class Keepers:
    def __init__(
        self,
        judge: Callable[[type], int],
        is_keeper: Callable[[Any], bool],
        is_transient: Callable[[Any], bool],
        globals_of: Callable[[str, ModuleType], tuple[str, ...]],
        parts: Callable[[type], tuple[str, ...]],
        set_by_libraries: Callable[[type], frozenset[str]],
        author_of_file: Callable[[str], int],
        is_users_module: Callable[[str], bool],
        is_shared: Callable[[Any], bool],
        find_holders: Callable[[dict[int, Any]], dict[int, tuple[str, Any, str]]],
    ) -> None: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def freeze(self) -> None: ...
    def look_into(self, kind: type) -> None: ...
    def leaves(self) -> list[Any]: ...
    def forget_leaves(self) -> None: ...
    def find_new(self) -> int: ...
    def mark(self) -> Mark | None: ...
    def count_older(self, mark: Mark | None) -> int: ...
    def are_explained(self, objects: list[Any]) -> bool: ...
    def find(
        self,
        sought: dict[int, Any],
        older: int,
        is_strict: bool,
        is_older: bool = False,
        hidden: dict[str, Any] | None = None,
    ) -> dict[int, tuple[str, bool]]: ...
