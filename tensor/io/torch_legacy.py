"""The files of ``torch.save`` before PyTorch 1.6, or with ``_use_new_zipfile_serialization=False``.

The layout is that of `torch.serialization`: pickles of a magic number, the protocol, the machine, the object
and the keys of the storages; then for each storage its number of elements and its bytes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from tensor._dtypes import Array
from tensor._errors import shown
from tensor.io.torch_storages import STORAGES, StorageKind
from tensor.io.unpickling import Builder, CheckpointError, unpickle

if TYPE_CHECKING:
    from typing import BinaryIO

_MAGIC = 0x1950A86A20F9469CFC6C
# The opcode of the magic number, which is near the beginning for each protocol of pickles.
_MAGIC_OPCODE = b"\x8a\x0a" + _MAGIC.to_bytes(10, "little")
_PROTOCOL = 1001
# The size of the number of elements before each storage.
_COUNT = 8


def is_legacy(start: bytes) -> bool:
    """Return whether `start`, the first 32 bytes of a file or more, begin a file in this format."""
    return _MAGIC_OPCODE in start[:32]


class LegacyFile:
    """The pickle of a file, and the storages as views of the memory of the file."""

    def __init__(self, memory: Array, file: BinaryIO) -> None:
        self._memory, self._file = memory, file
        file.seek(0)
        if (magic := self._next_value()) != _MAGIC:
            _fail(f"expected the number {_MAGIC:#x}, found {shown(magic)}")
        if (protocol := self._next_value()) != _PROTOCOL:
            _fail(f"expected the protocol {_PROTOCOL}, found {shown(protocol)}")
        machine = self._next_value()
        self._is_little = machine.get("little_endian") if isinstance(machine, dict) else None
        if not isinstance(self._is_little, bool):
            _fail(f"expected the byte order of a machine, found {shown(machine)}")
        self.is_swapped = self._is_little != (sys.byteorder == "little")
        self.code = self._next_pickle()
        keys = self._next_value()
        self._storages = self._storages_of(keys, _kinds_in(self.code))

    def storage(self, key: str) -> Array:
        """Return the bytes of a storage, without copying them."""
        found = self._storages.get(key)
        if found is None:
            _fail(f"it has no storage {shown(key)}: it is truncated, or torch.save did not write it")
        return found

    def _storages_of(self, keys: object, kinds: dict[str, type[StorageKind]]) -> dict[str, Array]:
        if not isinstance(keys, list):
            _fail(f"expected the keys of its storages, found {shown(keys)}")
        found: dict[str, Array] = {}
        begin = self._file.tell()
        for key in keys:
            if not isinstance(key, str) or key not in kinds:
                _fail(f"it has a storage {shown(key)} that no tensor in it uses")
            given = self._memory[begin : begin + _COUNT].tobytes()
            count = int.from_bytes(given, "little" if self._is_little else "big")
            begin += _COUNT
            end = begin + count * kinds[key].itemsize
            if end > self._memory.nbytes:
                _fail(f"it ends within the storage {shown(key)}: it is truncated")
            found[key] = self._memory[begin:end]
            begin = end
        return found

    def _next_value(self) -> object:
        return unpickle(self._next_pickle(), _NoNames())

    def _next_pickle(self) -> bytes:
        """Return the bytes up to the end of the next pickle in the file."""
        import pickletools  # imported here, because it makes `import tensor` slower

        begin = self._file.tell()
        try:
            for _ in pickletools.genops(self._file):
                pass
        except ValueError as error:
            _fail(f"the pickle in it is broken: {shown(str(error))}")
        return self._memory[begin : self._file.tell()].tobytes()


class _NoNames:
    """The vocabulary of pickles of plain data."""

    def named(self, name: str) -> object:
        _fail(f"it would call {shown(name)} before its data")

    def persistent(self, given: object) -> object:
        _fail(f"it refers to a storage before its data: {shown(given)}")

    def call(self, *_: object) -> object:
        _fail("it would call a function before its data")

    def set_state(self, *_: object) -> None:
        _fail("it sets the state of an object before its data")


class _Kinds:
    """A vocabulary that notes the kind of each storage, and builds nothing else."""

    def __init__(self) -> None:
        self.found: dict[str, type[StorageKind]] = {}

    def named(self, name: str) -> object:
        return STORAGES[name] if name in STORAGES else Builder(_Placeholder)

    def persistent(self, given: object) -> object:
        match given:
            case ("storage", type() as kind, str() as key, *_) if issubclass(kind, StorageKind):
                self.found[key] = kind
        return None

    def call(self, *_: object) -> object:
        return _Placeholder()

    def set_state(self, *_: object) -> None:
        """Leave the placeholder as it is."""


class _Placeholder(dict[object, object]):
    """What stands for an object of the file while the kinds of the storages are noted."""

    def __init__(self, *_: object) -> None:
        super().__init__()


def _kinds_in(code: bytes) -> dict[str, type[StorageKind]]:
    """Return the kind of each storage to which the pickle `code` refers, by its key."""
    kinds = _Kinds()
    unpickle(code, kinds)
    return kinds.found


def _fail(what: str) -> NoReturn:
    raise CheckpointError(what) from None
