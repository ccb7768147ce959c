import copy
import pickle

import numpy as np
import pytest

import nn
import tensor
from scopes import DisposeStatistics, dispose, new_dispose_scope
from tensor import TensorDisposedError


def row(figures: DisposeStatistics) -> tuple[int, ...]:
    """Return created and disposed outside, created and disposed in, attached, detached, live."""
    return (
        figures.created_outside_scope_count,
        figures.disposed_outside_scope_count,
        figures.created_in_scope_count,
        figures.disposed_in_scope_count,
        figures.attached_to_scope_count,
        figures.detached_from_scope_count,
        figures.live_count,
    )


def test_the_figures_of_a_tensor_that_becomes_a_parameter(window):
    with new_dispose_scope() as scope:
        t = tensor.ones((2,))
        assert row(window()) == (0, 0, 1, 0, 0, 0, 1)
        parameter = nn.Parameter(t)
        assert row(window()) == (0, 0, 1, 0, 0, 0, 1)
        t.dispose()
        assert row(window()) == (0, 0, 1, 0, 0, 0, 1)
        scope.dispose()
        assert row(window()) == (0, 0, 1, 1, 0, 0, 0)
    assert parameter.is_invalid


def test_the_same_figures_without_a_scope(window):
    t = tensor.ones((2,))
    parameter = nn.Parameter(t)
    t.dispose()
    assert row(window()) == (1, 0, 0, 0, 0, 0, 1)
    parameter.dispose()
    parameter.dispose()
    assert row(window()) == (1, 1, 0, 0, 0, 0, 0)


def test_the_same_figures_with_a_second_scope(window):
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            parameter = inner.move_to_outer(nn.Parameter(tensor.ones((2,))))
        assert row(window()) == (0, 0, 1, 0, 0, 0, 1)
        assert parameter in outer
    assert row(window()) == (0, 0, 1, 1, 0, 0, 0)


def test_the_same_figures_with_attach_and_detach(window):
    parameter = nn.Parameter(tensor.ones((2,)))
    with new_dispose_scope() as scope:
        scope.attach(parameter)
        assert row(window()) == (1, 0, 0, 0, 1, 0, 1)
        scope.detach(parameter)
        assert row(window()) == (1, 0, 0, 0, 1, 1, 1)
    parameter.dispose()
    assert row(window()) == (1, 1, 0, 0, 1, 1, 0)


def test_a_parameter_takes_the_handle_and_the_place_in_the_scope():
    with new_dispose_scope() as scope:
        t = tensor.ones((2,))
        parameter = nn.Parameter(t)
        assert t.is_invalid
        assert scope.disposables_view == (parameter,)
        with pytest.raises(TensorDisposedError, match="moved into a Parameter"):
            t + 1


def test_a_parameter_shares_the_memory_that_the_tensor_shared():
    x = tensor.zeros((2,))
    alias = x.alias()
    parameter = nn.Parameter(x)
    alias[0] = 5
    assert parameter.tolist() == [5.0, 0.0]
    with tensor.no_grad():
        parameter[1] = 7
    assert alias.tolist() == [5.0, 7.0]


def test_a_parameter_is_a_new_leaf():
    parameter = nn.Parameter(tensor.ones((2,)))
    assert parameter.is_leaf
    assert parameter.requires_grad
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == [3.0, 3.0]
    assert not nn.Parameter(tensor.ones((2,)), requires_grad=False).requires_grad


def test_a_leafs_gradient_and_its_pending_graph_go_into_a_parameter():
    x = tensor.ones((2,), requires_grad=True)
    (x * 2).sum().backward()
    grad, pending = x.grad, (x * 3).sum()
    parameter = nn.Parameter(x)
    assert (x.is_invalid, parameter.grad is grad, parameter.is_leaf) == (True, True, True)
    pending.backward()
    assert parameter.grad.tolist() == [5.0, 5.0]


def test_parameter_without_requires_grad_drops_gradient_and_history():
    x = tensor.ones((2,), requires_grad=True)
    pending = (x * 3).sum() + x.sum()
    pending.backward(retain_graph=True)
    grad = x.grad
    parameter = nn.Parameter(x, requires_grad=False)
    assert (grad.is_invalid, parameter.grad, parameter.requires_grad) == (True, None, False)
    pending.backward()
    assert parameter.grad is None


@pytest.mark.parametrize(
    ("data", "error", "cure"),
    [
        (lambda: [1.0], TypeError, r"tensor\.tensor\(data\)"),
        (lambda: np.ones(2), TypeError, "ndarray"),
        (lambda: tensor.tensor([1, 2]), TypeError, "int64.*requires_grad=False"),
        (lambda: tensor.ones((2,), requires_grad=True) * 2, RuntimeError, r"MultiplyBackward.*detach\(\)"),
    ],
)
def test_data_that_cannot_be_a_parameter_raises_an_error_with_the_fix(data, error, cure):
    with pytest.raises(error, match=cure):
        nn.Parameter(data())


def test_an_empty_tensor_can_be_no_parameter():
    x = tensor.ones((2,))
    x.dispose()
    with pytest.raises(TensorDisposedError):
        nn.Parameter(x)


def test_an_error_leaves_the_tensor_whole():
    x = tensor.tensor([1, 2])
    with pytest.raises(TypeError):
        nn.Parameter(x)
    assert x.tolist() == [1, 2]
    assert nn.Parameter(x, requires_grad=False).tolist() == [1, 2]


def test_repr_says_that_it_is_a_parameter():
    assert repr(nn.Parameter(tensor.ones((2,)))).startswith("Parameter containing:\n")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_class_values_and_requires_grad(duplicate):
    for requires_grad in (True, False):
        parameter = nn.Parameter(tensor.ones((2,)), requires_grad)
        other = duplicate(parameter)
        assert type(other) is nn.Parameter
        assert other.tolist() == [1.0, 1.0]
        assert other.requires_grad is requires_grad


def test_a_deep_copy_has_memory_of_its_own():
    parameter = nn.Parameter(tensor.ones((2,)))
    other = copy.deepcopy(parameter)
    with tensor.no_grad():
        parameter[0] = 9
    assert other.tolist() == [1.0, 1.0]


def test_a_deep_copy_that_a_memo_has_is_not_made_again():
    parameter, memo = nn.Parameter(tensor.ones((2,))), {}
    other = parameter.__deepcopy__(memo)
    assert parameter.__deepcopy__(memo) is other


def test_disposing_a_parameter_takes_its_gradient_with_it(window):
    parameter = nn.Parameter(tensor.ones((2,)))
    (parameter * 2).sum().backward()
    dispose(parameter)
    assert window().live_count == 0
