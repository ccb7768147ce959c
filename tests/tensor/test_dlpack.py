"""DLPack both ways: one memory, two libraries, either of which may go first."""

import gc
import weakref

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope
from tensor import memory


def has_lazy_clones(x: tensor.Tensor) -> bool:
    clone = x.clone()
    return x.data_ptr() == clone.data_ptr()


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


def test_an_exported_array_survives_the_tensor():
    x = tensor.ones((2,))
    array = np.from_dlpack(x)
    x.dispose()
    array += 1
    assert array.tolist() == [2.0, 2.0]


def test_memory_that_a_consumer_uses_is_not_reused_until_the_consumer_is_gone():
    before = memory.statistics()
    x = tensor.zeros((100, 1_000))
    array = np.from_dlpack(x)
    x.dispose()
    assert (memory.statistics() - before).bytes_pinned == 400_000
    others = [tensor.ones((100, 1_000)) for _ in range(4)]
    assert not array.any()
    assert len(others) == 4
    del array
    assert (memory.statistics() - before).bytes_pinned == 0


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


def test_dlpack_with_copy_true_copies_and_shares_no_memory():
    x = tensor.zeros((2,))
    array = np.from_dlpack(x, copy=True)
    array[0] = 1.0
    assert x.tolist() == [0.0, 0.0]
    assert has_lazy_clones(x)


def test_read_only_memory_is_exported_as_such_or_refused_to_consumers_without_the_flag():
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


def test_only_the_cpu_is_served_and_it_has_no_streams():
    x = tensor.ones((2,))
    assert x.__dlpack_device__() == (1, 0)
    assert x.__dlpack__(dl_device=(1, 0), stream=None) is not None
    for device in [(2, 0), (1, 1), [1, 0], "cpu"]:
        with pytest.raises(BufferError, match=r"device \(1, 0\), the CPU, and can't be exported to"):
            x.__dlpack__(dl_device=device)
    for stream in (0, 1, -1):
        with pytest.raises(BufferError, match=f"stream=None, not {stream}"):
            x.__dlpack__(stream=stream)
    assert has_lazy_clones(x)  # what was refused has lent nothing


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((2, 3), "dltensor_versioned"),
    ],
)
@pytest.mark.parametrize("copy", [None, False, True])
def test_a_capsule_is_of_the_newest_version_that_the_consumer_knows(version, name, copy):
    capsule = tensor.ones((2,)).__dlpack__(max_version=version, copy=copy)
    assert f'"{name}"' in repr(capsule)


def test_invalid_max_version_of_dlpack_raises_an_error():
    with pytest.raises(TypeError, match="max_version"):
        tensor.ones((2,)).__dlpack__(max_version="1.0")


def test_a_reversed_array_is_exported_as_a_copy_only():
    x = tensor.tensor([1.0, 2.0, 3.0])
    backwards = x[::-1]
    with pytest.raises(BufferError, match=r"has a negative stride \(strides \(-1,\)\).*contiguous"):
        np.from_dlpack(backwards)
    assert np.from_dlpack(backwards, copy=True).tolist() == [3.0, 2.0, 1.0]
    assert np.from_dlpack(backwards.contiguous()).tolist() == [3.0, 2.0, 1.0]
    assert has_lazy_clones(x)


def test_an_expanded_view_is_given_as_read_only():
    assert not np.from_dlpack(tensor.ones((2,)).expand(3, 2)).flags.writeable


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


def test_imported_memory_survives_its_producer_and_the_producer_the_tensor():
    array = np.zeros(2)
    x = tensor.from_dlpack(array)
    view = x[1:]
    x.dispose()
    array[1] = 5.0
    del array
    assert view.tolist() == [5.0]


@pytest.mark.parametrize("is_old", [False, True])
def test_the_first_write_to_read_only_memory_makes_a_private_copy(is_old):
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
def test_memory_of_the_same_device_is_shared(options):
    array = np.zeros(2)
    tensor.from_dlpack(array, **options)[0] = 1.0
    assert array[0] == 1.0


def test_an_object_that_can_not_be_imported_is_named():
    with pytest.raises(TypeError, match=r"__dlpack__.*not list.*asarray"):
        tensor.from_dlpack([1.0])
    with pytest.raises(ValueError, match="'cuda'"):
        tensor.from_dlpack(np.ones(2), device="cuda")
    with pytest.raises(BufferError, match=r"device \(2, 1\), not on the CPU.*device='cpu'"):
        tensor.from_dlpack(Producer(np.ones(2), device=(2, 1)))
    with pytest.raises(BufferError, match="native byte order"):
        tensor.from_dlpack(np.ones(2).astype(">f8"))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64"])
def test_each_dtype_survives_export_and_import(dtype):
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


# PyTorch as the other side; `pip install --group bench` brings it.


@pytest.fixture(scope="module")
def torch():
    module = pytest.importorskip("torch")
    gc.freeze()  # else the collections of all tests that follow walk PyTorch too
    return module


def test_pytorch_reads_our_memory_and_both_see_each_others_writes(torch):
    x = tensor.zeros((2, 3))
    theirs = torch.from_dlpack(x.T)
    theirs[2, 0] = 5.0
    x[1, 1] = 7.0
    assert theirs.data_ptr() == x.data_ptr()
    assert x.tolist() == theirs.T.tolist() == [[0.0, 0.0, 5.0], [0.0, 7.0, 0.0]]


def test_we_read_pytorchs_memory_and_both_see_each_others_writes(torch):
    theirs = torch.zeros(2, 3)
    x = tensor.from_dlpack(theirs.T)
    clone = x.clone()
    theirs[1, 1] = 7.0
    x[2, 0] = 5.0
    assert theirs.data_ptr() == x.data_ptr()
    assert x.tolist() == theirs.T.tolist() == [[0.0, 0.0], [0.0, 7.0], [5.0, 0.0]]
    assert clone.tolist() == [[0.0, 0.0]] * 3


def test_our_memory_lives_as_long_as_pytorch_s_last_tensor(torch):
    released = []
    source = bytearray(8)
    with new_dispose_scope():
        x = tensor.from_blob(source, (2,), "float32", on_release=lambda: released.append(1))
        theirs = torch.from_dlpack(x)
        view = theirs[1:]
    assert x.is_invalid
    del theirs
    view += 1.0
    assert released == []
    with pytest.raises(BufferError):
        source.clear()
    del view
    assert released == [1]
    source.clear()


def test_memory_that_pytorch_uses_is_not_reused_until_its_tensor_is_gone(torch):
    before = memory.statistics()
    x = tensor.zeros((100, 1_000))
    theirs = torch.from_dlpack(x)
    x.dispose()
    others = [tensor.ones((100, 1_000)) for _ in range(4)]
    assert (memory.statistics() - before).bytes_pinned == 400_000
    assert not theirs.any()
    theirs.fill_(7.0)
    assert all(other.mean().item() == 1.0 for other in others)
    del theirs
    assert (memory.statistics() - before).bytes_pinned == 0


def test_pytorchs_memory_lives_as_long_as_our_last_tensor(torch):
    array = np.zeros(2, np.float32)
    gone = weakref.ref(array)
    theirs = torch.from_numpy(array)
    del array
    with new_dispose_scope():
        x = tensor.from_dlpack(theirs)
        view = x[1:]
        del theirs, x
        view += 1.0
        assert view.tolist() == [1.0]
        assert gone() is not None
    assert gone() is None


def test_dlpack_copies_to_and_from_pytorch_are_independent(torch):
    x = tensor.zeros((2,))
    theirs = torch.from_dlpack(x, copy=True)
    ours = tensor.from_dlpack(theirs, copy=True)
    theirs += 1.0
    ours += 2.0
    assert (x.tolist(), theirs.tolist(), ours.tolist()) == ([0.0, 0.0], [1.0, 1.0], [2.0, 2.0])
    assert has_lazy_clones(x)


def test_a_loaded_file_is_exported_to_pytorch_without_a_copy_and_its_copy_may_be_written(torch, tmp_path):
    tensor.save_file({"x": np.zeros(2, np.float32)}, tmp_path / "x")
    x = tensor.load_file(tmp_path / "x")["x"]
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()
    theirs = torch.from_dlpack(x, copy=True)
    theirs += 1.0
    assert (x.tolist(), theirs.tolist()) == ([0.0, 0.0], [1.0, 1.0])


def test_a_reversed_array_raises_where_pytorch_would_end_the_process(torch):
    with pytest.raises(BufferError, match="has a negative stride"):
        torch.from_dlpack(tensor.ones((3,))[::-1])
    for few in (tensor.ones((1, 2))[::-1], tensor.ones((0, 3))[:, ::-1], tensor.ones(())):
        assert torch.from_dlpack(few).shape == few.shape


def test_pytorch_and_we_refuse_each_others_recorded_tensors(torch):
    with pytest.raises(BufferError, match=r"requires grad.*detach"):
        torch.from_dlpack(tensor.ones((2,), requires_grad=True))
    with pytest.raises(BufferError, match="require gradient"):
        tensor.from_dlpack(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float64", "complex128"]
)
def test_each_dtype_is_exported_to_pytorch_and_back_on_one_memory(torch, dtype):
    x = tensor.ones((2,), dtype=dtype)
    theirs = torch.from_dlpack(x)
    back = tensor.from_dlpack(theirs)
    back[0] = 0
    assert (theirs.dtype, back.dtype) == (getattr(torch, dtype), x.dtype)
    assert x.tolist() == theirs.tolist() == back.tolist()


def test_bfloat16_shares_memory_with_pytorch_in_both_directions(torch):
    pytest.importorskip("ml_dtypes")
    x = tensor.ones((2, 3), dtype="bfloat16")
    theirs = torch.from_dlpack(x)
    back = tensor.from_dlpack(theirs.T)
    back[2, 0] = 5
    assert (theirs.dtype, back.dtype) == (torch.bfloat16, x.dtype)
    assert x.tolist() == theirs.tolist() == back.T.tolist() == [[1.0, 1.0, 5.0], [1.0, 1.0, 1.0]]
    assert tensor.asarray(theirs).dtype == tensor.tensor(theirs).dtype == x.dtype


def test_from_dlpack_names_a_dtype_that_only_pytorch_has_and_the_conversion(torch):
    with pytest.raises(TypeError, match=r"torch.float8_e5m2 can't become a tensor.*Convert it"):
        tensor.from_dlpack(torch.ones(2).to(torch.float8_e5m2))
