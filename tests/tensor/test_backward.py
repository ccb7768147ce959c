"""The tape: backward, who owns gradients, and writes after a value was saved."""

import threading

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope
from tensor import TensorDisposedError, autograd
from tests.threads import NEW_THREADS_INHERIT_CONTEXT


def leaf(*values: float) -> tensor.Tensor:
    return tensor.tensor(list(values), requires_grad=True)


def test_gradients_add_up_over_calls():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_a_value_used_twice_gets_both_gradients():
    x = leaf(2.0)
    y = x * x
    (y * x + y).sum().backward()
    assert x.grad.tolist() == [3 * 4.0 + 2 * 2.0]


def test_broadcast_operands_get_gradients_of_their_own_shape():
    x = leaf(1.0, 2.0)
    b = leaf(3.0)
    (x * b).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert b.grad.tolist() == [3.0]


SAVES_NO_VALUES = {
    "transpose": lambda x: x.mT,
    "index": lambda x: x[0],
    "slice": lambda x: x[:1],
    "sum": lambda x: x.sum(dim=1),
    "mean": lambda x: x.mean(),
    "flip": lambda x: tensor.flip(x),
    "number": lambda x: x * 3,
    "concat": lambda x: tensor.concat([x, x]),
    "large": lambda x: tensor.concat([x.expand(500, 2, 2), x.expand(500, 2, 2)]),
    "dtype": lambda x: x.to(tensor.float64),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("op", SAVES_NO_VALUES.values(), ids=SAVES_NO_VALUES.keys())
def test_a_second_backward_passes_an_op_that_saved_only_constants(op, create_graph):
    x = tensor.ones((2, 2), requires_grad=True)
    y = op(x)
    (once,) = autograd.grad((y * 1).sum(), [x], retain_graph=False, create_graph=create_graph)
    (twice,) = autograd.grad((y * 2).sum(), [x], retain_graph=False, create_graph=create_graph)
    assert twice.tolist() == (once * 2).tolist()


def test_a_second_backward_without_retain_graph_is_an_error_that_says_so():
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    assert x.grad.tolist() == [2.0]


def test_with_retain_graph_backward_may_be_called_again():
    x = leaf(3.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12.0]


def test_backward_from_many_elements_asks_for_a_gradient():
    y = leaf(1.0, 2.0) * 2
    with pytest.raises(RuntimeError, match=r"shape \(2,\)"):
        y.backward()
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        y.backward(tensor.ones((3,)))
    with pytest.raises(TypeError, match=r"tensor\.tensor"):
        y.backward(np.ones(2))


def test_backward_without_history_is_an_error():
    with pytest.raises(RuntimeError, match="requires_grad=True"):
        tensor.ones((1,)).backward()


def test_a_loss_that_is_no_tensor_is_an_error():
    with pytest.raises(TypeError, match="float"):
        autograd.backward(1.0)


def test_disposing_a_tensor_that_backward_needs_does_not_break_backward():
    x = leaf(1.0, 2.0)
    a = x * 2
    b = a.exp()
    loss = (b * a).sum()
    a.dispose()
    b.dispose()
    loss.backward()
    v = np.array([2.0, 4.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * (np.exp(v) + v * np.exp(v)), rtol=1e-6)


def test_a_scope_that_ended_inside_the_forward_does_not_break_backward():
    x = leaf(1.0, 2.0)
    with new_dispose_scope() as scope:
        loss = scope.detach(((x * x).exp()).sum())
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.array([1, 2]) * np.exp([1, 4]), rtol=1e-6)


def test_gradients_are_owned_by_their_tensor_and_survive_a_steps_scope():
    x = leaf(1.0)
    with new_dispose_scope() as scope:
        (x * x).sum().backward()
        assert x.grad.owning_dispose_scope is None
        assert x.grad not in scope
    assert x.grad.tolist() == [2.0]


def test_a_gradient_is_freed_with_its_tensor(window):
    x = leaf(1.0)
    (x * x).sum().backward()
    grad = x.grad
    x.dispose()
    assert grad.is_invalid
    del x, grad
    assert window().live_count == 0


def test_backward_into_a_disposed_leaf_leaves_nothing_behind(window):
    x, w = leaf(1.0), leaf(2.0)
    loss = (x * w).sum()
    x.dispose()
    loss.backward()
    assert w.grad.tolist() == [1.0]
    del loss, w, x
    assert window().live_count == 0


def test_a_recorded_write_takes_part_in_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.mul_(x)
    y.exp_()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.array([1, 2]) * np.exp([1, 4]), rtol=1e-6)


def test_an_item_written_with_history_passes_its_gradient_on():
    x, value = leaf(1.0, 2.0), leaf(5.0)
    y = x * 3
    y[0] = value[0]
    (y * y).sum().backward()
    assert x.grad.tolist() == [0.0, 36.0]
    assert value.grad.tolist() == [10.0]


def test_writing_a_leaf_in_place_while_recording_is_an_error_and_writes_nothing():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="leaf"):
        x[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    with tensor.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 3.0]


def test_a_recorded_write_is_in_the_history_of_views_too():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    view, beyond = y[0:2], y[2:]
    y.mul_(x)
    assert view.tolist() == [1.0, 4.0]
    (view.sum() + beyond.sum() * 2).backward()
    assert x.grad.tolist() == [2.0, 4.0, 12.0]


def test_a_recorded_write_through_a_view_is_in_the_history_of_its_base():
    w = leaf(3.0)
    base = tensor.zeros((2, 2))
    base.T[0].add_(w)
    base[1] *= 2
    assert base.tolist() == [[3.0, 0.0], [6.0, 0.0]]
    (base * tensor.tensor([[1.0, 1.0], [10.0, 1.0]])).sum().backward()
    assert w.grad.tolist() == [21.0]


def test_a_recorded_write_through_a_view_replaces_the_history_of_the_base():
    x, w = leaf(1.0, 2.0), leaf(5.0)
    base = x * 3
    base[1:].copy_(w)
    (base * base).sum().backward()
    assert x.grad.tolist() == [18.0, 0.0]
    assert w.grad.tolist() == [10.0]


def test_a_recorded_write_reaches_an_expanded_view_in_every_place():
    w = leaf(5.0)
    base = tensor.zeros((1, 2))
    wide = base.expand(3, 2)
    base[0, 0] = w[0]
    assert wide.tolist() == [[5.0, 0.0]] * 3
    wide.sum().backward()
    assert w.grad.tolist() == [3.0]


def test_a_recorded_write_is_no_history_of_a_detached_tensor():
    w = leaf(5.0)
    base = tensor.zeros((2,))
    apart = base.detach()
    apart_view = apart[0:1]
    base.add_(w)
    assert apart.tolist() == [5.0, 5.0]
    assert not apart.requires_grad
    assert not apart_view.requires_grad
    assert base.requires_grad


def test_a_recorded_write_through_a_view_of_a_leaf_is_an_error_and_writes_nothing():
    x = leaf(1.0, 2.0)
    view = x[0:1]
    with pytest.raises(RuntimeError, match="leaf"):
        view.mul_(2)
    assert x.tolist() == [1.0, 2.0]


def test_a_recorded_write_next_to_a_view_of_another_dtype_raises_and_writes_nothing():
    w = leaf(5.0)
    x = tensor.zeros((2,), dtype="complex64")
    real = x.real
    with pytest.raises(RuntimeError, match="another dtype"):
        x.add_(w)
    assert x.tolist() == [0j, 0j]
    del real


def test_no_grad_and_enable_grad_nest_and_decorate():
    x = leaf(1.0)
    with tensor.no_grad():
        assert not (x * 1).requires_grad
        with tensor.enable_grad():
            assert (x * 1).requires_grad
        assert not tensor.is_grad_enabled()

    @tensor.no_grad()
    def silent(a):
        return a * 2

    assert not silent(x).requires_grad
    assert tensor.is_grad_enabled()


def test_no_grad_on_one_thread_leaves_others_recording_unless_they_inherit_its_context():
    x = leaf(1.0)
    seen = []
    with tensor.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 1).requires_grad))
        thread.start()
        thread.join()
    assert seen == [not NEW_THREADS_INHERIT_CONTEXT]


def test_detach_is_a_new_leaf_on_the_same_storage():
    x = leaf(1.0, 2.0)
    y = (x * 2).detach()
    assert y.is_leaf
    assert not y.requires_grad
    base = tensor.zeros((2,))
    base.detach()[0] = 3.0
    assert base.tolist() == [3.0, 0.0]


def test_is_leaf_grad_fn_and_requires_grad_distinguish_leaves_from_results():
    x = leaf(1.0)
    y = x * 2
    assert (x.is_leaf, x.grad_fn, x.requires_grad) == (True, None, True)
    assert (y.is_leaf, y.requires_grad, y.grad_fn.name()) == (False, True, "MultiplyBackward")
    assert tensor.ones((1,)).is_leaf


def test_only_inexact_tensors_can_require_gradients():
    with pytest.raises(TypeError, match="int64"):
        tensor.tensor([1, 2], requires_grad=True)
    with pytest.raises(TypeError, match="int64"):
        tensor.tensor([1, 2]).requires_grad_()
    with pytest.raises(RuntimeError, match=r"x\.detach\(\)"):
        (leaf(1.0) * 2).requires_grad_(False)


def test_a_gradient_of_the_wrong_shape_or_dtype_is_refused():
    x = leaf(1.0, 2.0)
    for wrong in (tensor.ones((3,)), tensor.ones((2,), dtype="float64")):
        with pytest.raises(ValueError, match=r"float32\[2\]"):
            x.grad = wrong
    with pytest.raises(TypeError, match="list"):
        x.grad = [1.0, 2.0]
    assert x.grad is None


def test_autograd_grad_returns_gradients_and_changes_none():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    dx, dw, dy = autograd.grad((y * y).sum(), [x, w, y])
    assert dx.tolist() == [18.0, 64.0]
    assert dw.tolist() == [6.0, 32.0]
    assert dy.tolist() == [6.0, 16.0]
    assert x.grad is None


def test_autograd_takes_tensors_from_an_iterator_as_of_parameters():
    x, w = tensor.ones((1,), requires_grad=True), tensor.ones((1,), requires_grad=True)
    dx, dw = autograd.grad(iter([x * 2, w * 3]), iter([x, w]))
    assert (dx.item(), dw.item()) == (2.0, 3.0)
    autograd.backward(iter([x * 2, x * 3]))
    assert x.grad.item() == 5.0


def test_autograd_grad_registers_its_results_with_the_current_scope():
    x = leaf(1.0)
    with new_dispose_scope() as scope:
        (dx,) = autograd.grad((x * x).sum(), x)
        assert dx in scope


def test_autograd_grad_names_an_input_that_is_not_used():
    x, w = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match=r"inputs\[1\]"):
        autograd.grad((x * x).sum(), [x, w])
    assert autograd.grad((x * x).sum(), [x, w], allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match=r"inputs\[0\] does not require grad"):
        autograd.grad((x * x).sum(), [tensor.ones((1,))])


def test_autograd_grad_by_a_disposed_input_is_an_error():
    x = leaf(1.0)
    y = (x * x).sum()
    x.dispose()
    with pytest.raises(TensorDisposedError):
        autograd.grad(y, x)


def test_two_leaves_never_share_a_gradient_visibly():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    gradient = tensor.ones((2,))
    (x + w).backward(gradient)
    x.grad.add_(5)
    gradient.zero_()
    assert w.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [6.0, 6.0]


def test_mixed_dtypes_give_each_leaf_a_gradient_of_its_own_dtype():
    x = tensor.tensor([1.0], dtype="float32", requires_grad=True)
    w = tensor.tensor([2.0], dtype="float64", requires_grad=True)
    (x * w).sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (tensor.float32, tensor.float64)


@pytest.mark.parametrize("shape", [(64, 10), (64, 8096), (3, 40_000)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_a_row_added_to_rows_is_their_sum(shape, dtype):
    rows = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for given in (rows, rows.T.copy().T):
        bias = tensor.zeros(shape[1:], dtype=dtype, requires_grad=True)
        (tensor.zeros(shape, dtype=dtype) + bias).backward(tensor.from_numpy(given))
        assert bias.grad.dtype == bias.dtype
        tolerance = 1e-6 if dtype == "float32" else 1e-15
        assert np.all(abs(bias.grad.numpy() - rows.sum(axis=0)) <= tolerance * abs(rows).sum(axis=0))


def test_grad_returns_zeros_for_an_unused_input_if_asked():
    x, unused = leaf(1.0, 2.0), leaf(3.0)
    found = autograd.grad((x * 2).sum(), [x, unused], materialize_grads=True)
    assert [g.tolist() for g in found] == [[2.0, 2.0], [0.0]]
    assert not found[1].requires_grad


def test_detach_in_place_makes_a_leaf():
    x = leaf(1.0)
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad
    y.add_(1)
    assert y.tolist() == [3.0]
    assert x.requires_grad
    x.detach_()
    assert not x.requires_grad


def test_a_tensor_with_views_is_not_detached_in_place():
    x = leaf(1.0, 2.0) * 2
    view = x[0]
    for each in (x, view):
        with pytest.raises(RuntimeError, match=r"Write x = x\.detach\(\)"):
            each.detach_()
    view.backward()
