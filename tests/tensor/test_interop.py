"""Tensors beside NumPy arrays, copies by copy and pickle."""

import copy
import io
import pickle

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope
from tensor import Tensor


def test_asarray_is_no_copy_and_array_is_one():
    x = tensor.zeros((2,))
    np.asarray(x)[0] = 1
    np.array(x)[1] = 2
    assert x.tolist() == [1.0, 0.0]
    assert np.asarray(x, dtype="float64").dtype == np.float64
    # From Python 3.12 on NumPy reads the buffer and refuses in its own words.
    with pytest.raises(ValueError, match=r"without a copy|avoid copy"):
        np.asarray(x, dtype="float64", copy=False)


@pytest.mark.parametrize(
    "left", [np.ones(2, np.float32), np.float32(1), 1, 1.0, np.ones((3, 1, 2), np.float32)]
)
def test_operators_with_numpy_on_either_side_give_tensors(left):
    x = tensor.tensor([1.0, 2.0])
    for y in (left + x, x + left, left * x, x - left):
        assert isinstance(y, Tensor)
        assert y.dtype == tensor.float32
    np.testing.assert_array_equal((left - x).numpy(), left - np.array([1, 2], np.float32))


def test_an_array_operand_takes_part_in_gradients():
    x = tensor.ones((2,), requires_grad=True)
    (np.array([2.0, 3.0], np.float32) * x).backward(tensor.ones((2,)))
    assert x.grad.tolist() == [2.0, 3.0]


def test_ufuncs_run_our_functions():
    x = tensor.tensor([0.0, 1.0], requires_grad=True)
    y = np.exp(x)
    assert (type(y), y.grad_fn is not None) == (Tensor, True)
    y.backward(tensor.ones((2,)))
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0, 1]), rtol=1e-6)
    assert np.add(tensor.tensor([1, 2]), [3, 4]).tolist() == [4, 6]


def test_other_ufuncs_run_on_the_values():
    x = tensor.tensor([1.5, 2.25])
    fraction, whole = np.modf(x)
    assert (fraction.tolist(), whole.tolist()) == ([0.5, 0.25], [1.0, 2.0])
    assert np.add.reduce(x).item() == 3.75
    with pytest.raises(RuntimeError, match=r"requires grad.*detach"):
        np.spacing(tensor.ones((1,), requires_grad=True))


def test_out_may_be_an_array_or_a_tensor():
    x, array = tensor.ones((2,)), np.zeros(2)
    assert np.add(x, 1, out=array) is array
    assert array.tolist() == [2.0, 2.0]
    array += x
    assert (type(array), array.tolist()) == (np.ndarray, [3.0, 3.0])
    y = tensor.zeros((2,))
    before = y.clone()
    assert np.add(x, x, out=y) is y
    assert (y.tolist(), before.tolist()) == ([2.0, 2.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="out has shape"):
        np.add(x, x, out=tensor.zeros((3,)))
    with pytest.raises(TypeError, match="out of int64"):
        np.add(x, x, out=tensor.zeros((2,), dtype="int64"))


def test_numpys_functions_take_tensors_as_arrays():
    x = tensor.tensor([1.0, 5.0, 2.0])
    assert np.median(x) == 2.0
    assert np.concatenate([x, x]).shape == (6,)
    np.copyto(x, 3.0)
    assert x.tolist() == [3.0, 3.0, 3.0]


def test_at_writes_into_the_tensor_only():
    x = tensor.zeros((2,))
    y = x.clone()
    np.add.at(x, [0, 0], 1)
    assert (x.tolist(), y.tolist()) == ([2.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize(
    "use", [np.asarray, np.exp, lambda x: np.ones(1) + x, copy.copy, copy.deepcopy, pickle.dumps]
)
def test_a_disposed_tensor_is_an_error_everywhere(use):
    x = tensor.ones((1,))
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        use(x)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_values_dtype_and_requires_grad(protocol):
    x = tensor.tensor([[1.0, 2.0]], dtype="float64", requires_grad=True)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert (y.tolist(), y.dtype, y.requires_grad, y.is_leaf) == (x.tolist(), x.dtype, True, True)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_tensors_pickled_together_share_memory_again(protocol):
    x = tensor.zeros((2, 3))
    y = x.T[1:]
    x2, y2 = pickle.loads(pickle.dumps((x, y), protocol))
    y2[0, 0] = 5.0
    assert x2.tolist() == [[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]
    z = x2.clone()
    y2[0, 0] = 6.0
    assert (z[0, 1].item(), x.tolist()) == (5.0, [[0.0] * 3] * 2)


def test_unpickled_tensors_register_with_the_current_scope():
    data = pickle.dumps(tensor.ones((2,)))
    with new_dispose_scope() as scope:
        assert pickle.load(io.BytesIO(data)) in scope


def test_copy_shares_and_deepcopy_does_not():
    x = tensor.zeros((2,))
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    x[0] = 1.0
    assert (shallow.tolist(), deep.tolist()) == ([1.0, 0.0], [0.0, 0.0])


def test_deepcopy_respects_its_memo_and_keeps_leaves():
    x = tensor.ones((1,), requires_grad=True)
    (x * 3).backward()
    first, second = copy.deepcopy([x, x])
    assert first is second
    assert (first.requires_grad, first.grad.tolist()) == (True, [3.0])
    assert first.grad is not x.grad
    with pytest.raises(RuntimeError, match=r"can only copy leaves.*clone"):
        copy.deepcopy(x * 2)
