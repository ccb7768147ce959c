"""Reading files of ``torch.save`` without PyTorch: tensors and plain data, and whole objects on request."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from tensor._dtypes import Array
from tensor._errors import shown
from tensor.core.tensor import TensorCore
from tensor.io.torch_archives import Archive
from tensor.io.torch_builders import (
    BUILDERS,
    NUMPY_ARRAY,
    dtype_named,
    rebuild_parameter,
    rebuild_tensor,
    rebuild_tensor_of_dtype,
    set_array_state,
)
from tensor.io.torch_legacy import LegacyFile, is_legacy
from tensor.io.torch_storages import STORAGES, Storage, StorageKind
from tensor.io.unpickling import Builder, CheckpointError, unpickle
from tensor.tape.hooks import HookTable

if TYPE_CHECKING:
    from typing import BinaryIO


class Reading(NamedTuple):
    """Options for reading a file.

    `is_trusted` uses Python's unpickler, which runs code from the file. `allowed` has classes and functions
    that an untrusted file may call, by their names in files. `parameter` converts a tensor to a parameter;
    without it, parameters in files become leaves.
    """

    is_trusted: bool = False
    allowed: Mapping[str, object] = {}
    parameter: Callable[[Any, bool], TensorCore] | None = None


# Classes in pickles of this library's modules. They run no code from a file.
_HARMLESS: dict[str, object] = {"tensor.tape.hooks.HookTable": HookTable}


class _TorchNames:
    """Resolves the names in a file of ``torch.save``, and stores the objects created."""

    def __init__(self, archive: Archive | LegacyFile, reading: Reading) -> None:
        self._archive, self._reading = archive, reading
        self._allowed = {**_HARMLESS, **reading.allowed}
        self._callable = {id(x) for x in self._allowed.values()}
        self._storages: dict[str, Storage] = {}
        # The tensors created, and their storages by the tensors' ids. `_made` keeps the ids valid.
        self._made: list[TensorCore] = []
        self._storage_of: dict[int, Storage] = {}
        self._builders: dict[str, Builder] = {
            **BUILDERS,
            "torch._utils._rebuild_tensor": Builder(self._tensor),
            "torch._utils._rebuild_tensor_v2": Builder(self._tensor),
            "torch._utils._rebuild_tensor_v3": Builder(self._tensor_of_dtype),
            "torch._utils._rebuild_parameter": Builder(self._parameter),
        }

    @contextmanager
    def dispose_on_error(self) -> Iterator[None]:
        """Dispose all created tensors after an error, including parameters of incomplete modules."""
        try:
            yield
        except BaseException:
            for x in reversed(self._made):
                x.dispose()
            raise

    def named(self, name: str) -> object:
        if name in self._builders:
            return self._builders[name]
        if name in STORAGES:
            return STORAGES[name]
        if name in self._allowed:
            return self._allowed[name]
        if name == NUMPY_ARRAY:
            return NUMPY_ARRAY
        module, _, last = name.rpartition(".")
        dtype = dtype_named(last) if module == "torch" else None
        if dtype is not None:
            return dtype
        if module.partition(".")[0] != "torch":
            _fail(
                f"it would call {shown(name)}: it has more than tensors and plain data, perhaps a whole "
                "model, and loading that runs code from the file's author. Save model.state_dict() and load "
                "that. If you trust a file of tensor.torch.save, write torch.load(f, weights_only=False), "
                f"or allow the class: with torch.serialization.safe_globals([{last}]): ..."
            )
        if last == "_rebuild_from_type_v2":
            _fail(
                "it has a tensor with attributes of its own, or of a subclass of torch.Tensor. In PyTorch, "
                "save x.detach().clone() instead of the tensor x, and the attributes beside it"
            )
        if last.startswith("_rebuild") or last.endswith("Storage"):
            _fail(
                f"it has an object built by {name}, a kind of tensor that this library does not support "
                "(sparse, quantized, a subclass, or another dtype). Convert it in PyTorch and save it again"
            )
        if module == "torch":
            _fail(f"it has {name}, which has no counterpart here. Save its name, str(...), instead")
        raise CheckpointError(
            f"it would call {shown(name)}, a function or class of PyTorch: it has more than tensors and "
            "plain data, perhaps a whole model, whose classes this library does not have. In PyTorch, save "
            "model.state_dict() and load that"
        )

    def persistent(self, given: object) -> object:
        match given:
            case ("storage", type() as kind, str() as key, str(), int() as count) | (
                "storage",
                type() as kind,
                str() as key,
                str(),
                int() as count,
                None,
            ) if issubclass(kind, StorageKind):
                pass
            case _:
                _fail(f"it refers to a storage that is not in the archive: {shown(given)}")
        found = self._storages.get(key)
        if found is None:
            memory = self._archive.storage(key)
            if count * kind.itemsize != memory.nbytes:
                _fail(
                    f"the storage {shown(key)} should have {count:,} elements of {kind.itemsize} bytes, but "
                    f"has {memory.nbytes:,} bytes"
                )
            found = self._storages[key] = Storage(kind, memory, self._archive.is_swapped)
        if found.kind is not kind:
            _fail(f"the storage {shown(key)} has two dtypes")
        return found

    def call(self, function: Any, arguments: tuple[object, ...], is_new: bool) -> object:
        if id(function) not in self._callable:
            _fail(f"the pickle in it is broken: it calls {type(function).__name__}")
        with _as_one_error(function):
            return function.__new__(function, *arguments) if is_new else function(*arguments)

    def set_state(self, x: Any, state: Any) -> None:
        # Ignore the versions of modules, which PyTorch stores in the state of the state dict.
        if isinstance(x, OrderedDict) and isinstance(state, dict):
            return
        if isinstance(x, np.dtype) and isinstance(state, tuple) and state[1:2] in (("<",), ("|",), ("=",)):
            return
        if type(x) is np.ndarray:
            set_array_state(x, state)
        elif id(type(x)) in self._callable:
            with _as_one_error(type(x)):
                if hasattr(x, "__setstate__"):
                    x.__setstate__(state)
                else:
                    vars(x).update(state)
        else:
            _fail(f"it sets a state of {type(x).__name__}")

    def _tensor(self, storage: object, *more: Any) -> TensorCore:
        return self._noted(rebuild_tensor(storage, *more), storage)

    def _tensor_of_dtype(self, storage: object, *more: Any) -> TensorCore:
        return self._noted(rebuild_tensor_of_dtype(storage, *more), storage)

    def _noted(self, x: TensorCore, storage: Any) -> TensorCore:
        self._made.append(x)
        self._storage_of[id(x)] = storage
        return x

    def _parameter(self, x: object, requires_grad: object, *_: object) -> TensorCore:
        if self._reading.parameter is None or not isinstance(x, TensorCore) or id(x) not in self._storage_of:
            return rebuild_parameter(x, requires_grad)
        rebuild_parameter(x, requires_grad)
        storage = self._storage_of.pop(id(x))
        made = self._reading.parameter(x, bool(requires_grad))
        storage.replace(x, made)
        self._made.append(made)
        return made


class _TrustingUnpickler(pickle.Unpickler):
    """Python's unpickler, which runs code from the pickle, with tensors and storages of the archive."""

    def __init__(self, data: bytes, names: _TorchNames) -> None:
        super().__init__(io.BytesIO(data))
        self._names = names

    def persistent_load(self, pid: Any) -> Any:
        return self._names.persistent(pid)

    def find_class(self, module: str, name: str) -> Any:
        # Do not import PyTorch even if it is installed: its classes hold PyTorch's tensors.
        if module.partition(".")[0] == "torch":
            found = self._names.named(f"{module}.{name}")
            return found.build if isinstance(found, Builder) else found
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise CheckpointError(
                f"it has {module}.{name}, which can't be imported ({error}). Whole objects are saved with "
                "the names of their classes: put the class back at that place, or save model.state_dict() "
                "and load that"
            ) from None


def read_torch_file(memory: Array, file: BinaryIO, reading: Reading = Reading()) -> object:  # noqa: B008 -- immutable
    """Return the contents of a file of ``torch.save``. Tensors use `memory`, the bytes of the whole `file`.

    Raises
    ------
    CheckpointError
        If the file is broken or malicious, or is not trusted and has more than tensors and plain data.
    """
    try:
        archive = LegacyFile(memory, file) if is_legacy(memory[:32].tobytes()) else Archive(memory, file)
        names = _TorchNames(archive, reading)
        code = archive.code
        with names.dispose_on_error():
            if reading.is_trusted:
                return _trusting(code, names)
            return unpickle(code, names)
    except CheckpointError as error:
        raise CheckpointError(f"can't be loaded: {error}") from None


def _trusting(code: bytes, names: _TorchNames) -> object:
    try:
        return _TrustingUnpickler(code, names).load()
    except (pickle.UnpicklingError, EOFError) as error:
        _fail(f"the pickle in it is broken, or of another library: {error}")


@contextmanager
def _as_one_error(kind: type) -> Iterator[None]:
    """Convert any error of an allowed class to a CheckpointError."""
    try:
        yield
    except Exception as error:
        raise CheckpointError(
            f"its data for {kind.__qualname__} can't be used: {type(error).__name__}, {shown(str(error))}"
        ) from error


def _fail(what: str) -> NoReturn:
    raise CheckpointError(what) from None
