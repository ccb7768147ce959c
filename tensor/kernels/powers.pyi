import numpy as np

integer_power: np.ufunc
