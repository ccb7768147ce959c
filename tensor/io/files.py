"""Tensors in safetensors files: mapped when loaded, replaced atomically when saved."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from stat import S_IMODE
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tensor._dtypes import Array
from tensor._errors import shown
from tensor.core.tensor import TensorCore, snapshot, wrap, wrap_mapped
from tensor.io.safetensors import METADATA, Entry, compose, name_of, read_header
from tensor.memory.buffer import External

if TYPE_CHECKING:
    from pathlib import Path

    from tensor._tensor import Tensor

# The bytes to copy at once, from arrays that are not contiguous.
_PIECE_BYTES = 1 << 20

PathLike = str | os.PathLike[str]


def load_file(path: PathLike) -> dict[str, Tensor]:
    """Map a safetensors file, and return its tensors by name. They use the mapped memory without a copy.

    The tensors belong to the current scope. The file is unmapped when the last tensor (or NumPy array) that
    uses it is freed. Until then, don't shorten the file or write to it. ``save_file`` to the same path is
    safe, because it creates a new file. (On Windows, ``save_file`` raises an error while the old file is
    mapped: end the scope first.) The first write to a loaded tensor copies the tensor, so the file does not
    change. Before that write, arrays from ``numpy()`` are read-only.

    Parameters
    ----------
    path
        A file with dtypes BOOL, U8 to U64, I8 to I64, F16, BF16, F32, F64 and C64. Without ml_dtypes, BF16
        becomes float32, with the same values and its own memory.

    Raises
    ------
    SafetensorsError
        If the file is truncated, broken or malicious, or if tensors do not support a dtype (F8). This is
        raised before any tensor is created.
    OSError
        If the file does not exist or can't be read.

    Examples
    --------
    >>> import pathlib, tempfile, tensor
    >>> from scopes import new_dispose_scope
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "model.safetensors")
    >>> tensor.save_file({"weight": tensor.ones((2, 3)), "bias": tensor.zeros((2,))}, path)
    >>> with new_dispose_scope():
    ...     loaded = tensor.load_file(path)
    ...     loaded["bias"][0] = 5.0
    ...     sorted(loaded), loaded["bias"].tolist(), tensor.load_file(path)["bias"].tolist()
    (['bias', 'weight'], [5.0, 0.0], [0.0, 0.0])
    >>> folder.cleanup()
    """
    place = as_path(path)
    with place.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        entries, _ = read_header(file, size, str(place))
        # Use a list: Python ignores an interrupt that arrives while it closes a generator.
        if max([entry.end - entry.begin for entry in entries.values()], default=0) == 0:
            return {name: wrap(np.empty(entry.shape, entry.dtype)) for name, entry in entries.items()}
        mapping = map_file(file)
    return {name: tensor_over(mapping, entry) for name, entry in entries.items()}


def map_file(file: BinaryIO) -> mmap.mmap:
    """Return the bytes of an open file, which must not be empty, as mapped memory."""
    # Read-only: the system counts a private writable mapping as committed memory from the start.
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def tensor_over(memory: mmap.mmap | bytes, entry: Entry) -> Tensor:
    """Return the tensor at `entry` in `memory`, without a copy unless its values must be converted."""
    if entry.is_widened:
        halves = np.frombuffer(memory, "<u2", (entry.end - entry.begin) // 2, entry.begin)
        return wrap((halves.astype(np.uint32) << 16).view(np.float32).reshape(entry.shape))
    nbytes = entry.end - entry.begin
    dtype = entry.dtype if sys.byteorder == "little" else entry.dtype.newbyteorder("<")
    # The array exports the mapping's buffer, so a call of the mapping's `close` raises an error.
    array = np.frombuffer(memory, dtype, nbytes // dtype.itemsize, entry.begin)
    if dtype is not entry.dtype:
        return wrap(array.astype(entry.dtype).reshape(entry.shape))
    # The memory never changes, so clones and values saved for backward may share it without a copy.
    mapped = External(array, nbytes).over(array)
    return wrap_mapped(mapped.reshape(entry.shape))


def save_file(
    tensors: Mapping[str, Tensor | np.ndarray[Any, Any]],
    path: PathLike,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write `tensors` to a safetensors file at `path`, completely or not at all.

    The bytes are written to a temporary file in the same folder. When it is complete on disk, it replaces
    `path`. So an error or a crash does not change the old file. (A killed process leaves its temporary file
    ``.<random>.tmp``.) Contiguous tensors are written without a copy in memory, others in pieces. Only values
    are written, no gradients and no history. Tensors that share memory are each written in full.

    Parameters
    ----------
    tensors
        Tensors or arrays by name, such as ``module.state_dict()``, of any dtype except complex128.
    path
        The file to write or replace. It keeps its permissions, and a symbolic link stays a link.
    metadata
        Strings by name, for the header.

    Raises
    ------
    TypeError
        If a name or metadata value is not a string, or a value is not a tensor or has a dtype that the format
        does not support.
    ValueError
        If a name can't be written (``"__metadata__"`` is reserved).
    TensorDisposedError
        If one of the tensors is disposed.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import pathlib, tempfile, tensor
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "x.safetensors")
    >>> tensor.save_file({"x": tensor.tensor([[1, 2], [3, 4]]).T}, path, metadata={"format": "np"})
    >>> tensor.load_file(path)["x"].tolist()
    [[1, 3], [2, 4]]
    >>> folder.cleanup()
    """
    arrays = _arrays(tensors)
    _require_texts(metadata)
    head, order = compose(arrays, metadata)
    replace_file(path, lambda file: write_to(file, head, [arrays[name] for name in order]))


def replace_file(path: PathLike, write: Callable[[BinaryIO], None]) -> None:
    """Write a temporary file with `write`. Replace `path` by it when it is complete on disk."""
    target = as_path(path).resolve()
    partial = target.with_name(f".{os.urandom(16).hex()}.tmp")
    try:
        with partial.open("xb") as file:
            if target.exists():
                partial.chmod(S_IMODE(target.stat().st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        # This does nothing if the temporary file has replaced the target.
        partial.unlink(missing_ok=True)


def write_to(file: BinaryIO, head: bytes, arrays: Sequence[Array]) -> None:
    """Write `head`, then the bytes of `arrays`."""
    file.write(head)
    for array in arrays:
        _write(file, array)


def _write(file: BinaryIO, array: Array) -> None:
    for chunk in _chunks(array):
        file.write(chunk.view(np.uint8).data)


def require_file(f: object, method: str) -> None:
    """Raise an error unless `f` is an open file with the method "read" or "write"."""
    if not hasattr(f, method):
        verb = "save" if method == "write" else "load"
        raise TypeError(f"{verb}: expected a path or a file in binary mode, not {type(f).__name__}")


def as_path(path: PathLike) -> Path:
    """Return `path` as a ``pathlib.Path``."""
    from pathlib import Path  # imported here, because it takes 3 ms of `import tensor`

    return Path(path)


def _chunks(array: Array) -> Iterator[Array]:
    """Yield the elements of `array` in C order, little-endian, as contiguous arrays of one dimension.

    An array that already has this form is yielded as a whole, without a copy. Others are yielded in pieces.
    """
    wanted = array.dtype.newbyteorder("<")
    if array.flags.c_contiguous and array.dtype == wanted:
        yield array.reshape(-1)
        return
    step = _PIECE_BYTES // wanted.itemsize
    for start in range(0, array.size, step):
        yield array.flat[start : start + step].astype(wanted, copy=False)


def _arrays(tensors: object) -> dict[str, Array]:
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save_file() takes a dict of tensors by name, not {type(tensors).__name__}: write "
            "save_file({'x': x}, path)"
        )
    arrays: dict[str, Array] = {}
    for name, x in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"save_file: names must be strings, not {shown(name)}")
        if name == METADATA:
            raise ValueError(
                f"save_file: the format reserves the name {METADATA!r}: choose another, or pass strings as "
                "metadata="
            )
        arrays[name] = array_to_write("save_file", name, x)
    return arrays


def array_to_write(function: str, name: str, x: object) -> Array:
    """Return the array of `x`. Raise an error that names `function` if the format does not support it."""
    if isinstance(x, TensorCore):
        array = values_of(x)
    elif isinstance(x, np.ndarray):
        array = x
    else:
        raise TypeError(
            f"{function}: {shown(name)} has type {type(x).__name__}, but files hold only tensors and "
            "arrays. Write tensor.tensor(data) for numbers and lists; tensor.save(obj, path) takes nested "
            "dicts and lists"
        )
    if name_of(array.dtype) is None:
        cure = "Convert it first, for example with x.to(tensor.float32)"
        if array.dtype.kind == "c":
            cure = "Convert it with x.to(tensor.complex64), or write tensor.save(obj, path)"
        raise TypeError(
            f"{function}: {shown(name)} has dtype {array.dtype}, which the format does not support. {cure}"
        )
    return array


def values_of(x: TensorCore) -> Array:
    """Return the values of `x` now. Later writes change them only if other code shares the memory of `x`."""
    array = x._array
    if array is None:
        x._raise_disposed()
    buffer = x._buffer
    # Other code may write to this memory at any time, and snapshot() would copy exported memory.
    return array if buffer.is_borrowed or buffer.exports else snapshot(x)


def _require_texts(metadata: object) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        raise TypeError(f"save_file: metadata must be a dict of strings, not {type(metadata).__name__}")
    for key, text in metadata.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(
                f"save_file: metadata must have string keys and values, not {shown(key)}: {shown(text)}. "
                "Write str(value), or json.dumps(value)"
            )
