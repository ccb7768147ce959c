"""DLPack both ways: one memory, two libraries, either of which may go first."""

import numpy as np
import pytest

import tensor


def has_lazy_clones(x: tensor.Tensor) -> bool:
    clone = x.clone()
    return np.shares_memory(x._array, clone._array)


class Producer:
    """An array of another library, of version 1 or of the time before."""

    def __init__(self, array, *, device=(1, 0), is_old=False):
        self.array = array
        self.device = device
        self.is_old = is_old

    def __dlpack__(self, **options):
        if self.is_old:
            if options.keys() - {"stream"}:
                raise TypeError("unexpected keyword arguments")
            return self.array.__dlpack__()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class OldConsumed:
    """What a consumer before version 1 asks of a tensor."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **_):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_a_consumer_and_the_tensor_see_each_others_writes_and_a_clone_neither():
    x = tensor.zeros((2, 2))
    array = np.from_dlpack(x.T)
    clone = x.clone()
    array[0, 1] = 1.0
    x[0, 0] = 2.0
    assert (x.tolist(), array.tolist()) == ([[2.0, 0.0], [1.0, 0.0]], [[2.0, 1.0], [0.0, 0.0]])
    assert clone.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_clone_from_before_the_export_is_not_written_through_it():
    x = tensor.zeros((2,))
    clone = x.clone()
    np.from_dlpack(x)[0] = 1.0
    assert (x.tolist(), clone.tolist()) == ([1.0, 0.0], [0.0, 0.0])


def test_what_was_exported_survives_the_tensor():
    x = tensor.ones((2,))
    array = np.from_dlpack(x)
    x.dispose()
    array += 1
    assert array.tolist() == [2.0, 2.0]


def test_once_the_consumer_is_gone_clones_are_lazy_again():
    x = tensor.ones((2,))
    array = np.from_dlpack(x)
    assert not has_lazy_clones(x)
    del array
    assert has_lazy_clones(x)


def test_an_unused_capsule_gives_the_memory_back():
    released = []
    x = tensor.from_blob(bytearray(8), (2,), "float32", on_release=lambda: released.append(1))
    capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0))]
    x.dispose()
    assert released == []
    capsules.clear()
    assert released == [1]


def test_a_consumer_that_asks_for_a_copy_gets_one_and_nothing_is_lent():
    x = tensor.zeros((2,))
    array = np.from_dlpack(x, copy=True)
    array[0] = 1.0
    assert x.tolist() == [0.0, 0.0]
    assert has_lazy_clones(x)


def test_read_only_memory_is_exported_as_such_and_not_at_all_to_who_can_not_be_told():
    x = tensor.from_blob(b"\x01\x02", (2,), "uint8")
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(BufferError, match="readonly"):
        np.from_dlpack(OldConsumed(x))
    assert np.from_dlpack(OldConsumed(tensor.ones((2,)))).tolist() == [1.0, 1.0]


def test_a_tensor_that_requires_grad_is_not_exported_and_its_detached_one_is():
    x = tensor.ones((2,), requires_grad=True)
    for y in (x, x * 2):
        with pytest.raises(BufferError, match=r"requires grad.*DLPack.*detach"):
            y.__dlpack__()
    assert np.from_dlpack(x.detach()).tolist() == [1.0, 1.0]


def test_only_the_cpu_is_served():
    x = tensor.ones((2,))
    assert x.__dlpack_device__() == (1, 0)
    assert x.__dlpack__(dl_device=(1, 0)) is not None
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_a_disposed_tensor_is_an_error():
    x = tensor.ones((2,))
    x.dispose()
    for use in (x.__dlpack__, x.__dlpack_device__, lambda: np.from_dlpack(x), lambda: tensor.from_dlpack(x)):
        with pytest.raises(tensor.TensorDisposedError):
            use()


def test_from_dlpack_shares_both_ways_and_its_clone_does_not():
    array = np.zeros((2, 2))
    x = tensor.from_dlpack(Producer(array.T))
    clone = x.clone()
    array[0, 1] = 1.0
    x[0, 1] = 2.0
    assert array.tolist() == [[0.0, 1.0], [2.0, 0.0]]
    assert clone.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_what_was_imported_survives_its_producer_and_the_producer_the_tensor():
    array = np.zeros(2)
    x = tensor.from_dlpack(array)
    view = x[1:]
    x.dispose()
    array[1] = 5.0
    del array
    assert view.tolist() == [5.0]


@pytest.mark.parametrize("is_old", [False, True])
def test_over_what_may_be_read_only_the_first_write_makes_a_private_copy(is_old):
    array = np.zeros(2)
    array.flags.writeable = is_old
    x = tensor.from_dlpack(Producer(array, is_old=is_old))
    x[0] = 1.0
    assert (x.tolist(), array.tolist()) == ([1.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize("is_old", [False, True])
def test_a_copy_is_ours_alone(is_old):
    array = np.zeros(2)
    x = tensor.from_dlpack(Producer(array, is_old=is_old), copy=True)
    array[0] = 1.0
    x[1] = 2.0
    assert (x.tolist(), array.tolist()) == ([0.0, 2.0], [1.0, 0.0])
    assert has_lazy_clones(x)


@pytest.mark.parametrize("options", [{"device": "cpu"}, {"copy": False}, {"device": "cpu", "copy": False}])
def test_what_is_there_already_is_shared(options):
    array = np.zeros(2)
    tensor.from_dlpack(array, **options)[0] = 1.0
    assert array[0] == 1.0


def test_what_can_not_be_imported_is_named():
    with pytest.raises(TypeError, match=r"__dlpack__.*not list.*asarray"):
        tensor.from_dlpack([1.0])
    with pytest.raises(ValueError, match="'cuda'"):
        tensor.from_dlpack(np.ones(2), device="cuda")
    with pytest.raises(BufferError, match=r"device \(2, 1\), not on the CPU.*device='cpu'"):
        tensor.from_dlpack(Producer(np.ones(2), device=(2, 1)))
    with pytest.raises(BufferError, match="native byte order"):
        tensor.from_dlpack(np.ones(2).astype(">f8"))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64"])
def test_each_dtype_goes_round(dtype):
    x = tensor.ones((2,), dtype=dtype)
    y = tensor.from_dlpack(x)
    y[0] = 0
    assert (y.dtype, x.tolist()) == (x.dtype, y.tolist())


def test_a_dtype_that_arrays_do_not_have_is_named():
    class Producer16(Producer):
        dtype = "bfloat16"

        def __dlpack__(self, **_):
            raise RuntimeError("Unsupported dtype in DLTensor.")

    with pytest.raises(TypeError, match=r"Producer16 of bfloat16.*Unsupported dtype"):
        tensor.from_dlpack(Producer16(np.ones(1)))
