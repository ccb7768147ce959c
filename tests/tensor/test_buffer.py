"""The buffer protocol: memoryview(x) from Python 3.12 on, over the tensor's own memory."""

import hashlib
import sys
import weakref

import numpy as np
import pytest

import tensor
from tensor import memory

ASKS_FOR_BUFFERS = sys.version_info >= (3, 12)


def has_lazy_clones(x: tensor.Tensor) -> bool:
    clone = x.clone()
    return x.data_ptr() == clone.data_ptr()


def view_of(x: tensor.Tensor) -> memoryview:
    """What the documentation says to write on this version."""
    return memoryview(x) if ASKS_FOR_BUFFERS else memoryview(np.asarray(x))


def test_only_from_python_3_12_on_a_tensor_is_a_buffer():
    x = tensor.tensor([1, 2], dtype="uint8")
    if ASKS_FOR_BUFFERS:
        assert memoryview(x) == b"\x01\x02"
        assert hashlib.sha256(x).digest() == hashlib.sha256(b"\x01\x02").digest()
    else:
        with pytest.raises(TypeError, match="bytes-like"):
            memoryview(x)


def test_a_memoryview_and_the_tensor_see_each_others_writes_and_a_clone_neither():
    x = tensor.zeros((2, 3))
    before = x.clone()
    view = view_of(x)
    after = x.clone()
    view[0, 1] = 5.0
    x[1, 2] = 7.0
    assert view.tolist() == x.tolist() == [[0.0, 5.0, 0.0], [0.0, 0.0, 7.0]]
    assert before.tolist() == after.tolist() == [[0.0] * 3] * 2


def test_a_memoryview_has_the_tensors_shape_strides_and_format():
    view = view_of(tensor.zeros((2, 3), dtype="float64").T)
    assert (view.shape, view.strides, view.format, view.readonly) == ((3, 2), (8, 24), "d", False)


def test_tensor_and_buffer_may_be_freed_in_any_order():
    x = tensor.ones((2,))
    view = view_of(x)
    x.dispose()
    assert view.tolist() == [1.0, 1.0]
    x = tensor.ones((2,))
    view_of(x).release()
    assert has_lazy_clones(x)


def test_from_python_3_12_on_an_exported_buffer_keeps_the_tensor_alive_until_it_is_disposed():
    before = memory.statistics()
    x = tensor.ones((2,))
    taken = weakref.ref(x)
    array = np.asarray(x)
    del x
    assert (taken() is not None) == ASKS_FOR_BUFFERS
    if ASKS_FOR_BUFFERS:
        assert (memory.statistics() - before).bytes_live == array.nbytes
        taken().dispose()
    change = memory.statistics() - before
    assert (change.bytes_live, change.bytes_pinned) == (0, array.nbytes)
    assert array.tolist() == [1.0, 1.0]
    del array
    assert (memory.statistics() - before).bytes_pinned == 0


def test_an_array_of_numpy_never_keeps_the_tensor():
    x = tensor.ones((2,))
    taken = weakref.ref(x)
    array = x.numpy()
    del x
    assert taken() is None
    assert array.tolist() == [1.0, 1.0]


def test_read_only_memory_gives_a_read_only_memoryview():
    assert view_of(tensor.from_blob(b"\x01", (1,), "uint8")).readonly


def test_a_tensor_that_requires_grad_or_is_disposed_gives_no_buffer():
    x = tensor.ones((2,), requires_grad=True)
    with pytest.raises(BufferError, match=r"requires grad.*detach"):
        x.__buffer__(0)
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        x.__buffer__(0)
    with pytest.raises((BufferError, RuntimeError)):
        view_of(tensor.ones((2,), requires_grad=True))


def test_arrays_from_tensors_are_the_same_on_every_version():
    x = tensor.zeros((2,))
    array = np.asarray(x)
    array[0] = 1.0
    assert x.tolist() == [1.0, 0.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(tensor.ones((2,), requires_grad=True))
