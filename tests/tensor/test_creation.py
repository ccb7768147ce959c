"""Creation: what is copied, what is shared, and errors that name the culprit by its path."""

import array
import mmap

import numpy as np
import pytest

import tensor


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int64"),
        (1.5, "float32"),
        (True, "bool"),
        (1j, "complex64"),
        ([1, 2.5], "float32"),
        ([], "float32"),
        (np.float64(1), "float64"),
        ([np.float64(1)], "float64"),
        (np.zeros(2, "int8"), "int8"),
        (range(3), "int64"),
    ],
)
def test_the_dtype_of_data(data, dtype):
    assert tensor.tensor(data).dtype == np.dtype(dtype)


def test_tensors_in_lists_count_as_data():
    x = tensor.tensor(2.0, requires_grad=True)
    assert tensor.tensor([x, tensor.tensor(3.0)]).tolist() == [2.0, 3.0]


def test_tensor_copies():
    source = np.zeros(2)
    x = tensor.tensor(source)
    source[0] = 1
    assert x.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([[1, 2, 3], [4, 5]], r"ragged: data\[1\] has 2 items, but data\[0\] has 3 items.*pad"),
        ([[[1], [2]], [[3], 4]], r"data\[1\]\[1\] is a number, but data\[1\]\[0\] has 1 item"),
        ([1, [2]], r"data\[1\] has 1 item, but data\[0\] is a number"),
        ([tensor.zeros((2,)), tensor.zeros((3,))], r"data\[1\] has 3 items, but data\[0\] has 2"),
        ([2**70], r"data\[0\] is 1180591620717411303424"),
    ],
)
def test_ragged_lists_are_named_by_their_path(data, message):
    with pytest.raises(ValueError, match=message):
        tensor.tensor(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1, "two"], r"data\[1\] is 'two', not a number"),
        ([[1.0], [None]], r"data\[1\]\[0\] is None"),
        ("text", "'text'"),
        (None, "None"),
        ({"a": 1}, "of type dict"),
        (np.array(["a"]), "tensors do not support"),
        (np.array([1], "datetime64[s]"), "tensors do not support"),
    ],
)
def test_a_value_that_is_not_a_number_is_named(data, message):
    with pytest.raises(TypeError, match=message):
        tensor.tensor(data)


@pytest.mark.parametrize(
    ("data", "dtype", "error", "message"),
    [
        ([1, 300], "int8", ValueError, "300 does not fit int8"),
        ([-1], "uint8", ValueError, "-1 does not fit uint8"),
        (float("nan"), "int64", ValueError, "nan does not fit int64"),
        ([1j], "float32", TypeError, "complex data does not fit float32"),
        ([1], "nonsense", TypeError, "not a dtype"),
        ([1], "S1", TypeError, "tensors do not support"),
    ],
)
def test_numbers_that_do_not_fit_a_dtype_are_named(data, dtype, error, message):
    with pytest.raises(error, match=message):
        tensor.tensor(data, dtype=dtype)


@pytest.mark.parametrize("small", [1, 1.5, True])
@pytest.mark.parametrize("large", [2**63 + 1, 2**64 - 1])
def test_a_list_of_large_and_small_integers_is_exact_in_uint64(small, large):
    # NumPy reads such a list as float64, which rounds the large one.
    assert tensor.tensor([small, large], dtype="uint64").tolist() == [1, large]
    assert tensor.asarray([[large], [small]], dtype="uint64").tolist() == [[large], [1]]
    mixed = [tensor.tensor(small), tensor.tensor(large, dtype="uint64")]
    assert tensor.tensor(mixed, dtype="uint64").tolist() == [1, large]


def test_only_inexact_tensors_require_grad():
    assert tensor.zeros((1,), requires_grad=True).requires_grad
    with pytest.raises(TypeError, match="int64 can't require gradients"):
        tensor.tensor([1], requires_grad=True)


@pytest.mark.parametrize("shape", [-1, (2, -1), (2.0,), "ab", (True,), None, 2.5])
def test_a_shape_holds_sizes(shape):
    with pytest.raises(ValueError, match="is not a shape"):
        tensor.zeros(shape)


def test_asarray_copies_only_where_it_must():
    source = np.zeros(2)
    x = tensor.asarray(source)
    source[0] = 1
    assert x.tolist() == [1.0, 0.0]
    assert tensor.asarray(x) is x
    assert tensor.asarray(x, copy=True) is not x
    assert tensor.asarray([1, 2]).tolist() == [1, 2]
    assert tensor.asarray(x, dtype="float32").dtype == tensor.float32
    with pytest.raises(ValueError, match="without a copy"):
        tensor.asarray([1, 2], copy=False)


def test_a_read_only_array_is_copied_at_the_first_write():
    source = np.zeros(2)
    source.flags.writeable = False
    x = tensor.from_numpy(source)
    x[0] = 1
    assert (x.tolist(), source.tolist()) == ([1.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_from_slice_copies_any_buffer(kind):
    data = bytearray(np.arange(3, dtype=np.float32).tobytes())
    x = tensor.from_slice(kind(data), dtype="float32")
    data[:] = bytes(12)
    assert x.tolist() == [0.0, 1.0, 2.0]
    x[0] = 9.0
    assert x[0].item() == 9.0


def test_from_slice_reads_a_buffers_own_format_and_lets_go_of_it():
    assert tensor.from_slice(array.array("i", [1, 2])).dtype == tensor.int32
    with mmap.mmap(-1, 8) as memory:
        x = tensor.from_slice(memory)
    assert x.shape == (8,)


def test_from_slice_names_bytes_that_are_left_over():
    with pytest.raises(ValueError, match="5 bytes are not a multiple of the element size of float32"):
        tensor.from_slice(bytes(5), dtype="float32")
    with pytest.raises(TypeError, match=r"tensor\.tensor\(data\) for lists"):
        tensor.from_slice([1, 2])


def test_ranges():
    assert tensor.arange(2, 8, 3).tolist() == [2, 5]
    assert tensor.arange(0.5).dtype == tensor.linspace(0, 1, 2).dtype == tensor.float32
    assert tensor.linspace(0, 1, 4, endpoint=False).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert tensor.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="step must not be 0"):
        tensor.arange(0, 1, 0)
    with pytest.raises(TypeError, match="arange takes numbers, not str"):
        tensor.arange("3")
    with pytest.raises(ValueError, match="is not a shape"):
        tensor.eye(-1)


@pytest.mark.parametrize("like", [tensor.zeros_like, tensor.ones_like, tensor.empty_like])
def test_a_tensor_like_another(like):
    x = like(tensor.tensor([[1, 2]]))
    assert (x.shape, x.dtype) == ((1, 2), tensor.int64)
    assert like(x, dtype="float32", requires_grad=True).requires_grad


def test_full_takes_the_dtype_of_its_value():
    assert tensor.full((1,), 1.5).dtype == tensor.float32
    assert tensor.full((1,), True).dtype == tensor.bool
    assert tensor.full_like(tensor.zeros((1,)), 2).tolist() == [2.0]


@pytest.mark.parametrize("kind", ["O", "i4, O"])
@pytest.mark.parametrize("dtype", [None, "float32", "uint8"])
def test_from_slice_reads_no_references_to_objects(kind, dtype):
    with pytest.raises(TypeError):
        tensor.from_slice(np.zeros(4, kind), dtype=dtype)
