"""Values as Python numbers, arrays and other dtypes."""

import gc

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope


def test_numpy_shares_memory_both_ways():
    x = tensor.zeros((2,))
    array = x.numpy()
    array[0] = 1
    x[1] = 2
    assert (x.tolist(), array.tolist()) == ([1.0, 2.0], [1.0, 2.0])


def test_an_exported_array_stays_valid_after_disposal():
    with new_dispose_scope():
        array = tensor.ones((1000,)).numpy()
    gc.collect()
    assert array.sum() == 1000


def test_a_clone_never_sees_writes_through_an_exported_array():
    x = tensor.zeros((2,))
    before = x.clone()
    array = x.numpy()
    after = x.clone()
    array[0] = 5
    assert (before.tolist(), after.tolist(), x.tolist()) == ([0.0, 0.0], [0.0, 0.0], [5.0, 0.0])


def test_a_tensor_that_requires_grad_gives_no_array():
    x = tensor.ones((2,), requires_grad=True)
    for use in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
            use()
    assert x.detach().numpy().tolist() == x.numpy(force=True).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", [bool, int, float, complex])
def test_one_element_becomes_a_number(kind):
    x = tensor.tensor([[2]], dtype="float64" if kind is float else "int64")
    assert kind(x) == kind(2)
    assert type(kind(x)) is kind
    assert x.item() == 2


@pytest.mark.parametrize("convert", [bool, int, float, complex, lambda x: x.item(), [1, 2, 3].__getitem__])
@pytest.mark.parametrize("shape", [(2,), (0,)])
def test_conversion_of_several_or_no_elements_to_a_number_raises_an_error(convert, shape):
    with pytest.raises(ValueError, match=rf"one element, not of shape \({shape[0]},\)"):
        convert(tensor.zeros(shape, dtype="int64"))


def test_only_integers_are_indices():
    with pytest.raises(TypeError, match=r"an index must be an integer, not 1\.0: write int\(x\)"):
        range(3)[tensor.tensor(1.0)]


def test_dtypes_by_name_and_by_method():
    x = tensor.tensor([1.5])
    assert [y.dtype.name for y in (x.double(), x.half(), x.long(), x.int(), x.bool(), x.byte())] == [
        "float64",
        "float16",
        "int64",
        "int32",
        "bool",
        "uint8",
    ]
    assert x.to("float64").dtype == x.to(float).to(tensor.float64).dtype == x.type_as(x.double()).dtype
    assert x.to(tensor.float32) is x
    assert x.to("cpu") is x
    assert x.to(x.dtype, copy=True) is not x


def test_there_is_one_device():
    x = tensor.ones((1,))
    assert x.to("cpu", "float64").dtype == x.to(device="cpu", dtype="float64").dtype == tensor.float64
    with pytest.raises(ValueError, match="device 'cuda:0' does not exist"):
        x.to("cuda:0")


def test_complex_numbers_lose_their_imaginary_part_without_a_warning():
    assert tensor.tensor([1 + 2j]).float().tolist() == [1.0]
    assert tensor.tensor([1e300], dtype="float64").half().tolist() == [float("inf")]


def test_a_gradient_has_the_dtype_of_its_tensor():
    x = tensor.ones((2,), requires_grad=True)
    x.double()[0].backward()
    assert (x.grad.dtype, x.grad.tolist()) == (tensor.float32, [1.0, 0.0])


@pytest.mark.parametrize(
    "use", [lambda x: x.item(), lambda x: x.tolist(), lambda x: x.numpy(), bool, float, lambda x: x.double()]
)
def test_a_disposed_tensor_gives_nothing(use):
    x = tensor.ones((1,))
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        use(x)
