from tensor._dtypes import Array, Dtype

class FiledValues:
    shape: tuple[int, ...]
    dtype: Dtype
    def __init__(self, shape: tuple[int, ...], dtype: Dtype) -> None: ...
    def read(self) -> Array: ...
