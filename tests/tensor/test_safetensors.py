"""Broken, truncated and hostile files: always the named error, before any memory is taken."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy as reference
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor import SafetensorsError
from tests.tensor.headers import entry, with_header

MIB = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.safetensors"


X = entry()
BROKEN: dict[str, tuple[bytes, str]] = {
    "no bytes": (b"", "at least 8 bytes .*found 0"),
    "too short": (b"\x01\0\0\0\0\0\0", "at least 8 bytes .*found 7"),
    "length beyond the file": (b"\x03\0\0\0\0\0\0\0{}", "length is 3, expected at most 2"),
    "length over the limit": (b"\xff" * 8 + b"{}", "at most 100,000,000 bytes, found .* 18,446,744"),
    "length 0": (bytes(8), "starts with '{', found b''"),
    "no brace": (with_header(b"[]"), r"starts with '{', found b'\['"),
    "a space first": (with_header(b" {}"), "starts with '{', found b' '"),
    "no UTF-8": (with_header(b'{"\xff":1}'), "UTF-8, found the byte 0xff at 2"),
    "no JSON": (with_header(b'{"a":}'), "JSON in the header, found .* at character 5"),
    "two values": (with_header(b"{}{}"), "JSON in the header, found Extra data"),
    "zeros behind": (with_header(b"{}\0"), "JSON in the header, found Extra data"),
    "NaN": (with_header(b'{"a":NaN}'), "found NaN"),
    "deep": (with_header(b'{"a":' + b"[" * 200_000), "nested too deeply"),
    "long number": (with_header(b'{"a":' + b"9" * 9_000 + b"}"), "at most 64 bits, found '999"),
    "long number as size": (
        with_header({"a": entry(shape=[10**30])}, bytes(4)),
        "at most 64 bits, found '100",
    ),
    "long number in a field more": (
        with_header({"a": {**X, "more": 10**30}}, bytes(4)),
        "at most 64 bits, found '100",
    ),
    "same name twice": (with_header(b'{"a":1,"b":2,"a":3}'), "once, found 'a' twice"),
    "same field twice": (with_header(b'{"a":{"dtype":"F32","dtype":"F32"}}'), "found 'dtype' twice"),
    "metadata no object": (
        with_header({"__metadata__": []}),
        r"object of strings as __metadata__, found \[\]",
    ),
    "metadata no text": (with_header({"__metadata__": {"a": 1}}), r"__metadata__\['a'\], found 1"),
    "half a character": (with_header({"\ud800": X}, bytes(4)), "lone surrogate"),
    "no object": (with_header({"a": 1}), "'a': expected an object with dtype, .*found 1"),
    "a field missing": (with_header({"a": {"dtype": "F32", "shape": []}}), "data_offsets, found {'dtype'"),
    "unknown dtype": (
        with_header({"a": entry("F33")}, bytes(4)),
        "'a': expected one of the dtypes .*found 'F33'",
    ),
    "dtype no text": (with_header({"a": entry(["F32"])}, bytes(4)), r"'a': .*found \['F32'\]"),
    "negative size": (with_header({"a": entry(shape=(-1,))}, bytes(4)), r"at least 0, found \[-1\]"),
    "fractional size": (with_header({"a": entry(shape=(1.0,))}, bytes(4)), r"integers .*found \[1.0\]"),
    "bool as size": (with_header({"a": entry(shape=(True,))}, bytes(4)), r"integers .*found \[True\]"),
    "shape no list": (with_header({"a": entry(shape=1)}, bytes(4)), "integers .*found 1"),
    "65 dimensions": (with_header({"a": entry(shape=[1] * 65)}, bytes(4)), "at most 64 dimensions, found 65"),
    "shape overflow": (with_header({"a": entry(shape=[2**32, 2**32])}, bytes(4)), "counted in 64 bits"),
    "empty overflow": (
        with_header({"a": entry(shape=[0, 2**32, 2**32], offsets=(0, 0))}),
        "counted in 64 bits",
    ),
    "one offset": (with_header({"a": entry(offsets=(0,))}, bytes(4)), r"two integers .*found \[0\]"),
    "negative offset": (with_header({"a": entry(offsets=(-4, 0))}, bytes(4)), r"two integers .*\[-4, 0\]"),
    "reversed offsets": (with_header({"a": entry(offsets=(4, 0))}, bytes(4)), r"in order .*found \[4, 0\]"),
    "offset outside": (with_header({"a": entry(offsets=(0, 8))}, bytes(4)), r"4 bytes .*found \[0, 8\]"),
    "another size": (with_header({"a": entry(shape=(2,))}, bytes(4)), "8 bytes .*found 4"),
    "overlap": (
        with_header({"a": entry(offsets=(0, 4)), "b": entry(offsets=(2, 6))}, bytes(6)),
        "'b' overlaps .*byte 4 .*found 2",
    ),
    "same place": (with_header({"a": X, "b": X}, bytes(4)), "'b' overlaps .*byte 4 .*found 0"),
    "hole": (
        with_header({"a": entry(offsets=(0, 4)), "b": entry(offsets=(6, 10))}, bytes(10)),
        "'b' leaves a hole .*byte 4 .*found 6",
    ),
    "hole at the start": (with_header({"a": entry(offsets=(4, 8))}, bytes(8)), "'a' leaves a hole .*found 4"),
    "trailing bytes": (with_header({"a": X}, bytes(6)), "found 2 bytes after it"),
    "bytes of no tensor": (with_header({}, b"x"), "found 1 bytes after it"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_an_error_that_says_what_was_expected_and_found(path: Path, case: str) -> None:
    content, message = BROKEN[case]
    path.write_bytes(content)
    with pytest.raises(SafetensorsError, match=message) as error:
        tensor.load_file(path)
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F4"])
def test_load_file_names_a_dtype_that_numpy_lacks_and_the_conversion(path: Path, dtype: str) -> None:
    path.write_bytes(with_header({"layer.weight": entry(dtype, (2,))}, bytes(4)))
    with pytest.raises(SafetensorsError, match=rf"'layer.weight' has dtype {dtype}.*x\.to\(torch\.float32\)"):
        tensor.load_file(path)


def test_bfloat16_keeps_its_values(path: Path) -> None:
    values = np.array([1.0, -2.5, 0.0, np.inf, 3.140625, 2.0**-130], np.float32)
    upper = (values.view(np.uint32) >> 16).astype("<u2")
    path.write_bytes(with_header({"x": entry("BF16", (2, 3), (0, 12))}, upper.tobytes()))
    found = tensor.load_file(path)["x"]
    assert found.dtype == (tensor.bfloat16 if find_spec("ml_dtypes") else tensor.float32)
    assert found.float().numpy().tobytes() == values.tobytes()
    path.write_bytes(with_header({"x": entry("BF16", (0, 3), (0, 0))}, b""))
    assert tensor.load_file(path)["x"].shape == (0, 3)
    path.write_bytes(with_header({"x": entry("BF16", (2, 3), (0, 12))}, upper.tobytes()[:-2]))
    with pytest.raises(SafetensorsError, match="data_offsets"):
        tensor.load_file(path)


def test_a_long_header_of_zeros_takes_no_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write((100_000_000).to_bytes(8, "little"))
        file.truncate(100_000_008)
    tracemalloc.start()
    try:
        with pytest.raises(SafetensorsError, match="starts with"):
            tensor.load_file(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MIB


def test_a_missing_file_is_pythons_own_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tensor.load_file(path)


VALID = with_header(
    b'{"__metadata__":{"k":"v"},"a":{"dtype":"F64","shape":[2,1],"data_offsets":[0,16]},'
    b'"b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}}  ',
    bytes(range(19)),
)
FRAGMENTS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"-",
    b"1",
    b"9" * 19,
    b"0",
    b"1e9",
    b"a",
    b'"a":',
    b"\\",
]


def cut(content: bytes, at: int, _: bytes) -> bytes:
    return content[:at]


def inserted(content: bytes, at: int, part: bytes) -> bytes:
    return content[:at] + part + content[at:]


def replaced(content: bytes, at: int, part: bytes) -> bytes:
    return content[:at] + part + content[at + len(part) :]


def inserted_in_step(content: bytes, at: int, part: bytes) -> bytes:
    """As `inserted`, and the length of the header fits again."""
    body = inserted(content[8:], at, part)
    return (int.from_bytes(content[:8], "little") + len(part)).to_bytes(8, "little") + body


def attempt(path: Path) -> tuple[dict[str, tensor.Tensor] | None, str, int]:
    tracemalloc.start()
    try:
        return tensor.load_file(path), "", tracemalloc.get_traced_memory()[1]
    except SafetensorsError as error:
        return None, str(error), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


MUTATIONS: st.SearchStrategy[Callable[[bytes, int, bytes], bytes]] = st.sampled_from(
    [cut, inserted, replaced, inserted_in_step]
)


@given(
    st.lists(
        st.tuples(
            MUTATIONS,
            st.integers(0, len(VALID)),
            st.sampled_from(FRAGMENTS) | st.binary(min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_corrupted_file_is_the_named_error_or_one_that_the_reference_reads_alike(
    tmp_path_factory: pytest.TempPathFactory,
    mutations: list[tuple[Callable[[bytes, int, bytes], bytes], int, bytes]],
) -> None:
    content = VALID
    for mutate, at, part in mutations:
        content = mutate(content, at, part)[: len(VALID) + 100]
    path = tmp_path_factory.mktemp("files") / "x.safetensors"
    path.write_bytes(content)
    loaded, message, peak = attempt(path)
    assert peak < MIB
    if loaded is None:
        assert message.startswith(f"{path}: ")
        return
    theirs = reference.load_file(path)
    assert {name: (x.dtype, x.shape, x.numpy().tobytes()) for name, x in loaded.items()} == {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in theirs.items()
    }
