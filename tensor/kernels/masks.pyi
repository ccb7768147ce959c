import numpy as np

keep_nonzero: np.ufunc
keep_true: np.ufunc
