"""Checkpoints: save and load tensors in nested dicts and lists, together with numbers and strings.

A file is in the safetensors format. Its header has a metadata entry with the tree of containers as JSON. A
flat dict of tensors needs no such entry, so any reader of the format can load it. `load` also reads files of
PyTorch (`torch_files`). It never runs code from a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from tensor._dtypes import Array, complex128, is_inexact
from tensor._errors import shown
from tensor.core.tensor import TensorCore, on_same_storage
from tensor.io.files import (
    PathLike,
    array_to_write,
    as_path,
    map_file,
    replace_file,
    require_file,
    tensor_over,
    values_of,
    write_to,
)
from tensor.io.safetensors import METADATA, Entry, compose, read_header
from tensor.io.torch_archives import SIGNATURE
from tensor.io.torch_files import Reading, read_torch_file
from tensor.io.torch_legacy import is_legacy
from tensor.io.unpickling import CheckpointError, keys_of
from tensor.tape.recording import become_leaf

if TYPE_CHECKING:
    import mmap

    from tensor._tensor import Tensor

# Keys in the header's metadata: the tree of containers, and the names of complex128 tensors, which are stored
# as pairs of float64 numbers.
_TREE, _PAIRS = "tensor.tree", "tensor.complex128"
_PLAIN = (str, int, float, bool, type(None))


def save(obj: object, f: PathLike | BinaryIO) -> None:
    """Write a checkpoint: a tensor, or dicts, lists and tuples of tensors, arrays and plain data.

    As with ``save_file``, a path is replaced completely or not at all. A checkpoint has the values of tensors
    and whether they require grad, but no gradients and no history. Tensors that are the same view of one
    storage (tied weights) are written once, and share memory after loading. The file is in the safetensors
    format. Other readers of the format can read a flat dict of tensors.

    Parameters
    ----------
    obj
        Tensors of any dtype; NumPy arrays and numbers; int, float, complex, str, bytes, bool, None; all of
        them in dicts, lists and tuples. Dict keys and sets hold only int, float, str, bool, None, and tuples
        of these. Other mappings are loaded as dicts.
    f
        The path to write or replace, or a file opened for writing in binary mode.

    Raises
    ------
    TypeError
        If `obj` contains anything else, such as a module: save its ``state_dict()``.
    ValueError
        If containers contain themselves, or are nested hundreds of levels deep.
    TensorDisposedError
        If one of the tensors is disposed.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import io, nn, tensor
    >>> layer, file = nn.Linear(2, 1), io.BytesIO()
    >>> tensor.save({"model": layer.state_dict(), "epoch": 3, "losses": [0.5, 0.25]}, file)
    >>> found = tensor.load(file)
    >>> found["epoch"], found["losses"], found["model"]["weight"].shape
    (3, [0.5, 0.25], (1, 2))
    """
    import json  # imported here and below, because it makes `import tensor` slower

    writer = _TreeWriter()
    try:
        tree = writer.tree_of(obj, "")
        metadata = {} if _is_flat(obj, tree) else {_TREE: json.dumps(tree)}
        if writer.pairs:
            metadata[_PAIRS] = json.dumps(writer.pairs)
    except RecursionError:
        raise ValueError(
            "save: the containers contain themselves, or are nested hundreds of levels deep"
        ) from None
    head, order = compose(writer.arrays, metadata or None)
    arrays = [writer.arrays[name] for name in order]
    if isinstance(f, (str, os.PathLike)):
        replace_file(f, lambda file: write_to(file, head, arrays))
    else:
        require_file(f, "write")
        write_to(f, head, arrays)


def load(f: PathLike | BinaryIO) -> Any:
    """Return the contents of a checkpoint. Files of ``torch.save`` are supported too, without PyTorch.

    As with ``load_file``, tensors from a path use the mapped file. The first write to a tensor copies it. The
    tensors belong to the current scope. No code from the file runs: from files of PyTorch, it reads tensors,
    parameters (as leaves that require grad) and plain data in containers. Without ml_dtypes, bfloat16 becomes
    float32. Devices become their names, and all tensors are on the CPU.

    Parameters
    ----------
    f
        The path of a file, or a file opened for reading in binary mode, which is read from its start.

    Raises
    ------
    CheckpointError
        If the file has another format, is broken or malicious, or if loading it would run code.
    SafetensorsError
        If the header of a safetensors file is broken, or if tensors do not support one of its dtypes.
    OSError
        If the file does not exist or can't be read.

    Examples
    --------
    >>> import io, tensor
    >>> file, weight = io.BytesIO(), tensor.ones((2, 2))
    >>> tensor.save({"encoder": weight, "decoder": weight, 7: (None, "text")}, file)
    >>> found = tensor.load(file)
    >>> _ = found["encoder"].fill_(3.0)
    >>> found["decoder"].tolist(), found[7]
    ([[3.0, 3.0], [3.0, 3.0]], (None, 'text'))
    """
    return load_with(f)


def load_with(f: PathLike | BinaryIO, reading: Reading = Reading(), *, is_mapped: bool = True) -> Any:  # noqa: B008 -- immutable
    """Load a checkpoint like `load`, with options `reading` for files of ``torch.save``.

    With `is_mapped` false, read a path's file instead of mapping it. Then other code may write to the file.
    """
    if isinstance(f, (str, os.PathLike)):
        place = as_path(f)
        with place.open("rb") as file:
            if not is_mapped:
                data = file.read()
                return _loaded(file, data, len(data), str(place), reading)
            size = os.fstat(file.fileno()).st_size
            return _loaded(file, map_file(file) if size else b"", size, str(place), reading)
    require_file(f, "read")
    f.seek(0)
    data = f.read()
    return _loaded(f, data, len(data), "the file given", reading)


def _loaded(file: BinaryIO, memory: mmap.mmap | bytes, size: int, label: str, reading: Reading) -> Any:
    try:
        start = memory[:9]
        if start.startswith(SIGNATURE) or is_legacy(memory[:32]):
            return read_torch_file(np.frombuffer(memory, np.uint8), file, reading)
        # A safetensors file may begin with this byte too, in the length of its header. Then the upper half of
        # the length is zero, and a brace follows.
        if start.startswith(b"\x80") and start[4:] != b"\0\0\0\0{":
            _fail(
                "is a plain pickle, which may run code when it is loaded. Load it with the program that "
                "wrote it, and save its tensors with tensor.save"
            )
        if start.startswith(b"\x93NUMPY"):
            _fail("is a NumPy array: write tensor.tensor(numpy.load(path))")
        file.seek(0)
        header = read_header(file, size, label)
        pairs = _parsed(header.metadata.get(_PAIRS, "[]"))
        if not isinstance(pairs, list):
            _fail(f"is broken: expected names in {_PAIRS}, found {shown(pairs)}")
        entries = {name: _of_pairs(x) if name in pairs else x for name, x in header.entries.items()}
        tensors = _Tensors(memory, entries)
        if _TREE not in header.metadata:
            return tensors.all()
        return tensors.restored(_parsed(header.metadata[_TREE]))
    except CheckpointError as error:
        raise CheckpointError(f"{label} {error}") from None
    except RecursionError:
        raise CheckpointError(f"{label} is broken: its tree is nested too deeply") from None


def _is_flat(obj: object, tree: Any) -> bool:
    """Return whether the tree is a flat dict with each tensor under its own name."""
    return type(obj) is dict and all(
        type(key) is str and value == {"tensor": key} and key != METADATA for key, value in tree["dict"]
    )


# --- Conversion to a tree of JSON: plain data as is, other objects as a JSON object with one tag ------------


class _TreeWriter:
    """The arrays to save, by name, and the conversion of objects to the tree."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        # The names of complex128 tensors.
        self.pairs: list[str] = []
        # The names of tensors by id. The caller keeps the tensors alive, so that the ids stay valid.
        self._names: dict[int, str] = {}

    def tree_of(self, x: object, path: str) -> Any:
        """Return the JSON value for `x`, whose path in the tree is `path`."""
        if type(x) in _PLAIN:
            return x
        if isinstance(x, TensorCore):
            return self._tensor(x, path)
        if isinstance(x, np.ndarray):
            return {"array": self._named(x, path)}
        if isinstance(x, np.generic):
            return {"number": self._named(np.asarray(x), path)}
        if isinstance(x, Mapping):
            return {"dict": [[_key(key, path), self.tree_of(x[key], _joined(path, key))] for key in x]}
        match x:
            case complex():
                return {"complex": [x.real, x.imag]}
            case bytes():
                return {"bytes": x.hex()}
            case set() | frozenset():
                return {"set": [_key(y, path) for y in x]}
            case list() | tuple() if type(x) in (list, tuple):
                return {type(x).__name__: [self.tree_of(y, _joined(path, i)) for i, y in enumerate(x)]}
        place = f"{shown(path)} has type" if path else "the object has type"
        cure = ": save its state_dict()" if hasattr(x, "state_dict") else ""
        raise TypeError(
            f"save: {place} {type(x).__name__}, but checkpoints hold only tensors, arrays, numbers and "
            f"strings in dicts, lists, tuples and sets, so that loading runs no code{cure}"
        )

    def _tensor(self, x: TensorCore, path: str) -> dict[str, object]:
        known = self._names.get(id(x))
        tag = "tensor"
        if known is None:
            same = [y for y in on_same_storage(x) if id(y) in self._names and _is_same_view(x, y)]
            if same:
                known, tag = self._names[id(same[0])], "alias"
            else:
                known = self._named(x, path)
            self._names[id(x)] = known
        return {tag: known} if x._node is None else {tag: known, "requires_grad": True}

    def _named(self, x: TensorCore | Array, path: str) -> str:
        """Add `x` to the arrays to save. Return its name: its path, made unique."""
        name = path or "value"
        while name in self.arrays or name == METADATA:
            name += "'"
        array = x if isinstance(x, np.ndarray) else values_of(x)
        if array.dtype == np.complex128:  # not in the format: store pairs of numbers
            array = np.ascontiguousarray(array.reshape(*array.shape, 1)).view(np.float64)
            self.pairs.append(name)
        self.arrays[name] = array_to_write("save", name, array)
        return name


def _is_same_view(x: TensorCore, y: object) -> bool:
    one, other = x._array, y._array if isinstance(y, TensorCore) else None
    return one is not None and other is not None and one.__array_interface__ == other.__array_interface__


def _joined(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _key(key: object, path: str) -> Any:
    if type(key) in _PLAIN:
        return key
    if type(key) is tuple and all(type(part) in _PLAIN for part in key):
        return {"tuple": list(key)}
    raise TypeError(
        f"save: a key or a member of a set at {shown(path)} is {shown(key)}: only numbers, strings and "
        "tuples of them can be saved"
    )


# --- Conversion back ----------------------------------------------------------------------------------------


class _Tensors:
    """The tensors of a file by name, created when they are first needed."""

    def __init__(self, memory: mmap.mmap | bytes, entries: Mapping[str, Entry]) -> None:
        self._memory, self._entries = memory, entries
        self._made: dict[str, Tensor] = {}

    def all(self) -> dict[str, Tensor]:
        return {name: self._tensor(name) for name in self._entries}

    def restored(self, node: object) -> Any:
        """Return the object that a node of the tree describes."""
        if type(node) in _PLAIN:
            return node
        match node:
            case {"dict": list() as items} if all(
                isinstance(item, list) and len(item) == 2 for item in items
            ):
                keys = keys_of([self.restored(key) for key, _ in items])
                return {key: self.restored(value) for key, (_, value) in zip(keys, items, strict=True)}
            case {"list": list() as values}:
                return [self.restored(value) for value in values]
            case {"tensor": str() as name, **more}:
                return _with_gradient(self._tensor(name), more)
            case {"alias": str() as name, **more}:
                return _with_gradient(self._tensor(name).detach(), more)
            case {"array": str() as name}:
                return self._array(name)
            case {"number": str() as name}:
                return self._array(name)[()]
            case {"tuple": list() as values}:
                return tuple([self.restored(value) for value in values])
            case {"set": list() as values}:
                return set(keys_of([self.restored(value) for value in values]))
            case {"bytes": str() as text}:
                return _bytes(text)
            case {"complex": [float() as real, float() as imag]}:
                return complex(real, imag)
            case _:
                raise CheckpointError(f"is broken: its tree has an invalid node {shown(node)}")

    def _tensor(self, name: str) -> Tensor:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = tensor_over(self._memory, self._entry(name))
        return made

    def _array(self, name: str) -> Array:
        with tensor_over(self._memory, self._entry(name)) as x:
            return np.array(x._array)

    def _entry(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except KeyError:
            _fail(f"is broken: its tree refers to a tensor {shown(name)}, which does not exist")


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        _fail(f"is broken: expected bytes as hexadecimal digits in its tree, found {shown(text)}")


def _parsed(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        _fail(f"is broken: its tree is not JSON ({error})")


def _of_pairs(entry: Entry) -> Entry:
    if entry.dtype != np.float64 or entry.shape[-1:] != (2,):
        _fail(f"is broken: expected complex numbers as pairs, found {entry.dtype} of shape {entry.shape}")
    return entry._replace(dtype=complex128, shape=entry.shape[:-1])


def _with_gradient(x: Tensor, more: object) -> Tensor:
    if more == {"requires_grad": True} and is_inexact(x.dtype):
        become_leaf(x)
    elif more:
        _fail(f"is broken: its tree has invalid attributes {shown(more)} for a tensor of {x.dtype}")
    return x


def _fail(what: str) -> NoReturn:
    raise CheckpointError(what) from None
