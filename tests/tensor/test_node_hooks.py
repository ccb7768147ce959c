"""Hooks on nodes of the graph: when they are called, what they get, and what they may return."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from scopes import new_dispose_scope
from tensor import Tensor, TensorDisposedError, autograd
from tests.tensor.graphs import leaf, leaving_nothing


def lists(grads: tuple[Tensor | None, ...]) -> list[Any]:
    return [None if g is None else g.tolist() for g in grads]


class Both(autograd.Function):
    """Two outputs that depend on two tensors, with a number between them."""

    @staticmethod
    def forward(ctx, a, n, b):
        ctx.n = n
        return a * n, a + b

    @staticmethod
    def backward(ctx, g, h):
        return g * ctx.n + h, None, h


def test_a_hook_gets_the_gradients_of_all_inputs_and_of_the_output():
    a, b = leaf(2.0, 3.0), leaf(5.0, 7.0)
    y = a * b
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((lists(inputs), lists(outputs))))
    y.backward(tensor.tensor([1.0, 10.0]))
    assert seen == [([[5.0, 70.0], [2.0, 30.0]], [[1.0, 10.0]])]


def test_an_input_without_gradient_is_none_and_a_broadcast_one_has_its_own_shape():
    a = leaf(2.0)
    y = a * tensor.ones((3,))
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(lists(inputs)))
    y.sum().backward()
    assert seen == [[[3.0], None]]


def test_each_hook_gets_what_the_one_before_it_returned():
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 5, None))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((lists(inputs), lists(outputs))))
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 3,))
    y.register_hook(lambda g: g * 7)
    y.backward()
    assert seen == [([[2.0 * 21 * 5], None], [[21.0]])]
    assert x.grad.tolist() == [210.0]


def test_none_in_a_result_means_that_there_is_no_gradient():
    a, b = leaf(2.0), leaf(3.0)
    y = a * b
    y.grad_fn.register_hook(lambda inputs, outputs: (None, inputs[1]))
    y.backward()
    assert (a.grad, b.grad.tolist()) == (None, [2.0])
    z = a * b
    z.grad_fn.register_prehook(lambda outputs: (None,))
    seen = []
    z.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    z.backward()
    assert seen == [((None, None), (None,))]
    assert (a.grad, b.grad.tolist()) == (None, [2.0])


def test_hooks_of_a_node_that_gets_no_gradient_are_called_with_none():
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.grad_fn.register_prehook(lambda outputs: seen.append(outputs))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    z = y * tensor.ones((1,))
    z.grad_fn.register_hook(lambda inputs, outputs: (None, None))
    z.backward()
    assert seen == [(None,), ((None, None), (None,))]
    assert x.grad is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_operand_that_occurs_twice_has_a_gradient_for_each_place(create_graph):
    x = leaf(3.0)
    y = x * x
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 2, inputs[1] * 100))
    y.backward(create_graph=create_graph)
    assert x.grad.tolist() == [306.0]
    x.grad = None


def test_results_of_hooks_have_derivatives_when_backward_is_recorded():
    x = leaf(3.0)
    y = x * x
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * x, None))
    (dx,) = autograd.grad(y, x, create_graph=True)  # x * x
    assert autograd.grad(dx, x)[0].tolist() == [6.0]


def test_hooks_of_a_leafs_node_are_called_around_the_accumulation():
    x = leaf(1.0)
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    seen = []
    now = lambda: None if x.grad is None else x.grad.tolist()  # noqa: E731
    node.register_hook(lambda inputs, outputs: seen.append(("hook", inputs, lists(outputs), now())))
    node.register_prehook(
        lambda outputs: seen.append(("prehook", lists(outputs), now())) or (outputs[0] * 10,)
    )
    x.register_post_accumulate_grad_hook(lambda x: seen.append(("accumulated", now())))
    x.register_hook(lambda g: seen.append(("tensor", g.tolist())))
    y.backward()
    after = [("tensor", [2.0]), ("prehook", [[2.0]], None), ("accumulated", [20.0])]
    assert seen == [*after, ("hook", (), [[20.0]], [20.0])]


def test_backward_with_inputs_calls_the_hooks_of_those_leaves_and_autograd_grad_calls_none():
    x, w = leaf(1.0), leaf(1.0)
    seen = []
    y = x * w
    for name, (node, _) in zip("xw", y.grad_fn.next_functions, strict=True):
        node.register_hook(lambda inputs, outputs, name=name: seen.append(name))
    x.register_post_accumulate_grad_hook(lambda x: seen.append(x.grad.item()))
    autograd.grad(y, x, retain_graph=True)
    assert seen == []
    y.backward(inputs=[x])
    assert seen == [1.0, "x"]
    assert w.grad is None


def test_the_node_of_a_function_has_a_gradient_for_each_tensor_and_output():
    a, b = leaf(1.0), leaf(2.0)
    first, second = Both.apply(a, 3, b)
    seen = []
    handle = second.grad_fn.register_hook(
        lambda inputs, outputs: seen.append((lists(inputs), lists(outputs)))
    )
    first.grad_fn.register_prehook(lambda outputs: (outputs[0] and outputs[0] * 10, outputs[1]))
    (first + second).backward(retain_graph=True)
    first.backward(retain_graph=True)
    assert seen == [([[31.0], [1.0]], [[10.0], [1.0]]), ([[30.0], [0.0]], [[10.0], None])]
    assert [node.name() for node, _ in second.grad_fn.next_functions] == ["AccumulateGrad"] * 2
    handle.remove()
    second.backward()
    assert len(seen) == 2


def test_a_removed_hook_is_no_longer_called():
    x = leaf(1.0)
    y = x * 2
    with y.grad_fn.register_hook(lambda inputs, outputs: pytest.fail("it is removed")):
        handle = y.grad_fn.register_prehook(lambda outputs: pytest.fail("it is removed"))
    handle.remove()
    handle.remove()
    y.backward()


def test_prehooks_run_before_the_error_of_a_freed_graph_and_hooks_do_not():
    x = leaf(1.0)
    y = x.exp()
    seen = []
    y.grad_fn.register_prehook(lambda outputs: seen.append("prehook"))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("hook"))
    y.backward()
    with pytest.raises(RuntimeError, match="already freed"):
        y.backward()
    assert seen == ["prehook", "hook", "prehook"]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (tensor.ones((2,)), TypeError, "expected tuple, but hook 'answer' returned 'Tensor'"),
        ([None, None], TypeError, "returned 'list'"),
        ((None,), RuntimeError, r"incorrect number of values \(got 1, but expected 2\)"),
        ((3.0, None), TypeError, "returned 'float' as gradient number 0"),
        ((None, tensor.ones((2,))), RuntimeError, "can't replace a None gradient.* number 1"),
        (
            (tensor.ones((3,)), None),
            RuntimeError,
            r"size of gradient number 0 from float32\[2\] to float32\[3\]",
        ),
        ((tensor.ones((2,), dtype="float64"), None), RuntimeError, "type of gradient number 0"),
    ],
)
def test_a_result_that_is_no_tuple_of_gradients_is_an_error(given, kind, message):
    def answer(*grads):
        return given

    x = leaf(1.0, 2.0)
    y = x * 2
    y.grad_fn.register_hook(answer)
    with pytest.raises(kind, match=message):
        y.sum().backward()
    assert x.grad is None


def test_a_disposed_tensor_from_a_hook_is_an_error_that_says_why():
    x = leaf(1.0)
    y = x * 2

    def scaled(inputs, outputs):
        with new_dispose_scope("hook"):
            return inputs[0] * 2, None

    y.grad_fn.register_hook(scaled)
    with pytest.raises(TensorDisposedError, match="its dispose scope 'hook' ended"):
        y.backward()


def test_only_functions_are_hooks():
    node = (leaf(1.0) * 2).grad_fn
    for register in (node.register_hook, node.register_prehook):
        with pytest.raises(TypeError, match="a hook must be a function, not int"):
            register(3)


def test_hooks_are_freed_with_their_node_and_keep_no_gradient():
    def use() -> None:
        x = tensor.ones((64, 64), requires_grad=True)
        y = x * x
        kept: list[Any] = []
        y.grad_fn.register_hook(lambda inputs, outputs: kept.append((inputs, outputs)))
        handle = y.exp().grad_fn.register_hook(lambda inputs, outputs: kept)
        (y + x).sum().backward()
        assert len(kept) == 1
        kept.clear()
        handle.remove()

    use()
    with leaving_nothing():
        use()


def test_a_write_to_a_gradient_in_a_hook_reaches_only_the_inputs_after_it():
    a, b = leaf(1.0), leaf(1.0)
    y = a + b
    y.grad_fn.register_hook(lambda inputs, outputs: inputs[0].mul_(10).sum().item() and None)
    given = tensor.ones((1,))
    y.backward(given)
    assert (a.grad.tolist(), b.grad.tolist(), given.tolist()) == ([10.0], [1.0], [1.0])
