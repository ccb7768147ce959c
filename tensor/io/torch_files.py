"""Files of ``torch.save``, read without PyTorch: a zip archive of one pickle and the bytes of each storage.

The layout is that of `torch.serialization` (PyTorch 1.6 and later): ``<name>/data.pkl``, whose persistent ids
name storages, ``<name>/data/<key>`` with the bytes of each, stored as they are, and ``<name>/byteorder``.
"""

from __future__ import annotations

import re
import struct
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from tensor import _dtypes as dtypes
from tensor._dtypes import Array, Dtype, is_inexact
from tensor._errors import shown
from tensor.core.tensor import TensorCore, view_of, wrap, wrap_mapped
from tensor.io.spans import is_within
from tensor.io.unpickling import Builder, CheckpointError, keys_of, unpickle
from tensor.memory.buffer import copy
from tensor.memory.external import External
from tensor.tape.nodes import become_leaf

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from tensor._tensor import Tensor

SIGNATURE = b"PK\x03\x04"
# Of a member in a zip archive: the sizes of its name and of what comes between that and its bytes.
_LOCAL = struct.Struct("<4s22xHH")
_NAMES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_DTYPES = {**{name: dtypes.as_dtype(name) for name in _NAMES}, "bfloat16": dtypes.float32}


class _Kind(NamedTuple):
    """What a storage holds: the dtype that its tensors have here, and the bytes of an element in the file.

    Untyped ones are bytes, and each tensor says of what dtype. NumPy has no bfloat16: it becomes float32.
    """

    dtype: Dtype | None
    itemsize: int


_BFLOAT16 = _Kind(dtypes.float32, 2)
_STORAGES = {
    "torch.BFloat16Storage": _BFLOAT16,
    "torch.storage.UntypedStorage": _Kind(None, 1),
    **{
        f"torch.{name}Storage": _Kind(dtype, dtype.itemsize)
        for name, dtype in {
            "Half": dtypes.float16,
            "Float": dtypes.float32,
            "Double": dtypes.float64,
            "Char": dtypes.int8,
            "Short": dtypes.int16,
            "Int": dtypes.int32,
            "Long": dtypes.int64,
            "Byte": dtypes.uint8,
            "Bool": dtypes.bool_,
            "ComplexFloat": dtypes.complex64,
            "ComplexDouble": dtypes.complex128,
        }.items()
    },
}
_MAX_DIMENSIONS = 64
# How a member of an archive is compressed: not at all.
_STORED = 0
# What Python's reader raises for archives that are cut off, or made to harm.
_BROKEN_ARCHIVE = (NotImplementedError, ValueError, OSError, EOFError, struct.error)
_NUMBER = re.compile(r"\?|b1|[iu][1248]|f[248]|c(8|16)")


class _Storage:
    """The bytes of one storage, and a tensor over them once there is one."""

    def __init__(self, kind: _Kind, memory: Array, is_swapped: bool) -> None:
        self.kind, self._memory, self._is_swapped = kind, memory, is_swapped
        # By dtype: the first tensor, and the memory it lies in.
        self._tensors: dict[Dtype, TensorCore] = {}
        self._converted: dict[Dtype, Array] = {}

    def tensor(self, dtype: Dtype, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
        """Return a tensor over the storage; those of one storage share memory."""
        size = self.kind.itemsize if self.kind.dtype is not None else dtype.itemsize
        count = self._memory.nbytes // size
        if len(shape) > _MAX_DIMENSIONS or not is_within(count, 1, shape, stride, offset):
            _fail(
                f"a tensor of shape {shown(shape)} and strides {shown(stride)}, from element {shown(offset)} "
                f"on, does not lie in its storage of {count:,} elements"
            )
        is_mapped = size == dtype.itemsize and not self._is_swapped
        memory = self._memory if is_mapped else self._converted_to(dtype, count)
        strides = tuple([dtype.itemsize * step for step in stride])
        array: Array = np.ndarray(shape, dtype, memory, dtype.itemsize * offset, strides)
        first = self._tensors.get(dtype)
        if first is not None and not first.is_invalid:
            return view_of(first, first._array, array)
        made = wrap_mapped(External(memory, memory.nbytes).over(array)) if is_mapped else wrap(array)
        self._tensors[dtype] = made
        return made

    def _converted_to(self, dtype: Dtype, count: int) -> Array:
        """Return memory of our own with the values: bfloat16 as float32, bytes in the machine's order."""
        known = self._converted.get(dtype)
        if known is None:
            native = np.dtype(np.uint16) if self.kind is _BFLOAT16 else dtype
            given = self._memory[: count * native.itemsize].view(native)
            if self._is_swapped:
                given = given.view(native.newbyteorder()).astype(native)
            if self.kind is _BFLOAT16:  # the upper half of a float32
                given = (given.astype(np.uint32) << 16).view(dtype)
            known = self._converted[dtype] = copy(given)
        return known


class _TorchNames:
    """What the names in a file of ``torch.save`` mean here."""

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self._storages: dict[str, _Storage] = {}

    def named(self, name: str) -> object:
        if name in _BUILDERS:
            return _BUILDERS[name]
        if name in _STORAGES:
            return _STORAGES[name]
        module, _, last = name.rpartition(".")
        if module == "torch" and last in _DTYPES:
            return _DTYPES[last]
        if module.partition(".")[0] == "torch" and (last.startswith("_rebuild") or last.endswith("Storage")):
            raise CheckpointError(
                f"it holds what {name} makes, a kind of tensor that this library has not (sparse, quantized, "
                "a subclass, or another dtype). Convert it in PyTorch and save it again"
            )
        if module == "torch":
            raise CheckpointError(
                f"it holds {name}, for which there is nothing here. Save its name, str(...), instead"
            )
        raise CheckpointError(
            f"it would call {shown(name)}: it holds more than tensors and plain data, perhaps a whole model, "
            "and loading it would run code. In PyTorch, save model.state_dict() and load that"
        )

    def persistent(self, given: object) -> object:
        match given:
            case ("storage", _Kind() as kind, str() as key, str(), int() as count):
                pass
            case _:
                _fail(f"it names no storage of the archive: {shown(given)}")
        found = self._storages.get(key)
        if found is None:
            memory = self._archive.member(f"data/{key}")
            if count * kind.itemsize != memory.nbytes:
                _fail(
                    f"the storage {shown(key)} should have {count:,} elements of {kind.itemsize} bytes, and "
                    f"has {memory.nbytes:,} bytes"
                )
            found = self._storages[key] = _Storage(kind, memory, self._archive.is_swapped)
        if found.kind != kind:
            _fail(f"the storage {shown(key)} has two dtypes")
        return found

    def set_state(self, x: object, state: object) -> None:
        # PyTorch's state dicts carry the versions of their modules so.
        if isinstance(x, OrderedDict) and isinstance(state, dict):
            return
        if isinstance(x, np.dtype) and isinstance(state, tuple) and state[1:2] in (("<",), ("|",), ("=",)):
            return
        _fail(f"it sets a state of {type(x).__name__}")


# --- What the pickle calls ----------------------------------------------------------------------------------


def _tensor(
    storage: object,
    offset: object,
    shape: object,
    stride: object,
    requires_grad: object = False,
    *rest: object,
) -> Tensor:
    if not isinstance(storage, _Storage) or storage.kind.dtype is None:
        _fail("a tensor in it has no storage of a dtype")
    return _made(storage, storage.kind.dtype, offset, shape, stride, requires_grad, rest[1:])


def _tensor_of_dtype(
    storage: object,
    offset: object,
    shape: object,
    stride: object,
    requires_grad: object,
    hooks: object,  # noqa: ARG001 -- PyTorch writes none
    dtype: object,
    *rest: object,
) -> Tensor:
    if not isinstance(storage, _Storage) or not isinstance(dtype, np.dtype):
        _fail("a tensor in it has no storage, or no dtype")
    return _made(storage, dtype, offset, shape, stride, requires_grad, rest)


def _made(
    storage: _Storage,
    dtype: Any,
    offset: object,
    shape: object,
    stride: object,
    requires_grad: object,
    flags: tuple[object, ...],
) -> Tensor:
    if flags and flags[0]:
        _fail("it holds a conjugate or negative view: in PyTorch, save x.resolve_conj().resolve_neg()")
    if type(offset) is not int or offset < 0:
        _fail(f"a tensor in it begins at element {shown(offset)}")
    x = storage.tensor(dtype, offset, _sizes(shape), _sizes(stride))
    return _with_gradient(x, requires_grad)


def _sizes(given: object) -> tuple[int, ...]:
    if type(given) is not tuple or any(type(n) is not int or n < 0 for n in given):
        _fail(f"a tensor in it has shape or strides {shown(given)}")
    return given


def _with_gradient(x: object, requires_grad: object, *_: object) -> Tensor:
    if not isinstance(x, TensorCore) or type(requires_grad) is not bool:
        _fail("a parameter in it is no tensor")
    if requires_grad and x._node is None:
        if x._array is None or not is_inexact(x._array.dtype):
            _fail("a tensor of integers in it requires grad")
        become_leaf(x)
    return x  # type: ignore[return-value]  # every core made is a Tensor


def _ordered_dict(pairs: object = ()) -> OrderedDict[Any, Any]:
    items: OrderedDict[Any, Any] = OrderedDict()
    for pair in pairs if isinstance(pairs, (list, tuple)) else [None]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            _fail("an OrderedDict in it is built of no pairs")
        items[keys_of(pair[:1])[0]] = pair[1]
    return items


def _size(sizes: object) -> tuple[int, ...]:
    return _sizes(sizes)


def _device(*given: object) -> str:
    if not given or not isinstance(given[0], str):
        _fail(f"a device in it is {shown(given)}")
    return ":".join(map(str, given[:2]))


def _set(values: object = ()) -> set[Any]:
    return set(keys_of(values)) if isinstance(values, (list, tuple)) else _fail("a set in it has no members")


def _bytes(text: object = "", encoding: object = "latin1") -> bytes:
    # How protocol 2 writes bytes.
    if not isinstance(text, str) or encoding != "latin1":
        _fail("bytes in it are encoded otherwise than PyTorch does")
    return text.encode("latin1")


def _complex(real: object, imag: object) -> complex:
    if not isinstance(real, float) or not isinstance(imag, float):
        _fail("a complex number in it is none")
    return complex(real, imag)


def _numpy_dtype(code: object, *_: object) -> Dtype:
    if not isinstance(code, str) or not _NUMBER.fullmatch(code):
        _fail(f"it holds the NumPy dtype {shown(code)}, which tensors have not")
    return np.dtype(code).newbyteorder("<")


def _numpy_scalar(dtype: object, data: object) -> object:
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes) or len(data) != dtype.itemsize:
        _fail("a NumPy number in it is broken")
    return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))[0]


_CALLS: dict[tuple[str, ...], Callable[..., object]] = {
    ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"): _tensor,
    ("torch._utils._rebuild_tensor_v3",): _tensor_of_dtype,
    ("torch._utils._rebuild_parameter",): _with_gradient,
    ("collections.OrderedDict",): _ordered_dict,
    ("torch.Size",): _size,
    ("torch.device",): _device,
    ("builtins.set", "__builtin__.set"): _set,
    ("builtins.complex", "__builtin__.complex"): _complex,
    ("builtins.bytes", "__builtin__.bytes", "_codecs.encode"): _bytes,
    ("numpy.dtype",): _numpy_dtype,
    ("numpy._core.multiarray.scalar", "numpy.core.multiarray.scalar"): _numpy_scalar,
}
_BUILDERS = {name: Builder(function) for names, function in _CALLS.items() for name in names}


# --- The archive --------------------------------------------------------------------------------------------


class _Archive:
    """The members of a zip archive, as parts of the memory that the file is in."""

    def __init__(self, memory: Array, file: BinaryIO) -> None:
        import zipfile  # here: `import tensor` is a tenth quicker without

        self._memory = memory
        try:
            with zipfile.ZipFile(file) as archive:
                self._members = {member.filename: member for member in archive.infolist()}
        except (zipfile.BadZipFile, *_BROKEN_ARCHIVE) as error:
            _fail(f"its zip archive is broken: {error}")
        pickles = [name for name in self._members if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            _fail("it is a zip archive, and not one of torch.save: there is no <name>/data.pkl in it")
        self._folder = pickles[0].removesuffix("data.pkl")
        if f"{self._folder}constants.pkl" in self._members:
            _fail(
                "it is a TorchScript program, which would run code. In PyTorch, load it with torch.jit.load "
                "and save its state_dict()"
            )
        order = bytes(self.member("byteorder")) if f"{self._folder}byteorder" in self._members else b"little"
        if order not in (b"little", b"big"):
            _fail(f"its byte order is {shown(order)}: 'little' or 'big' was expected")
        self.is_swapped = order.decode() != sys.byteorder

    def member(self, name: str) -> Array:
        """Return the bytes of a member; nothing is copied or read."""
        found = self._members.get(self._folder + name)
        if found is None:
            _fail(f"its archive has no {shown(name)}: it was cut off, or made by hand")
        if found.compress_type != _STORED or found.flag_bits & 1:
            _fail(
                f"{shown(name)} in its archive is compressed or encrypted, which torch.save never does. "
                "Unpack it, and zip it again without compression (zip -0)"
            )
        start, size = found.header_offset, self._memory.nbytes
        if not 0 <= start <= size - _LOCAL.size:
            _fail(f"{shown(name)} lies outside the file")
        signature, name_size, extra_size = _LOCAL.unpack(self._memory[start : start + _LOCAL.size].tobytes())
        begin = start + _LOCAL.size + name_size + extra_size
        end = begin + found.file_size
        if signature != SIGNATURE or end > size:
            _fail(f"{shown(name)} in its archive is not where the archive says")
        return self._memory[begin:end]


def read_torch_file(memory: Array, file: BinaryIO) -> object:
    """Return what a file of ``torch.save`` holds: tensors over `memory`, the bytes of the whole `file`.

    Raises
    ------
    CheckpointError
        If the file is broken or hostile, or holds more than tensors and plain data.
    """
    try:
        archive = _Archive(memory, file)
        return unpickle(archive.member("data.pkl").tobytes(), _TorchNames(archive))
    except CheckpointError as error:
        raise CheckpointError(f"can't be loaded: {error}") from None


def _fail(what: str) -> NoReturn:
    raise CheckpointError(what) from None
