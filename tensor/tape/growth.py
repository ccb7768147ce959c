"""The warning about growing graphs: forward passes that accumulate without a backward.

`ticks` counts down recorded ops. After about 250 ops, ``check_growth`` runs. It searches the graph only if
enough nodes are alive for the graph to be too large. A growing graph, unlike a deep one, uses one parameter
many times, and holds memory that nothing else holds. Each line of the user's code has its own threshold: the
number of live nodes at which its graph is searched again. Each line warns once.
"""

from __future__ import annotations

import sys
import warnings
from _thread import get_ident
from math import prod
from typing import TYPE_CHECKING, Final
from weakref import ref

from scopes._shared.growth_steps import check_steps
from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand
from scopes._shared.sizes import format_bytes, parse_size
from scopes.tracking.sites import callers
from tensor.tape.recording import Leaf, Node, nodes_alive, tick_counter

if TYPE_CHECKING:
    from tensor.tape import statistics
    from tensor.tape.statistics import GraphStatistics
else:
    statistics = ModuleOnDemand("tensor.tape.statistics")

_STEPS = 200
# Recurrent networks use weights 200 times without an error too, but few of their graphs hold this much.
_HELD_BYTES = 16 * 2**20
# The number of ops between two checks.
_PERIOD = 251
# The number of ops between two checks if warnings are off.
_LONG = 1 << 30


@set_module("tensor.autograd")
class GraphGrowthWarning(UserWarning):
    """Forward passes accumulate: one graph has used a parameter several times without a backward.

    Each pass uses the output of the former one, or a running sum keeps the graphs of all passes. Memory grows
    with every pass.

    Attributes
    ----------
    steps : int
        The number of times that the graph has used the parameter.
    statistics : GraphStatistics
        The statistics of the graph at that moment. They keep nothing alive.
    parameter : str
        The parameter's dtype and shape.
    """

    def __init__(self, steps: int, statistics: GraphStatistics, parameter: str) -> None:
        self.steps = steps
        self.statistics = statistics
        self.parameter = parameter
        nbytes = statistics.bytes_held_alone
        super().__init__(
            f"forward passes accumulate without a backward: this graph has used a parameter, {parameter}, "
            f"{steps} times. Its {statistics.node_count} recorded ops keep {format_bytes(nbytes)} that "
            f"nothing else holds, about {format_bytes(round(nbytes / steps))} more with each pass. Call "
            "loss.backward() in each pass; or drop the history of values for the next pass (x.detach()) and "
            "of running sums (loss.item()). If you need no gradients, run under no_grad() or with "
            "module.valid(). If the graph is large on purpose, write "
            f"autograd.warn_on_graph_growth({10 * steps}) or held_bytes= for a later warning, "
            "warn_on_graph_growth(None) for none"
        )

    def __reduce__(self) -> tuple[type[GraphGrowthWarning], tuple[int, GraphStatistics, str]]:
        return type(self), (self.steps, self.statistics, self.parameter)


ticks: Final = tick_counter()

_Line = tuple[str, int]
# A line and the bytecode offset of the call in it: ops of one line may have separate graphs.
_Place = tuple[str, int, int]


class _Watch:
    """The state of the check for each of the user's lines."""

    __slots__ = (
        "before",
        "due",
        "held_bytes",
        "known",
        "one_by_one",
        "searched",
        "silent_thread",
        "steps",
        "thresholds",
        "warned",
    )

    def __init__(self, steps: int | None, held_bytes: int) -> None:
        # The number of uses of a parameter that gives a warning; None: never warn.
        self.steps = steps
        # The bytes that a graph must hold alone for a warning.
        self.held_bytes = held_bytes
        # For each place, the number of live nodes in the process at which to search its graph again.
        self.thresholds: dict[_Place, int] = {}
        # For the largest graph of all places: its threshold, and the number of nodes of one pass.
        self.due: tuple[int, int] | None = None
        # The last node whose graph was searched, and the threshold of its place.
        self.before: tuple[ref[Node], int] | None = None
        # The lines that no longer warn, each with a token of the thread that reported it first, or None.
        self.warned: dict[_Line, object] = {}
        # The oldest node of each graph with a warning.
        self.known: list[ref[Node]] = []
        # How many of the next ops to check one by one.
        self.one_by_one = 0
        # The thread whose lines do not warn in these checks.
        self.silent_thread = 0
        # The number of live nodes when all lines of a loop were last checked, because the graph of one line
        # may contain the graphs of the others.
        self.searched = 0

    def schedule(self) -> None:
        """Set the number of ops until the next check."""
        if self.steps is None:
            ticks.left = _LONG
        elif self.one_by_one > 0:
            self.one_by_one -= 1
            ticks.left = 0
        else:
            self.silent_thread = 0
            ticks.left = min(_PERIOD, self.steps)

    def check_each_op(self, nodes: int) -> None:
        """Check each of the next ops, for somewhat more than two passes, each of which adds `nodes` nodes."""
        self.one_by_one = 2 * nodes + 64
        ticks.left = 0


_watch = _Watch(_STEPS, _HELD_BYTES)
_watch.schedule()


def warn_on_graph_growth(steps: int | None = _STEPS, *, held_bytes: int | str = _HELD_BYTES) -> None:
    """Warn when a graph has used a parameter `steps` times without a backward, and holds `held_bytes` alone.

    The warning is a `GraphGrowthWarning`. Each loop of the program warns once, until this function is called
    again. The setting applies to the whole process. The check takes almost no time: about every 250 recorded
    ops it examines the graph, if it can be large enough. Some graphs use a parameter often and hold much
    memory on purpose, for example of a recurrent network over 1,000 time steps. Then set higher limits.

    Parameters
    ----------
    steps : int, optional
        At least 2; by default 200. None: never warn.
    held_bytes : int or str, optional
        The memory that only the graph holds, in bytes or as "16 MiB", the default. There is no warning for a
        graph that holds less than a byte for each use of the parameter.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Then the setting does not change.

    Examples
    --------
    >>> from tensor import autograd
    >>> autograd.warn_on_graph_growth(1000, held_bytes="1 GiB")
    >>> autograd.warn_on_graph_growth()
    """
    global _watch
    check_steps(steps)
    _watch = _Watch(steps, parse_size(held_bytes, "held_bytes"))
    _watch.schedule()


def check_growth(node: Node) -> None:
    """Check whether the graph of the new `node` contains many passes, and warn once.

    Recording calls it when `ticks` has run out, at a point where it may raise: a filter may turn the warning
    into an error.
    """
    watch = _watch
    watch.schedule()
    steps = watch.steps
    if steps is None:
        return
    frames = callers(1)
    frame = frames[0] if frames else sys._getframe()
    line = frame.f_code.co_filename, frame.f_lineno
    if line in watch.warned:
        return
    if watch.silent_thread == get_ident() and watch.known[-1]() is not None:
        watch.warned[line] = None
        return
    alive = nodes_alive()
    place = (*line, frame.f_lasti)
    if alive < watch.thresholds.get(place, steps):
        if watch.due is not None and alive >= watch.due[0]:
            # The graph may be long enough, but this op is not its last one.
            watch.check_each_op(watch.due[1])
            watch.due = None
        return
    found = _examine(node, watch, steps, place, alive)
    if found is not None:
        variables = frame.f_globals
        # Do not use a stacklevel: the line is already known. Do not assign the warning to a variable: as an
        # error it refers to this frame, so the frame must not refer to it.
        warnings.warn_explicit(
            GraphGrowthWarning(*found),
            GraphGrowthWarning,
            *line,
            module=variables.get("__name__"),
            registry=variables.setdefault("__warningregistry__", {}),
        )


def _examine(
    node: Node, watch: _Watch, steps: int, place: _Place, alive: int
) -> tuple[int, GraphStatistics, str] | None:
    """Search the graph of `node`. Return the arguments of a warning, or None."""
    if node.name() == "OverlayBackward":
        return None  # recorded during a write, which must not fail
    before = watch.before
    if before is not None and _inner(node) == {before[0]()}:
        # The graph without this op was just searched, and one op makes little difference.
        watch.thresholds[place] = before[1]
        watch.before = ref(node), before[1]
        return None
    nodes = statistics.nodes_from(node)
    users, leaf = _most_used(nodes)
    used, size = len(users), len(nodes)
    figures = statistics.statistics_of(nodes) if used >= steps else None
    held = figures.bytes_held_alone if figures is not None else 0
    if figures is None or held < max(watch.held_bytes, used):
        # Search again after the number of nodes that is missing for a warning. If only bytes are missing,
        # search again at the latest when the graph has doubled, because later passes may hold more memory.
        # Wait for at least a quarter of the graph and 1/32 of all nodes, so that searches take little time.
        wanting = size * steps // used - size if used else size
        if figures is not None:
            wanting = min(size * watch.held_bytes // held - size, size) if held >= used else size
        threshold = watch.thresholds[place] = alive + max(wanting, size // 4, alive // 32)
        watch.before = ref(node), threshold
        if used > 1 and size >= alive // 2:
            watch.due = threshold, size // used
        elif size < alive // 2 and not watch.searched // 4 < alive < watch.searched * 5 // 4:
            # Most nodes are not in this graph. Another line may have a graph with all of them, such as a sum.
            watch.searched = alive
            watch.check_each_op(alive // steps)
        return None
    token, line = object(), place[:2]
    if watch.warned.setdefault(line, token) is not token:
        return None  # another thread has already warned
    if any(oldest() in nodes for oldest in watch.known):
        return None
    watch.known.append(ref(users[-1]))
    # The other lines of this loop do not warn, neither now nor when the loop runs again.
    watch.silent_thread = get_ident()
    watch.check_each_op(size // used)
    # Format the dtype only for a warning. NumPy caches the string in a small block, and the C library can't
    # return the heap around it to the system.
    parameter = "" if leaf is None else f"{leaf.dtype}{list(leaf.shape)}"
    return used, figures, parameter


def _inner(node: Node) -> set[Node]:
    """Return the op nodes that are inputs of `node`."""
    return {after for after in node.next if after is not None and not isinstance(after, Leaf)}


def _most_used(nodes: list[Node]) -> tuple[list[Node], Leaf | None]:
    """Return the leaf that most of `nodes` use, and the nodes that use it."""
    # Count each op separately, because recorded derivatives use the parameters of the forward pass again.
    # Nodes without saved values do not count, because backward may have freed these values.
    users: dict[tuple[Leaf, str], list[Node]] = {}
    for node in nodes:
        if node.saved:
            for after in {*node.next}:
                if isinstance(after, Leaf):
                    users.setdefault((after, node.name()), []).append(node)
    if not users:
        return [], None
    # Of a layer's weight and bias, choose the weight.
    (leaf, _), most = max(users.items(), key=lambda item: (len(item[1]), prod(item[0][0].shape)))
    return most, leaf


ticks.check = check_growth
