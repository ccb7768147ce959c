"""Files of ``torch.save``, read without PyTorch: what is in them, and that nothing in them ever runs."""

from __future__ import annotations

import io
import pickle
import random
import sys
import zipfile
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope, statistics
from tensor import CheckpointError, Tensor, memory
from tests.tensor.torch_archives import Raw, Stored, archive, legacy, one_tensor, pickled


def load(data: bytes) -> Any:
    return tensor.load(io.BytesIO(data))


# --- What is read -------------------------------------------------------------------------------------------


def test_a_tensor_has_the_values_shape_and_dtype_of_its_file() -> None:
    x = load(one_tensor())["x"]
    assert (x.tolist(), x.dtype, x.requires_grad) == ([[1, 2, 3], [4, 5, 6]], tensor.float32, False)


def test_tensors_belong_to_the_scope_in_which_they_are_loaded() -> None:
    with new_dispose_scope() as scope:
        before = statistics.snapshot()
        found = load(one_tensor())
        assert (statistics.snapshot() - before).created_in_scope_count == 1
        assert len(scope) == 1
    assert found["x"].is_invalid


def test_a_transposed_tensor_and_one_with_an_offset_share_the_storage() -> None:
    data = np.arange(6, dtype=np.float32).tobytes()
    whole = Stored("0", 6, (2, 3), (3, 1))
    turned, part = Stored("0", 6, (3, 2), (1, 3)), Stored("0", 6, (2,), (1,), 4)
    found = load(archive(pickled([whole, turned, part]), {"0": data}))
    assert found[1].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found[2].tolist() == [4, 5]
    found[0].fill_(9.0)
    assert found[1].tolist() == [[9, 9]] * 3
    assert found[2].tolist() == [9, 9]


def test_an_expanded_tensor_keeps_its_strides_of_zero() -> None:
    data = np.ones(1, np.float32).tobytes()
    found = load(archive(pickled({"x": Stored("0", 1, (3, 2), (0, 0))}), {"0": data}))
    assert found["x"].tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(
    ("storage", "dtype"),
    [
        *(("HalfStorage", "float16"), ("FloatStorage", "float32"), ("DoubleStorage", "float64")),
        *(("CharStorage", "int8"), ("ShortStorage", "int16"), ("IntStorage", "int32")),
        *(("LongStorage", "int64"), ("ByteStorage", "uint8"), ("BoolStorage", "bool")),
        *(("ComplexFloatStorage", "complex64"), ("ComplexDoubleStorage", "complex128")),
    ],
)
@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_each_dtype_is_read_in_both_byte_orders(storage: str, dtype: str, byteorder: str) -> None:
    values = np.array([0, 1, 1, 0, 1], dtype)
    data = values.astype(values.dtype.newbyteorder("<" if byteorder == "little" else ">")).tobytes()
    found = load(
        archive(
            pickled({"x": Stored("0", 5, (5,), (1,), storage=storage)}),
            {"0": data},
            byteorder=byteorder.encode(),
        )
    )
    assert found["x"].dtype == values.dtype
    assert found["x"].tolist() == values.tolist()


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_bfloat16_keeps_its_values(byteorder: str) -> None:
    values = np.array([1.0, -2.5, 0.0, np.inf], np.float32)
    upper = (values.view(np.uint32) >> 16).astype("<u2" if byteorder == "little" else ">u2")
    stored = Stored("0", 4, (2, 2), (2, 1), storage="BFloat16Storage")
    turned = stored._replace(stride=(1, 2))
    found = load(archive(pickled([stored, turned]), {"0": upper.tobytes()}, byteorder=byteorder.encode()))
    assert found[0].dtype == (tensor.bfloat16 if find_spec("ml_dtypes") else tensor.float32)
    assert found[0].tolist() == [[1.0, -2.5], [0.0, np.inf]]
    found[0][0, 1] = 7.0
    assert found[1].tolist() == [[1.0, 0.0], [7.0, np.inf]]


def test_a_parameter_becomes_a_leaf_that_requires_grad() -> None:
    x = load(one_tensor(requires_grad=True))["x"]
    assert x.requires_grad
    x.sum().backward()
    assert x.grad is not None


def test_plain_data_is_loaded_unchanged() -> None:
    given = {"epoch": 3, "rate": 1e-3, "names": ["a", "é"], "sizes": (1, (2, None)), "on": True, 7: 10**30}
    assert load(archive(pickled(given))) == given


def test_an_ordered_dict_is_loaded_in_its_order_and_without_the_versions_of_modules() -> None:
    items = b"(X\x01\x00\x00\x00bK\x01X\x01\x00\x00\x00aK\x02u"
    state = b"}X\x09\x00\x00\x00_metadataK\x01sb"
    found = load(archive(pickled(Raw(b"ccollections\nOrderedDict\n)R" + items + state))))
    assert found == OrderedDict(b=1, a=2)
    assert list(found) == ["b", "a"]


def test_a_path_is_mapped_and_nothing_is_copied(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(one_tensor(np.zeros(2**20), count=2**20, shape=(2**20,), stride=(1,)))
    with new_dispose_scope():
        before = memory.statistics().bytes_allocated
        x = tensor.load(path)["x"]
        assert memory.statistics().bytes_allocated == before
        x[0] = 1.0
        assert memory.statistics().bytes_allocated == before + x.nbytes
    assert tensor.load(path)["x"][0].item() == 0.0


def test_a_module_loads_the_state_dict_of_a_file() -> None:
    layer = nn.Linear(3, 2)
    values = np.arange(8, dtype=np.float32)
    state = {"weight": Stored("0", 6, (2, 3), (3, 1)), "bias": Stored("1", 2, (2,), (1,))}
    found = load(archive(pickled(state), {"0": values[:6].tobytes(), "1": values[6:].tobytes()}))
    layer.load_state_dict(found)
    assert layer.weight.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert layer.bias.tolist() == [6, 7]


# --- What is refused ----------------------------------------------------------------------------------------

DATA = {"0": np.zeros(6, np.float32).tobytes()}
X = Stored("0", 6, (2, 3), (3, 1))


def refused_tensor(**changes: Any) -> bytes:
    return archive(pickled({"x": X._replace(**changes)}), DATA)


REFUSED: dict[str, tuple[bytes, str]] = {
    "a function": (
        archive(pickled(Raw(b"cos\nsystem\nX\x04\x00\x00\x00exit\x85R"))),
        r"would call 'os\.system'",
    ),
    "a class of the user": (archive(pickled(Raw(b"c__main__\nNet\n)\x81"))), r"would call '__main__\.Net'"),
    "a built-in": (archive(pickled(Raw(b"cbuiltins\neval\n)R"))), r"would call 'builtins\.eval'"),
    "a sparse tensor": (
        archive(pickled(Raw(b"ctorch._utils\n_rebuild_sparse_tensor\n"))),
        "a kind of tensor that this library does not support",
    ),
    "another dtype": (
        refused_tensor(storage="QInt8Storage"),
        "a kind of tensor that this library does not support",
    ),
    "a layout": (
        archive(pickled(Raw(b"ctorch\nstrided\n"))),
        r"torch\.strided, which has no counterpart here",
    ),
    "a module's attribute": (archive(pickled(Raw(b"ctorch._utils\n__builtins__\n"))), "would call"),
    "an opcode of extensions": (archive(pickled(Raw(b"\x82\x01"))), "the opcode EXT1"),
    "an old persistent id": (archive(pickled(Raw(b"Pa\n"))), "the opcode PERSID"),
    "a state of a list": (archive(pickled(Raw(b"]}b"))), "sets a state of list"),
    "a call of no function": (archive(pickled(Raw(b"K\x01)R"))), "it calls int"),
    "nothing": (archive(b""), "pickle in it is broken|no objects|ends with 0"),
    "cut off": (archive(pickled(X)[:-5], DATA), "pickle in it is broken"),
    "two objects": (archive(pickled(Raw(b"K\x01K\x02"))), "ends with 2 objects"),
    "items without a dict": (archive(pickled(Raw(b"](K\x01K\x02u"))), "list instead of dict"),
    "half an item": (archive(pickled(Raw(b"}(K\x01u"))), "pickle in it is broken"),
    "a list as a key": (archive(pickled(Raw(b"}]K\x01s"))), r"a key in it is \[\]"),
    "a tuple of tuples as a key": (archive(pickled({((1,),): 1})), r"a key in it is \(\(1,\),\)"),
    "a long tuple as a key": (archive(pickled({(1,) * 257: 1})), "tuples of at most 256 of them"),
    "a large integer as a key": (
        archive(pickled(Raw(b"}\x8b\x02\x08\0\0" + b"\1" * 2050 + b"K\x01s"))),
        "a key in it is",
    ),
    "an unknown memo": (archive(pickled(Raw(b"h\x05"))), "KeyError"),
    "no storage": (refused_tensor(key="7"), "no 'data/7'"),
    "a storage outside the archive": (refused_tensor(key="../../x"), r"no 'data/\.\./\.\./x'"),
    "a size that is not the file's": (refused_tensor(count=7), "7 elements of 4 bytes, but has 24 bytes"),
    "a negative count": (refused_tensor(count=-6), "-6 elements"),
    "beyond the storage": (refused_tensor(shape=(3, 3)), "exceeds its storage of 6 elements"),
    "an offset beyond": (refused_tensor(offset=1), "exceeds its storage"),
    "a negative offset": (refused_tensor(offset=-1), "has an invalid offset -1"),
    "a negative size": (refused_tensor(shape=(-2, 3)), "shape or strides"),
    "a negative stride": (refused_tensor(stride=(-3, 1)), "shape or strides"),
    "too many dimensions": (refused_tensor(shape=(1,) * 65, stride=(1,) * 65), "exceeds its storage"),
    "sizes that overflow": (refused_tensor(shape=(2**62, 2**62, 0), stride=(0, 0, 0)), "exceeds"),
    "strides that overflow": (refused_tensor(shape=(2, 1), stride=(2**70, 1)), "exceeds"),
    "fewer strides": (refused_tensor(stride=(3,)), "exceeds its storage"),
    "integers that require grad": (
        archive(pickled({"x": Stored("0", 6, (6,), (1,), storage="IntStorage", requires_grad=True)}), DATA),
        "of integers in it requires grad",
    ),
    "one storage of two dtypes": (
        archive(pickled([X, X._replace(storage="IntStorage")]), DATA),
        "two dtypes",
    ),
    "compressed": (
        archive(pickled({"x": X}), DATA, compression=zipfile.ZIP_DEFLATED),
        "compressed or encrypted",
    ),
    "TorchScript": (archive(pickled(1), constants__pkl=b""), "a TorchScript program"),
    "a byte order": (archive(pickled(1), byteorder=b"middle"), "expected a byte order of 'little' or 'big'"),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_broken_files_and_files_with_code_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(data)


def test_zip_archive_of_another_program_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a.txt", "a")
    with pytest.raises(CheckpointError, match=r"not of torch\.save"):
        load(file.getvalue())


def test_archive_member_at_a_wrong_position_is_refused() -> None:
    data = one_tensor()
    place = data.index(b"PK\x03\x04", 4)
    with pytest.raises(CheckpointError, match="not at the position that its archive says"):
        load(data[:place] + b"XX" + data[place + 2 :])


def test_a_plain_pickle_is_refused_before_anything_in_it_runs() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(CheckpointError, match="a plain pickle, which may run code"):
            load(pickle.dumps({"a": 1}, protocol))


def test_load_file_says_which_function_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(one_tensor())
    with pytest.raises(tensor.SafetensorsError, match=r"write tensor\.load\(path\)"):
        tensor.load_file(path)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(archive(b""))
    with pytest.raises(CheckpointError, match=r"x\.pt can't be loaded"):
        tensor.load(path)


def test_a_pickle_of_few_bytes_takes_little_memory_and_time() -> None:
    # Tuples of the same tuple twice: 2**64 elements if anybody walked through them.
    doubled = b"".join(bytes([*b"q", n, *b"h", n, 0x86]) for n in range(64))
    found = load(archive(pickled(Raw(b"K\x01" + doubled))))
    assert isinstance(found, tuple)
    with pytest.raises(CheckpointError, match="a key in it"):
        load(archive(pickled(Raw(b"}K\x01" + doubled + b"K\x01s"))))
    with pytest.raises(CheckpointError, match="KeyError"):
        load(archive(pickled(Raw(b"K\x01r\xff\xff\xff\x7fj\x00\x00\x00\x00"))))


# --- The format before PyTorch 1.6 --------------------------------------------------------------------------

LEGACY = {"1": (3, b"\x01\x02\x03"), "0": (6, np.arange(6, dtype=np.float32).tobytes())}
OF_BYTES = Stored("1", 3, (3,), (1,), storage="ByteStorage")


@pytest.mark.parametrize("is_path", [False, True])
def test_an_old_file_is_read_and_its_views_share_memory(tmp_path: Path, is_path: bool) -> None:
    whole, turned = Stored("0", 6, (2, 3), (3, 1)), Stored("0", 6, (3, 2), (1, 3))
    data = legacy(pickled({"whole": whole, "turned": turned, "bytes": OF_BYTES, "epoch": 7}), LEGACY)
    (tmp_path / "old.pth").write_bytes(data)
    found = tensor.load(tmp_path / "old.pth" if is_path else io.BytesIO(data))
    # The storage of the floats begins at an odd position.
    assert found["whole"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert (found["bytes"].tolist(), found["bytes"].dtype, found["epoch"]) == ([1, 2, 3], tensor.uint8, 7)
    found["whole"].fill_(9.0)
    assert found["turned"].tolist() == [[9.0, 9.0]] * 3
    assert np.array_equal((found["whole"] * 2).numpy(), np.full((2, 3), 18.0))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (legacy(pickled(1), protocol=1000), "expected the protocol 1001, found 1000"),
        (legacy(pickled(1), machine=[1]), "expected the byte order of a machine"),
        (legacy(pickled(1), machine={"little_endian": 1}), "expected the byte order of a machine"),
        (legacy(pickled([OF_BYTES]))[:-9], "the pickle in it is broken"),
        (legacy(pickled([OF_BYTES]), LEGACY), "a storage '0' that no tensor in it uses"),
        (legacy(pickled([OF_BYTES]), {"1": (3, b"\x01")}), "ends within the storage '1': it is truncated"),
        (legacy(pickled([OF_BYTES]), {"1": (-5, b"\x01")}), "ends within the storage '1': it is truncated"),
        (legacy(pickled([OF_BYTES])), "it has no storage '1'"),
        (legacy(pickled([OF_BYTES]), {"1": (2, b"\x01\x02")}), "should have 3 elements of 1 bytes"),
        (legacy(pickled(Raw(b"cos\nsystem\n(X\x02\x00\x00\x00lstR"))), r"it would call 'os\.system'"),
        (legacy(pickled(1), machine=Raw(b"cos\nsystem\n(X\x02\x00\x00\x00lstR")), "before its data"),
    ],
)
def test_broken_old_files_and_old_files_with_code_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(data)


# Python's module for pickles warns of strings in protocol 0.
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_mutated_files_are_read_or_refused(count: int, is_old: bool) -> None:
    """No crash, no code, and no other error; what is read can be used."""
    state = {"weight": X, "more": [X._replace(shape=(3, 2), stride=(1, 3)), {"epoch": 3, "rate": 0.5}]}
    original = archive(pickled(state), DATA, byteorder=b"little")
    if is_old:
        original = legacy(pickled(state), {"0": (len(DATA["0"]) // 4, DATA["0"])})
    drawn = random.Random(0)
    read = 0
    for _ in range(count):
        data = bytearray(original)
        for _ in range(drawn.randint(1, 4)):
            place = drawn.randrange(len(data))
            match drawn.randrange(3):
                case 0:
                    data[place] = drawn.randrange(256)
                case 1:
                    del data[place : place + drawn.randint(1, 9)]
                case _:
                    data[place:place] = drawn.randbytes(drawn.randint(1, 9))
        with new_dispose_scope():
            try:
                found = load(bytes(data))
            except (CheckpointError, tensor.SafetensorsError):
                continue
            read += 1
            for x in found.values() if isinstance(found, dict) else ():
                if isinstance(x, Tensor):
                    x.sum()
    assert 0 < read < count
    assert "system" not in sys.modules


# --- PyTorch's own files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_file_of_pytorch_is_read_whatever_the_protocol_and_the_format(protocol: int, is_old: bool) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(6.0).reshape(2, 3)
    given = {
        "base": base,
        "turned": base.T,
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "unsigned": torch.ones(2, dtype=torch.uint16),
        "empty": torch.ones(0, 3),
        "scalar": torch.tensor(3),
        "complex": torch.ones(2, dtype=torch.complex128),
        "numbers": {"epoch": 3, "rate": 1e-3, "set": {1, 2}, "bytes": b"ab", "complex": 1j},
        "size": base.shape,
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "numpy": np.float32(1.5),
        "state": torch.nn.LSTM(2, 3, 2, bidirectional=True).state_dict(),
    }
    file = io.BytesIO()
    torch.save(given, file, pickle_protocol=protocol, _use_new_zipfile_serialization=not is_old)
    found = tensor.load(file)
    for name in ("base", "turned", "parameter", "half", "unsigned", "empty", "scalar", "complex"):
        assert found[name].tolist() == given[name].tolist(), name
        assert found[name].shape == tuple(given[name].shape)
        assert found[name].requires_grad == given[name].requires_grad
    for name in ("numbers", "numpy"):
        assert found[name] == given[name]
    assert (found["size"], found["dtype"], found["device"]) == ((2, 3), tensor.float16, "cpu")
    assert {name: x.tolist() for name, x in found["state"].items()} == {
        name: x.tolist() for name, x in given["state"].items()
    }
    found["base"].fill_(1.0)
    assert found["turned"].tolist() == [[1, 1]] * 3


def test_training_continues_from_a_model_and_optimizer_saved_by_pytorch() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.Linear(3, 2)
    their_optimizer = torch.optim.Adam(theirs.parameters(), lr=0.1)
    ours = nn.Linear(3, 2)
    our_optimizer = nn.optim.Adam(ours.parameters(), lr=0.5)
    for _ in range(3):
        their_optimizer.zero_grad()
        theirs(torch.ones(4, 3)).square().sum().backward()
        their_optimizer.step()
    file = io.BytesIO()
    torch.save({"model": theirs.state_dict(), "optimizer": their_optimizer.state_dict()}, file)
    found = tensor.load(file)
    ours.load_state_dict(found["model"])
    our_optimizer.load_state_dict(found["optimizer"])
    for _ in range(3):
        their_optimizer.zero_grad()
        theirs(torch.ones(4, 3)).square().sum().backward()
        their_optimizer.step()
        our_optimizer.zero_grad()
        ours(tensor.ones((4, 3))).square().sum().backward()
        our_optimizer.step()
    np.testing.assert_allclose(
        ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_a_whole_model_is_refused() -> None:
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(torch.nn.Linear(2, 2), file)
    with pytest.raises(CheckpointError, match=r"perhaps a whole model.*save model\.state_dict\(\)"):
        tensor.load(file)


def test_a_tensor_with_attributes_is_refused_for_that_reason() -> None:
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    x = torch.ones(2)
    x.note = "a text"
    torch.save({"x": x}, file)
    with pytest.raises(CheckpointError, match="a tensor with attributes of its own"):
        tensor.load(file)
