"""Evictions of a memory budget: free saved values, and restore them when backward needs them.

When the allocator has no room, `Evictions.evict` searches for buffers that only saved values of its nodes
hold. It evicts each in the cheaper of two ways: it drops the values, and a kernel computes them again
(`Recipe`), or it writes the bytes to a file. The order follows Kirisame et al., "Dynamic Tensor
Rematerialization" (2021): the buffers with the least cost / (bytes x staleness) go first. The cost is
estimated from shapes, and staleness counts ops, so a program evicts the same buffers each time it runs.

`Evictions.evict` also writes idle tensors to the file: gradients before the optimizer's step, optimizer
state, data, and, last, parameters. Their next use reads them back (`tensor.core.tensor`).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from tensor._dtypes import Array, Dtype
from tensor.autograd.engine import divide_by
from tensor.core.tensor import (
    FiledValues,
    StorageReference,
    companion_of,
    filed_values_of,
    idle_tensors,
    leave_together,
    move_to_file,
    share_of,
)
from tensor.kernels.running import run_kernel
from tensor.memory.buffer import Buffer, Share, empty, owner_of, share_with, view_at
from tensor.memory.buffer import copy as copy_array
from tensor.tape.modes import Recorder, Recording, innermost_recorder
from tensor.tape.recipes import Layout, Recipe, holds_of, layout_of
from tensor.tape.recording import Deferred, Node

if TYPE_CHECKING:
    from scopes._shared.spill import Spilled
    from tensor.memory import budgets

# The time to write a byte to a file and to read it back, and the time to read it, in units of the time in
# which a kernel reads or writes a byte of memory.
_WRITTEN_AND_READ = 16.0
_READ = 6.0
# The number of buffers that the system reads into its cache before backward needs them.
_AHEAD = 4
_MIN_NODES = 1000
# Backward divides a node if the values that its first gradient does not need take this part of the budget.
_LEAST_PART = 8
_UINT8 = np.dtype(np.uint8)


class EvictedValue:
    """The source of a saved value that is not in memory: a recipe, or a buffer in the file."""

    __slots__ = ("layout", "recipe", "stored")

    def __init__(self, recipe: Recipe | None, stored: StoredBuffer | None, layout: Layout | None) -> None:
        self.recipe: Recipe | None = recipe
        self.stored: StoredBuffer | None = stored
        self.layout: Layout | None = layout


class PartlyEvicted(Deferred):
    """The saved values of a node, if some are not in memory."""

    __slots__ = ("absent", "clock", "holds", "tape", "values")

    def __init__(
        self, tape: Evictions, clock: int, values: Iterable[Any], holds: Iterable[Share | None]
    ) -> None:
        self.tape: Evictions = tape
        self.clock: int = clock
        self.values: list[Any] = list(values)
        self.holds: list[Share | None] = list(holds)
        self.absent: dict[int, EvictedValue] = {}

    def restore(self, node: Node) -> None:
        """Compute the absent values again, or read them from the file."""
        self.tape.clock = self.clock
        for place in list(self.absent):
            absent = self.absent.get(place)
            if absent is None:
                continue  # restored together with another value
            share = self.tape.bring_back(absent)
            if place in self.absent:
                self.put(node, place, share)

    def put(self, node: Node, place: int, share: Share) -> None:
        """Set one value. After the last absent value, `node` has a plain tuple of values again."""
        self.values[place] = share.array
        self.holds[place] = share
        del self.absent[place]
        if not self.absent:
            node.holds = tuple(self.holds)
            node.saved = tuple(self.values)

    def give_to(self, part: Node, places: list[int]) -> None:
        """Let `part`, which has the saved values at `places`, wait for those that are absent."""
        given = PartlyEvicted(self.tape, self.clock, part.saved or (), part.holds)  # type: ignore[arg-type]
        for place, source in enumerate(places):
            absent = self.absent.get(source)
            if absent is not None:
                given.absent[place] = absent
                if absent.stored is not None:
                    absent.stored.waiting.append((ref(part), place))
        if given.absent:
            part.saved, part.holds = given, ()

    def shares(self) -> list[Share]:
        """Return the shares of the values in memory."""
        kept = [share for share in self.holds if share is not None]
        for value in self.values:
            kept += getattr(value, "holds", ())
        return kept


class StoredBuffer:
    """The contents of a buffer in the file, and the nodes that need them."""

    __slots__ = ("__weakref__", "clock", "handle", "nbytes", "tape", "waiting")

    def __init__(self, tape: Evictions, handle: Spilled, nbytes: int, clock: int) -> None:
        self.tape: Evictions = tape
        self.handle: Spilled = handle
        self.nbytes: int = nbytes
        # The highest number of a node that needs the buffer. Backward reaches this node first.
        self.clock: int = clock
        self.waiting: list[tuple[ref[Node], int]] = []

    def read(self) -> Share:
        """Return a share of the whole buffer, as bytes, and restore the values of all nodes that need it."""
        raw = empty((self.nbytes,), _UINT8)
        self.handle.read_into(raw.data)
        self.tape.read_ahead(self.clock)
        self.tape.budget._count_read(self.nbytes)
        whole = share_of(raw)
        for known, place in self.waiting:
            node = known()
            kept = None if node is None else node.saved
            if node is not None and isinstance(kept, PartlyEvicted):
                absent = kept.absent.get(place)
                if absent is not None and absent.stored is self and absent.layout is not None:
                    kept.put(node, place, share_with(whole, absent.layout.over(raw)))
        self.waiting.clear()
        return whole


class _Filed(FiledValues):
    """The values of a tensor in the file of a budget."""

    __slots__ = ("budget", "handle", "is_in_columns")

    def __init__(self, array: Array, handle: Spilled, budget: budgets.budget) -> None:
        super().__init__(array.shape, array.dtype)
        self.handle: Spilled = handle
        self.budget: budgets.budget = budget
        self.is_in_columns: bool = not array.flags.c_contiguous

    def read(self) -> Array:
        array = empty(self.shape[::-1] if self.is_in_columns else self.shape, self.dtype)
        self.handle.read_into(array.reshape(-1).view(_UINT8).data)
        self.budget._count_read(array.nbytes)
        return array.T if self.is_in_columns else array


class FiledBlocks(FiledValues):
    """The values of a tensor in the file of a budget, in blocks that can be read one at a time.

    The blocks follow the order in memory. All have `block_size` elements, except the last.
    """

    __slots__ = ("blocks", "budget", "is_in_columns")

    #: The number of elements of a block.
    block_size = 1 << 17

    def __init__(
        self, shape: tuple[int, ...], dtype: Dtype, is_in_columns: bool, budget: budgets.budget
    ) -> None:
        super().__init__(shape, dtype)
        self.is_in_columns: bool = is_in_columns
        self.budget: budgets.budget = budget
        self.blocks: list[Spilled] = []

    def append(self, array: Array) -> None:
        """Write the next block. Raise a `SpillError` if that fails."""
        self.blocks.append(self.budget._write_or_raise(array.view(_UINT8)))
        self.budget._count_written(array.nbytes)

    def read_block(self, number: int, array: Array) -> None:
        """Read a block into `array`, which has its size."""
        self.blocks[number].read_into(array.view(_UINT8).data)
        self.budget._count_read(array.nbytes)

    def read(self) -> Array:
        array = empty(self.shape[::-1] if self.is_in_columns else self.shape, self.dtype)
        flat = array.reshape(-1)
        for number in range(len(self.blocks)):
            start = number * self.block_size
            self.read_block(number, flat[start : start + self.block_size])
        return array.T if self.is_in_columns else array


def file_in_blocks(x: StorageReference, budget: budgets.budget) -> FiledBlocks | None:
    """Move the values of `x` to the file of `budget` in blocks.

    Return them, or None if other code relies on the memory of `x`. Raise a `SpillError` if the file fails.
    """
    filed = filed_values_of(x)
    if isinstance(filed, FiledBlocks):
        return filed
    if x._array is None:  # reads them back
        return None

    def write(array: Array) -> FiledValues:
        made = FiledBlocks(array.shape, array.dtype, not array.flags.c_contiguous, budget)
        flat = array.reshape(-1, order="A")
        for start in range(0, flat.size, made.block_size):
            made.append(flat[start : start + made.block_size])
        return made

    move_to_file(x, write)
    filed = filed_values_of(x)
    return filed if isinstance(filed, FiledBlocks) else None


class _Member:
    """A saved value of a node: its index there, its share, and the recipe that computes it."""

    __slots__ = ("clock", "node", "place", "recipe", "share")

    def __init__(self, node: Node, clock: int, place: int, share: Share, recipe: Recipe | None) -> None:
        self.node = node
        self.clock = clock
        self.place = place
        self.share = share
        self.recipe = recipe


class _Group:
    """A buffer, with the holders that the tape knows."""

    __slots__ = ("buffer", "clock", "companion", "members", "recipes_with_memory", "shares")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.members: list[_Member] = []
        self.recipes_with_memory: list[Recipe] = []
        # By their ids, so that each is counted once.
        self.shares: dict[int, Share] = {}
        # The highest number of a node in `members`. Backward reaches this node first.
        self.clock = 0
        # A tensor with the same buffer that can be written to the file with it: a parameter, or data.
        self.companion: StorageReference | None = None

    def is_ours(self) -> bool:
        """Return whether the group knows all holders of the buffer."""
        buffer = self.buffer
        count = len(self.shares) + (self.companion is not None)
        return buffer.sharers == count and not buffer.exports and not buffer.is_external

    def find_companion(self) -> bool:
        """Return whether the only other holder is a tensor that can be written to the file."""
        if self.buffer.sharers == len(self.shares) + 1:
            self.companion = companion_of(self.buffer)
        return self.companion is not None


class Evictions(Recorder):
    """The recorder of a budget. It evicts the saved values of the nodes that it recorded."""

    __slots__ = ("budget", "clock", "count", "min_nbytes", "most", "nodes", "recipes_with_memory", "stored")

    def __init__(self, budget: budgets.budget) -> None:
        super().__init__()
        self.budget: budgets.budget = budget
        # The nodes, each with its number.
        self.nodes: list[tuple[ref[Node], int]] = []
        self.recipes_with_memory: list[ref[Recipe]] = []
        # At this length of `nodes`, remove the freed nodes.
        self.most: int = _MIN_NODES
        # The number of nodes recorded so far.
        self.count: int = 0
        # The number of the node that was recorded or restored last.
        self.clock: int = 0
        # The buffers in the file, sorted by clock.
        self.stored: list[tuple[int, ref[StoredBuffer]]] = []
        # Smaller buffers stay in memory.
        self.min_nbytes: int = max(256, min(1 << 16, budget.nbytes // 1024))

    def record(self, node: Node) -> None:
        if type(node) is Node and node.recipe is None:
            recipe = node.recipe = Recipe(self.recipes_with_memory)
            me = ref(node)
            nexts = node.next
            for place, source in enumerate(node.plan.saves):
                if isinstance(source, str):
                    continue
                if source == len(nexts):
                    recipe.users.append((me, place))
                    continue
                before = nexts[source]
                if before is not None and before.recipe is not None:
                    before.recipe.users.append((me, place))
            self.count += 1
            self.clock = self.count
            self.nodes.append((me, self.count))
            if len(self.nodes) > self.most:
                self.nodes = [entry for entry in self.nodes if entry[0]() is not None]
                self.recipes_with_memory[:] = [
                    reference for reference in self.recipes_with_memory if reference() is not None
                ]
                self.most = 2 * len(self.nodes) + _MIN_NODES
        super().record(node)

    # --- Eviction -------------------------------------------------------------------------------------------

    def evict(self, nbytes: int, more: int) -> int:
        """Evict `nbytes` if possible, and up to `more` in addition. Return the number of evicted bytes.

        Evict values that a tensor uses too, parameters and tensors of the running op only for `nbytes`.
        """
        groups, shared = self._groups()
        costs = []
        most = 1
        for number, group in enumerate(groups):
            cost, is_made_again = self._cheapest(group)
            if cost is None:
                continue
            staleness = abs(self.clock - group.clock) + 1
            most = max(most, staleness)
            costs.append((cost / (group.buffer.nbytes * staleness), number, is_made_again))
        idle, last = idle_tensors(self.min_nbytes) if self.budget.can_spill else ([], [])
        # Idle tensors are needed last, by the optimizer after backward.
        costs += [(_WRITTEN_AND_READ / (most + 1), len(groups) + i, False) for i in range(len(idle))]
        costs.sort()
        gone = 0
        for _, number, is_made_again in costs:
            if gone >= nbytes + more:
                break
            if number >= len(groups):
                gone += move_to_file(idle[number - len(groups)], self._filed)
                continue
            group = groups[number]
            size = group.buffer.nbytes
            if (is_made_again and self._forget(group)) or self._write(group):
                gone += size
        # Start with the values that backward reaches last.
        for group in sorted(shared, key=lambda group: group.clock):
            if gone >= nbytes:
                break
            if self._write(group):
                gone += group.buffer.nbytes
        for x in last:
            if gone >= nbytes:
                break
            gone += move_to_file(x, self._filed)
        return gone

    def _filed(self, array: Array) -> FiledValues | None:
        """Write the values of a tensor to the file. If that fails, note the error and return None."""
        handle = self.budget._write(array.reshape(-1, order="A").view(_UINT8))
        if handle is None:
            return None
        self.budget._count_written(array.nbytes)
        return _Filed(array, handle, self.budget)

    def divide(self, node: Node) -> list[Node] | None:
        """Return nodes for the gradient of each input of `node`, or None if that would not save memory.

        Each has only the saved values for one gradient. So the others can be evicted while it is computed.
        """
        saved, plan, holds = node.saved, node.plan, holds_of(node)
        kept = saved if isinstance(saved, PartlyEvicted) else None
        if type(node) is not Node or len(holds) != len(plan.saves):
            return None
        if kept is None and type(saved) is not tuple:
            return None
        first = plan.steps[0][2]
        later = sum(_nbytes_at(node, place) for place in range(len(holds)) if place not in first)
        if later < self.budget.nbytes // _LEAST_PART:
            return None
        values: Sequence[Any] = saved if kept is None else kept.values  # type: ignore[assignment]
        plans = [
            node.rule.plan(tuple([other == i for other in range(len(node.next))])) for i, _, _ in plan.steps
        ]
        if any(source not in plan.saves for each in plans for source in each.saves):
            return None
        parts = []
        for each in plans:
            part = Node()
            part.rule, part.shape, part.dtype = node.rule, node.shape, node.dtype
            part.plan = each
            part.next, part.recipe = node.next, node.recipe
            places = [plan.saves.index(source) for source in each.saves]
            part.saved = tuple([values[place] for place in places])
            part.holds = tuple([holds[place] for place in places])
            if kept is not None:
                kept.give_to(part, places)
            self.nodes.append((ref(part), self.clock))
            parts.append(part)
        node.saved = node.recipe = None
        node.holds = ()
        return parts

    def _groups(self) -> tuple[list[_Group], list[_Group]]:
        """Return the buffers that only saved values and recipes hold, and those that a tensor holds too."""
        found: dict[int, _Group] = {}
        left = []
        for known, clock in self.nodes:
            node = known()
            if node is None:
                continue
            saved = node.saved
            if saved is None:
                continue
            left.append((known, clock))
            if node.is_in_use or not (type(saved) is tuple or isinstance(saved, PartlyEvicted)):
                continue
            self._add_members(found, node, clock)
        if len(left) < len(self.nodes):
            self.nodes = left
        recipes_with_memory = []
        for reference in self.recipes_with_memory:
            recipe = reference()
            if recipe is None or recipe.share is None:
                continue
            recipes_with_memory.append(reference)
            group = _group_of(found, recipe.share.buffer)
            group.recipes_with_memory.append(recipe)
            group.shares[id(recipe.share)] = recipe.share
        self.recipes_with_memory[:] = recipes_with_memory
        large = [group for group in found.values() if group.buffer.nbytes >= self.min_nbytes]
        ours = [group for group in large if group.is_ours()]
        if not self.budget.can_spill:
            return ours, []
        return ours, [group for group in large if not group.is_ours() and group.find_companion()]

    def _add_members(self, found: dict[int, _Group], node: Node, clock: int) -> None:
        plan, holds, nexts = node.plan, holds_of(node), node.next
        if len(holds) != len(plan.saves):
            return
        if plan.saves_out and holds[plan.saves.index(len(nexts))] is None and type(node.saved) is tuple:
            return  # the node is being recorded, or its output is small
        for place, share in enumerate(holds):
            if share is None:
                continue
            source = plan.saves[place]
            recipe: Recipe | None
            if isinstance(source, str):
                if node.recipe is not None and node.recipe.kernel is not None:
                    continue  # the kernel of the recipe may use it
                recipe = None
            elif source == len(nexts):
                recipe = node.recipe
            else:
                before = nexts[source]
                recipe = None if before is None else before.recipe
            group = _group_of(found, share.buffer)
            group.members.append(_Member(node, clock, place, share, recipe))
            group.shares[id(share)] = share
            group.clock = max(group.clock, clock)

    def _cheapest(self, group: _Group) -> tuple[float | None, bool]:
        """Return the cost of restoring the buffer (None: it must stay), and whether recipes restore it."""
        budget = self.budget
        cost: float | None = None
        if budget.can_spill:
            cost = _WRITTEN_AND_READ * group.buffer.nbytes
        if not budget.recompute or group.recipes_with_memory:
            return cost, False
        again = 0.0
        for member in group.members:
            recipe = member.recipe
            if recipe is None or (recipe.kernel is None and recipe.stored is None):
                return cost, False
            if recipe.stored is not None:
                again = max(again, _READ * group.buffer.nbytes)
            else:
                again = max(again, recipe.cost())
        if cost is None or again <= cost:
            return again, True
        return cost, False

    def _forget(self, group: _Group) -> bool:
        """Drop the values of a buffer, which recipes restore. Return False if that would be impossible."""
        for member in group.members:
            if member.recipe is None or not member.recipe.secure(group.buffer):
                return False
        self._take_away(group, None)
        self.budget._count_forgotten(group.buffer.nbytes)
        return True

    def _write(self, group: _Group) -> bool:
        """Write a buffer to the file and release it. Return False if that is impossible."""
        root = group.buffer.root
        if not self.budget.can_spill or any(n < 0 for n in root.strides) or root.dtype.hasobject:
            return False
        nbytes = group.buffer.nbytes
        handle = self.budget._write(view_at(root, 0, (nbytes,), (1,), _UINT8))
        # Another thread may have taken a share in the meantime.
        if handle is None or not group.is_ours() or not self._file_companion(group, handle):
            return False
        stored = StoredBuffer(self, handle, nbytes, group.clock)
        insort(self.stored, (group.clock, ref(stored)), key=_clock_of)
        self._take_away(group, stored)
        for recipe in group.recipes_with_memory:
            share = recipe.share
            if share is not None:
                recipe.stored = stored, layout_of(share.array, root)
                recipe.share = None
        self.budget._count_written(nbytes)
        return True

    def _file_companion(self, group: _Group, handle: Spilled) -> bool:
        """Make the companion, if any, read its values from the file. Return False if that is impossible."""
        x = group.companion
        if x is None:
            return True
        array = x._array
        if array is None:
            return False  # it was disposed in the meantime
        return leave_together(x, group.buffer, _Filed(array, handle, self.budget))

    def _take_away(self, group: _Group, stored: StoredBuffer | None) -> None:
        root = group.buffer.root
        for member in group.members:
            node, place, share = member.node, member.place, member.share
            saved: Any = node.saved
            if type(saved) is tuple:
                kept = PartlyEvicted(self, member.clock, saved, node.holds)
            elif isinstance(saved, PartlyEvicted):
                kept = saved
            else:
                continue
            if kept.holds[place] is not share:
                continue
            if stored is None:
                absent = EvictedValue(member.recipe, None, None)
            else:
                layout = layout_of(share.array, root)
                absent = EvictedValue(member.recipe, stored, layout)
                stored.waiting.append((ref(node), place))
                if member.recipe is not None:
                    member.recipe.stored = stored, layout
            kept.absent[place] = absent
            kept.values[place] = kept.holds[place] = None
            node.saved = kept
            node.holds = ()
        group.shares.clear()

    # --- Restoration ----------------------------------------------------------------------------------------

    def bring_back(self, absent: EvictedValue) -> Share:
        """Return a share of an evicted value."""
        stored, layout = absent.stored, absent.layout
        if stored is not None and layout is not None:
            whole = stored.read()
            return share_with(whole, layout.over(whole.array))
        assert absent.recipe is not None, "an evicted value has a file or a recipe"
        return self._made(absent.recipe)

    def read_ahead(self, clock: int) -> None:
        """Start reading the buffers that backward needs next after `clock`."""
        del self.stored[bisect_right(self.stored, clock, key=_clock_of) :]
        for _, known in self.stored[-_AHEAD:]:
            stored = known()
            if stored is not None:
                stored.handle.read_ahead()

    def _made(self, wanted: Recipe) -> Share:
        """Compute the value of `wanted` again, with all values that it needs, and return a share of it."""
        order, found, uses = _in_order(wanted)
        for recipe, operands in order:
            share = found[recipe] = self._make(recipe, found)
            _set_in_users(recipe, share)
            for x in operands:
                uses[x] = uses.get(x, 0) - 1
                if uses[x] <= 0 and x is not wanted:
                    found.pop(x, None)
        return found[wanted]

    def _make(self, recipe: Recipe, found: dict[Recipe, Share]) -> Share:
        if recipe.stored is not None:
            stored, layout = recipe.stored
            whole = stored.read()
            return share_with(whole, layout.over(whole.array))
        kernel = recipe.kernel
        if isinstance(kernel, Layout):
            base = found[recipe.operands[0]]
            return share_with(base, kernel.over(base.array))
        if kernel is None:
            raise RuntimeError(
                "backward needs an evicted value without a file or a kernel: this is a bug, report it"
            )
        arrays = [found[x].array if isinstance(x, Recipe) else x for x in recipe.operands]
        out = np.asarray(run_kernel(kernel, *arrays))
        if any(isinstance(x, np.ndarray) and owner_of(x) is owner_of(out) for x in arrays):
            out = copy_array(out)
        self.budget._count_recomputed(out.nbytes)
        return share_of(out)


def _clock_of(entry: tuple[int, ref[StoredBuffer]]) -> int:
    return entry[0]


def _group_of(found: dict[int, _Group], buffer: Buffer) -> _Group:
    group = found.get(id(buffer))
    if group is None:
        group = found[id(buffer)] = _Group(buffer)
    return group


def _in_order(
    wanted: Recipe,
) -> tuple[list[tuple[Recipe, tuple[Recipe, ...]]], dict[Recipe, Share], dict[Recipe, int]]:
    """Return the recipes to run for `wanted`, the values in memory, and the number of uses of each recipe.

    The recipes are in order, operands first, each with the operands that it uses. A value in the file uses no
    operands.
    """
    order: list[tuple[Recipe, tuple[Recipe, ...]]] = []
    found: dict[Recipe, Share] = {}
    uses: dict[Recipe, int] = {}
    seen: set[Recipe] = set()
    stack: list[tuple[Recipe, tuple[Recipe, ...] | None]] = [(wanted, None)]
    while stack:
        recipe, operands = stack.pop()
        if operands is not None:
            order.append((recipe, operands))
            continue
        if recipe in seen:
            continue
        seen.add(recipe)
        share = recipe.present()
        if share is not None:
            found[recipe] = share
            continue
        operands = tuple(recipe.operand_recipes()) if recipe.stored is None else ()
        stack.append((recipe, operands))
        for x in operands:
            uses[x] = uses.get(x, 0) + 1
            stack.append((x, None))
    return order, found, uses


def _set_in_users(recipe: Recipe, share: Share) -> None:
    """Set the value in each node that needs it."""
    for known, place in recipe.users:
        node = known()
        kept = None if node is None else node.saved
        if node is not None and isinstance(kept, PartlyEvicted) and place in kept.absent:
            kept.put(node, place, share)


def _nbytes_at(node: Node, place: int) -> int:
    """Return the bytes of a saved array of `node`; 0 for other values."""
    source = node.plan.saves[place]
    if isinstance(source, str):
        return 0
    of = node if source == len(node.next) else node.next[source]
    return 0 if of is None else prod(of.shape) * of.dtype.itemsize


def _divide(node: Node) -> list[Node] | None:
    recorder = innermost_recorder()
    while recorder is not None and not isinstance(recorder, Evictions):
        recorder = recorder.outer
    return None if recorder is None else recorder.divide(node)


divide_by(_divide)


def new_tape(budget: budgets.budget) -> tuple[Evictions, Recording]:
    """Return the evictions of `budget`, and the context manager in which they record nodes."""
    tape = Evictions(budget)
    return tape, Recording(tape)
