"""``torch.autograd.functional`` beside PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import tensor.torch

# Not typed: each function runs with either library.
ours: Any = tensor.torch
theirs: Any = pytest.importorskip("torch")


def flat(x: Any) -> Any:
    """Return tensors, and tuples of them, as shapes and lists."""
    return [flat(each) for each in x] if isinstance(x, tuple) else (tuple(x.shape), x.tolist())


FUNCTIONS: dict[str, Any] = {
    "square": lambda _: lambda x: x * x,
    "sum": lambda t: lambda x: (x**3).sum(),
    "two outputs": lambda t: lambda x: (x.exp(), (x * x).sum()),
    "two inputs": lambda t: lambda x, y: (x * y).sum(),
    "one input of two": lambda t: lambda x, y: x.prod() * 2,
    "two of each": lambda t: lambda x, y: (x * y, y.sin()),
    "constant": lambda t: lambda x: t.ones(2),
}
ONE, TWO = [1.0, 2.0, 3.0], ([1.0, 2.0, 3.0], [2.0, 0.5, -1.0])


def inputs_of(library: Any, name: str) -> Any:
    if "inputs" in name or "input of two" in name or "of each" in name:
        return tuple(library.tensor(each, dtype=library.float64) for each in TWO)
    return library.tensor(ONE, dtype=library.float64)


def both(call: Any, name: str) -> None:
    """Compare what `call` returns with either library."""
    found, expected = (call(each, FUNCTIONS[name](each), inputs_of(each, name)) for each in (ours, theirs))
    assert_close(flat(found), flat(expected))


def assert_close(x: Any, y: Any) -> None:
    if isinstance(x, list) and x and isinstance(x[0], (list, tuple)):
        assert len(x) == len(y)
        for a, b in zip(x, y, strict=True):
            assert_close(a, b)
    elif isinstance(x, tuple):
        assert x[0] == y[0]
        theirs.testing.assert_close(theirs.tensor(x[1]), theirs.tensor(y[1]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian(name: str) -> None:
    both(lambda t, f, x: t.autograd.functional.jacobian(f, x), name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp(name: str) -> None:
    def call(t: Any, f: Any, x: Any) -> Any:
        outputs = f(*x) if isinstance(x, tuple) else f(x)
        v = (
            tuple(t.full_like(y, 2.0) for y in outputs)
            if isinstance(outputs, tuple)
            else t.full_like(outputs, 2.0)
        )
        return t.autograd.functional.vjp(f, x, v)

    both(call, name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp(name: str) -> None:
    def call(t: Any, f: Any, x: Any) -> Any:
        return t.autograd.functional.jvp(f, x, tuple(2 * y for y in x) if isinstance(x, tuple) else x)

    both(call, name)


@pytest.mark.parametrize("name", ["sum", "two inputs", "one input of two"])
@pytest.mark.parametrize("product", ["vhp", "hvp"])
def test_products_with_the_hessian(product: str, name: str) -> None:
    def call(t: Any, f: Any, x: Any) -> Any:
        v = tuple(2 * y for y in x) if isinstance(x, tuple) else x
        return getattr(t.autograd.functional, product)(f, x, v)

    both(lambda t, f, x: t.autograd.functional.hessian(f, x), name)
    both(call, name)


def test_results_have_a_history_with_create_graph_alone() -> None:
    x = ours.ones(2, requires_grad=True)
    functional = ours.autograd.functional
    assert not functional.jacobian(lambda y: y**3, x).requires_grad
    functional.jacobian(lambda y: y**3, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    out, product = functional.vjp(lambda y: y**2, x, ours.ones(2))
    assert not out.requires_grad
    assert not product.requires_grad


def test_mistakes_are_errors() -> None:
    functional, x = ours.autograd.functional, ours.ones(2)
    with pytest.raises(RuntimeError, match="does not depend on the inputs: pass strict=False"):
        functional.jacobian(lambda y: ours.ones(2), x, strict=True)
    with pytest.raises(RuntimeError, match="the derivatives do not depend on the inputs: pass strict=False"):
        functional.jacobian(lambda y: y * 2, x, create_graph=True, strict=True)
    with pytest.raises(RuntimeError, match="one tensor with one element: sum its output"):
        functional.hessian(lambda y: y * y, x)
    with pytest.raises(TypeError, match="func must return one tensor, not a tuple"):
        functional.hvp(lambda y: (y.sum(), y.sum()), x, x)
    with pytest.raises(RuntimeError, match=r"v must have the shapes \[\(2,\)\], not \[\(3,\)\]"):
        functional.jvp(lambda y: y * y, x, ours.ones(3))
    with pytest.raises(TypeError, match="v must be a tensor, or a tuple of them, not int"):
        functional.vjp(lambda y: y * y, x, 2)
    with pytest.raises(RuntimeError, match="v can be omitted for one tensor with one element only"):
        functional.vjp(lambda y: y * y, x)
    with pytest.raises(TypeError, match="func must return a tensor, or a tuple of them, not float"):
        functional.jacobian(lambda y: 1.0, x)
    with pytest.raises(TypeError, match="inputs must be a tensor, or a tuple of them, not list"):
        functional.jacobian(lambda y: y, [x])
