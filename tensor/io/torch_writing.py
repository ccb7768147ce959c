"""Writing files in the format of ``torch.save``, without PyTorch.

Python's pickler writes the pickle, with the names of this library's classes and functions, such as
`rebuild_tensor`. Then these names are replaced by PyTorch's names, and names of internal modules by public
names.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tensor._dtypes import Array, Dtype
from tensor.core.tensor import TensorCore, on_same_storage, snapshot, snapshot_block
from tensor.io.files import PathLike, replace_file, require_file
from tensor.io.torch_archives import write_archive
from tensor.io.torch_builders import rebuild_parameter, rebuild_tensor, rebuild_tensor_of_dtype
from tensor.io.torch_storages import NAME_OF, STORAGES, StorageKind, UntypedStorage, kind_of

# PyTorch's protocol. It writes each global name with one opcode, which `_renamed` replaces.
_PROTOCOL = 2
_OWN = {"tensor", "nn", "scopes"}


class _Place(NamedTuple):
    """The position of a tensor's values in a storage, in elements."""

    key: int
    size: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _StorageReference(NamedTuple):
    """A persistent id for the pickler."""

    kind: type[StorageKind]
    key: str
    size: int


class _Values(NamedTuple):
    """A parameter's tensor, which PyTorch stores inside the parameter."""

    parameter: TensorCore


def write_torch_file(obj: object, f: PathLike | BinaryIO, parameter: type[TensorCore] | None = None) -> None:
    """Write `obj` as ``torch.save`` does. Tensors of the class `parameter` become parameters.

    `obj` may be any object that can be pickled. A path is replaced completely or not at all.

    Raises
    ------
    pickle.PicklingError
        If a class or function is not found by its name, or an object can't be pickled.
    TensorDisposedError
        If one of the tensors is disposed.
    """
    code = io.BytesIO()
    pickler = _Pickler(code, parameter)
    try:
        pickler.dump(obj)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(
            f"save: {error}. Objects are saved with the names of their classes and functions, which must "
            "be at the top level of a module: move them there, or only save module.state_dict()"
        ) from error
    written = _renamed(code.getvalue())
    if isinstance(f, (str, os.PathLike)):
        replace_file(f, lambda file: write_archive(file, written, pickler.arrays))
    else:
        require_file(f, "write")
        write_archive(f, written, pickler.arrays)


class _Pickler(pickle.Pickler):
    """Python's pickler, which writes tensors like PyTorch, and collects their storages."""

    def __init__(self, code: io.BytesIO, parameter: type[TensorCore] | None) -> None:
        super().__init__(code, _PROTOCOL)
        self._parameter = parameter
        # The bytes of the storages; their indices are the keys.
        self.arrays: list[Array] = []
        # The keys by the ids and dtypes of tensors. `_held` keeps the ids valid.
        self._keys: dict[tuple[int, Dtype], int] = {}
        self._held: list[TensorCore] = []

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is _StorageReference:
            return ("storage", obj.kind, obj.key, "cpu", obj.size)
        return None

    def reducer_override(self, obj: Any) -> Any:
        # An uninitialized parameter is pickled as an ordinary object, because it has no values.
        if isinstance(obj, TensorCore) and not hasattr(obj, "materialize"):
            requires_grad = obj._node is not None
            if self._parameter is not None and isinstance(obj, self._parameter):
                return rebuild_parameter, (_Values(obj), requires_grad, OrderedDict())
            return self._tensor(obj, requires_grad)
        if type(obj) is _Values:
            return self._tensor(obj.parameter, False)
        return NotImplemented

    def _tensor(self, x: TensorCore, requires_grad: bool) -> tuple[Callable[..., object], tuple[object, ...]]:
        array = x._array
        if array is None:
            x._raise_disposed()
        place = self._place(x, array)
        dtype = array.dtype
        # PyTorch writes hooks here, which are always empty in files.
        hooks: OrderedDict[str, Any] = OrderedDict()
        layout = (place.offset, place.shape, place.strides, requires_grad, hooks)
        kind = kind_of(dtype)
        if kind is not None:
            return rebuild_tensor, (_StorageReference(kind, str(place.key), place.size), *layout)
        storage = _StorageReference(UntypedStorage, str(place.key), place.size * dtype.itemsize)
        return rebuild_tensor_of_dtype, (storage, *layout, NAME_OF[dtype])

    def _place(self, x: TensorCore, array: Array) -> _Place:
        """Return the position of `x` in a storage: its own, or one that it shares with views and aliases."""
        dtype, itemsize = array.dtype, array.dtype.itemsize
        on_it = on_same_storage(x)
        root = x._buffer.root
        offset = _address(array) - _address(root)
        steps = [step for step, size in zip(array.strides, array.shape, strict=True) if size > 1]
        # PyTorch counts strides in elements, and they must not be negative.
        counted = all(step >= 0 and step % itemsize == 0 for step in steps)
        alone = len(on_it) == 1 and array.nbytes < root.nbytes
        if alone or not counted or offset % itemsize or root.nbytes % itemsize or not root.flags.forc:
            values = np.ascontiguousarray(snapshot(x)).reshape(array.shape)
            strides = tuple([step // itemsize for step in values.strides])
            return _Place(self._add(values), values.size, 0, array.shape, strides)
        known = [self._keys[id(y), dtype] for y in on_it if (id(y), dtype) in self._keys]
        key = known[0] if known else self._add(snapshot_block(x).ravel(order="K"))
        self._keys[id(x), dtype] = key
        self._held.append(x)
        strides = tuple([max(step, 0) // itemsize for step in array.strides])
        return _Place(key, root.nbytes // itemsize, offset // itemsize, array.shape, strides)

    def _add(self, array: Array) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def global_name(obj: Any) -> str:
    """Return the name of a class or function in files. Names of this library are as short as possible."""
    module, name = str(obj.__module__), str(obj.__qualname__)
    return f"{_public(module, name)}.{name}"


def _public(module: str, name: str) -> str:
    parts = module.split(".")
    if parts[0] not in _OWN:
        return module
    found = getattr(sys.modules.get(module), name, None)
    for end in range(1, len(parts)):
        outer = ".".join(parts[:end])
        if found is not None and getattr(sys.modules.get(outer), name, None) is found:
            return outer
    return module


def _own(obj: Any) -> tuple[str, str]:
    return obj.__module__, obj.__qualname__


# PyTorch's names for names of this library.
_NAMES = {
    _own(rebuild_tensor): "torch._utils _rebuild_tensor_v2",
    _own(rebuild_tensor_of_dtype): "torch._utils _rebuild_tensor_v3",
    _own(rebuild_parameter): "torch._utils _rebuild_parameter",
    **{_own(kind): " ".join(name.rsplit(".", 1)) for name, kind in STORAGES.items()},
    **{_own(marker): f"torch {dtype}" for dtype, marker in NAME_OF.items()},
}


def _renamed(code: bytes) -> bytes:
    """Return the pickle `code` with the names used in files."""
    import pickletools  # imported here, because it makes `import tensor` slower

    pieces, begin = [], 0
    for opcode, argument, place in pickletools.genops(code):
        if opcode.name != "GLOBAL" or place is None or argument is None:
            continue
        module, _, name = argument.partition(" ")
        written = _NAMES.get((module, name)) or f"{_public(module, name)} {name}"
        if written != argument:
            pieces += [code[begin:place], b"c", written.replace(" ", "\n").encode(), b"\n"]
            # The length of the opcode, and of both names with their line ends.
            begin = place + len(argument.encode()) + 2
    return b"".join([*pieces, code[begin:]])
