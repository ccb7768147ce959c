"""The storage of a tensor: the size, address and bytes of the memory that it shares with its views."""

from __future__ import annotations

import gc
import weakref
from unittest import mock

import numpy as np
import pytest

import tensor
import tensor.torch as torch
from scopes import new_dispose_scope
from tensor import TensorDisposedError, memory


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (50, 7), (0, 4)])
def test_a_storage_has_the_size_and_the_bytes_of_the_whole_tensor(dtype, shape):
    x = tensor.ones(shape, dtype=dtype)
    storage = x.untyped_storage()
    assert storage.nbytes() == storage.size() == len(storage) == x.nbytes
    expected = x.numpy().tobytes() if dtype != "bfloat16" else x.float().numpy().tobytes()
    if dtype != "bfloat16":
        assert bytes(storage.tolist()) == bytes(iter(storage)) == expected
    else:
        assert storage.tolist() == [0x80, 0x3F] * x.numel()
    assert storage.element_size() == 1
    assert (storage.device.type, storage.is_cuda, storage.cpu()) == ("cpu", False, storage)


def test_views_have_the_storage_of_their_base():
    x = tensor.arange(6).reshape((2, 3))
    views = [x[1], x[:, 1:], x.T, x.detach(), x.alias(), x[1][2], x.reshape((6,))]
    storage = x.untyped_storage()
    for view in views:
        assert view.untyped_storage() == storage
        assert hash(view.untyped_storage()) == hash(storage)
        assert view.untyped_storage().data_ptr() == storage.data_ptr() == x.data_ptr()
        assert view.untyped_storage().nbytes() == 48
    assert len({view.untyped_storage() for view in views}) == 1
    assert tensor.ones((1,)).expand((4,)).untyped_storage().nbytes() == 4


def test_a_write_to_a_view_shows_in_the_storage():
    x = tensor.zeros((2, 2), dtype="uint8")
    storage = x.untyped_storage()
    x[1].fill_(7)
    assert storage.tolist() == [0, 0, 7, 7]
    assert (storage[2], storage[-1], storage[0]) == (7, 7, 0)


def test_a_clone_has_its_own_storage_at_the_same_address_until_a_write():
    x = tensor.zeros((100,))
    y = x.clone()
    assert x.untyped_storage() != y.untyped_storage()
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    y.add_(1)
    assert x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()
    assert set(x.untyped_storage().tolist()) == {0}


def test_the_storage_of_external_memory_is_that_memory():
    array = np.arange(8, dtype=np.uint8)
    storage = tensor.from_numpy(array).untyped_storage()
    assert storage.data_ptr() == array.ctypes.data
    array[3] = 99
    assert storage[3] == 99
    backwards = tensor.from_numpy(array[::-1]).untyped_storage()
    assert backwards.data_ptr() == array.ctypes.data
    assert backwards.tolist() == array.tolist()


def test_an_empty_tensor_has_no_address():
    assert tensor.zeros((0,)).untyped_storage().data_ptr() == 0


def test_reading_a_storage_copies_and_allocates_nothing():
    x = tensor.ones((1000, 1000))
    with memory.measure() as measured:
        storage = x.untyped_storage()
        assert storage.nbytes() == 4_000_000
        assert storage.data_ptr() == x.data_ptr()
        assert storage[2] == 0x80
    assert measured.allocated_bytes == 0


def test_a_storage_keeps_its_tensor_and_says_that_it_was_disposed():
    x = tensor.ones((100,))
    alive = weakref.ref(x)
    storage = x.untyped_storage()
    del x
    gc.collect()
    assert alive() is not None
    with new_dispose_scope():
        other = tensor.ones((100,)).untyped_storage()
    assert storage != other
    for read in (other.nbytes, other.data_ptr, other.tolist, lambda: other[0], lambda: other.device):
        with pytest.raises(TensorDisposedError, match="its dispose scope"):
            read()
    disposed = tensor.ones((2,))
    disposed.dispose()
    with pytest.raises(TensorDisposedError):
        disposed.untyped_storage()


def test_a_storage_is_neither_resized_nor_made_without_a_tensor():
    x = tensor.ones((2,))
    with pytest.raises(RuntimeError, match=r"can't be resized.*x.dispose\(\)"):
        x.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match="a storage belongs to a tensor"):
        torch.UntypedStorage(4)
    with pytest.raises(TypeError, match=r"tolist\(\)\[a:b\]"):
        x.untyped_storage()[0:2]
    with pytest.raises(IndexError):
        x.untyped_storage()[8]
    assert isinstance(x.untyped_storage(), torch.UntypedStorage)
    assert x.untyped_storage() != 3
    assert x.untyped_storage() == mock.ANY


def test_sizes_and_bytes_are_those_of_pytorch():
    theirs = pytest.importorskip("torch")
    for numbers in (np.arange(6.0).reshape(2, 3), np.arange(5, dtype=np.int16), np.array(True)):
        x, y = tensor.tensor(numbers), theirs.tensor(numbers)
        for ours, other in ((x, y), (x[..., None], y[..., None]), (x.reshape((-1,))[:1], y.reshape(-1)[:1])):
            assert ours.untyped_storage().tolist() == other.untyped_storage().tolist()
            assert len(ours.untyped_storage()) == len(other.untyped_storage())
