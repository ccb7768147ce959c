"""Random programs with hooks on nodes and on saved tensors: gradients and calls are those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import tensor.torch as ours

theirs = pytest.importorskip("torch")

UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: (x * 0.1).exp(),
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "view": lambda x: x.reshape(3, 2).reshape(2, 3),
    "times": lambda x: x * 0.5,
    "norm": lambda x: x - x.mean(),
    "relu": lambda x: x.relu(),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b * b + 1),
    "row": lambda a, b: a * b[0],
    "matmul": lambda a, b: (a @ b.T) @ b,
}


def rounded(grads: Any) -> list[Any]:
    if not isinstance(grads, tuple):
        grads = (grads,)
    return [None if g is None else [float(f"{v:.4g}") + 0.0 for v in g.reshape(-1).tolist()] for g in grads]


def changed(random: Random, grads: tuple[Any, ...], factor: float) -> Any:
    """Return what a hook returns: None, or its gradients, some of them scaled or dropped."""
    kind = random.randrange(4)
    if kind == 0:
        return None
    dropped = random.randrange(len(grads)) if kind == 1 and len(grads) > 1 else None
    return tuple(None if g is None or i == dropped else g * factor for i, g in enumerate(grads))


def node_hook(seed: int, number: int, kind: str, calls: dict[Any, Any]) -> Callable[..., Any]:
    random = Random(f"{seed} {number} {kind}")
    factor = random.choice([0.5, 2.0, -1.0])

    def hook(*grads: Any) -> Any:
        if kind == "tensor" and grads[0] is None:
            return None  # PyTorch calls hooks of a tensor without gradient, and we do not
        calls.setdefault((number, kind), []).append([rounded(each) for each in grads])
        if kind == "tensor":
            return None if factor == 2.0 else grads[0] * factor
        return changed(random, grads[0], factor)

    return hook


def leaves_of(library: Any, random: Random) -> list[Any]:
    numbers = [[[random.uniform(-1, 1) for _ in range(3)] for _ in range(2)] for _ in range(3)]
    return [library.tensor(rows, dtype=library.float64, requires_grad=True) for rows in numbers]


def gradients_with_node_hooks(library: Any, seed: int) -> tuple[Any, Any]:
    """Run a random program with hooks. Return its gradients, and what each hook got."""
    random = Random(seed)
    calls: dict[Any, Any] = {}
    leaves = [
        library.tensor([[random.uniform(-1, 1) for _ in range(3)] for _ in range(2)])
        .double()
        .requires_grad_()
        for _ in range(3)
    ]
    values = list(leaves)
    handles = []
    for number in range(random.randint(3, 9)):
        if random.random() < 0.4:
            y = UNARY[random.choice(list(UNARY))](random.choice(values))
        else:
            y = BINARY[random.choice(list(BINARY))](random.choice(values), random.choice(values))
        values.append(y)
        for kind in ("hook", "prehook", "tensor"):
            if random.random() < 0.3:
                hook = node_hook(seed, number, kind, calls)
                register = {
                    "hook": y.grad_fn.register_hook,
                    "prehook": y.grad_fn.register_prehook,
                    "tensor": y.register_hook,
                }[kind]
                handles.append(register(hook))
    for handle in handles:
        if random.random() < 0.1:
            handle.remove()
    loss = values[-1].sum() + values[-2].sum()
    how = random.randrange(3)
    if how == 0:
        loss.backward()
        found = [x.grad for x in leaves]
    elif how == 1:
        loss.backward(retain_graph=True)
        loss.backward()
        found = [x.grad for x in leaves]
    else:
        found = list(library.autograd.grad(loss, leaves, create_graph=True, allow_unused=True))
    return [None if g is None else rounded(g) for g in found], calls


def gradients_with_saved_tensors_hooks(library: Any, seed: int) -> Any:
    """Run a random program in blocks with hooks. Return its gradients, and those of its gradients."""
    random = Random(seed)
    leaves = leaves_of(library, random)
    values = list(leaves)
    stored: dict[int, Any] = {}
    count = {"pack": 0, "unpack": 0}

    def store(x: Any) -> int:
        count["pack"] += 1
        stored[count["pack"]] = x.numpy().copy() if not x.requires_grad else x.detach().numpy().copy()
        return count["pack"]

    def read(key: int) -> Any:
        count["unpack"] += 1
        return library.from_numpy(stored[key].copy())

    pairs: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
        (lambda x: x, lambda x: x),
        (lambda x: (x.detach(), "a label"), lambda pair: pair[0]),
        (lambda x: (x.float(), x.dtype), lambda pair: pair[0].to(pair[1])),
        (store, read),
        (lambda x: {"items": [x.clone()]}, lambda kept: kept["items"][0] * 1),
    ]

    def run(number: int) -> Any:
        kind = random.randrange(5)
        a, b = random.choice(values), random.choice(values)
        if kind == 0:
            return UNARY[random.choice(list(UNARY))](a)
        if kind == 1:
            return a[library.tensor([1, 0])] * 1.5
        if kind == 2:
            y = b * 1.0
            y.mul_(a)
            y[0] = a[1]
            return y
        if kind == 3:
            outer = random.choice(list(BINARY))
            return library.utils.checkpoint.checkpoint(
                lambda p, q: BINARY[outer](p.tanh(), q).sin(), a, b, use_reentrant=False
            )
        return BINARY[random.choice(list(BINARY))](a, b)

    for number in range(random.randint(3, 8)):
        depth = random.randrange(3)
        blocks = [library.autograd.graph.saved_tensors_hooks(*random.choice(pairs)) for _ in range(depth)]
        if random.random() < 0.1:
            blocks.append(library.autograd.graph.save_on_cpu())
        for block in blocks:
            block.__enter__()
        try:
            values.append(run(number))
        finally:
            for block in reversed(blocks):
                block.__exit__(None, None, None)
    loss = values[-1].sum() + (values[-2] * values[-2]).sum()
    first = library.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    again = library.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    slopes = [(g * g).sum() for g in again if g is not None and g.requires_grad]
    second = library.autograd.grad(sum(slopes), leaves, materialize_grads=True) if slopes else ()
    return [None if g is None else rounded(g) for g in (*first, *again, *second)]


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, rel=2e-3, abs=1e-9)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return bool(a == b)


@pytest.mark.parametrize("part", range(5))
def test_random_programs_with_node_hooks_have_pytorchs_gradients_and_calls(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        expected, their_calls = gradients_with_node_hooks(theirs, seed)
        found, calls = gradients_with_node_hooks(ours, seed)
        assert close(found, expected), seed
        assert calls.keys() == their_calls.keys(), seed
        for key, value in calls.items():
            assert close(value, their_calls[key]), (seed, key)


@pytest.mark.parametrize("part", range(5))
def test_random_programs_with_saved_tensors_hooks_have_pytorchs_gradients(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        expected = gradients_with_saved_tensors_hooks(theirs, seed)
        assert close(gradients_with_saved_tensors_hooks(ours, seed), expected), seed
