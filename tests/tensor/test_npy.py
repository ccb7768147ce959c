"""Tensors in NumPy's own files."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import tensor
from tensor import memory


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_a_file_of_one_tensor_is_numpys(tmp_path, dtype, shape) -> None:
    x = tensor.ones(shape, dtype=dtype)
    tensor.save_npy(x, tmp_path / "x.npy")
    assert np.load(tmp_path / "x.npy").dtype == dtype
    found = tensor.load_npy(tmp_path / "x.npy")
    assert (found.shape, found.dtype, found.tolist()) == (shape, x.dtype, x.tolist())


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_of_several_tensors_is_numpys(tmp_path, compressed) -> None:
    path = tmp_path / "all.npz"
    turned = tensor.tensor([[1, 2], [3, 4]]).T
    tensor.save_npz({"a": turned, "b": np.zeros(2)}, path, compressed=compressed)
    assert np.load(path)["a"].tolist() == [[1, 3], [2, 4]]
    found = tensor.load_npz(path)
    assert {name: x.tolist() for name, x in found.items()} == {"a": [[1, 3], [2, 4]], "b": [0.0, 0.0]}


def test_a_big_endian_file_is_read_in_native_order(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3, dtype=">f4"))
    assert tensor.load_npy(tmp_path / "x.npy").tolist() == [0.0, 1.0, 2.0]


def test_objects_are_refused_and_the_other_function_is_named(tmp_path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        tensor.load_npy(tmp_path / "objects.npy")
    tensor.save_npz({"x": tensor.ones((1,))}, tmp_path / "all.npz")
    with pytest.raises(ValueError, match="load_npz"):
        tensor.load_npy(tmp_path / "all.npz")
    tensor.save_npy(tensor.ones((1,)), tmp_path / "x.npy")
    with pytest.raises(ValueError, match="load_npy"):
        tensor.load_npz(tmp_path / "x.npy")
    with pytest.raises(TypeError, match="takes a dict"):
        tensor.save_npz([tensor.ones((1,))], tmp_path / "y.npz")
    with pytest.raises(TypeError, match=r"tensor\.tensor\(data\)"):
        tensor.save_npy([1.0], tmp_path / "z.npy")
    assert not (tmp_path / "y.npz").exists()


@pytest.mark.parametrize("size", [200 << 20, 1 << 40])
def test_an_array_that_declares_more_than_the_limit_leaves_is_refused(tmp_path, size) -> None:
    path = tmp_path / "large.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as stream:
        header = {"shape": (size,), "fortran_order": False, "descr": "|u1"}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(bytes(1000))
    with memory.limit("100 MiB"), pytest.raises(memory.OutOfMemoryError):
        tensor.load_npz(path)
