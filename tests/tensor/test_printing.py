"""Printing, in PyTorch's form."""

import pytest

import tensor
from scopes import new_dispose_scope


@pytest.fixture(autouse=True)
def default_options():
    yield
    tensor.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (tensor.tensor([[1.0, 2.0], [3.0, 4.0]]), "tensor([[1., 2.],\n        [3., 4.]])"),
        (tensor.tensor(3.0), "tensor(3.)"),
        (tensor.tensor([1, 20]), "tensor([ 1, 20])"),
        (tensor.tensor([True, False]), "tensor([ True, False])"),
        (tensor.tensor([1.5, -0.25]), "tensor([ 1.5000, -0.2500])"),
        (tensor.tensor([1e-9, 1.0]), "tensor([1.0000e-09, 1.0000e+00])"),
        (tensor.tensor([1.0, float("inf"), float("nan")]), "tensor([1., inf, nan])"),
        (tensor.tensor([1 + 2j, 3 - 0.5j]), "tensor([1.+2.0000j, 3.-0.5000j])"),
        (tensor.tensor([1.0], dtype="float64"), "tensor([1.], dtype=float64)"),
        (tensor.tensor([1], dtype="int8"), "tensor([1], dtype=int8)"),
        (tensor.zeros((0,)), "tensor([])"),
        (tensor.zeros((0, 3)), "tensor([], size=(0, 3))"),
        (tensor.zeros((0,), dtype="int64"), "tensor([], dtype=int64)"),
        (tensor.ones((1,), requires_grad=True), "tensor([1.], requires_grad=True)"),
    ],
)
def test_a_tensor_prints_as_in_pytorch(x, text):
    assert repr(x) == str(x) == text


def test_a_single_element_prints_as_its_number_and_its_repr_as_a_tensor():
    x = tensor.tensor([3, 4])[1]
    assert (str(x), f"{x}", repr(x)) == ("4", "4", "tensor(4)")
    assert str(tensor.tensor(True)) == "True"


def test_a_recorded_result_names_its_op():
    x = tensor.ones((1,), requires_grad=True)
    assert repr(x * 2) == "tensor([2.], grad_fn=<MultiplyBackward>)"


def test_more_dimensions_are_set_apart_by_lines():
    assert repr(tensor.zeros((2, 1, 2))) == "tensor([[[0., 0.]],\n\n        [[0., 0.]]])"


def test_over_a_thousand_elements_are_summarised():
    assert repr(tensor.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert repr(tensor.zeros((40, 40))).count("...") == 7


def test_a_summary_is_formatted_by_the_elements_that_it_shows():
    x = tensor.ones((2000,))
    x[1000] = 0.123
    assert repr(x) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_long_lines_are_broken():
    assert max(map(len, repr(tensor.rand(100)).split("\n"))) <= 80


def test_options_change_the_form():
    tensor.set_printoptions(precision=2, sci_mode=True)
    assert repr(tensor.tensor([1.5])) == "tensor([1.50e+00])"
    tensor.set_printoptions(profile="short", threshold=4)
    assert repr(tensor.arange(6)) == "tensor([0, 1,  ..., 4, 5])"
    with pytest.raises(ValueError, match="profile must be one of"):
        tensor.set_printoptions(profile="long")
    with pytest.raises(ValueError, match="precision"):
        tensor.set_printoptions(precision=-1)


def test_a_disposed_tensor_says_how_it_ended():
    with new_dispose_scope("step"):
        x = tensor.ones((1,))
    y = tensor.ones((1,))
    y.dispose()
    z = tensor.ones((1,))
    z.move_handle()
    assert repr(x) == "tensor(<disposed: its dispose scope 'step' ended>)"
    assert repr(y) == "tensor(<disposed: by dispose()>)"
    assert repr(z) == "tensor(<disposed: its handle was moved by move_handle()>)"


def test_a_number_formats_as_a_number():
    assert f"{tensor.tensor(1.23456):.2f}" == "1.23"
    assert f"{tensor.tensor([1.0])}" == "tensor([1.])"


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_is_formatted_as_a_number_recorded_or_not(shape):
    x = tensor.full(shape, 2.0, requires_grad=True)
    assert f"{x:.3f} {x * 2:.1e} {x.detach():6.2f}" == "2.000 4.0e+00   2.00"
    assert f"{(x * 2).sum()}" == "tensor(4., grad_fn=<SumBackward>)"


def test_several_elements_are_no_number():
    with pytest.raises(TypeError, match=r"'\.3f' needs a number, not a tensor of shape \(2,\): .*x\[0\]"):
        f"{tensor.ones((2,)):.3f}"
    assert f"{tensor.ones((2,)):>20}" == "    tensor([1., 1.])"


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_number_of_a_disposed_tensor_says_how_the_tensor_ended(shape):
    with new_dispose_scope("step"):
        loss = tensor.ones(shape)
    assert f"{loss}" == "tensor(<disposed: its dispose scope 'step' ended>)"
    with pytest.raises(tensor.TensorDisposedError, match="dispose scope 'step' ended"):
        f"{loss:.4f}"
