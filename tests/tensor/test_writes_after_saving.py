"""Writes in place after a value was saved for backward: the gradient is what the mathematics asks for.

Each program of `PROGRAMS` runs on our tensors and on PyTorch's, which refuses some and gives wrong gradients
for others. Finite differences of the same formula without a write give the right gradients.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import nn
import tensor

START = np.array([0.5, 1.0, 1.5, 2.0])
# What PyTorch does.
RIGHT, REFUSED, WRONG = "right", "refused", "wrong"


class Program(NamedTuple):
    name: str
    # Of the library and a tensor of four positive numbers: one number, computed with writes in place.
    run: Callable[[Any, Any], Any]
    # The same number, computed from an array without any write.
    formula: Callable[[np.ndarray], Any]
    torch: str


def after(op: Callable[[Any], Any], write: Callable[[Any], object]) -> Callable[[Any, Any], Any]:
    """Return a program that saves the output of `op` and writes to it while recording."""

    def run(lib: Any, x: Any) -> Any:
        y = op(x)
        write(y)
        return y.sum()

    return run


def used(write: Callable[[Any, Any], object]) -> Callable[[Any, Any], Any]:
    """Return a program that squares a value by a product, and then lets `write` change it."""

    def run(lib: Any, x: Any) -> Any:
        a = x * 1
        y = a * a
        write(lib, a)
        return y.sum()

    return run


def silently(write: Callable[[Any, Any], object]) -> Callable[[Any, Any], object]:
    def run(lib: Any, a: Any) -> None:
        with lib.no_grad():
            write(lib, a)

    return run


def assign(a: Any, key: Any, value: Any) -> None:
    a[key] = value


def counted_after_the_write(lib: Any, x: Any) -> Any:
    a = x * 1
    y = a * a
    a.mul_(3)
    return y.sum() + a.sum()


def exported_before(lib: Any, x: Any) -> Any:
    c = lib.ones(4, dtype=x.dtype) * 3
    array = c.numpy()
    y = x * c
    array[:] = 0
    return y.sum()


def exported_after(lib: Any, x: Any) -> Any:
    c = lib.ones(4, dtype=x.dtype) * 3
    y = x * c
    c.numpy()[:] = 0
    return y.sum()


def borrowed(lib: Any, x: Any) -> Any:
    array = np.full(4, 3.0)
    y = x * lib.from_numpy(array)
    array[:] = 0
    return y.sum()


def clone_written(lib: Any, x: Any) -> Any:
    a = x * 1
    y = a * a
    a.clone().zero_()
    return y.sum()


def saved_clone_written(lib: Any, x: Any) -> Any:
    c = (x * 1).clone()
    y = c * c
    c.zero_()
    return y.sum()


def row_by_row(lib: Any, x: Any) -> Any:
    """Fill a table, each row from the one before, as recurrent networks do."""
    table = lib.ones((4, 4), dtype=x.dtype)
    for i in range(1, 4):
        table[i] = table[i - 1] * x
    return table.sum()


def running_product(lib: Any, x: Any) -> Any:
    state = lib.ones(4, dtype=x.dtype)
    for _ in range(3):
        state *= x
    return state.sum()


def weight_between_two_forwards(lib: Any, x: Any) -> Any:
    w = lib.ones(4, dtype=x.dtype) * 2
    first = x * w
    w.mul_(5)
    return (first + x * w).sum()


def mask_written(lib: Any, x: Any) -> Any:
    mask = x.detach() > 1.2
    y = lib.where(mask, x * x, x)
    mask.fill_(False)
    return y.sum()


def index_written(lib: Any, x: Any) -> Any:
    index = lib.asarray([0, 1, 1])
    y = x[index] * lib.asarray([1.0, 2.0, 3.0], dtype=x.dtype)
    index.fill_(3)
    return y.sum()


def bound_written(lib: Any, x: Any) -> Any:
    low = lib.ones(4, dtype=x.dtype) * 1.2
    y = x.clamp(low) * x
    low.fill_(9)
    return y.sum()


def running_statistics_written(lib: Any, x: Any) -> Any:
    layers = layers_of(lib)
    norm = layers.BatchNorm1d(1, affine=False, dtype=x.dtype).eval()
    norm.running_var.fill_(4.0)
    y = norm(x.reshape(4, 1))
    norm.train()(lib.ones((4, 1), dtype=x.dtype) * 7)
    return y.sum()


def written_by_a_hook(lib: Any, x: Any) -> Any:
    layer = layers_of(lib).Sigmoid()
    layer.register_forward_hook(lambda module, inputs, output: output.mul_(3))
    return layer(x).sum()


def target_written(lib: Any, x: Any) -> Any:
    target = lib.zeros(4, dtype=x.dtype)
    loss = layers_of(lib).functional.mse_loss(x, target, reduction="sum")
    target.fill_(5)
    return loss


def classes_written(lib: Any, x: Any) -> Any:
    target = lib.asarray([1])
    loss = layers_of(lib).functional.cross_entropy(x.reshape(1, 4), target)
    target.fill_(3)
    return loss


def relu_over_a_linear(lib: Any, x: Any) -> Any:
    weight = lib.asarray([[1.0, -1.0, 2.0, -2.0], [2.0, 1.0, 1.0, 1.0]], dtype=x.dtype)
    F = layers_of(lib).functional
    return (F.relu(F.linear(x, weight), inplace=True) * 2).sum()


def relu_over_a_sigmoid(lib: Any, x: Any) -> Any:
    F = layers_of(lib).functional
    return F.relu(lib.sigmoid(x) - 0.0, inplace=True).sum() + F.relu(lib.sigmoid(x), inplace=True).sum()


def divisor_written(lib: Any, x: Any) -> Any:
    a = x * 1
    y = 1 / a
    a.mul_(3)
    return y.sum()


def written_while_backward_runs(lib: Any, x: Any) -> Any:
    a = x * 1
    y = a * a

    def write(g: Any) -> None:
        a.detach().zero_()

    y.register_hook(write)
    return y.sum()


def layers_of(lib: Any) -> Any:
    return nn if lib is tensor else lib.nn


def sigmoid(v: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-v))


def of_squares(v: np.ndarray) -> Any:
    return (v * v).sum()


PROGRAMS = [
    Program("exp, then add_", after(lambda x: x.exp(), lambda y: y.add_(1)), lambda v: np.exp(v), REFUSED),
    Program(
        "sigmoid, mul_", after(lambda x: x.sigmoid(), lambda y: y.mul_(2)), lambda v: 2 * sigmoid(v), REFUSED
    ),
    Program("tanh, then sub_", after(lambda x: x.tanh(), lambda y: y.sub_(5)), lambda v: np.tanh(v), REFUSED),
    Program("sqrt, then neg_", after(lambda x: x.sqrt(), lambda y: y.neg_()), lambda v: -np.sqrt(v), REFUSED),
    Program(
        "reciprocal, then exp_",
        after(lambda x: x.reciprocal(), lambda y: y.exp_()),
        lambda v: np.exp(1 / v),
        REFUSED,
    ),
    Program(
        "softmax, then an item",
        after(lambda x: x.softmax(0), lambda y: assign(y, 0, 0.0)),
        lambda v: (np.exp(v) / np.exp(v).sum())[1:],
        REFUSED,
    ),
    Program("relu over a linear", relu_over_a_linear, lambda v: 2 * (v @ [2.0, 1.0, 1.0, 1.0]), RIGHT),
    Program("relu over a sigmoid", relu_over_a_sigmoid, lambda v: 2 * sigmoid(v), REFUSED),
    Program("a factor, mul_", used(lambda lib, a: a.mul_(3)), of_squares, REFUSED),
    Program("a factor that counts again", counted_after_the_write, lambda v: v * v + 3 * v, REFUSED),
    Program("a divisor", divisor_written, lambda v: 1 / v, RIGHT),
    Program("zero_", used(lambda lib, a: a.zero_()), of_squares, REFUSED),
    Program("fill_", used(lambda lib, a: a.fill_(7)), of_squares, REFUSED),
    Program("copy_", used(lambda lib, a: a.copy_(lib.ones(4))), of_squares, REFUSED),
    Program("a view", used(lambda lib, a: a[1:3].zero_()), of_squares, REFUSED),
    Program("a view of another shape", used(lambda lib, a: a.view(2, 2).t()[0].add_(9)), of_squares, REFUSED),
    Program("an item", used(lambda lib, a: assign(a, 0, 0.0)), of_squares, REFUSED),
    Program("a slice", used(lambda lib, a: assign(a, slice(1, 3), 0.0)), of_squares, REFUSED),
    Program("a mask", used(lambda lib, a: assign(a, a.detach() > 1, 0.0)), of_squares, REFUSED),
    Program("augmented", used(lambda lib, a: a.__iadd__(1)), of_squares, REFUSED),
    Program("under no_grad", used(silently(lambda lib, a: a.zero_())), of_squares, REFUSED),
    Program("a view under no_grad", used(silently(lambda lib, a: a[2:].zero_())), of_squares, REFUSED),
    Program("through detach", used(lambda lib, a: a.detach().zero_()), of_squares, REFUSED),
    Program("out=", used(lambda lib, a: lib.exp(lib.zeros(4), out=a.detach())), of_squares, REFUSED),
    Program("through numpy()", used(lambda lib, a: a.detach().numpy().fill(0)), of_squares, WRONG),
    Program("numpy() of before", exported_before, lambda v: 3 * v, WRONG),
    Program("numpy() of after", exported_after, lambda v: 3 * v, WRONG),
    Program("a borrowed array", borrowed, lambda v: 3 * v, WRONG),
    Program("a clone", clone_written, of_squares, RIGHT),
    Program("a clone that was saved", saved_clone_written, of_squares, REFUSED),
    Program("rows of a table", row_by_row, lambda v: v + v**2 + v**3, REFUSED),
    Program("a running product", running_product, lambda v: v**3, RIGHT),
    Program("a weight between two forwards", weight_between_two_forwards, lambda v: 12 * v, REFUSED),
    Program("a mask of where()", mask_written, lambda v: np.where(v > 1.2, v * v, v), REFUSED),
    Program("an index", index_written, lambda v: v[0] + 5 * v[1], REFUSED),
    Program("a bound of clamp()", bound_written, lambda v: np.maximum(v, 1.2) * v, REFUSED),
    Program("running statistics", running_statistics_written, lambda v: v / np.sqrt(4 + 1e-5), WRONG),
    Program("a module's hook", written_by_a_hook, lambda v: 3 * sigmoid(v), REFUSED),
    Program("a gradient's hook", written_while_backward_runs, of_squares, REFUSED),
    Program("the target of a loss", target_written, of_squares, REFUSED),
    Program("classes", classes_written, lambda v: np.log(np.exp(v).sum()) - v[1], REFUSED),
]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])


def slope(formula: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Return the derivative of the sum of `formula` by each element, by central differences."""
    found = []
    for i in range(len(START)):
        step = np.zeros_like(START)
        step[i] = 1e-6
        found.append((np.sum(formula(START + step)) - np.sum(formula(START - step))) / 2e-6)
    return np.array(found)


@each_program
def test_the_gradient_is_that_of_the_formula_without_writes(program):
    x = tensor.tensor(START, requires_grad=True)
    out = program.run(tensor, x)
    out.backward()
    np.testing.assert_allclose(x.grad.numpy(), slope(program.formula), rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(x.detach().numpy(), START)


def step_between(lib: Any) -> list[np.ndarray]:
    """Update a network between forward and backward; return the gradients of that backward."""
    layers = layers_of(lib)
    model = layers.Sequential(layers.Linear(3, 3), layers.Tanh(), layers.Linear(3, 1))
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for p in model.parameters():
            p.copy_(lib.asarray(rng.uniform(-1, 1, tuple(p.shape)).astype("float32")))
    optimizer = (nn if lib is tensor else lib).optim.SGD(model.parameters(), lr=0.5)
    loss = model(lib.ones((2, 3))).square().mean()
    loss.backward(retain_graph=True)
    first = [np.array(p.grad.tolist()) for p in model.parameters()]
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    second = [np.array(p.grad.tolist()) for p in model.parameters()]
    return [a - b for a, b in zip(first, second, strict=True)]


def test_an_optimizer_may_step_between_forward_and_backward():
    for change in step_between(tensor):
        np.testing.assert_array_equal(change, 0)


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch")
    gc.collect()
    gc.freeze()  # else each collection walks all of PyTorch
    return module


@each_program
def test_pytorch_refuses_detected_writes_and_has_wrong_gradients_after_others(program, torch):
    x = torch.tensor(START, requires_grad=True)
    if program.torch is REFUSED:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            program.run(torch, x).backward()
        return
    program.run(torch, x).backward()
    is_right = np.allclose(x.grad.numpy(), slope(program.formula), rtol=1e-7, atol=1e-8)
    assert is_right == (program.torch is RIGHT)


def test_in_pytorch_no_optimizer_may_step_between_forward_and_backward(torch):
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        step_between(torch)
