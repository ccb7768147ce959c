"""Ops of the user's own, ``autograd.Function``: their derivatives, what goes in and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Tensor, autograd
from tests.tensor.functions import (
    Exp,
    ExpInPlace,
    Identity,
    Linear,
    Multiply,
    SinCos,
    SquareInPlace,
    doubles,
)
from tests.tensor.graphs import bytes_live, leaf, leaving_nothing

FUNCTIONS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "saved inputs": (lambda x, y: Multiply.apply(x, y, 3.0), [(2, 3), (2, 3)]),
    "broadcast inputs": (lambda x, y: Multiply.apply(x, y, 3.0), [(2, 3), (3,)]),
    "an input twice": (lambda x: Multiply.apply(x, x), [(3,)]),
    "a saved output": (Exp.apply, [(2, 2)]),
    "two outputs": (lambda x: [y for y in SinCos.apply(x) if isinstance(y, Tensor)], [(3,)]),
    "one output of two": (lambda x: SinCos.apply(x)[2], [(3,)]),
    "written in place": (lambda x: ExpInPlace.apply(x * 1), [(3,)]),
    "saved and then written in place": (lambda x: SquareInPlace.apply(x * 1), [(3,)]),
    "setup_context": (Linear.apply, [(4, 3), (2, 3), (2,)]),
    "one after another": (lambda x: Exp.apply(Multiply.apply(x, Exp.apply(x))), [(3,)]),
    "a view of the output": (lambda x: Exp.apply(x).reshape(2, 2)[0] * x[:2], [(4,)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_right_in_first_and_second_order(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    inputs = tuple([doubles(*shape, seed=i) for i, shape in enumerate(shapes)])
    assert autograd.gradcheck(function, inputs)
    assert autograd.gradgradcheck(function, inputs)


def test_third_derivatives_go_through_saved_outputs() -> None:
    x = doubles(2)
    y = Exp.apply(x * 2)
    for _ in range(3):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(y.detach().numpy(), 8 * np.exp(2 * x.detach().numpy()))


def test_outputs_have_the_name_of_the_function_in_their_history() -> None:
    y = Exp.apply(leaf(1.0))
    assert y.requires_grad
    assert not y.is_leaf
    assert repr(y.grad_fn) == "<ExpBackward>"


def test_a_tuple_is_returned_as_a_tuple_and_other_values_unchanged() -> None:
    sine, text, cosine, index = SinCos.apply(leaf(0.0, 1.0))
    assert text == "a text"
    assert (sine.requires_grad, cosine.requires_grad) == (True, True)
    assert (index.requires_grad, index.item()) == (False, 1)


def test_without_a_tensor_that_requires_grad_nothing_is_recorded() -> None:
    class Three(autograd.Function):
        @staticmethod
        def forward(ctx: Any, n: int) -> Tensor:
            return tensor.full((2,), float(n))

    assert not Three.apply(3).requires_grad
    assert not Exp.apply(tensor.ones((2,))).requires_grad


def test_under_no_grad_nothing_is_recorded_or_kept() -> None:
    needed = []

    class Saving(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            needed.append(ctx.needs_input_grad)
            ctx.save_for_backward(x)
            return x.exp()

    x = leaf(*[1.0] * 100)
    before = bytes_live()
    with tensor.no_grad():
        y = Saving.apply(x)
    assert not y.requires_grad
    assert bytes_live() - before == y.numpy().nbytes
    assert needed == [(False,)]


def test_forward_is_not_recorded_itself() -> None:
    seen = []

    class Looking(Exp):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            seen.extend([tensor.is_grad_enabled(), (x * 2).requires_grad, x.requires_grad])
            return Exp.forward(ctx, x)

    Looking.apply(leaf(1.0))
    assert seen == [False, False, True]


def test_a_result_that_was_recorded_in_forward_has_the_functions_history_alone() -> None:
    class Recording(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            with tensor.enable_grad():
                return x * 3

    x = leaf(1.0)
    Recording.apply(x).backward()
    assert x.grad.tolist() == [10.0]


def test_an_argument_that_is_returned_unchanged_becomes_an_alias() -> None:
    x = leaf(1.0, 2.0)
    y = Identity.apply(x)
    assert y is not x
    assert x.is_leaf
    with tensor.no_grad():
        y[0] = 5.0
        z = Identity.apply(x)
    assert x.tolist() == [5.0, 2.0]
    assert (z is x, z.requires_grad) == (False, False)
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_a_recorded_write_to_the_alias_of_an_argument_is_in_the_history_of_both() -> None:
    x = leaf(1.0, 2.0)
    z = x * 1
    y = Identity.apply(z)
    y.mul_(3)
    (y + z).sum().backward()
    assert x.grad.tolist() == [60.0, 60.0]


def test_a_recorded_write_to_a_view_of_the_alias_of_an_argument_passes_the_function() -> None:
    x = leaf(1.0, 2.0)
    z = x * 1
    y = Identity.apply(z)
    first = y[:1]
    first.mul_(3)
    (y + z).sum().backward()
    assert x.grad.tolist() == [60.0, 11.0]


def test_a_tensor_returned_twice_has_a_gradient_for_each_place() -> None:
    given = []

    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            y = x * 2
            return y, y, x, x

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            given.extend([g.item() for g in grads])
            return grads[0]

    a, b, c, d = Twice.apply(leaf(1.0))
    assert len({id(y) for y in (a, b, c, d)}) == 4
    (a + 2 * b + 3 * c + 4 * d).backward()
    assert given == [1.0, 2.0, 3.0, 4.0]


def test_a_parameter_that_is_no_argument_keeps_its_own_history() -> None:
    weight = leaf(2.0)

    class Captured(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return weight

    y = Captured.apply(leaf(1.0))
    assert weight.is_leaf
    assert repr(y.grad_fn) == "<CapturedBackward>"


def test_marked_outputs_have_no_gradient_even_if_they_are_arguments() -> None:
    class Marked(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            floor = x.floor()
            ctx.mark_non_differentiable(floor, x)
            return floor, x, x - floor

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            assert [g.tolist() for g in grads[:2]] == [[0.0], [0.0]]
            return grads[2]

    x = leaf(2.5)
    floor, same, rest = Marked.apply(x)
    assert [y.requires_grad for y in (floor, same, rest)] == [False, False, True]
    rest.backward()
    assert x.grad.tolist() == [1.0]


def test_only_integers_out_means_no_history() -> None:
    class Largest(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.argmax()

    with leaving_nothing():
        assert not Largest.apply(leaf(1.0, 2.0)).requires_grad


def test_an_argument_that_is_written_to_is_returned_with_a_new_history() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    z = ExpInPlace.apply(y)
    assert z is y
    assert repr(y.grad_fn) == "<ExpInPlaceBackward>"
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1, 2]), rtol=1e-6)


def test_views_of_a_written_tensor_have_the_history_too() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0)
    whole = x * 1
    part = whole[1:3]
    SquareInPlace.apply(part)
    whole.sum().backward()
    assert x.grad.tolist() == [1.0, 4.0, 6.0, 1.0]


def test_a_view_returned_with_a_written_tensor_has_its_own_place() -> None:
    class Both(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.mark_dirty(x)
            x.mul_(2)
            return x, x[:1], x

        @staticmethod
        def backward(ctx: Any, a: Tensor, b: Tensor, c: Tensor) -> Any:
            return a * 2 + c * 1000 + b.item() * 100

    x = leaf(1.0, 2.0)
    a, b, c = Both.apply(x * 1)
    (a.sum() + b.sum() + c.sum()).backward()
    assert x.grad.tolist() == [1102.0, 1102.0]


def test_a_leaf_that_requires_grad_is_not_written_to() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="ExpInPlace: mark_dirty: a leaf tensor that requires grad"):
        ExpInPlace.apply(x)
    assert x.tolist() == [1.0]
    with tensor.no_grad():
        assert ExpInPlace.apply(x) is x
    assert x.is_leaf
    np.testing.assert_allclose(x.tolist(), [np.e], rtol=1e-6)


def test_an_argument_without_history_gets_one_by_being_written_to() -> None:
    class AddInPlace(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return x.add_(y)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad, grad

    x, y = tensor.ones((2,)), leaf(1.0, 2.0)
    AddInPlace.apply(x, y)
    assert x.requires_grad
    x.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_an_argument_that_is_written_to_may_have_no_gradient_any_more() -> None:
    class Rounded(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            ctx.mark_non_differentiable(x)
            return x.round_()

    y = leaf(1.25) * 1
    assert Rounded.apply(y) is y
    assert not y.requires_grad


def test_a_view_of_another_dtype_that_would_miss_the_write_is_an_error() -> None:
    kept = []

    class Doubled(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            kept.append(x.real)
            return x.mul_(2)

    z = tensor.tensor([1.0 + 2.0j], requires_grad=True) * 1
    before = z.grad_fn
    with pytest.raises(RuntimeError, match="shares memory with a tensor of another dtype"):
        Doubled.apply(z)
    assert z.grad_fn is before


def test_a_tensor_that_is_marked_dirty_must_be_an_argument_and_a_result() -> None:
    class Foreign(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x * 2
            ctx.mark_dirty(y)
            return y

    class Forgotten(Identity):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(ValueError, match="Foreign: mark_dirty takes arguments of forward"):
        Foreign.apply(leaf(1.0))
    y = leaf(1.0) * 1
    before = y.grad_fn
    with pytest.raises(
        RuntimeError, match="Forgotten: forward marked an argument as dirty but did not return"
    ):
        Forgotten.apply(y)
    assert y.grad_fn is before


def test_an_exported_argument_is_written_to_through_numpy() -> None:
    class AddOne(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            array = x.detach().numpy()
            array += 1
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.saved_tensors[0]

    def function(x: Tensor) -> Tensor:
        return AddOne.apply(x * 1)

    x = doubles(3)
    y = function(x)
    (dx,) = autograd.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(dx.detach().numpy(), x.detach().numpy() + 1)
    (second,) = autograd.grad(dx.sum(), x)
    # As the output, what was saved has the derivative that backward says: itself.
    np.testing.assert_allclose(second.numpy(), x.detach().numpy() + 1)
