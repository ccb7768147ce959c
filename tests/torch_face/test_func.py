"""``torch.func`` and ``torch.vmap`` give PyTorch's values, shapes, containers and errors."""

from __future__ import annotations

import functools
import gc
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor.torch
from scopes import new_dispose_scope, statistics

theirs = pytest.importorskip("torch")
ours = tensor.torch

Pair = namedtuple("Pair", "first second")


def drawn(torch: Any, *shape: int, seed: int = 1) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def plain(x: Any) -> Any:
    """Return the same containers with arrays, and whether each tensor requires grad."""
    if hasattr(x, "requires_grad"):
        return x.detach().numpy(), x.requires_grad
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [plain(value) for value in x]
    return x


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found == expected


def network(torch: Any) -> tuple[Any, Any]:
    """A small network, and its parameters as a dict of detached tensors."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).double()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(drawn(torch, *p.shape, seed=i))
    return model, {name: p.detach() for name, p in model.named_parameters()}


def loss_of(torch: Any, model: Any) -> Callable[..., Any]:
    def loss(parameters: Any, x: Any, y: Any) -> Any:
        out = torch.func.functional_call(model, parameters, (x.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(out, y.unsqueeze(0))

    return loss


def per_sample_gradients(torch: Any) -> Any:
    model, parameters = network(torch)
    x, y = drawn(torch, 7, 3), torch.tensor([0, 1, 1, 0, 1, 0, 0])
    return torch.vmap(torch.func.grad(loss_of(torch, model)), in_dims=(None, 0, 0))(parameters, x, y)


def per_sample_gradients_and_losses(torch: Any) -> Any:
    model, parameters = network(torch)
    x, y = drawn(torch, 7, 3), torch.tensor([0, 1, 1, 0, 1, 0, 0])
    each = torch.vmap(torch.func.grad_and_value(loss_of(torch, model)), (None, 0, 0), chunk_size=3)
    return each(parameters, x, y)


def ensemble(torch: Any) -> Any:
    model, parameters = network(torch)
    stacked = {name: torch.stack([p, 2 * p, 3 * p]) for name, p in parameters.items()}
    x = drawn(torch, 4, 3)
    return torch.vmap(lambda p, x: torch.func.functional_call(model, p, (x,)), (0, None))(stacked, x)


def gradient_with_parameters_outside(torch: Any) -> Any:
    w = drawn(torch, 3).requires_grad_()
    slope = torch.func.grad(lambda x: (x * w).sin().sum())(drawn(torch, 3, seed=2))
    (again,) = torch.autograd.grad(slope.sum(), w)
    return slope, again


def gradient_of_an_argument_that_requires_grad(torch: Any) -> Any:
    x = drawn(torch, 3).requires_grad_()
    slope = torch.func.grad(lambda x: (x**3).sum())(x)
    (again,) = torch.autograd.grad(slope.sum(), x)
    return slope, again, x.grad


def gradient_of_a_map(torch: Any) -> Any:
    def f(w: Any, x: Any) -> Any:
        return torch.vmap(lambda row: (row * w).sin().sum())(x).square().sum()

    return torch.func.grad(f, argnums=(0, 1))(drawn(torch, 3), drawn(torch, 4, 3))


def backward_through_a_map(torch: Any) -> Any:
    x = drawn(torch, 4, 3).requires_grad_()
    w = drawn(torch, 3, seed=2).requires_grad_()
    y = torch.vmap(lambda row: (row * w).exp().sum())(x)
    y.sum().backward()
    return y, x.grad, w.grad


def no_confusion_of_levels(torch: Any) -> Any:
    # d/dx (x * d/dy (x + y)) is 1, not 2.
    return torch.func.grad(lambda x: x * torch.func.grad(lambda y: x + y)(x))(torch.tensor(3.0))


def under_no_grad(torch: Any) -> Any:
    w = drawn(torch, 3).requires_grad_()
    with torch.no_grad():
        return torch.func.grad(lambda x: (x * w).sin().sum())(drawn(torch, 3, seed=2))


def no_grad_inside(torch: Any) -> Any:
    def f(x: Any) -> Any:
        with torch.no_grad():
            c = x * x
        return (x - c).sum()

    return torch.func.grad(f)(drawn(torch, 3))


def pulled_twice(torch: Any) -> Any:
    y, pull = torch.func.vjp(
        lambda a, b: {"p": a * b, "q": [a.sum()]}, drawn(torch, 3), drawn(torch, 3, seed=2)
    )
    seeds = {"p": torch.ones(3).double(), "q": [torch.tensor(2.0).double()]}
    return y, pull(seeds), pull(seeds)


def pulled_basis(torch: Any) -> Any:
    _, pull = torch.func.vjp(lambda x: x.sin(), drawn(torch, 3))
    return torch.vmap(pull)(torch.eye(3).double())


def same_numbers_for_each(torch: Any) -> Any:
    x = torch.zeros(5, 3)
    noise = torch.vmap(lambda row: row + torch.rand(3), randomness="same")(x)
    return bool((noise == noise[0]).all()), bool((noise[0] == 0).all())


def different_numbers_for_each(torch: Any) -> Any:
    noise = torch.vmap(lambda row: row + torch.rand(3), randomness="different")(torch.zeros(5, 3))
    return bool((noise[1:] == noise[0]).any())


def random_numbers_advance(torch: Any) -> Any:
    draw = torch.vmap(lambda row: row + torch.rand(3), randomness="same")
    return bool((draw(torch.zeros(5, 3)) == draw(torch.zeros(5, 3))).any())


def dropout_of_each(torch: Any) -> Any:
    f = torch.vmap(lambda row: torch.nn.functional.dropout(row, 0.5), randomness="different")
    return len({tuple(row) for row in f(torch.ones(20, 30)).tolist()}) > 10


PROGRAMS = [value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__]
PROGRAMS = PROGRAMS[PROGRAMS.index(per_sample_gradients) :]

# Calls of `func` with the arguments a (3, 4), b (3, 4), v (4,), s (), n (2, 3, 4), i (3, 4) of int64.
LINES = """
func.grad(lambda x: x.sin().sum())(a)
func.grad(lambda x: x.sin())(s)
func.grad(func.grad(lambda x: x.sin()))(s)
func.grad(func.grad(func.grad(lambda x: x**4)))(s)
func.grad(lambda x, y: (x * y).sum(), argnums=1)(a, b)
func.grad(lambda x, y: (x * y).sum(), argnums=-1)(a, b)
func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(a, b)
func.grad(lambda x, y: (x * y).sum(), argnums=(1,))(a, b)
func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(a, a)
func.grad(lambda x: (x["p"] * x["q"][0]).sum())({"p": a, "q": [b]})
func.grad(lambda x: (x.first * x.second).sum())(Pair(a, b))
func.grad(lambda x, *, k: (x * k).sum())(a, k=b)
func.grad(lambda x: (x.sum(), {"aux": x * 2}), has_aux=True)(a)
func.grad_and_value(lambda x: x.exp().sum())(a)
func.grad_and_value(lambda x: (x.exp().sum(), [x + 1]), has_aux=True)(a)
func.grad(lambda x: torch.tensor(2.0).double())(a)
func.grad(lambda x, y: y.sum())(a, b)
func.grad(lambda x: a.sum() + x.sum())(a)
func.grad(lambda x: x.detach().sum() + x.sum())(a)
func.grad(lambda x: x.max())(a)
func.grad(lambda x: (x @ b.T).logsumexp(1).sum())(a)
func.grad(lambda x: x[0].sum() + x[:, 1].prod())(a)
func.grad(lambda x: F.softmax(x, 1)[0, 0])(a)
func.vjp(lambda x: x.sin(), a)[0]
func.vjp(lambda x: x.sin(), a)[1](b)
func.vjp(lambda x, y: x * y, a, b)[1](b)
func.vjp(lambda x, y: (x * y, x.sum()), a, b)[1]((b, s))
func.vjp(lambda x: (x * 2, {"k": x}), a, has_aux=True)[2]
func.vjp(lambda x: (x * 2, {"k": x}), a, has_aux=True)[1](b)
func.vjp(lambda x: a * 2, b)[1](b)
func.jacrev(lambda x: x.sin())(v)
func.jacrev(lambda x: x @ b.T)(v)
func.jacrev(lambda x: x.sum())(a)
func.jacrev(lambda x: {"p": x.sum(), "q": (x[0], x[1] * 2)})(a)
func.jacrev(lambda x, y: x * y, argnums=(0, 1))(v, v)
func.jacrev(lambda x, y: x * y, argnums=1)(v, v + 1)
func.jacrev(lambda x: x["p"] * x["q"])({"p": v, "q": v + 1})
func.jacrev(lambda x: (x.sin(), x * 2), has_aux=True)(v)
func.jacrev(lambda x: x.sin(), chunk_size=2)(v)
func.jacrev(lambda x: x.sin(), chunk_size=1)(v)
func.jacrev(func.jacrev(lambda x: x.sin().sum()))(v)
func.jacrev(func.grad(lambda x: (x**3).sum()))(v)
func.vmap(torch.dot)(a, b)
func.vmap(lambda x: x.sum())(a)
func.vmap(lambda x: x * 2)(n)
func.vmap(lambda x: x * 2, in_dims=1)(n)
func.vmap(lambda x: x * 2, in_dims=-1)(n)
func.vmap(lambda x: x * 2, out_dims=1)(n)
func.vmap(lambda x: x * 2, out_dims=-1)(n)
func.vmap(lambda x: x * 2, out_dims=-2)(n)
func.vmap(lambda x: x * 2, in_dims=2, out_dims=1)(n)
func.vmap(lambda x: x * 2, in_dims=(0,))(a)
func.vmap(lambda x, y: x * y, in_dims=(0, None))(a, v)
func.vmap(lambda x, y: x * y, in_dims=(None, 0))(a, v)
func.vmap(lambda x, y: x @ y, in_dims=(0, 1))(a, b.T)
func.vmap(lambda x, y: x * y, in_dims=(0, None))(a, 3)
func.vmap(lambda x: x * 2, chunk_size=2)(a)
func.vmap(lambda x: x * 2, chunk_size=100)(a)
func.vmap(lambda x: (x.sum(), x * 2), out_dims=(0, 1))(a)
func.vmap(lambda x: (x.sum(), x * 2), out_dims=0)(a)
func.vmap(lambda x: {"p": x.sum(), "q": [x, (x * 2,)]})(a)
func.vmap(lambda x: {"p": x.sum(), "q": [x, (x * 2,)]}, out_dims={"p": 0, "q": 1})(a)
func.vmap(lambda x: Pair(x, x.sum()))(a)
func.vmap(lambda x: x["p"] * x["q"][0])({"p": a, "q": [b]})
func.vmap(lambda x: x["p"] * x["q"][0], in_dims=({"p": 0, "q": [None]},))({"p": a, "q": [v]})
func.vmap(lambda x, y: x[0] * x[1] + y, in_dims=((0, None), 0))((a, v), b)
func.vmap(lambda x, y: x[0] * x[1] + y, in_dims=(0, None))([a, b], v)
func.vmap(lambda x, scale=4.0: x * scale)(a)
func.vmap(lambda x, scale=4.0: x * scale)(a, scale=2.0)
func.vmap(lambda x, k: x * k)(a, k=v)
func.vmap(lambda x: v)(a)
func.vmap(lambda x: (x, v), out_dims=(0, None))(a)
func.vmap(lambda x: v * 2, out_dims=None)(a)
func.vmap(lambda x: (x, 3), out_dims=(0, None))(a)
func.vmap(lambda x: [x, x])(a)
func.vmap(lambda x: x, out_dims=(0,))(a)
func.vmap(lambda x: x.view(2, 2).T)(a)
func.vmap(lambda x: x > 0)(a)
func.vmap(lambda x: x * 2)(i)
func.vmap(lambda x: x.sort()[0])(a)
func.vmap(lambda x: torch.cumsum(x, 0))(a)
func.vmap(lambda x: torch.where(x > 0, x, -x))(a)
func.vmap(lambda x: F.relu(x) @ a.T)(b)
func.vmap(lambda x, y: x[y], in_dims=(0, 0))(a, i[:, :2])
func.vmap(lambda x: torch.stack([x, x * 2], -1))(a)
func.vmap(lambda x: x * 2)(torch.zeros(0, 3))
func.vmap(lambda x: (x.sum(), x @ b.T), out_dims=(0, 1))(torch.zeros(0, 4).double())
func.vmap(func.vmap(lambda x: x.sum()))(n)
func.vmap(func.vmap(lambda x: x.sum(), in_dims=1), in_dims=2)(n)
func.vmap(func.vmap(lambda x, y: x * y, in_dims=(0, None)), in_dims=(None, 0))(v, v + 1)
func.vmap(func.vmap(func.vmap(lambda x: x * 2)))(n)
func.vmap(func.vmap(lambda x: x * 2, out_dims=1), in_dims=1, out_dims=2)(n)
func.vmap(func.grad(lambda x: x.sin().sum()))(a)
func.vmap(func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1)), in_dims=(0, None))(a, v)
func.vmap(func.grad(func.grad(lambda x: x.sin())))(v)
func.vmap(func.grad_and_value(lambda x: x.sin().sum()))(a)
func.vmap(func.jacrev(lambda x: x.sin()))(a)
func.vmap(func.jacrev(func.jacrev(lambda x: x.sin().sum())))(a)
func.grad(lambda x: func.vmap(lambda row: row.sin().sum())(x).prod())(a)
func.grad(lambda x: func.vmap(lambda c: (x * c).sum())(v).prod())(a)
func.jacrev(func.vmap(lambda row: row.sin().sum()))(a)
func.vmap(functools.partial(lambda x, k: x * k, k=v))(a)
torch.vmap(lambda x: x * 2)(a)
""".strip().split("\n")

# Lines that raise an error in PyTorch.
WRONG = """
func.grad(lambda x: x * 2)(a)
func.grad(lambda x: 3.0)(a)
func.grad(lambda x: x.sum())(a, argnums=3)
func.grad(lambda x: x.sum(), argnums=1)(a)
func.grad(lambda x: x.sum(), argnums="x")(a)
func.grad(lambda x: x.sum(), argnums=())(a)
func.grad(lambda x, y: x.sum(), argnums=(0, 0))(a, b)
func.grad(lambda x: x.sum())(3.0)
func.grad(lambda x: x[0].sum())([a, 3])
func.grad(lambda x: x.sum(), has_aux=True)(a)
func.grad(lambda x: x.double().sum())(i)
func.vjp(lambda x: x > 0, a)
func.vjp(lambda x: 3, a)
func.vjp(lambda x: (), a)
func.vjp(lambda x: x * 2, a)[1]([b])
func.vjp(lambda x: x * 2, a, has_aux=True)
func.jacrev(lambda x: x, chunk_size=0)
func.vmap(lambda x: x, in_dims=[0])(a)
func.vmap(lambda: a)()
func.vmap(lambda x, y: x, in_dims=(0, 0, 0))(a, b)
func.vmap(lambda x, y: x, in_dims=(0, "0"))(a, b)
func.vmap(lambda x: x)(3)
func.vmap(lambda x: x, in_dims=2)(a)
func.vmap(lambda x: x, in_dims=-3)(a)
func.vmap(lambda x: x)(s)
func.vmap(lambda x: x, in_dims=(None,))(a)
func.vmap(lambda x, y: x + y, in_dims=(0, 0))(a, v)
func.vmap(lambda x: 3)(a)
func.vmap(lambda x: (x, None))(a)
func.vmap(lambda x: x, out_dims="0")(a)
func.vmap(lambda x: (x, x), out_dims=(0, 0, 0))(a)
func.vmap(lambda x: x, out_dims=(0, 0))(a)
func.vmap(lambda x: x, out_dims=2)(a)
func.vmap(lambda x: x, out_dims=-3)(a)
func.vmap(lambda x: x, out_dims=None)(a)
func.vmap(lambda x: x, randomness="any")
func.vmap(lambda x: x, chunk_size=0)
func.vmap(lambda x: x, chunk_size=-1)
func.vmap(lambda x: x + torch.rand(4))(a)
func.vmap(lambda x: F.dropout(x, 0.5))(a)
func.vmap(func.vmap(lambda x: x))(v)
""".strip().split("\n")


def run(torch: Any, line: str) -> Any:
    names = {
        "torch": torch,
        "func": torch.func,
        "F": torch.nn.functional,
        "functools": functools,
        "Pair": Pair,
        "a": drawn(torch, 3, 4),
        "b": drawn(torch, 3, 4, seed=2),
        "v": drawn(torch, 4, seed=3),
        "s": torch.tensor(0.7).double(),
        "n": drawn(torch, 2, 3, 4, seed=4),
        "i": torch.arange(12).reshape(3, 4) % 4,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(line, names)


@pytest.mark.parametrize("line", LINES)
def test_line_has_pytorchs_result(line: str) -> None:
    assert_same(plain(run(ours, line)), plain(run(theirs, line)))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program_has_pytorchs_result(program: Callable[[Any], Any]) -> None:
    assert_same(plain(program(ours)), plain(program(theirs)))


@pytest.mark.parametrize("line", WRONG)
def test_wrong_line_raises_pytorchs_error(line: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 -- whatever PyTorch raises
        run(theirs, line)
    with pytest.raises(expected.type):
        run(ours, line)


@pytest.mark.parametrize("line", LINES)
def test_nothing_stays_alive(line: str) -> None:
    run(ours, line)
    gc.collect()
    before = statistics.live_count
    with new_dispose_scope():
        run(ours, line)
    assert statistics.live_count == before
    run(ours, line)
    assert statistics.live_count == before


def failing(torch: Any) -> dict[str, Callable[[Any], Any]]:
    def fails(x: Any) -> Any:
        raise KeyError((x * 2).shape)

    return {
        "grad": torch.func.grad(fails),
        "grad_and_value": torch.func.grad_and_value(lambda x: x * 2),
        "jacrev": torch.func.jacrev(lambda x: x > 0),
        "vjp": lambda x: torch.func.vjp(fails, x),
        "pull": lambda x: torch.func.vjp(lambda x: x * 2, x)[1]([x]),
        "vmap": torch.vmap(fails),
        "vmap of results": torch.vmap(lambda x: x[x > 0.5]),
        "vmap of random numbers": torch.vmap(lambda x: x + torch.rand(3)),
        "vmap of grad": torch.vmap(torch.func.grad(fails)),
    }


@pytest.mark.parametrize("name", failing(ours))
def test_a_stored_error_keeps_nothing_alive(name: str) -> None:
    x = ours.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 5.0]])
    before = statistics.live_count
    call = failing(ours)[name]
    with pytest.raises((KeyError, ValueError, RuntimeError)) as stored:
        call(x)
    # The user's frame in `fails` keeps its argument, as always in Python.
    is_users = isinstance(stored.value, KeyError)
    assert statistics.live_count == before + is_users


def test_a_map_may_read_values_which_pytorch_refuses() -> None:
    def largest(x: Any) -> Any:
        return x * 2 if x.sum().item() > 0 else -x

    found = ours.vmap(largest)(ours.tensor([[1.0], [-1.0]]))
    assert found.tolist() == [[2.0], [1.0]]


def test_results_of_different_shapes_raise_an_error_that_names_the_sample() -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\) for sample 1, and of shape \(1,\)"):
        ours.vmap(lambda x: x[x > 0])(ours.tensor([[1.0, -1.0], [1.0, 1.0]]))


def test_inference_mode_has_no_gradients() -> None:
    with ours.inference_mode(), pytest.raises(RuntimeError, match="no_grad"):
        ours.func.grad(lambda x: x.sum())(ours.ones(2))


def test_a_pulled_graph_is_freed_with_the_function() -> None:
    before = ours.autograd.graph_statistics().node_count
    _, pull = ours.func.vjp(lambda x: x.sin().exp(), ours.ones(3))
    assert ours.autograd.graph_statistics().node_count > before
    del pull
    assert ours.autograd.graph_statistics().node_count == before
