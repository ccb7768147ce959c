import numpy as np

integer_power: np.ufunc

def whole_exponent(x: object, n: object) -> int | None: ...
