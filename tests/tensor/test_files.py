"""Files: what is saved is loaded, without a copy; what fails leaves the old file."""

from __future__ import annotations

import gc
import mmap
import os
import stat
import subprocess
import sys
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy as reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nn
import tensor
from scopes import current_dispose_scope, new_dispose_scope
from tensor import memory
from tensor.io import files
from tensor.io import safetensors as _safetensors
from tests.tensor.headers import entry, with_header

DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64"),
)
MIB = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.safetensors"


@pytest.fixture
def mappings(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[mmap.mmap]]:
    """What is mapped during the test, in a list that holds none of it."""
    made: list[weakref.ref[mmap.mmap]] = []

    class Mapping(mmap.mmap):
        def __new__(cls, *args: Any, **options: Any) -> Mapping:
            mapping = super().__new__(cls, *args, **options)
            made.append(weakref.ref(mapping))
            return mapping

    monkeypatch.setattr(mmap, "mmap", Mapping)
    return made


def names() -> st.SearchStrategy[str]:
    return st.text(max_size=6).filter(lambda name: name != "__metadata__")


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Arrays of each dtype, packed or not: transposed, reversed, with steps, expanded."""
    array = draw(
        hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    )
    change = draw(st.sampled_from(["none", "transposed", "reversed", "steps", "expanded"]))
    if change == "transposed":
        return array.T
    if change == "expanded":
        return np.broadcast_to(array, (2, *array.shape))
    if change == "none" or array.ndim == 0:
        return array
    return array[::-1] if change == "reversed" else array[..., ::2]


def same(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


# Round trips


@given(st.dictionaries(names(), arrays(), max_size=5))
def test_a_saved_file_is_loaded_by_us_and_by_the_reference(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, np.ndarray[Any, Any]]
) -> None:
    path = tmp_path_factory.mktemp("files") / "x.safetensors"
    tensor.save_file({name: tensor.from_numpy(array) for name, array in content.items()}, path)
    ours, theirs = tensor.load_file(path), reference.load_file(path)
    assert set(ours) == set(theirs) == set(content)
    for name, array in content.items():
        assert same(ours[name].numpy(), array)
        assert same(theirs[name], array)


@given(st.dictionaries(names(), arrays(), min_size=1, max_size=5), st.none() | st.tuples(names(), st.text()))
def test_both_write_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    content: dict[str, np.ndarray[Any, Any]],
    text: tuple[str, str] | None,
) -> None:
    path = tmp_path_factory.mktemp("files") / "x.safetensors"
    metadata = None if text is None else dict([text])
    tensor.save_file(content, path, metadata)
    packed = {name: np.array(array, order="C") for name, array in content.items()}
    assert path.read_bytes() == reference.save(packed, metadata)


def test_metadata_is_written_in_order_and_an_empty_file_is_valid(path: Path) -> None:
    tensor.save_file({}, path, metadata={"b": "1", "a": "é"})
    assert path.read_bytes()[8:].decode() == '{"__metadata__":{"a":"é","b":"1"}}'.ljust(39)
    assert tensor.load_file(path) == {}


def test_the_data_begin_at_a_multiple_of_8_and_each_tensor_is_aligned(path: Path) -> None:
    tensor.save_file({f"a{'b' * n}": tensor.ones((3,), dtype=dtype) for n, dtype in enumerate(DTYPES)}, path)
    assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0
    assert all(x.numpy().flags.aligned for x in tensor.load_file(path).values())


def test_a_file_whose_data_are_not_aligned_loads_too(path: Path) -> None:
    header = b'{"x":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}'
    assert len(header) % 8
    path.write_bytes(with_header(header, np.array([1.0, 2.0]).tobytes()))
    (x,) = tensor.load_file(path).values()
    assert (x * 2 + x).tolist() == [3.0, 6.0]


def test_load_file_takes_empty_tensors_between_others(path: Path) -> None:
    header = {
        "a": entry(offsets=(0, 4)),
        "none": entry(shape=(0, 3), offsets=(4, 4)),
        "b": entry(offsets=(4, 8)),
    }
    path.write_bytes(with_header(header, bytes(8)))
    assert [(name, x.shape) for name, x in tensor.load_file(path).items()] == [
        ("a", (1,)),
        ("none", (0, 3)),
        ("b", (1,)),
    ]


def test_a_state_dict_is_saved_to_a_file_and_loaded(path: Path) -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    tensor.save_file(one.state_dict(), path)
    with new_dispose_scope():
        other.load_state_dict(tensor.load_file(path))
    assert other.weight.tolist() == one.weight.tolist()
    assert not tensor.load_file(path)["weight"].requires_grad


# Loaded tensors


def test_loading_a_gigabyte_takes_no_memory(path: Path) -> None:
    size = 1 << 30
    header = {
        "x": entry("F32", (size // 8,), (0, size // 2)),
        "y": entry("F64", (size // 16,), (size // 2, size)),
    }
    start = with_header(header)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + size)
    tracemalloc.start()
    try:
        loaded = tensor.load_file(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MIB
    assert loaded["y"].shape == (size // 16,)
    assert loaded["x"][-1].item() == 0.0


def test_a_write_to_a_loaded_tensor_stays_with_it(path: Path) -> None:
    tensor.save_file({"x": np.zeros(3), "y": np.zeros(3)}, path)
    before = path.read_bytes()
    one, other = tensor.load_file(path), tensor.load_file(path)
    clone, view = one["x"].clone(), one["x"][1:]
    one["x"] += 1
    one["x"][1] = 7.0
    assert one["x"].tolist() == [1.0, 7.0, 1.0]
    assert view.tolist() == [7.0, 1.0]
    for untouched in (clone, one["y"], other["x"]):
        assert untouched.tolist() == [0.0, 0.0, 0.0]
    assert path.read_bytes() == before


def test_clones_and_the_tape_share_loaded_memory(path: Path) -> None:
    tensor.save_file({"w": np.ones(MIB, np.float32)}, path)
    w = tensor.load_file(path)["w"].requires_grad_()
    tracemalloc.start()
    try:
        clone, loss = w.detach().clone(), w.square().sum()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < MIB
    loss.backward()
    assert w.grad is not None
    assert w.grad[0].item() == 2.0
    assert clone[0].item() == 1.0


def test_loaded_tensors_belong_to_the_current_scope(path: Path) -> None:
    tensor.save_file({"x": np.zeros(3)}, path)
    with new_dispose_scope() as scope:
        x = tensor.load_file(path)["x"]
        assert x.owning_dispose_scope is scope
    assert x.is_invalid
    assert current_dispose_scope() is None


def test_end_of_the_scope_closes_the_file_immediately(
    path: Path, mappings: list[weakref.ref[mmap.mmap]]
) -> None:
    tensor.save_file({"x": np.zeros(3), "y": np.zeros(3)}, path)
    gc.disable()
    try:
        with new_dispose_scope():
            loaded = tensor.load_file(path)
            (mapping,) = mappings
            loaded["x"].dispose()
            assert mapping() is not None
        assert mapping() is None
    finally:
        gc.enable()
    path.unlink()


def test_each_loaded_tensor_counts_as_borrowed_until_it_ends_or_is_written(path: Path) -> None:
    tensor.save_file({"x": np.zeros(3), "y": np.zeros(3), "empty": np.zeros(0)}, path)
    before = memory.statistics().bytes_external
    with new_dispose_scope():
        loaded = tensor.load_file(path)
        view = loaded["x"][1:]
        assert memory.statistics().bytes_external - before == 48
        loaded["y"] += 1
        loaded["x"].dispose()
        assert memory.statistics().bytes_external - before == 24
        assert view.tolist() == [0.0, 0.0]
    assert memory.statistics().bytes_external == before


def test_an_exported_array_keeps_the_mapping_open(path: Path, mappings: list[weakref.ref[mmap.mmap]]) -> None:
    tensor.save_file({"x": np.arange(3)}, path)
    with new_dispose_scope():
        x = tensor.load_file(path)["x"]
        array = x.numpy()
        (mapping,) = mappings
    mapped = mapping()
    assert mapped is not None
    with pytest.raises(BufferError):
        mapped.close()
    del mapped
    assert array.tolist() == [0, 1, 2]
    del array
    assert mapping() is None


def test_saving_over_the_file_that_the_tensors_were_loaded_from(path: Path) -> None:
    tensor.save_file({"x": np.arange(3)}, path)
    loaded = tensor.load_file(path)
    tensor.save_file({"x": loaded["x"] + 1, "old": loaded["x"]}, path)
    assert loaded["x"].tolist() == [0, 1, 2]
    assert {name: x.tolist() for name, x in tensor.load_file(path).items()} == {
        "x": [1, 2, 3],
        "old": [0, 1, 2],
    }


# Saving


def test_an_error_during_a_save_leaves_only_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor.save_file({"x": np.zeros(3)}, path)
    before = path.read_bytes()
    write = files._write
    written = []

    def fails_at_the_second(file: Any, array: np.ndarray[Any, Any]) -> None:
        written.append(array)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(file, array)

    monkeypatch.setattr(files, "_write", fails_at_the_second)
    with pytest.raises(OSError, match="No space"):
        tensor.save_file({"x": np.ones(3), "y": np.ones(3)}, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    tensor.save_file({"x": np.zeros(3)}, path)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*((os, "fsync", fail) if step == "fsync" else (Path, "replace", fail)))
    with pytest.raises(KeyboardInterrupt):
        tensor.save_file({"x": np.ones(3)}, path)
    assert tensor.load_file(path)["x"].tolist() == [0.0, 0.0, 0.0]
    assert list(path.parent.iterdir()) == [path]


STOPS_HALF_WAY = """
import sys, time, numpy, tensor
from tensor.io import files as _files

write = _files._write

def stop_after_two(file, array, written=[]):
    write(file, array)
    written.append(array)
    if len(written) == 2:
        file.flush()
        print("half way", flush=True)
        time.sleep(60)

_files._write = stop_after_two
tensor.save_file({name: numpy.ones(1 << 17) for name in "xyz"}, sys.argv[1])
"""


def test_a_process_killed_in_the_middle_of_a_save_leaves_the_old_file(path: Path) -> None:
    tensor.save_file({"x": np.zeros(3)}, path)
    before = path.read_bytes()
    program = [sys.executable, "-c", STOPS_HALF_WAY, path]
    with subprocess.Popen(program, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"half way"
        process.kill()  # signal 9
    (partial,) = set(path.parent.iterdir()) - {path}
    assert 2 * MIB < partial.stat().st_size < 3 * MIB
    assert path.read_bytes() == before
    tensor.save_file({"x": np.ones(3)}, path)
    assert tensor.load_file(path)["x"].tolist() == [1.0, 1.0, 1.0]


def test_saving_streams_tensors_that_are_not_packed(path: Path) -> None:
    x = tensor.zeros((2048, 4096)).T
    tracemalloc.start()
    try:
        tensor.save_file({"x": x, "y": x[::2]}, path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB
    assert tensor.load_file(path)["y"].shape == (2048, 2048)


def test_saving_copies_nothing_of_a_tensor_that_was_exported(path: Path) -> None:
    x = tensor.zeros((MIB,))
    array = x.numpy()
    tracemalloc.start()
    try:
        tensor.save_file({"x": x}, path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MIB
    array[0] = 5.0
    assert x[0].item() == 5.0


def test_the_new_file_keeps_the_permissions_and_a_link_stays_a_link(path: Path) -> None:
    plain = path.with_name("plain")
    plain.touch()
    tensor.save_file({}, path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o600)
    link = path.with_name("link")
    link.symlink_to(path)
    tensor.save_file({"x": np.zeros(1)}, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tensor.load_file(path)["x"].tolist() == [0.0]


def test_arrays_of_another_byte_order_are_written_little_endian(path: Path) -> None:
    tensor.save_file({"x": np.array([1.0, 2.0], ">f4")}, path)
    assert tensor.load_file(path)["x"].tolist() == [1.0, 2.0]


BAD_CALLS: list[tuple[Any, Any, type[Exception], str]] = [
    ([np.zeros(1)], None, TypeError, "dict of tensors by name, not list"),
    ({1: np.zeros(1)}, None, TypeError, "names must be strings, not 1"),
    ({"__metadata__": np.zeros(1)}, None, ValueError, "reserves the name '__metadata__'"),
    ({"\ud800": np.zeros(1)}, None, ValueError, "lone surrogate"),
    ({"a": {"b": np.zeros(1)}}, None, TypeError, "'a' has type dict"),
    ({"a": np.zeros(1, "complex128")}, None, TypeError, r"'a' has dtype complex128.*complex64"),
    ({"a": np.array(["x"])}, None, TypeError, "'a' has dtype <U1"),
    ({}, {"a": 1}, TypeError, "'a': 1"),
    ({}, "text", TypeError, "metadata must be a dict of strings, not str"),
]


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "message"), BAD_CALLS, ids=[c[3] for c in BAD_CALLS]
)
def test_a_value_that_no_file_can_hold_is_named_and_no_file_is_made(
    path: Path, tensors: Any, metadata: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tensor.save_file(tensors, path, metadata)
    assert list(path.parent.iterdir()) == []


def test_a_header_beyond_the_limit_of_the_format_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_safetensors, "MAX_HEADER_BYTES", 1000)
    with pytest.raises(ValueError, match="take 1,024 bytes, but the format allows only 1,000"):
        tensor.save_file({}, path, {"a": "x" * 995})
    assert list(path.parent.iterdir()) == []


def test_an_empty_tensor_is_refused_before_anything_is_written(path: Path) -> None:
    x = tensor.zeros((2,))
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        tensor.save_file({"x": x}, path)
    assert list(path.parent.iterdir()) == []
