"""The tape: nodes, and the rules that they follow."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.memory.holders import kinds_that_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from weakref import ref

    from tensor._dtypes import Dtype
    from tensor.core.tensor_core import TensorCore
    from tensor.tape.hooks import NodeHooks

    Functions = Mapping[str, Callable[..., Any] | None]


# What backward knows without anything saved: an input's place, and its shape.
_FREE = {"i": -1, "to_shape": -2}


class Plan:
    """What one op saves, and how it derives, when a given set of its inputs requires gradients."""

    __slots__ = ("_bare", "pick", "saves", "saves_out", "steps")

    def __init__(self, rule: Rule, wanted: tuple[bool, ...]) -> None:
        names = [*rule.input_names(len(wanted)), "out"]
        needed: dict[str, int] = {}
        steps = []
        for i, function in rule.wanted(wanted):
            places = []
            for name in _arguments(function):
                if name not in _FREE:
                    needed.setdefault(name, len(needed))
                places.append(_FREE[name] if name in _FREE else needed[name])
            steps.append((i, function, tuple(places)))
        _add_what_is_derived(rule, wanted, needed)
        # Where each saved value comes from: an input's or the output's place, or a parameter's name.
        self.saves = tuple((names.index(name) if name in names else name) for name in needed)
        self.saves_out = len(wanted) in self.saves
        self.steps = tuple(steps)
        # For ops without parameters: picks what is saved from the tuple (*inputs, out).
        self.pick = _picker([source for source in self.saves if isinstance(source, int)])
        self._bare: Plan | None = None

    def bare(self) -> Plan:
        """Return the plan of a node that waits for its saved values: it saves nothing."""
        if self._bare is None:
            bare = object.__new__(Plan)
            bare.saves = ()
            bare.saves_out = False
            bare.steps = self.steps
            bare.pick = None
            bare._bare = None
            self._bare = bare
        return self._bare


def _arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names that a derivative asks for, after ``xp`` and ``g``, or what it says that it needs."""
    needs: tuple[str, ...] | None = getattr(function, "needs", None)
    if needs is not None:
        return needs
    code = function.__code__
    return code.co_varnames[2 : code.co_argcount]


def _add_what_is_derived(rule: Rule, wanted: tuple[bool, ...], needed: dict[str, int]) -> None:
    """Add to `needed` what the derivatives of needed parameters need in turn."""
    waiting = [name for name in needed if name in rule.derived]
    for parameter in waiting:
        for _, function in rule.derived[parameter].wanted(wanted):
            for name in _arguments(function):
                if name not in _FREE and name not in needed and name != "out":
                    needed[name] = len(needed)
                    if name in rule.derived:
                        waiting.append(name)


def _picker(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
    if not places:
        return None
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


class Rule:
    """The derivatives of one op: for each input a function ``(xp, g, ...) -> gradient``.

    Beside the namespace `xp` and the gradient `g` of the output, a function names what it needs: inputs by
    their names, ``out``, and parameters of the op. Just that is saved, and just for inputs that require
    gradients. Free of charge is ``to_shape``, the shape of the input that the gradient is for. An op with any
    number of inputs has one function, ``each``, which may ask for the place `i`.

    Parameters are constants to higher derivatives, but for those in `derived`: each has a rule of its own, as
    of an op of the same inputs whose output is that parameter.
    """

    __slots__ = (
        "derived",
        "functions",
        "is_differentiable",
        "name",
        "of_both",
        "of_first",
        "of_one",
        "of_second",
        "plans",
    )

    def __init__(self, name: str, functions: Functions, derived: dict[str, Rule] | None = None) -> None:
        self.name = name
        self.functions = functions
        self.derived = {} if derived is None else derived
        self.is_differentiable = any(function is not None for function in functions.values())
        self.plans: dict[tuple[bool, ...], Plan] = {}
        # Those for one and two inputs once more: found here in a fifth of the time.
        self.of_one: Plan | None = None
        self.of_first: Plan | None = None
        self.of_second: Plan | None = None
        self.of_both: Plan | None = None

    def input_names(self, count: int) -> list[str]:
        return [f"_{i}" for i in range(count)] if "each" in self.functions else list(self.functions)

    def wanted(self, wanted: tuple[bool, ...]) -> list[tuple[int, Callable[..., Any]]]:
        """Return the places that are `wanted`, with their functions."""
        functions = self.functions
        each = functions.get("each")
        listed = list(functions.values())
        return [(i, each or listed[i] or _no_gradient) for i, is_wanted in enumerate(wanted) if is_wanted]

    def plan(self, wanted: tuple[bool, ...]) -> Plan:
        plan = self.plans.get(wanted)
        if plan is None:
            plan = self.plans[wanted] = Plan(self, wanted)
        if wanted == (True,):
            self.of_one = plan
        elif wanted == (True, False):
            self.of_first = plan
        elif wanted == (False, True):
            self.of_second = plan
        elif wanted == (True, True):
            self.of_both = plan
        return plan


def _no_gradient(_xp: Any, _g: Any) -> None:
    """Stand in for an input that has no derivative."""


class Deferred:
    """Stands for the saved values of a node that will be computed again when backward comes there."""

    __slots__ = ()

    def restore(self, node: Node) -> None:
        """Put the values into `node`."""
        raise NotImplementedError

    def arrays(self) -> list[Any]:
        """Return the arrays that are kept for it."""
        raise NotImplementedError


class Node:
    """One recorded op. It holds arrays and the nodes of its inputs, never tensors."""

    __slots__ = ("__weakref__", "dtype", "holds", "hooks", "next", "plan", "rule", "saved", "shape", "site")

    # Not of what only leads to the node of an op, as each output of a user's own function does.
    is_op = True

    rule: Rule
    plan: Plan
    next: tuple[Node | None, ...]
    # The values that `plan.saves` names, in its order; None once backward has used them.
    saved: tuple[Any, ...] | Deferred | None
    # What counts the small ones of them as live memory; in the last place that of the output, if it is saved.
    holds: tuple[object, ...]
    shape: tuple[int, ...]
    dtype: Dtype
    # What the user wants called with the gradient of the output. Always set: to find none costs 140 ns else.
    hooks: NodeHooks | None
    # Set while anomalies are looked for: the user's lines by which the op was recorded.
    site: str

    def arrays(self) -> list[Any]:
        """Return the arrays that are kept for backward."""
        saved = self.saved
        kept: Iterable[Any] = saved.arrays() if isinstance(saved, Deferred) else saved or ()
        return [x for x in kept if isinstance(x, np.ndarray)]

    def name(self) -> str:
        """Return the op's name, as in ``MultiplyBackward``."""
        return "".join(part.capitalize() for part in self.rule.name.split("_")) + "Backward"

    def __repr__(self) -> str:
        return f"<{self.name()}>"


kinds_that_hold.append(Node)


class Leaf(Node):
    """Where the graph ends at a leaf tensor. It knows the tensor by a weak reference: no cycle is made."""

    __slots__ = ("home",)

    home: ref[TensorCore]

    def __init__(self, shape: tuple[int, ...], dtype: Dtype, home: ref[TensorCore]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.next = ()
        self.saved = ()
        self.holds = ()
        self.hooks = None
        self.home = home

    def tensor(self) -> TensorCore | None:
        """Return the tensor whose gradient gathers here, if it is still there and a leaf."""
        x = self.home()
        return x if x is not None and x._node is self else None

    def name(self) -> str:
        return "AccumulateGrad"
