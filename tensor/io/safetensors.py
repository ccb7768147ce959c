"""The safetensors format: writing and parsing headers. All values in a file are checked before use.

A file consists of the length of the header (8 bytes, little-endian), the header (JSON, padded with spaces),
and the bytes of the tensors without gaps. The format and the order of tensors follow
https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from operator import attrgetter
from reprlib import Repr
from typing import BinaryIO, NamedTuple, NoReturn

from scopes._shared.naming import set_module
from tensor import _dtypes as dtypes
from tensor._dtypes import Array, Dtype

METADATA = "__metadata__"
LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
MAX_DIMENSIONS = 64

# In the order in which a file stores tensors: from the widest dtype to the narrowest, so that each is
# aligned.
DTYPES: dict[str, Dtype] = {
    "U64": dtypes.uint64,
    "I64": dtypes.int64,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
    "F32": dtypes.float32,
    "U32": dtypes.uint32,
    "I32": dtypes.int32,
    "F16": dtypes.float16,
    "U16": dtypes.uint16,
    "I16": dtypes.int16,
    "I8": dtypes.int8,
    "U8": dtypes.uint8,
    "BOOL": dtypes.bool_,
}
# Without ml_dtypes, bfloat16 values become float32: bfloat16 is the upper half of a float32.
BFLOAT16 = "BF16"
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_RANKS = {name: rank for rank, name in enumerate(DTYPES)} | {BFLOAT16: list(DTYPES).index("F16") - 0.5}
# Dtypes of the format that tensors do not support.
_FOREIGN = (
    *("F8", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"),
    *("F6_E2M3", "F6_E3M2", "F4"),
)
_FIELDS = {"dtype", "shape", "data_offsets"}
# Digits of the largest 64-bit number.
_MAX_DIGITS = 20

_limited = Repr()
_limited.maxstring = _limited.maxother = _limited.maxlong = 80
_shown = _limited.repr
_place = attrgetter("begin", "end")


@set_module("tensor")
class SafetensorsError(ValueError):
    """A file is not a valid safetensors file, or has data that tensors do not support.

    The message has the name of the file and the tensor, the expected value, and the value found.

    Examples
    --------
    >>> import pathlib, tempfile, tensor
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "broken.safetensors")
    >>> path.write_bytes(b"oops")
    4
    >>> tensor.load_file(path)
    Traceback (most recent call last):
        ...
    tensor.SafetensorsError: ...broken.safetensors: ... at least 8 bytes ..., found 4 ...
    >>> folder.cleanup()
    """


def name_of(dtype: Dtype) -> str | None:
    """Return the format's name of a dtype, or None."""
    return BFLOAT16 if dtype.name == "bfloat16" else _NAMES.get(dtype.newbyteorder("="))


class Entry(NamedTuple):
    """The position of a tensor in its file, in bytes from the start, with its dtype and shape."""

    dtype: Dtype
    shape: tuple[int, ...]
    begin: int
    end: int
    # Whether the file stores the upper halves of float32 values.
    is_widened: bool = False


def compose(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None) -> tuple[bytes, list[str]]:
    """Return the bytes of a file before the first tensor, and the names in the order of the tensors."""
    import json  # imported here and below, because it makes `import tensor` 1% slower

    codes = {name: name_of(array.dtype) or "" for name, array in arrays.items()}
    names = sorted(arrays, key=lambda name: (_RANKS[codes[name]], name))
    header: dict[str, object] = {} if metadata is None else {METADATA: dict(sorted(metadata.items()))}
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": codes[name], "shape": array.shape, "data_offsets": (begin, end)}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"safetensors: {_shown(text[error.start : error.end])}, in a tensor's name or in the metadata, "
            "is a lone surrogate, which UTF-8 can't encode. Remove it from names and metadata"
        ) from None
    encoded += b" " * (-len(encoded) % LENGTH_BYTES)
    if len(encoded) > MAX_HEADER_BYTES:
        raise ValueError(
            f"safetensors: names, shapes and metadata take {len(encoded):,} bytes, but the format allows "
            f"only {MAX_HEADER_BYTES:,}. Save to several files, or shorten the metadata"
        )
    return len(encoded).to_bytes(LENGTH_BYTES, "little") + encoded, names


class Header(NamedTuple):
    """The parsed header of a file: the entries of tensors by name, and the metadata."""

    entries: dict[str, Entry]
    metadata: dict[str, str]


def read_header(file: BinaryIO, size: int, label: str) -> Header:
    """Return the header of a `file` of `size` bytes, without reading the data. Errors name it `label`."""
    try:
        return _header_of(file, size)
    except SafetensorsError as error:
        raise SafetensorsError(f"{label}: not a valid safetensors file: {error}") from None


def _header_of(file: BinaryIO, size: int) -> Header:
    import json

    if size < LENGTH_BYTES:
        _fail(f"expected at least {LENGTH_BYTES} bytes (the header's length), found {size} in the whole file")
    first = file.read(LENGTH_BYTES)
    if first.startswith(b"PK\x03\x04"):
        _fail("it is a zip archive, as torch.save writes it: write tensor.load(path), which also reads these")
    length = int.from_bytes(first, "little")
    if length > MAX_HEADER_BYTES:
        _fail(
            f"expected a header of at most {MAX_HEADER_BYTES:,} bytes, found a length of {length:,}. The "
            "file has another format"
        )
    if length > size - LENGTH_BYTES:
        _fail(
            f"the header's length is {length:,}, expected at most {size - LENGTH_BYTES:,}, to the end of the "
            "file. The file is truncated, or has another format"
        )
    # Read one byte first, so that a file full of zeros takes no memory.
    first = file.read(min(length, 1))
    if first != b"{":
        _fail(f"expected a header that starts with '{{', found {first!r}")
    raw = first + file.read(length - 1)
    if len(raw) != length:
        _fail(f"expected a header of {length:,} bytes, found {len(raw):,}: the file shrank while it was read")
    start = LENGTH_BYTES + length
    try:
        header = json.loads(raw.decode())
        if _has_each_key_once(header, raw):
            return _checked(header, start, size)
    except (ValueError, RecursionError):
        pass
    # Parse a broken or unusual header again with checks of each number and object, which takes 2.7 times as
    # long.
    return _checked(_parse(raw), start, size)


def _has_each_key_once(header: dict[str, object], raw: bytes) -> bool:
    """Return whether each key occurs once, by the number of colons. Colons in strings give False too."""
    metadata = header.get(METADATA)
    more = len(metadata) - len(_FIELDS) if isinstance(metadata, dict) else 0
    return raw.count(b":") == (1 + len(_FIELDS)) * len(header) + more


def _checked(header: dict[str, object], start: int, size: int) -> Header:
    metadata = _metadata_of(header.pop(METADATA)) if METADATA in header else {}
    entries = {name: _entry(name, value, start, size) for name, value in header.items()}
    _check_layout(entries, start, size)
    return Header(entries, metadata)


def _fail(what: str) -> NoReturn:
    raise SafetensorsError(what)


def _parse(raw: bytes) -> dict[str, object]:
    import json

    try:
        header = json.loads(
            raw.decode(), object_pairs_hook=_unique, parse_int=_integer, parse_constant=_constant
        )
    except UnicodeDecodeError as error:
        _fail(f"expected a header in UTF-8, found the byte 0x{raw[error.start]:02x} at {error.start}")
    except json.JSONDecodeError as error:
        _fail(f"expected JSON in the header, found {error.msg} at character {error.pos}")
    except RecursionError:
        _fail("expected two levels of JSON objects in the header, found them nested too deeply")
    return header  # type: ignore[no-any-return]  # it starts with a brace


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                _fail(f"expected each key of the header once, found {_shown(key)} twice")
            seen.add(key)
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        _fail(f"expected integers of at most 64 bits, found {_shown(digits)}")
    return int(digits)


def _constant(name: str) -> NoReturn:
    _fail(f"expected JSON in the header, found {name}")


def _metadata_of(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        _fail(f"expected an object of strings as {METADATA}, found {_shown(value)}")
    for key, text in value.items():
        if not isinstance(text, str) or not _has_utf8(key + text):
            _fail(f"expected a string as {METADATA}[{_shown(key)}], found {_shown(text)}")
    return value


def _entry(name: str, value: object, start: int, size: int) -> Entry:
    if not _has_utf8(name):
        _fail_at(name, ": expected a name in UTF-8, found a lone surrogate")
    if not isinstance(value, dict) or not value.keys() >= _FIELDS:
        _fail_at(name, f": expected an object with dtype, shape, data_offsets, found {_shown(value)}")
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    dtype = DTYPES.get(code) if isinstance(code, str) else None
    if code == BFLOAT16:
        dtype = dtypes.find_bfloat16() or dtypes.uint16
    is_widened = code == BFLOAT16 and dtype == dtypes.uint16
    if dtype is None:
        if isinstance(code, str) and code in _FOREIGN:
            _fail_at(
                name,
                f" has dtype {code}, which tensors do not support. Convert the file "
                f"once with PyTorch (x.to(torch.float32) for each tensor of {code}) and load the result",
            )
        _fail_at(name, f": expected one of the dtypes {', '.join(_RANKS)}, found {_shown(code)}")
    if not _are_sizes(shape):
        _fail_at(name, f": expected a shape of integers of at least 0, found {_shown(shape)}")
    if len(shape) > MAX_DIMENSIONS:
        _fail_at(name, f": expected at most {MAX_DIMENSIONS} dimensions, found {len(shape)}")
    nbytes = math.prod(shape) * dtype.itemsize
    # For an empty tensor, check the product of the other sizes, because NumPy computes it.
    if (nbytes or math.prod([n for n in shape if n]) * dtype.itemsize) > sys.maxsize:
        _fail_at(name, f": expected a shape whose bytes can be counted in 64 bits, found {_shown(shape)}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        _fail_at(name, f": expected data_offsets of two integers of at least 0, found {_shown(offsets)}")
    begin, end = offsets
    if not begin <= end <= size - start:
        _fail_at(
            name,
            f": expected data_offsets in order and within the {size - start:,} bytes after the header, "
            f"found {_shown(offsets)}",
        )
    if end - begin != nbytes:
        _fail_at(
            name,
            f": expected {nbytes:,} bytes for shape {_shown(shape)} of {code}, found {end - begin:,} "
            f"between its data_offsets {_shown(offsets)}",
        )
    return Entry(
        dtypes.float32 if is_widened else dtype, tuple(shape), start + begin, start + end, is_widened
    )


def _fail_at(name: str, what: str) -> NoReturn:
    _fail(f"tensor {_shown(name)}{what}")


def _has_utf8(text: str) -> bool:
    # JSON escapes can encode a lone surrogate.
    return text.isprintable() or not any("\ud800" <= character <= "\udfff" for character in text)


def _are_sizes(value: object) -> bool:
    # Compare types, because a bool is an instance of int.
    return isinstance(value, list) and not [n for n in value if type(n) is not int or n < 0]


def _check_layout(entries: Mapping[str, Entry], start: int, size: int) -> None:
    end = start
    for entry in sorted(entries.values(), key=_place):
        if entry.begin != end:
            name = next(name for name, other in entries.items() if other is entry)
            fault = "overlaps the one before it" if entry.begin < end else "leaves a hole before it"
            _fail_at(
                name,
                f" {fault}: expected it to begin at byte {end - start:,} of the data, found "
                f"{entry.begin - start:,}",
            )
        end = entry.end
    if end != size:
        _fail(
            f"expected the file to end with its last tensor, at {end:,} bytes, found {size - end:,} bytes "
            "after it"
        )
