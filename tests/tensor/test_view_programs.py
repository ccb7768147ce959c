"""Gradients of tensors that share memory, after writes in place: those of PyTorch."""

from __future__ import annotations

import gc

import pytest

import tensor
from tensor import Tensor, autograd
from tests.tensor.view_programs import differences


def four() -> Tensor:
    return tensor.ones((4,), requires_grad=True)


def test_the_gradient_of_a_tensor_has_the_part_through_a_view_that_was_written():
    s = four() * 1
    v = s[0:2]
    v.mul_(2)
    assert autograd.grad(s.sum() + v.sum(), s)[0].tolist() == [2, 2, 1, 1]


def test_a_retained_gradient_has_the_part_through_a_written_view():
    s = four() * 1
    s.retain_grad()
    v = s[0:2]
    v.mul_(2)
    (s.sum() + v.sum()).backward()
    assert s.grad.tolist() == [2, 2, 1, 1]


def test_a_hook_after_the_write_changes_the_gradient_through_the_view_too():
    r = four()
    s = r * 1
    v = s[0:2]
    v.mul_(2)
    s.register_hook(lambda g: g * 10)
    (s.sum() + v.sum()).backward()
    assert r.grad.tolist() == [40, 40, 10, 10]


def test_views_of_one_tensor_do_not_depend_on_each_other():
    s = four() * 1
    first, all_again = s[0:2], s[:]
    first.mul_(2)
    assert autograd.grad(first.sum() + all_again.sum(), first)[0].tolist() == [1, 1]


def test_views_whose_base_is_gone_do_not_depend_on_each_other_either():
    r = four()
    s = r * 1
    first, rest, overlapping = s[0:2], s[2:], s[1:3]
    del s
    gc.collect()
    first.mul_(2)
    loss = first.sum() + rest.sum() + overlapping.sum()
    assert autograd.grad(loss, first, retain_graph=True)[0].tolist() == [1, 1]
    assert autograd.grad(loss, r)[0].tolist() == [2, 4, 2, 1]


def test_what_was_written_to_one_view_of_a_gone_base_is_unused_in_another():
    """With the base alive the gradient is zeros, as in PyTorch, whose views keep the base."""
    for is_base_alive in (True, False):
        s = four() * 1
        first, rest = s[0:2], s[2:]
        if not is_base_alive:
            del s
            gc.collect()
        written = four() * 2
        first.copy_(written[0:2])
        (grad,) = autograd.grad(rest.sum(), written, allow_unused=True)
        assert (None if grad is None else grad.tolist()) == ([0, 0, 0, 0] if is_base_alive else None)


def test_a_second_derivative_flows_through_a_written_view():
    r = tensor.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    s = r * r
    row = s.reshape(2, 2).T[0]
    row.mul_(3)
    (g,) = autograd.grad((s * s).sum(), r, create_graph=True)  # 18 r0**4 / 2, r1**4, ...
    assert g.tolist() == [36.0, 32.0, 9 * 4 * 27.0, 256.0]
    assert autograd.grad(g.sum(), r)[0].tolist() == [9 * 12.0, 48.0, 9 * 12 * 9.0, 192.0]


def test_a_view_made_under_no_grad_takes_no_recorded_write() -> None:
    r = four()
    s = r * 1
    with tensor.no_grad():
        views = (s[0:2], s.view(2, 2), s[None], s.alias(), s.T, *s.split(2), s.reshape(-1), s.expand(4))
    for view in views:
        for write in (
            lambda x: x.mul_(2),
            lambda x: x.add_(tensor.ones((1,), requires_grad=True)),
            lambda x: x.zero_(),
            lambda x: x.fill_(3.0),
            lambda x: x.copy_(tensor.ones((1,))),
            lambda x: x.__setitem__(..., 2.0),
            lambda x: x.sqrt_(),
            lambda x: x.masked_fill_(x > 0, 2.0),
            lambda x: x[..., :1].mul_(2),
        ):
            with pytest.raises(RuntimeError, match=r"a view that was created under no_grad\(\)"):
                write(view)
    s.sum().backward()
    assert s.tolist() == [1, 1, 1, 1]
    assert r.grad.tolist() == [1, 1, 1, 1]


def test_a_view_made_under_no_grad_takes_a_write_there() -> None:
    s = four() * 1
    with tensor.no_grad():
        view = s[0:2]
        view.mul_(2)
    assert s.tolist() == [2, 2, 1, 1]
    view.detach().mul_(2)
    view.clone().mul_(2)
    plain = tensor.ones((4,))
    with tensor.no_grad():
        part = plain[0:2]
    part.mul_(four()[0:2])  # the base has no history yet, and gets it
    assert plain.requires_grad


def test_outputs_of_functions_and_checkpoints_that_are_views_take_writes() -> None:
    class Part(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[0:2].clone()

        @staticmethod
        def backward(ctx, g):
            return tensor.concat([g, g])

    r = four()
    Part.apply(r * 1).mul_(3).sum().backward()
    assert r.grad.tolist() == [3, 3, 3, 3]
    r.grad = None
    autograd.checkpoint(lambda x: (x * 2)[0:2], r * 1).mul_(3).sum().backward()
    assert r.grad.tolist() == [6, 6, 0, 0]


@pytest.mark.parametrize("seeds", [range(300), pytest.param(range(300, 5000), marks=pytest.mark.soak)])
def test_random_programs_have_pytorchs_gradients(seeds):
    torch = pytest.importorskip("torch")
    for seed in seeds:
        steps, found = differences(seed, tensor, torch)
        assert found is None, "\n".join([f"seed {seed}:", *map(str, steps), found])
