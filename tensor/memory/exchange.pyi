from typing import Any

from typing_extensions import CapsuleType

from tensor._dtypes import Array

def capsule_of(array: Array, max_version: tuple[int, int] | None, copy: bool | None) -> CapsuleType: ...
def array_of(producer: Any, device: str | None = None, copy: bool | None = None) -> Array: ...
