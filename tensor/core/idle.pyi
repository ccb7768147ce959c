from collections.abc import Callable

from tensor._dtypes import Array
from tensor.core.filed_values import FiledValues
from tensor.core.storage import StorageReference

def idle_tensors(least: int) -> tuple[list[StorageReference], list[StorageReference]]: ...
def move_to_file(x: StorageReference, write: Callable[[Array], FiledValues | None]) -> int: ...
