"""Tensors in NumPy's ``.npy`` and ``.npz`` files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array
from tensor._errors import shown
from tensor.core.tensor import TensorCore, wrap
from tensor.io.files import PathLike, as_path, replace_file, values_of
from tensor.memory.buffer import empty
from tensor.ops.data import new_array

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def load_npy(path: PathLike) -> Tensor:
    """Return the tensor in a ``.npy`` file. No code from the file runs.

    Raises
    ------
    ValueError
        If the file is not a ``.npy`` file, or contains Python objects.
    TypeError
        If tensors do not support its dtype.
    OSError
        If the file does not exist or can't be read.

    Examples
    --------
    >>> import pathlib, tempfile, tensor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tensor.save_npy(tensor.tensor([[1, 2]]), pathlib.Path(folder, "x.npy"))
    ...     tensor.load_npy(pathlib.Path(folder, "x.npy")).tolist()
    [[1, 2]]
    """
    with as_path(path).open("rb") as file:
        array: Any = np.load(file, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{path} is a .npz file with several arrays: write tensor.load_npz(path)")
        return wrap(new_array(array, None))


def save_npy(x: Tensor | Array, path: PathLike) -> None:
    """Write a tensor to a ``.npy`` file at `path`, completely or not at all. ``numpy.load`` reads it.

    Raises
    ------
    TypeError
        If `x` is neither a tensor nor an array.
    OSError
        If the file can't be written.
    """
    array = _array_of("save_npy", x)
    replace_file(path, lambda file: np.save(file, array, allow_pickle=False))


def load_npz(path: PathLike) -> dict[str, Tensor]:
    """Return the tensors in a ``.npz`` file by name. No code from the file runs.

    Raises
    ------
    ValueError
        If the file is not a ``.npz`` file, or contains Python objects.
    TypeError
        If tensors do not support one of its dtypes.
    OSError
        If the file does not exist or can't be read.
    OutOfMemoryError
        If an array needs more memory than a limit leaves. The array is not read.

    Examples
    --------
    >>> import pathlib, tempfile, tensor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tensor.save_npz({"x": tensor.ones((2,))}, pathlib.Path(folder, "all.npz"))
    ...     tensor.load_npz(pathlib.Path(folder, "all.npz"))["x"].tolist()
    [1.0, 1.0]
    """
    with as_path(path).open("rb") as file:
        found: Any = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            raise ValueError(f"{path} is a .npy file with one array: write tensor.load_npy(path)")
        with found:
            return {name: _member(found, name) for name in found.files}


def _member(archive: Any, name: str) -> Tensor:
    """Return one tensor of a ``.npz`` file, whose header must not declare more memory than a limit leaves."""
    stored = name if name in archive.zip.namelist() else f"{name}.npy"
    with archive.zip.open(stored) as stream:
        if np.lib.format.read_magic(stream) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if not dtype.hasobject:
        empty(shape, dtype)  # raises an error if there is no room; nothing is written to it
    return wrap(new_array(archive[name], None))


def save_npz(tensors: Mapping[str, Tensor | Array], path: PathLike, *, compressed: bool = False) -> None:
    """Write `tensors` by name to a ``.npz`` file at `path`, completely or not at all, for ``numpy.load``.

    Parameters
    ----------
    compressed
        Whether to compress the file, which takes longer.

    Raises
    ------
    TypeError
        If `tensors` is not a dict, or a value is neither a tensor nor an array.
    OSError
        If the file can't be written.
    """
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save_npz() takes a dict of tensors by name, not {type(tensors).__name__}: write "
            "save_npz({'x': x}, path)"
        )
    arrays: dict[str, Any] = {name: _array_of("save_npz", x) for name, x in tensors.items()}
    save = np.savez_compressed if compressed else np.savez
    replace_file(path, lambda file: save(file, **arrays))


def _array_of(function: str, x: object) -> Array:
    if isinstance(x, TensorCore):
        x = values_of(x)
    if isinstance(x, np.ndarray):
        if x.dtype.name == "bfloat16":
            raise TypeError(
                f"{function}: NumPy's files do not support bfloat16: write x.float(), or save with "
                "tensor.save or tensor.save_file"
            )
        return x
    raise TypeError(f"{function} takes tensors and arrays, not {shown(x)}: write tensor.tensor(data)")
