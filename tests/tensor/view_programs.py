"""Random programs of views, writes, hooks and gradients of intermediates, run here and by PyTorch."""

from __future__ import annotations

import gc
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

Steps = list[tuple[Any, ...]]

VIEWS: dict[str, Callable[[Any], Any]] = {
    "flat": lambda x: x.reshape(-1),
    "transposed": lambda x: x.t() if x.dim() == 2 else x[None],
    "first": lambda x: x[0],
    "last rows": lambda x: x[1:],
    "first rows": lambda x: x[:2],
    "every second": lambda x: x[..., ::2],
    "narrow": lambda x: x.narrow(-1, 0, 2),
    "same": lambda x: x.view_as(x),
    "expanded": lambda x: x[None].expand(2, *x.shape),
}


class Run:
    """One program in one library: its variables, and what was seen of gradients."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.leaf = library.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        self.variables: list[Any] = [self.leaf * 1]
        self.seen: list[Any] = []
        # The gradients that each hook got.
        self.hooked: dict[int, list[Any]] = {}

    def weights(self, shape: tuple[int, ...], seed: int) -> Any:
        """Return a constant tensor of small integers, so that sums are exact."""
        values = np.random.default_rng(seed).integers(1, 5, shape).astype(np.float32)
        return self.library.tensor(values.tolist()).reshape(shape)

    def loss(self, places: tuple[int, ...], seed: int) -> Any:
        """Return a weighted sum of all elements of some variables."""
        parts = [self.variables[place] for place in places]
        sums = [(x * self.weights(tuple(x.shape), seed + i)).sum() for i, x in enumerate(parts)]
        return sum(sums[1:], sums[0])

    def hook(self, key: int, factor: float) -> Callable[[Any], Any]:
        """Return a hook that notes the gradient, and multiplies it by `factor` unless that is 1."""

        def called(grad: Any) -> Any:
            self.hooked.setdefault(key, []).append(grad.tolist())
            return None if factor == 1 else grad * factor

        return called

    def do(self, step: tuple[Any, ...]) -> None:
        """Run one step."""
        name, place, *details = step
        # PyTorch renews the history of a view, and what `retain_grad` stores, when the history is read.
        _nodes = [y.grad_fn for y in self.variables]
        x = self.variables[place] if isinstance(place, int) else None
        if name == "view":
            self.variables.append(VIEWS[details[0]](x))
        elif name == "compute":
            self.variables.append(x * self.weights(tuple(x.shape), details[0]))
        elif name == "write product":
            x.mul_(self.weights(tuple(x.shape), details[0]))
        elif name == "write sum":
            x.add_(self.variables[details[0]] * 2)
        elif name == "write copy":
            x.copy_(self.variables[details[0]] * 2)
        elif name == "write part":
            x[0] = self.variables[details[0]].sum() * 2
        elif name == "write zeros":
            x.zero_()
        elif name == "drop":
            del self.variables[place], x
            gc.collect(0)
        elif name == "hook":
            x.register_hook(self.hook(*details))
        elif name == "retain":
            x.retain_grad()
        elif name == "grad":
            inputs = [self.leaf, *[self.variables[i] for i in details[0]]]
            grads = self.library.autograd.grad(
                self.loss(place, details[1]), inputs, retain_graph=True, allow_unused=True
            )
            self.seen.append([None if g is None else g.tolist() for g in grads])
        else:
            self.loss(place, details[0]).backward(retain_graph=True)
            grads = [x.grad if x.requires_grad and x.retains_grad else None for x in self.variables]
            self.seen.append([None if g is None else g.tolist() for g in [self.leaf.grad, *grads]])


def random_step(
    random: Random, run: Run, is_writable: list[bool], hooked: list[Any], is_dropping: bool
) -> tuple[Any, ...]:
    """Return the next step for the variables of `run`.

    Programs with `is_dropping` drop variables, all others register hooks. In PyTorch a dropped base of
    a view lives on, and hooks of the view are not called for values after a write. Here they are then.
    """
    count = len(run.variables)
    place = random.randrange(count)
    x = run.variables[place]
    some = tuple(random.randrange(count) for _ in range(random.randint(1, 3)))
    kind = random.choices(
        ["view", "compute", "write", "hook", "retain", "grad", "backward", "drop"], [6, 1, 6, 2, 1, 3, 1, 1]
    )[0]
    if kind == "view":
        names = [name for name in VIEWS if is_possible(name, x)]
        return "view", place, random.choice(names)
    if kind == "compute":
        return "compute", place, random.randrange(1000)
    if kind == "write" and is_writable[place]:
        others = [i for i, y in enumerate(run.variables) if tuple(y.shape) in (tuple(x.shape), ())]
        how = random.choice(["product", "sum", "copy", "part", "zeros"])
        if how == "product":
            return "write product", place, random.randrange(1000)
        if how == "zeros":
            return "write zeros", place
        if how != "part" or x.dim():
            return f"write {how}", place, random.choice(others)
    # PyTorch may crash at a second hook of a view after a write.
    if kind == "hook" and not is_dropping and not any(x is y for y in hooked):
        hooked.append(x)
        return "hook", place, len(hooked), random.choice([1, 10])
    if kind == "retain":
        return "retain", place
    if kind == "drop" and is_dropping and count > 2:
        return "drop", place
    if kind == "backward":
        return "backward", some, random.randrange(1000)
    # In PyTorch, the gradient of a tensor with hooks is the one after the hooks only if nothing before it in
    # the graph is asked for.
    wanted = tuple(
        i for i in random.choices(range(count), k=2) if not any(run.variables[i] is y for y in hooked)
    )
    return "grad", some, wanted, random.randrange(1000)


def is_possible(name: str, x: Any) -> bool:
    """Return whether the variable `x` has the view, and the view has elements."""
    sizes = tuple(x.shape)
    if name in ("first", "last rows", "first rows"):
        return len(sizes) > 0 and sizes[0] > 1
    if name in ("every second", "narrow"):
        return len(sizes) > 0 and sizes[-1] > 1
    if name in ("transposed", "expanded"):
        return 0 < len(sizes) < 3
    return name != "flat" or x.is_contiguous()


def differences(seed: int, ours: Any, theirs: Any, length: int = 14) -> tuple[Steps, str | None]:
    """Run a random program in both libraries. Return its steps, and the first difference or None."""
    random = Random(seed)
    here, there = Run(ours), Run(theirs)
    is_writable, hooked, steps = [True], list[Any](), Steps()
    for _ in range(length):
        step = random_step(random, there, is_writable, hooked, seed % 2 == 0)
        steps.append(step)
        if step[0] == "view":
            is_writable.append(is_writable[step[1]] and step[2] != "expanded")
        elif step[0] == "compute":
            is_writable.append(True)
        elif step[0] == "drop":
            del is_writable[step[1]]
        there.do(step)
        here.do(step)
        if here.seen != there.seen:
            return steps, f"{step}: {here.seen[-1]}, PyTorch's {there.seen[-1]}"
        if here.hooked != there.hooked:
            return steps, f"{step}: hooks got {here.hooked}, PyTorch's {there.hooked}"
    values = [x.tolist() for x in here.variables], [x.tolist() for x in there.variables]
    return steps, None if values[0] == values[1] else f"values: {values[0]}, PyTorch's {values[1]}"
