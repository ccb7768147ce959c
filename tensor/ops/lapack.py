"""Call LAPACK: check matrices, explain errors, and record each output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes._shared.naming import set_module
from tensor._dtypes import Array, is_inexact
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore, wrap
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_tensor
from tensor.ops.messages import explain
from tensor.tape.recording import record
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


@set_module("tensor.linalg")
class LinAlgError(InvalidArgumentError, np.linalg.LinAlgError):
    """Error for matrices without a result: a singular matrix, or an iteration that does not converge.

    It is a ``ValueError``, a ``RuntimeError``, and NumPy's ``LinAlgError``: programs may catch any of them.

    Examples
    --------
    >>> import tensor
    >>> try:
    ...     tensor.linalg.inv(tensor.zeros((2, 2)))
    ... except tensor.linalg.LinAlgError:
    ...     print("singular")
    singular
    """


_ADVICE = {
    "Singular matrix": "a matrix is singular, so it has no inverse: write tensor.linalg.pinv(x) for the "
    "pseudoinverse",
    "Matrix is not positive definite": "a matrix is not positive definite: it must be symmetric, "
    "with all eigenvalues above 0. Look at tensor.linalg.eigvalsh(x)",
}


def matrices_of(name: str, x: object, *, square: bool = False) -> Tensor:
    """Return `x` as a tensor of matrices in its last two dimensions, or raise an error."""
    y = as_tensor(x)
    shape = y._live_array().shape
    if len(shape) < 2:
        raise InvalidArgumentError(f"{name} takes matrices, shape (..., m, n), not shape {shape}")
    if square and shape[-1] != shape[-2]:
        raise InvalidArgumentError(f"{name} takes square matrices, shape (..., n, n), not shape {shape}")
    return y


def run_lapack(name: str, kernel: Callable[..., Any], *arrays: Array, **options: Any) -> Any:
    """Return the result of `kernel` for matrices, or raise an error that explains the failure."""
    failure: Exception
    try:
        return run_kernel(kernel, *arrays, **options)
    except np.linalg.LinAlgError as error:
        failure = LinAlgError(f"{name}: {_ADVICE.get(str(error), str(error))}")
    except (TypeError, ValueError) as error:
        failure = explain(name, error, arrays)
    try:
        raise failure  # outside of `except`, so that its context keeps no traceback with arrays
    finally:
        del failure  # the variable and the traceback would be a cycle, which keeps the callers' tensors


def record_outputs(name: str, x: Tensor, arrays: dict[str, Any]) -> list[Tensor]:
    """Return a tensor for each output of an op of `x`, each with its own derivative rule.

    Each rule has all outputs as parameters.
    """
    outputs = {key: wrap(np.asarray(array)) for key, array in arrays.items()}
    for key, y in outputs.items():
        y._node = record(RULES[f"{name}_{key}"], (x,), np.asarray(arrays[key]), outputs)
    return list(outputs.values())


def tolerance(array: Array, rtol: object) -> Any:
    """Return the limit, relative to the largest, up to which singular values count as 0: `rtol` if given."""
    if rtol is None:
        dtype = array.dtype if is_inexact(array.dtype) and array.itemsize > 2 else np.float32
        return max(array.shape[-2:]) * float(np.finfo(dtype).eps)
    return rtol._live_array() if isinstance(rtol, TensorCore) else rtol
