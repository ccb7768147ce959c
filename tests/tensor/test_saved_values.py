"""What each op saves for backward: the memory of its inputs and of its output, shared, and little else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from scopes import new_dispose_scope
from tensor import Tensor, memory

SHAPE = (16, 64)


def operands() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    return tuple(tensor.tensor(rng.uniform(0.1, 0.9, SHAPE).astype(np.float32)) for _ in range(2))


def saved(made: Tensor, /, **known: Tensor) -> tuple[str, float]:
    """Return what the node of `made` saves: which tensors, and how many bytes more an element of SHAPE."""
    names, own = [], 0
    for array in made.grad_fn.saved:
        if isinstance(array, np.ndarray):
            shared = [name for name, x in known.items() if np.shares_memory(array, x._array)]
            names += shared
            own += 0 if shared else array.nbytes
    return " ".join(sorted(names)), own / np.prod(SHAPE)


# Of one input x: the function, what it saves.
ONE: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "abs": (tensor.abs, "x"),
    "acos": (tensor.acos, "x"),
    "asin": (tensor.asin, "x"),
    "atan": (tensor.atan, "x"),
    "atanh": (tensor.atanh, "x"),
    "ceil": (tensor.ceil, ""),
    "clip": (lambda x: x.clamp(0.2, 0.8), "x"),
    "cos": (tensor.cos, "x"),
    "cosh": (tensor.cosh, "x"),
    "elu": (tensor.elu, "out"),
    "elu of a negative alpha": (lambda x: tensor.elu(x, -1.0), "x"),
    "erf": (tensor.erf, "x"),
    "exp": (tensor.exp, "out"),
    "exp2": (tensor.exp2, "out"),
    "expm1": (tensor.expm1, "out"),
    "floor": (tensor.floor, ""),
    "gelu": (tensor.gelu, "x"),
    "gelu by tanh": (lambda x: tensor.gelu(x, "tanh"), "x"),
    "leaky_relu": (tensor.leaky_relu, "out"),
    "leaky_relu of a negative slope": (lambda x: tensor.leaky_relu(x, -1.0), "x"),
    "log": (tensor.log, "x"),
    "log1p": (tensor.log1p, "x"),
    "logsigmoid": (tensor.logsigmoid, "out"),
    "negative": (tensor.negative, ""),
    "plus a number": (lambda x: x + 2, ""),
    "reciprocal": (tensor.reciprocal, "out"),
    "relu": (tensor.relu, "out"),
    "rsqrt": (tensor.rsqrt, "out"),
    "sigmoid": (tensor.sigmoid, "out"),
    "sign": (tensor.sign, "x"),
    "silu": (tensor.silu, "x"),
    "sin": (tensor.sin, "x"),
    "softplus": (tensor.softplus, "out"),
    "softplus with a bend": (lambda x: tensor.softplus(x, threshold=0.5), "out x"),
    "sqrt": (tensor.sqrt, "out"),
    "square": (tensor.square, "x"),
    "tan": (tensor.tan, "out"),
    "tanh": (tensor.tanh, "out"),
    "times a number": (lambda x: x * 2, ""),
    "to the power of a number": (lambda x: x**3, "x"),
    "with a larger number": (lambda x: tensor.maximum(x, 0.5), "x"),
}

# Of two inputs x and y: the function; what it saves when both require gradients, x alone, y alone.
TWO: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str, str, str]] = {
    "add": (tensor.add, "", "", ""),
    "atan2": (tensor.atan2, "x y", "x y", "x y"),
    "copysign": (tensor.copysign, "out x", "out x", ""),
    "divide": (tensor.divide, "out y", "y", "out y"),
    "hypot": (tensor.hypot, "out x y", "out x", "out y"),
    "lerp": (lambda x, y: tensor.lerp(x, y, 0.3), "", "", ""),
    "logaddexp": (tensor.logaddexp, "x y", "x y", "x y"),
    "maximum": (tensor.maximum, "x y", "x y", "x y"),
    "multiply": (tensor.multiply, "x y", "y", "x"),
    "pow": (tensor.pow, "out x y", "x y", "out x"),
    "remainder": (tensor.remainder, "x y", "", "x y"),
    "subtract": (tensor.subtract, "", "", ""),
    "binary_cross_entropy": (F.binary_cross_entropy, "x y", "x y", "x"),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, "x y", "x y", "x"),
    "huber_loss": (F.huber_loss, "x y", "x y", "x y"),
    "l1_loss": (F.l1_loss, "x y", "x y", "x y"),
    "mse_loss": (F.mse_loss, "x y", "x y", "x y"),
    "smooth_l1_loss": (F.smooth_l1_loss, "x y", "x y", "x y"),
}


@pytest.mark.parametrize(("function", "expected"), ONE.values(), ids=ONE)
def test_an_op_of_one_input_saves_what_the_table_says_and_copies_nothing(function, expected):
    x = operands()[0].requires_grad_()
    out = function(x)
    assert saved(out, x=x, out=out) == (expected, 0)


@pytest.mark.parametrize(("function", "both", "first", "second"), TWO.values(), ids=TWO)
def test_an_op_of_two_inputs_saves_for_those_alone_that_require_gradients(function, both, first, second):
    for wanted, expected in (((0, 1), both), ((0,), first), ((1,), second)):
        pair = operands()
        for i in wanted:
            pair[i].requires_grad_()
        out = function(*pair)
        assert saved(out, x=pair[0], y=pair[1], out=out) == (expected, 0)


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
def test_dropout_saves_one_bit_an_element(p):
    x = operands()[0].requires_grad_()
    out = F.dropout(x, p)
    assert saved(out, x=x, out=out) == ("", 1 / 8)
    y = F.dropout(x * 1, p, inplace=True)
    assert saved(y, x=x, out=y) == ("", 1 / 8)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 3), (0, 4), (5, 32769)])
def test_the_bits_of_a_dropout_are_its_mask_whatever_the_shape(shape):
    x = tensor.ones(shape, requires_grad=True)
    out = F.dropout(x, 0.5)
    out.backward(tensor.ones(shape))
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (partial(F.relu, inplace=True), ("out", 0)),
        (partial(F.leaky_relu, inplace=True), ("out", 0)),
        (partial(F.elu, inplace=True), ("out", 0)),
        (partial(F.leaky_relu, negative_slope=-1.0, inplace=True), ("", 4)),
        (partial(F.elu, alpha=-1.0, inplace=True), ("", 4)),
        (partial(F.silu, inplace=True), ("", 4)),
    ],
    ids=["relu", "leaky_relu", "elu", "a negative slope", "a negative alpha", "silu"],
)
def test_in_place_op_saves_old_values_only_if_the_new_ones_do_not_suffice(function, expected):
    y = function(operands()[0].requires_grad_() * 1)
    assert saved(y, out=y) == expected


def test_weights_of_a_loss_are_shared_and_saved_only_for_inputs_that_need_them():
    (x, y), weight = operands(), tensor.full((64,), 2.0)
    loss = F.binary_cross_entropy_with_logits(x.requires_grad_(), y, weight, pos_weight=weight)
    assert saved(loss, x=x, y=y, weight=weight) == ("weight weight x y", 0)


@pytest.mark.parametrize("function", [*[f for f, _ in ONE.values()], F.dropout], ids=[*ONE, "dropout"])
def test_no_node_is_saved_without_a_gradient_to_compute(function):
    x = operands()[0]
    assert function(x).grad_fn is None
    with tensor.no_grad():
        assert function(x.requires_grad_()).grad_fn is None


@pytest.mark.parametrize("activation", [nn.GELU, nn.SiLU, nn.ReLU, nn.ELU, nn.Softplus])
def test_between_linear_layers_an_activation_keeps_no_more_than_its_input_and_output(activation):
    model = nn.Sequential(nn.Linear(64, 256), activation(), nn.Linear(256, 256))
    x = tensor.ones((256, 64))
    array = 256 * 256 * 4
    with new_dispose_scope():
        model(x)  # what is made once
    before = memory.statistics().bytes_live
    out = model(x)
    kept = memory.statistics().bytes_live - before
    arrays = 3 if activation in (nn.GELU, nn.SiLU) else 2  # with the output itself
    assert kept == arrays * array
    assert out.requires_grad
