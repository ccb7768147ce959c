"""checkpoint(): the gradients of the graph without it, to the last bit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from scopes import disposing, new_dispose_scope
from tensor import Tensor, autograd
from tensor.autograd import checkpoint
from tensor.torch.utils.checkpoint import checkpoint as torch_checkpoint
from tests.tensor.checkpoints import SIDE, layer, matrix, nested, plainly
from tests.tensor.graphs import leaf


def assert_same(use: Callable[[Callable[..., Any]], list[Tensor]]) -> None:
    """Hold that `use` returns the same values, to the last bit, with ``checkpoint`` and without."""
    tensor.manual_seed(0)
    expected = use(plainly)
    tensor.manual_seed(0)
    found = use(checkpoint)
    assert found
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_gradients_and_the_random_stream_are_the_same_to_the_last_bit():
    def use(call):
        x, *weights = [matrix(i) for i in range(4)]
        y = x
        for w in weights:
            y = call(layer, y, w)
        after_forward = tensor.rand(4)
        y.square().mean().backward()
        after_backward = tensor.rand(4)
        return [y.detach(), after_forward, after_backward, x.grad, *[w.grad for w in weights]]

    assert_same(use)


class Pair(NamedTuple):
    first: Tensor
    second: Any


CALLS: dict[str, Callable[[Callable[..., Any], Tensor, Tensor], Tensor]] = {
    "leaves": lambda call, x, w: call(lambda a, b: (a * b).exp(), x, w),
    "computed": lambda call, x, w: call(lambda a, b: (a * b).exp(), x * 2, w.sin()),
    "one without grad": lambda call, x, w: call(lambda a, b: (a * b).exp(), x.detach(), w),
    "list": lambda call, x, w: call(lambda s: (s[0] * s[1]).exp(), [x, w * 2]),
    "tuple in dict": lambda call, x, w: call(lambda d: (d["a"][0] * d["a"][1]).exp(), {"a": (x, w * 2)}),
    "named tuple": lambda call, x, w: call(lambda p: (p.first * p.second["w"]).exp(), Pair(x, {"w": w})),
    "keywords": lambda call, x, w: call(lambda a, *, b, scale: (a * b * scale).exp(), x, b=w, scale=0.5),
    "indices": lambda call, x, w: call(
        lambda a, i, b: (a[i] * b[i]).exp(), x, tensor.tensor([0, 2, 2]), w * 1
    ),
    "expanded view": lambda call, x, w: call(lambda a, b: (a * b).exp(), x[:1].expand(SIDE, SIDE), w),
    "turned view": lambda call, x, w: call(lambda a, b: (a @ b).exp(), x.T, w[::-1]),
    "the same twice": lambda call, x, w: call(lambda a, b, c: (a * b).exp() * c, x, x, w),
    "donated": lambda call, x, w: call(lambda a, b: (a * b).exp(), (x * 2).donate(), w),
    "parameters by closure": lambda call, x, w: call(lambda a: (a * w).exp(), x),
    "all by closure": lambda call, x, w: call(lambda: (x * w).exp()),
    "no tensor requires grad": lambda call, x, w: call(lambda a: a.exp(), x.detach()) * x * w,
    "a set, as it is": lambda call, x, w: call(lambda s: (next(iter(s)) * w).exp(), {x}),
}


@pytest.mark.parametrize("kind", CALLS)
def test_arguments_may_be(kind):
    def use(call):
        x, w = matrix(0), matrix(1)
        CALLS[kind](call, x, w).sum().backward()
        return [x for x in (x.grad, w.grad) if x is not None]

    assert_same(use)


def test_writes_to_arguments_after_the_call_do_not_show():
    def use(call):
        x, w, constant = matrix(0), matrix(1), matrix(2, requires_grad=False)
        inner, scale = x * 2, w * 1
        exported = constant.numpy()
        y = call(lambda a, b, c: (a * b).exp() * c, inner, scale, constant)
        inner.mul_(3)
        scale[0] = 5.0
        exported[...] = 7
        with tensor.no_grad():
            w.zero_()
        y.sum().backward()
        return [x.grad, w.grad, inner.detach()]

    assert_same(use)


def test_writes_inside_do_not_change_the_inputs_of_the_second_run():
    def scaled(a, b):
        b = b.exp()
        a.mul_(b)
        b.add_(a)
        b[0].sin_()
        return a.sqrt() * b

    def use(call):
        x, w = leaf(1.0, 2.0), leaf(0.5, 0.25)
        inner = x * x
        call(scaled, inner, w).sum().backward()
        return [x.grad, w.grad, inner.detach()]

    assert_same(use)


@pytest.mark.parametrize("second", [lambda y: y, lambda y: y[1:], lambda y: y.alias(), lambda y: y.detach()])
def test_arguments_that_share_memory_share_it_in_the_second_run(second):
    def doubled_first(a, b):
        a.mul_(2)
        return a.exp().sum() * b.exp().sum()

    def use(call):
        x = leaf(0.25, 0.5)
        y = x * 1
        call(doubled_first, y, second(y)).backward()
        return [x.grad]

    assert_same(use)


def test_a_buffer_and_a_view_of_it_share_memory_in_the_second_run():
    def use(call):
        w, buffer = leaf(2.0, 3.0), tensor.ones((2, 2))

        def fill(a, row):
            a += 4
            return (row * w).exp()

        call(fill, buffer, buffer[1]).sum().backward()
        return [w.grad, buffer]

    assert_same(use)


def test_clones_are_apart_in_the_second_run_too():
    def use(call):
        w, buffer = leaf(2.0, 3.0), tensor.ones((2,))

        def fill(a, b):
            a += 1
            return b * w

        call(fill, buffer, buffer.clone()).sum().backward()
        return [w.grad]

    assert_same(use)


def test_a_list_that_the_function_empties_is_full_the_second_time():
    x = leaf(2.0)

    def product(factors):
        y = factors.pop() * 1
        while factors:
            y = y * factors.pop()
        return y

    given = [x, x * 2, x * 3]
    checkpoint(product, given).backward()
    assert given == []
    assert x.grad.tolist() == [6 * 3 * 4.0]


def test_backward_may_be_called_where_nothing_is_recorded():
    x = leaf(2.0)
    y = checkpoint(lambda a: (a * a).exp(), x)
    with tensor.inference_mode():
        y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.exp(4.0), rtol=1e-6)


def test_parts_where_the_function_records_nothing_itself_stay_so():
    def use(call):
        x, w = matrix(0), matrix(1)

        def centred(a):
            with tensor.no_grad():
                mean = a.mean()
                with tensor.enable_grad():
                    squares = a * a * w
            return squares.exp() - mean

        call(centred, x * 2).sum().backward()
        return [x.grad, w.grad]

    assert_same(use)


def test_an_output_that_is_unused_at_first_still_has_a_backward():
    x = leaf(2.0)
    first, second = checkpoint(lambda a: (a * a, a * a * a), x)
    first.backward()
    second.backward()
    assert x.grad.tolist() == [4 + 12.0]


def test_the_result_of_the_function_is_returned_unchanged():
    x = leaf(2.0)
    assert checkpoint(lambda a: a, x) is x
    assert checkpoint(lambda a: {"n": 3, "x": [a]}, x) == {"n": 3, "x": [x]}
    assert checkpoint(lambda: None) is None


def test_with_retain_graph_backward_may_be_called_again():
    x = leaf(3.0)
    y = checkpoint(lambda a: (a * a * a).exp().log(), x)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * 27.0, rtol=1e-5)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()


def test_a_gradient_by_a_tensor_from_inside_is_found():
    inside = []

    def function(a):
        half = a * a
        if not inside:
            inside.append(half)
        return half.exp().sum()

    x = leaf(1.0, 2.0)
    y = checkpoint(function, x)
    (g,) = autograd.grad(y, inside[0])
    np.testing.assert_allclose(g.numpy(), np.exp([1.0, 4.0]), rtol=1e-6)


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_of_derivatives_are_the_same(order):
    def use(call):
        x, w = matrix(0), matrix(1)
        y = call(lambda a, b: (a @ b).tanh().square().mean(), x, w)
        found = []
        for _ in range(order):
            dx, dw = autograd.grad(y, [x, w], create_graph=True)
            found += [dx.detach(), dw.detach()]
            y = (dx * dx).sum() + (dw * dw).sum()
        y.backward()
        return [*found, x.grad, w.grad]

    assert_same(use)


def with_penalty(a: Tensor, b: Tensor) -> Tensor:
    y = F.dropout(a @ b, 0.5).tanh().sum()
    (slope,) = autograd.grad(y, a, create_graph=True)
    return y + (slope * slope * b).sum()


def by_slope(a: Tensor, b: Tensor) -> Tensor:
    y = F.dropout(a @ b, 0.5).tanh().sum()
    (slope,) = autograd.grad(y, a)
    return (slope * b).exp().sum()


@pytest.mark.parametrize("function", [with_penalty, by_slope])
def test_the_function_may_derive_something_itself(function):
    def use(call):
        x, w = matrix(0), matrix(1)
        call(function, x, w).backward()
        return [grad for grad in (x.grad, w.grad) if grad is not None] + [tensor.rand(2)]

    assert_same(use)


def test_hooks_that_the_function_registers_run_once():
    seen = []

    def function(a):
        half = a.exp()
        half.register_hook(lambda g: seen.append(g.tolist()))
        half.retain_grad()
        kept.append(half)
        return half * 3

    kept = []
    x = leaf(0.0)
    handle = x.register_hook(lambda g: g * 10)
    checkpoint(function, x).backward()
    assert seen == [[3.0]]
    assert x.grad.tolist() == [30.0]
    assert kept[0].grad.tolist() == [3.0]
    handle.remove()


def test_a_computed_tensor_of_the_closure_has_its_history():
    def use(call):
        x, w = matrix(0), matrix(1)
        doubled = w * 2
        y = call(lambda a: (a * doubled).exp(), x)
        y.sum().backward()
        return [x.grad, w.grad]

    assert_same(use)


def test_checkpoints_in_checkpoints_give_the_same_gradients():
    def use(call):
        x, *weights = [matrix(i) for i in range(9)]
        y = call(nested, x, weights, call, 2)
        y.square().mean().backward()
        return [y.detach(), tensor.rand(2), x.grad, *[w.grad for w in weights]]

    assert_same(use)


def test_derivatives_of_derivatives_through_checkpoints_in_checkpoints_are_the_same():
    def use(call):
        x, *weights = [matrix(i) for i in range(5)]
        y = call(nested, x, weights, call, 2).square().mean()
        (dx,) = autograd.grad(y, x, create_graph=True)
        (dx * dx).sum().backward()
        return [dx.detach(), x.grad, *[w.grad for w in weights]]

    assert_same(use)


def test_running_figures_of_batch_norm_move_once():
    layers = [nn.BatchNorm1d(SIDE), nn.BatchNorm1d(SIDE), nn.BatchNorm1d(SIDE)]
    x = matrix(0)
    layers[0](x).sum().backward()
    checkpoint(layers[1], x).sum().backward()
    with autograd.detect_anomaly():
        checkpoint(lambda a: checkpoint(layers[2], a), x).sum().backward()
    for other in layers[1:]:
        assert other.running_mean.tolist() == layers[0].running_mean.tolist()
        assert other.running_var.tolist() == layers[0].running_var.tolist()


def test_scopes_inside_the_function_are_scopes_each_time():
    @disposing
    def inner(a):
        return (a * 2).exp()

    def function(a):
        with new_dispose_scope() as scope:
            return scope.move_to_outer(inner(a).sin() * a)

    def use(call):
        x = matrix(0)
        call(function, x * 1).sum().backward()
        return [x.grad]

    assert_same(use)


def test_backward_may_run_in_another_thread():
    x, w = matrix(0), matrix(1)
    y = checkpoint(lambda a, b: (a @ b).tanh(), x * 2, w)
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    other, weight = matrix(0), matrix(1)
    (other * 2 @ weight).tanh().sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), other.grad.numpy())


def test_threads_that_go_through_checkpoints_at_once_do_not_mix():
    found: dict[int, Tensor] = {}

    def work(seed: int) -> None:
        x, w = matrix(seed), matrix(seed + 100)
        y = x
        for _ in range(10):
            y = checkpoint(lambda a: (a @ w).tanh(), y)
        y.sum().backward()
        found[seed] = w.grad

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        x, w = matrix(seed), matrix(seed + 100)
        y = x
        for _ in range(10):
            y = (y @ w).tanh()
        y.sum().backward()
        np.testing.assert_array_equal(found[seed].numpy(), w.grad.numpy())


def test_errors_of_the_call_are_those_of_the_function():
    with pytest.raises(TypeError, match="unexpected keyword argument 'b'"):
        checkpoint(lambda a: a, leaf(1.0), b=2)
    with pytest.raises(TypeError):
        checkpoint()


class Entries:
    """Pairs of contexts for `context_fn`, and when each is entered and left."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def note(self, name: str) -> Iterator[None]:
        self.events.append(f"enter {name}")
        yield
        self.events.append(f"leave {name}")

    def __call__(self) -> tuple[Any, Any]:
        self.events.append("made")
        return self.note("forward"), Again(self)


class Again:
    """A context that can be entered again."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    def __enter__(self) -> None:
        self.entries.events.append("enter again")

    def __exit__(self, *error: object) -> None:
        self.entries.events.append("leave again")


def test_each_run_of_a_checkpoint_is_in_its_own_context():
    x, entries = leaf(2.0), Entries()

    def function(x: Tensor) -> Tensor:
        entries.events.append("run")
        return x.exp()

    y = autograd.checkpoint(function, x, context_fn=entries)
    assert entries.events == ["made", "enter forward", "run", "leave forward"]
    y.backward()
    assert entries.events[4:] == ["enter again", "run", "leave again"]
    assert x.grad.item() == pytest.approx(np.exp(2.0))


def test_where_nothing_is_recorded_only_the_forward_context_is_used():
    entries = Entries()
    with tensor.no_grad():
        autograd.checkpoint(lambda x: x * 2, leaf(1.0), context_fn=entries)
    assert entries.events == ["made", "enter forward", "leave forward"]


def test_a_context_that_changes_what_is_computed_again_changes_what_backward_uses():
    factors = [3.0]

    @contextmanager
    def times(factor: float) -> Iterator[None]:
        factors.append(factor)
        yield
        factors.pop()

    x = leaf(2.0)
    y = autograd.checkpoint(
        lambda x: x * tensor.tensor([factors[-1]]), x, context_fn=lambda: (times(5.0), times(7.0))
    )
    y.backward()
    assert (y.tolist(), x.grad.tolist()) == ([10.0], [7.0])


@pytest.mark.parametrize(
    ("context_fn", "message"),
    [
        (3, "context_fn must be a function, not int"),
        (lambda: 3, "must return two context managers.* not int"),
        (lambda: (nullcontext(),), "must return two context managers"),
        (lambda: (nullcontext(), 3), "returned 'int', which is not a context manager"),
    ],
)
def test_a_context_fn_must_return_two_context_managers(context_fn, message):
    with pytest.raises(TypeError, match=message):
        autograd.checkpoint(lambda x: x * 2, leaf(1.0), context_fn=context_fn)


def test_a_forward_context_that_suppresses_an_error_is_an_error():
    def fail(x: Tensor) -> Tensor:
        raise KeyError

    with pytest.raises(RuntimeError, match="suppressed an exception"):
        autograd.checkpoint(fail, leaf(1.0), context_fn=lambda: (suppress(KeyError), nullcontext()))


def test_pytorchs_checkpoint_takes_contexts_without_reentrance_only():
    x, entries = leaf(2.0), Entries()
    for use_reentrant in (True, None):
        with pytest.raises(ValueError, match="only supported with use_reentrant=False"):
            torch_checkpoint(lambda x: x * 2, x, use_reentrant=use_reentrant, context_fn=entries)
    assert torch_checkpoint(lambda x, y: x * y, x, y=3.0).tolist() == [6.0]
    torch_checkpoint(lambda x: x.exp(), x, use_reentrant=False, context_fn=entries, debug=True).backward()
    assert entries.events == ["made", "enter forward", "leave forward", "enter again", "leave again"]
