"""What a checkpoint costs and keeps, what it gives back, and what errors leave behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensor
from nn import functional as F
from scopes import current_dispose_scope, new_dispose_scope, statistics
from tensor import Tensor, TensorDisposedError, autograd, memory
from tensor.autograd import checkpoint
from tensor.autograd.checkpointing import is_recomputing
from tensor.creation.generators import default_generator
from tests.interrupts import interrupted_at
from tests.tensor.checkpoints import BLOCK, Counted, StopHereError, failing_at, layer, matrix, nested, plainly
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing


def test_of_the_whole_call_the_inputs_alone_are_kept():
    x, w = matrix(0), matrix(1)
    start = bytes_live()
    y = checkpoint(layer, x, w)
    assert bytes_live() == start + BLOCK  # y itself
    inner = x * 2
    y = checkpoint(layer, inner, w)
    del inner
    assert bytes_live() == start + 2 * BLOCK  # and the input that was computed
    y.sum().backward()
    assert bytes_live() == start + 3 * BLOCK  # the gradients of x and w instead of the input
    del y
    assert bytes_live() == start + 2 * BLOCK


def test_a_checkpoint_that_is_dropped_before_backward_gives_its_inputs_back():
    with leaving_nothing():
        x, w = matrix(0), matrix(1)
        start = bytes_live()
        y = checkpoint(layer, x * 2, w)
        del y
        assert bytes_live() == start
        del x, w


def test_the_function_runs_once_more_however_many_nodes_wait():
    counted = Counted(lambda a: (a.exp().sin(), a.cos().tanh()))
    x = leaf(1.0)
    first, second = checkpoint(counted, x)
    (first * second).backward()
    assert counted.runs == 2


@pytest.mark.parametrize("mode", [tensor.no_grad, tensor.inference_mode])
def test_where_nothing_is_recorded_nothing_is_kept(mode):
    counted = Counted(layer)
    x, w = matrix(0), matrix(1)
    start = bytes_live()
    with mode():
        y = checkpoint(counted, x * 2, w)
    assert not y.requires_grad
    assert bytes_live() == start + BLOCK
    assert counted.runs == 1


def test_an_output_that_is_unused_or_dropped_costs_nothing():
    x = matrix(0)
    start = bytes_live()
    used, unused, dropped = checkpoint(lambda a: (a.exp(), a.sin(), a.cos()), x)
    del dropped
    used.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), used.detach().numpy())
    assert bytes_live() == start + 3 * BLOCK  # two outputs and the gradient
    assert unused.requires_grad


def test_of_checkpoints_in_checkpoints_the_outermost_inputs_alone_are_kept():
    x, *weights = [matrix(i) for i in range(9)]
    start = bytes_live()
    y = checkpoint(nested, x * 1, weights, checkpoint, 2)
    assert bytes_live() == start + 2 * BLOCK  # x * 1 and y
    del y
    assert bytes_live() == start


def peak_of(call: Callable[..., Any], nest: bool = False) -> int:
    x, *weights = [matrix(i) for i in range(17)]
    for w in weights:
        w.grad = tensor.zeros_like(w)
        # With a hook each has its gradient at once; else those of all would wait for the end.
        w.register_post_accumulate_grad_hook(lambda _: None)
    start = bytes_live()
    with memory.measure() as during:
        y = x
        if nest:
            y = call(nested, x, weights, call, 2)
        else:
            for w in weights:
                y = call(layer, y, w)
        y.square().mean().backward()
    del y
    assert bytes_live() == start + BLOCK  # the gradient of x
    return during.peak_bytes - start


def test_a_deep_network_needs_less_memory_and_less_still_with_checkpoints_in_checkpoints():
    everything, parts, nest = peak_of(plainly), peak_of(checkpoint), peak_of(checkpoint, nest=True)
    assert parts < 0.55 * everything
    assert nest < 0.75 * parts


def test_a_scope_that_ends_before_backward_ends_nothing_that_backward_needs(window):
    x, w = matrix(0), matrix(1)
    live = window().live_count
    with new_dispose_scope() as scope:
        y = scope.detach(checkpoint(layer, x * 2, w * 3))
    assert window().live_count == live + 1
    y.sum().backward()
    assert x.grad is not None
    assert window().live_count == live + 3  # y and two gradients
    for used in (y, x, w):
        used.dispose()
    assert window().live_count == 0


def test_tensors_that_the_second_run_leaves_behind_are_disposed():
    left = []

    def function(a):
        left.append(a.exp())
        return left[-1] * 2

    x = leaf(1.0)
    checkpoint(function, x).backward()
    first, second = left
    assert not first.is_invalid
    assert second.is_invalid
    with pytest.raises(TensorDisposedError, match="its dispose scope 'checkpoint' ended"):
        second.tolist()


def test_checkpoints_leave_no_tensor_no_node_no_memory_and_no_cycle():
    def use() -> None:
        x, *weights = [matrix(i) for i in range(5)]
        y = nested(x, weights, checkpoint, 2)
        y.sum().backward(retain_graph=True)
        (dx,) = autograd.grad(y.sum(), x, create_graph=True)
        dx.sum().backward()
        checkpoint(layer, x, weights[0])

    use()
    with leaving_nothing():
        use()


def test_a_checkpoint_in_each_of_many_steps_leaves_the_live_count_unchanged():
    w = matrix(0)
    counts = set()
    for _ in range(20):
        with new_dispose_scope():
            checkpoint(layer, matrix(1, requires_grad=False), w).sum().backward()
            w.grad = None
        counts.add((statistics.live_count, bytes_live()))
    assert len(counts) == 1


def test_an_error_in_the_first_run_leaves_nothing_behind():
    def fail(a):
        a.exp().sin()
        raise StopHereError

    with leaving_nothing():
        x = matrix(0)
        with suppress(StopHereError):
            checkpoint(fail, x * 2)
        assert type(x.exp().grad_fn.saved) is tuple  # it waits for no second run
        del x


def test_an_error_in_the_second_run_changes_no_gradient_and_backward_may_be_called_again():
    tensor.manual_seed(0)
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * w).sum().backward()
    y = checkpoint(failing_at(2), x * 1) * w
    state = default_generator.get_state()
    with pytest.raises(StopHereError) as caught:
        y.sum().backward(retain_graph=True)
    assert "ran the function of a checkpoint again" in caught.value.__notes__[0]
    assert (x.grad.tolist(), w.grad.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    assert default_generator.get_state() == state
    assert tensor.is_grad_enabled()
    assert not is_recomputing()
    y.sum().backward()
    # The slope of w is y / w, rounded once more.
    assert tensor.allclose(w.grad, y.detach() / w.detach() + tensor.tensor([1.0, 2.0]))


def test_an_error_in_the_second_run_leaves_nothing_behind():
    def use():
        x = matrix(0)
        y = checkpoint(failing_at(2), x * 1).sum()
        with suppress(StopHereError):
            y.backward()

    use()
    with leaving_nothing():
        use()


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (lambda a: a.exp().sin(), "2 ops in the forward pass, but now 'sin' instead of 'cos' as number 1"),
        (lambda a: a.exp(), "2 ops in the forward pass, but now 1"),
        (lambda a: a.exp().cos().sin(), "2 ops in the forward pass, but now 3"),
        (lambda a: a.detach().exp().cos(), "2 ops in the forward pass, but now 0"),
    ],
)
def test_a_function_that_does_something_else_the_second_time_is_an_error(now, message):
    x, w = leaf(1.0), leaf(2.0)
    functions = [lambda a: a.exp().cos(), now]
    y = checkpoint(lambda a: functions.pop(0)(a), x) * w
    with pytest.raises(RuntimeError, match=message):
        y.backward()
    assert (x.grad, w.grad) == (None, None)


def draw_in_a_thread() -> None:
    thread = threading.Thread(target=lambda: tensor.rand(3))
    thread.start()
    thread.join()


@pytest.mark.parametrize("run", [1, 2])
def test_draws_of_another_thread_in_between_are_an_error_and_no_wrong_gradient(run):
    runs = []

    def function(a):
        runs.append(run)
        a = F.dropout(a, 0.5)
        if len(runs) == run:
            draw_in_a_thread()
        return F.dropout(a, 0.5)

    x = matrix(0)
    y = checkpoint(function, x).sum()
    with pytest.raises(RuntimeError, match="another thread drew"):
        y.backward(retain_graph=True)
    assert x.grad is None
    if run == 2:
        y.backward()  # nobody draws now
        assert set(x.grad.numpy().ravel()) == {0.0, 4.0}


def test_random_numbers_of_another_thread_do_not_affect_a_checkpoint_without_random_numbers():
    x = leaf(1.0)
    y = checkpoint(lambda a: (draw_in_a_thread(), a.exp())[1], x)
    draw_in_a_thread()
    y.backward()
    assert x.grad.tolist() == y.tolist()


def test_a_tensor_of_the_closure_that_is_disposed_is_an_error_that_says_so():
    x, w, scale = leaf(1.0), leaf(2.0), tensor.ones((1,))
    y = checkpoint(lambda a: (a * scale).exp(), x) * w
    scale.dispose()
    with pytest.raises(TensorDisposedError, match="disposed by dispose") as caught:
        y.backward()
    assert "the same as in the forward pass" in caught.value.__notes__[0]
    assert (x.grad, w.grad) == (None, None)


def test_graph_statistics_count_tensors_kept_for_the_second_run_once():
    x, *weights = [matrix(i) for i in range(5)]
    y = checkpoint(nested, x * 2, weights, checkpoint, 2)
    whole = autograd.graph_statistics(plainly(nested, x * 2, weights, plainly, 2))
    found = autograd.graph_statistics(y)
    assert found.node_count == whole.node_count
    assert found.bytes_saved == 5 * BLOCK  # what was x * 2, and the weights
    assert found.bytes_held_alone == BLOCK
    y.sum().backward()
    assert autograd.graph_statistics(y).bytes_saved == 0


def test_a_limit_met_in_the_second_run_changes_no_gradient_and_keeps_no_memory():
    def forward() -> Tensor:
        return checkpoint(nested, x * 1, weights, checkpoint, 2).sum()

    x, *weights = [matrix(i) for i in range(5)]
    start, more, failures = bytes_live(), 0, 0
    while True:
        y = forward()
        try:
            with memory.limit(bytes_live() + more):
                y.backward()
        except memory.OutOfMemoryError:
            failures += 1
        else:
            break
        assert not is_recomputing()
        assert {w.grad for w in (x, *weights)} == {None}
        del y
        assert bytes_live() == start, f"with room for {more} bytes"
        more += BLOCK // 2
    assert failures > 10


# A tensor whose disposal was interrupted is missed by its scope when it goes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_call_of_the_second_run_leaves_recording_unchanged():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    event = 0
    while True:
        event += 1
        y = checkpoint(lambda a: F.dropout(a * w, 0.5).exp(), x).sum()
        was_interrupted = interrupted_at(event, y.backward)
        while (scope := current_dispose_scope()) is not None:
            scope.dispose()
        if not was_interrupted:
            break
        assert tensor.is_grad_enabled()
        assert not is_recomputing()
        with tensor.no_grad(), tensor.enable_grad():
            assert type((x * w).exp().grad_fn.saved) is tuple
        assert (x.grad is None) == (w.grad is None)
        x.grad = w.grad = None
    assert event > 100


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint_accepts_use_reentrant_as_pytorch_does(use_reentrant):
    x = tensor.tensor([2.0], requires_grad=True)
    checkpoint(lambda x: x * x, x, use_reentrant=use_reentrant).backward()
    assert x.grad.tolist() == [4.0]
