"""The warning about growing graphs of PyTorch: forward passes that accumulate without a backward.

``foreign`` calls `look` from time to time: after a number of ended scopes and new members, or when many more
tensors are alive. It searches the graphs of all living tensors. Graphs grow if, from one look to the next, a
parameter has more uses, and the older uses remain. A graph of a recurrent network also uses a parameter many
times, but it is gone at the next look.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections import defaultdict
from typing import Any, NamedTuple
from weakref import ref

from scopes._shared.growth_steps import check_steps
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes, parse_size
from scopes._shared.tracebacks import is_ours
from scopes.adapters import foreign
from scopes.adapters.torch.library import torch
from scopes.adapters.torch.memory import footprint, mark_of, saved_by
from scopes.tracking.sites import callers, places_in
from scopes.tracking.tracking import record_of

_STEPS = 200
_HELD_BYTES = 16 * 2**20
# The ended scopes and new members until the first look. A look may take 50 ms, so the next ones are rarer.
_FIRST, _LAST = 250, 16_000
_NoFunctions = torch._C.DisableTorchFunction


@set_module("scopes.torch")
class GraphGrowthWarning(UserWarning):
    """Forward passes accumulate: graphs have used a parameter several times without a backward.

    Each pass uses the output of the former one, a running sum keeps the graphs of all passes, or a list keeps
    their results. Memory grows with every pass.

    Attributes
    ----------
    steps : int
        The number of uses of the parameter.
    held_bytes : int
        The bytes of the values that the graphs have saved. Parameters do not count.
    parameter : str
        The parameter's dtype and shape.
    line : str
        The line that made one of the results of the graphs; empty without tracking.
    """

    def __init__(self, steps: int, held_bytes: int, parameter: str, line: str = "") -> None:
        self.steps = steps
        self.held_bytes = held_bytes
        self.parameter = parameter
        self.line = line
        made = (
            f" A result of them was made at {line}." if line else " With scopes.track() this names the line."
        )
        super().__init__(
            f"forward passes accumulate without a backward: graphs use a parameter, {parameter}, "
            f"{steps} times. All graphs keep {format_bytes(held_bytes)} of saved values, about "
            f"{format_bytes(held_bytes // steps)} for each use.{made} Call loss.backward() in each pass; or "
            "drop the history of values for the next pass (x.detach()) and of running sums (loss.item()). If "
            "you need no gradients, run under torch.no_grad(). If the graphs are large on purpose, write "
            f"scopes.torch.warn_on_graph_growth({10 * steps}) or held_bytes= for a later warning, "
            "warn_on_graph_growth(None) for none"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.steps, self.held_bytes, self.parameter, self.line)


class _Uses(NamedTuple):
    """The uses of the parameter that graphs use most often."""

    number: int
    parameter: Any
    # An operation that uses it, and tensors whose graphs have uses.
    use: Any
    results: list[Any]
    held_bytes: int


class _Growth:
    """The state between two looks."""

    def __init__(self, steps: int | None, held_bytes: int) -> None:
        self.steps = steps
        self.held_bytes = held_bytes
        self.period = _FIRST
        # Dead when the operation that was the newest use at the last look is freed; and the uses then.
        self.before: ref[Any] | None = None
        self.count_before = 0
        self.has_warned = False

    def schedule(self) -> None:
        if self.steps is not None and not self.has_warned:
            foreign.schedule_growth(self.period)


_growth = _Growth(_STEPS, _HELD_BYTES)


@set_module("scopes.torch")
def warn_on_graph_growth(steps: int | None = _STEPS, *, held_bytes: int | str = _HELD_BYTES) -> None:
    """Warn when graphs use a parameter `steps` times without a backward, and have saved `held_bytes`.

    The warning is a ``scopes.torch.GraphGrowthWarning``. It comes once, until this function is called again.
    PyTorch's graphs are searched inside ``owning()``, after ``enable()`` and while tracking: after hundreds
    of scopes or new tensors, on the main thread. The warning needs two searches between which graphs grew.

    Parameters
    ----------
    steps : int, optional
        At least 2; by default 200. None: never warn.
    held_bytes : int or str, optional
        The memory that graphs have saved, in bytes or as "16 MiB", the default. Parameters do not count.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Then the setting does not change.

    Examples
    --------
    >>> import scopes.torch
    >>> scopes.torch.warn_on_graph_growth(1000, held_bytes="1 GiB")
    >>> scopes.torch.warn_on_graph_growth()
    """
    global _growth
    check_steps(steps)
    _growth = _Growth(steps, parse_size(held_bytes, "held_bytes"))
    _growth.schedule()


def look() -> bool:
    """Search the graphs of all living tensors, and warn if they grow. Return False if it can't do so now."""
    growth = _growth
    steps = growth.steps
    if steps is None or growth.has_warned or sys.is_finalizing():
        return True
    if _is_inside_ours():
        return False
    found = _most_used()
    before = None if growth.before is None else growth.before()
    if found is None or found.number < max(steps // 4, 2):
        growth.before = None
        growth.period = min(growth.period * 2, _LAST)
    elif before is None or found.number < growth.count_before:
        mark = mark_of(found.use)
        growth.before, growth.count_before = (None if mark is None else ref(mark)), found.number
    elif found.number >= max(steps, growth.count_before * 5 // 4) and found.held_bytes >= max(
        growth.held_bytes, found.number
    ):
        growth.has_warned = True
        _warn(found)
        return True
    growth.schedule()
    return True


def _is_inside_ours() -> bool:
    """Return whether the interrupted code is ours: it must not see the warning as an error."""
    caller = sys._getframe(2).f_back  # the function that `foreign` calls is ours
    while caller is not None and places_in(caller) is None:
        if is_ours(caller):
            return True
        caller = caller.f_back
    return False


# PyTorch makes a Python object for a tensor that only C++ had, when a search reads it.
@foreign.hiding
def _most_used() -> _Uses | None:
    """Return the uses of the parameter that the graphs of living tensors use most often."""
    nodes: list[Any] = []  # keeps the operations' Python objects alive, because `seen` has their ids
    seen: set[int] = set()
    # By the id of the operation that adds up a parameter's gradient: that operation, and its uses.
    uses: dict[int, tuple[Any, list[Any]]] = {}
    results: defaultdict[int, list[Any]] = defaultdict(list)
    with _NoFunctions():
        for x in gc.get_objects():
            if torch.Tensor not in type(x).__mro__ or getattr(type(x), "is_invalid", False):
                continue
            stack = [x.grad_fn]
            while stack:
                node = stack.pop()
                if node is None or id(node) in seen:
                    continue
                seen.add(id(node))
                nodes.append(node)
                for inner in {inner for inner, _ in node.next_functions if inner is not None}:
                    if isinstance(getattr(inner, "variable", None), torch.Tensor):
                        uses.setdefault(id(inner), (inner, []))[1].append(node)
                        results[id(inner)].append(x)
                    else:
                        stack.append(inner)
        if not uses:
            return None
        # Of a layer's weight and bias, choose the weight.
        leaf, users = max(uses.values(), key=lambda each: (len(each[1]), each[0].variable.numel()))
        saved = dict(footprint(x) for node in nodes for x in saved_by(node))
        for other, _ in uses.values():
            saved.pop(footprint(other.variable)[0], None)
        return _Uses(len(users), leaf.variable, users[0], results[id(leaf)], sum(saved.values()))


def _warn(found: _Uses) -> None:
    frames = callers(1)
    frame = frames[0] if frames else sys._getframe()
    records = [record for x in found.results if (record := record_of(x)) is not None and record.site.lines]
    record = records[-1] if records else None
    file, line = frame.f_code.co_filename, frame.f_lineno
    if record is not None:
        file, line = record.site.file, record.site.line
    parameter = f"{str(found.parameter.dtype).removeprefix('torch.')}{list(found.parameter.shape)}"
    variables = frame.f_globals
    # Do not assign the warning to a variable: as an error it refers to this frame.
    warnings.warn_explicit(
        GraphGrowthWarning(
            found.number, found.held_bytes, parameter, "" if record is None else str(record.site)
        ),
        GraphGrowthWarning,
        file,
        line,
        module=variables.get("__name__"),
        registry=variables.setdefault("__warningregistry__", {}),
    )
