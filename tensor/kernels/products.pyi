from typing import Self, final

from tensor._dtypes import Array

@final
class PackedMatrix:
    def __new__(cls, matrix: Array) -> Self: ...
