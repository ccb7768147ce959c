"""What a budget does to the tape: saved values leave memory, and come back when backward asks for them.

When the allocator has no room, `Evictions.evict` looks for buffers that only the saved values of its nodes
hold. Each leaves in the cheaper of two ways: it is forgotten, and a kernel makes it again (`Recipe`), or its
bytes go to a file. Which buffers go first follows Kirisame et al., "Dynamic Tensor Rematerialization" (2021):
those of the least cost / (bytes x staleness). The cost is estimated from shapes, and staleness counts ops, so
a program evicts the same buffers each time it runs.

Tensors that nobody looks at go to the file too: gradients that wait for the optimizer, its state, data. They
are read when somebody looks at them (`tensor.core.idle`).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from tensor.core.filed_values import FiledValues
from tensor.core.idle import idle_tensors, move_to_file
from tensor.core.storage import share_of
from tensor.kernels.context import run_kernel
from tensor.memory.buffer import copy as copy_array
from tensor.memory.buffer import empty, owner_of, share_with, view_at
from tensor.tape.modes import Recorder, Recording
from tensor.tape.nodes import Deferred, Node
from tensor.tape.recipes import Layout, Recipe, holds_of, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scopes.lowlevel import Spilled
    from tensor._dtypes import Array
    from tensor.memory import budgets
    from tensor.memory.buffer import Buffer, Share

# What it takes to write a byte to a file and read it again, in the time that a byte takes to be read from
# memory or written there by a kernel.
_WRITTEN_AND_READ = 16.0
_READ = 6.0
# How many buffers the system reads into its cache before backward needs them.
_AHEAD = 4
_FEW = 1000
_UINT8 = np.dtype(np.uint8)


class Absent:
    """Says of a saved value that it is not in memory, and where it comes from."""

    __slots__ = ("layout", "recipe", "stored")

    def __init__(self, recipe: Recipe | None, stored: StoredBuffer | None, layout: Layout | None) -> None:
        self.recipe: Recipe | None = recipe
        self.stored: StoredBuffer | None = stored
        self.layout: Layout | None = layout


class Kept(Deferred):
    """Stands for the saved values of a node some of which are not in memory."""

    __slots__ = ("absent", "clock", "holds", "tape", "values")

    def __init__(
        self, tape: Evictions, clock: int, values: Iterable[Any], holds: Iterable[Share | None]
    ) -> None:
        self.tape: Evictions = tape
        self.clock: int = clock
        self.values: list[Any] = list(values)
        self.holds: list[Share | None] = list(holds)
        self.absent: dict[int, Absent] = {}

    def restore(self, node: Node) -> None:
        """Make the values again, or read them."""
        self.tape.clock = self.clock
        for place in list(self.absent):
            absent = self.absent.get(place)
            if absent is None:
                continue  # it came with another one
            share = self.tape.bring_back(absent)
            if place in self.absent:
                self.put(node, place, share)

    def put(self, node: Node, place: int, share: Share) -> None:
        """Let `node` have one of the values; with the last it has them as ever."""
        self.values[place] = share.array
        self.holds[place] = share
        del self.absent[place]
        if not self.absent:
            node.holds = tuple(self.holds)
            node.saved = tuple(self.values)

    def shares(self) -> list[Share]:
        """Return the shares of what is in memory."""
        kept = [share for share in self.holds if share is not None]
        for value in self.values:
            kept += getattr(value, "holds", ())
        return kept


class StoredBuffer:
    """The contents of a buffer in a file, and the nodes that wait for them."""

    __slots__ = ("__weakref__", "clock", "handle", "nbytes", "tape", "waiting")

    def __init__(self, tape: Evictions, handle: Spilled, nbytes: int, clock: int) -> None:
        self.tape: Evictions = tape
        self.handle: Spilled = handle
        self.nbytes: int = nbytes
        # That of the node which backward will come to first.
        self.clock: int = clock
        self.waiting: list[tuple[ref[Node], int]] = []

    def read(self) -> Share:
        """Return a share of all of it, as bytes, and let each node that waits have its part."""
        raw = empty((self.nbytes,), _UINT8)
        self.handle.read_into(raw.data)
        self.tape.read_ahead(self.clock)
        self.tape.budget._count_read(self.nbytes)
        whole = share_of(raw)
        for known, place in self.waiting:
            node = known()
            kept = None if node is None else node.saved
            if node is not None and isinstance(kept, Kept):
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


class _Member:
    """One place of one node at which a buffer is saved."""

    __slots__ = ("clock", "node", "place", "recipe", "share")

    def __init__(self, node: Node, clock: int, place: int, share: Share, recipe: Recipe | None) -> None:
        self.node = node
        self.clock = clock
        self.place = place
        self.share = share
        self.recipe = recipe


class _Group:
    """A buffer, with all that hold it as far as the tape knows."""

    __slots__ = ("buffer", "claims", "clock", "members", "shares")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.members: list[_Member] = []
        self.claims: list[Recipe] = []
        self.shares: set[int] = set()
        # That of the node which backward will come to first.
        self.clock = 0

    def is_ours(self) -> bool:
        """Tell whether nobody else holds the buffer."""
        buffer = self.buffer
        return buffer.sharers == len(self.shares) and not buffer.exports and not buffer.is_external


class Evictions(Recorder):
    """Is shown the nodes that are recorded in a budget, and takes their saved values out of memory."""

    __slots__ = ("budget", "claims", "clock", "count", "least", "most", "nodes", "stored")

    def __init__(self, budget: budgets.budget) -> None:
        super().__init__()
        self.budget: budgets.budget = budget
        # Each with its number.
        self.nodes: list[tuple[ref[Node], int]] = []
        self.claims: list[ref[Recipe]] = []
        # At so many those that have gone are taken out.
        self.most: int = _FEW
        # How many nodes there were.
        self.count: int = 0
        # Where the program is: the number of the node that was recorded or restored last.
        self.clock: int = 0
        # What is in the file, by the clock.
        self.stored: list[tuple[int, ref[StoredBuffer]]] = []
        # Smaller buffers are left alone.
        self.least: int = max(256, min(1 << 16, budget.nbytes // 1024))

    def show(self, node: Node) -> None:
        if type(node) is Node and node.recipe is None:
            recipe = node.recipe = Recipe(self.claims)
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
                self.claims[:] = [claim for claim in self.claims if claim() is not None]
                self.most = 2 * len(self.nodes) + _FEW
        super().show(node)

    # --- Out of memory --------------------------------------------------------------------------------------

    def evict(self, nbytes: int) -> int:
        """Take at least `nbytes` out of memory if so much can go; return how many went."""
        groups = self._groups()
        costs = []
        most = 1
        for number, group in enumerate(groups):
            cost, is_made_again = self._cheapest(group)
            if cost is None:
                continue
            staleness = abs(self.clock - group.clock) + 1
            most = max(most, staleness)
            costs.append((cost / (group.buffer.nbytes * staleness), number, is_made_again))
        idle = idle_tensors(self.least) if self.budget.can_spill else []
        # The optimizer needs them, after all that backward needs.
        costs += [(_WRITTEN_AND_READ / (most + 1), len(groups) + i, False) for i in range(len(idle))]
        costs.sort()
        gone = 0
        for _, number, is_made_again in costs:
            if gone >= nbytes:
                break
            if number >= len(groups):
                gone += move_to_file(idle[number - len(groups)], self._filed)
                continue
            group = groups[number]
            size = group.buffer.nbytes
            if (is_made_again and self._forget(group)) or self._write(group):
                gone += size
        return gone

    def _filed(self, array: Array) -> FiledValues | None:
        """Write the values of a tensor to the file; None, with the error noted, if that fails."""
        handle = self.budget._write(array.reshape(-1, order="A").view(_UINT8))
        if handle is None:
            return None
        self.budget._count_written(array.nbytes)
        return _Filed(array, handle, self.budget)

    def _groups(self) -> list[_Group]:
        """Return the buffers that nobody holds but saved values, and what recipes keep."""
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
            if node.is_in_use or not (type(saved) is tuple or isinstance(saved, Kept)):
                continue
            self._add_members(found, node, clock)
        if len(left) < len(self.nodes):
            self.nodes = left
        claims = []
        for claim in self.claims:
            recipe = claim()
            if recipe is None or recipe.share is None:
                continue
            claims.append(claim)
            group = _group_of(found, recipe.share.buffer)
            group.claims.append(recipe)
            group.shares.add(id(recipe.share))
        self.claims[:] = claims
        return [group for group in found.values() if group.buffer.nbytes >= self.least and group.is_ours()]

    def _add_members(self, found: dict[int, _Group], node: Node, clock: int) -> None:
        plan, holds, nexts = node.plan, holds_of(node), node.next
        if len(holds) != len(plan.saves):
            return
        if plan.saves_out and holds[plan.saves.index(len(nexts))] is None and type(node.saved) is tuple:
            return  # it is being recorded, or its output is small
        for place, share in enumerate(holds):
            if share is None:
                continue
            source = plan.saves[place]
            recipe: Recipe | None
            if isinstance(source, str):
                if node.recipe is not None and node.recipe.kernel is not None:
                    continue  # the kernel may use it
                recipe = None
            elif source == len(nexts):
                recipe = node.recipe
            else:
                before = nexts[source]
                recipe = None if before is None else before.recipe
            group = _group_of(found, share.buffer)
            group.members.append(_Member(node, clock, place, share, recipe))
            group.shares.add(id(share))
            group.clock = max(group.clock, clock)

    def _cheapest(self, group: _Group) -> tuple[float | None, bool]:
        """Return what it costs to have the buffer back, and whether kernels make it; None: it can't go."""
        budget = self.budget
        cost: float | None = None
        if budget.can_spill:
            cost = _WRITTEN_AND_READ * group.buffer.nbytes
        if not budget.recompute or group.claims:
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
        """Let the values of a buffer go, to be made again; False if something is missing for that."""
        for member in group.members:
            if member.recipe is None or not member.recipe.secure(group.buffer):
                return False
        self._take_away(group, None)
        self.budget._count_forgotten(group.buffer.nbytes)
        return True

    def _write(self, group: _Group) -> bool:
        """Write a buffer to the file and let it go; False if that can't be."""
        root = group.buffer.root
        if not self.budget.can_spill or any(n < 0 for n in root.strides) or root.dtype.hasobject:
            return False
        nbytes = group.buffer.nbytes
        handle = self.budget._write(view_at(root, 0, (nbytes,), (1,), _UINT8))
        # Another thread may have taken a share meanwhile.
        if handle is None or not group.is_ours():
            return False
        stored = StoredBuffer(self, handle, nbytes, group.clock)
        insort(self.stored, (group.clock, ref(stored)), key=_clock_of)
        self._take_away(group, stored)
        for recipe in group.claims:
            share = recipe.share
            if share is not None:
                recipe.stored = stored, layout_of(share.array, root)
                recipe.share = None
        self.budget._count_written(nbytes)
        return True

    def _take_away(self, group: _Group, stored: StoredBuffer | None) -> None:
        root = group.buffer.root
        for member in group.members:
            node, place, share = member.node, member.place, member.share
            saved: Any = node.saved
            if type(saved) is tuple:
                kept = Kept(self, member.clock, saved, node.holds)
            elif isinstance(saved, Kept):
                kept = saved
            else:
                continue
            if kept.holds[place] is not share:
                continue
            if stored is None:
                absent = Absent(member.recipe, None, None)
            else:
                layout = layout_of(share.array, root)
                absent = Absent(member.recipe, stored, layout)
                stored.waiting.append((ref(node), place))
                if member.recipe is not None:
                    member.recipe.stored = stored, layout
            kept.absent[place] = absent
            kept.values[place] = kept.holds[place] = None
            node.saved = kept
            node.holds = ()
        group.shares.clear()

    # --- And back -------------------------------------------------------------------------------------------

    def bring_back(self, absent: Absent) -> Share:
        """Return a share of a value that was taken out of memory."""
        stored, layout = absent.stored, absent.layout
        if stored is not None and layout is not None:
            whole = stored.read()
            return share_with(whole, layout.over(whole.array))
        assert absent.recipe is not None, "a value that went can be read or made"
        return self._made(absent.recipe)

    def read_ahead(self, clock: int) -> None:
        """Let the system read what backward will need after what it needs at `clock`."""
        del self.stored[bisect_right(self.stored, clock, key=_clock_of) :]
        for _, known in self.stored[-_AHEAD:]:
            stored = known()
            if stored is not None:
                stored.handle.read_ahead()

    def _made(self, wanted: Recipe) -> Share:
        """Return a share of the value of `wanted`, made again with all that it needs."""
        order, found, uses = _in_order(wanted)
        for recipe, operands in order:
            share = found[recipe] = self._make(recipe, found)
            _hand_out(recipe, share)
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
                "a value that backward needs is gone, and nothing makes it again: this is a bug"
            )
        arrays = [found[x].array if isinstance(x, Recipe) else x for x in recipe.operands]
        out = np.asarray(run_kernel(kernel, *arrays))
        if any(isinstance(x, np.ndarray) and owner_of(x) is owner_of(out) for x in arrays):
            out = copy_array(out)
        self.budget._count_made(out.nbytes)
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
    """Return what to make for `wanted`, operands first; what is there of these; how often each is used.

    What is made comes with the operands that it uses: none if it is read from the file.
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
        operands = tuple(recipe.made_of()) if recipe.stored is None else ()
        stack.append((recipe, operands))
        for x in operands:
            uses[x] = uses.get(x, 0) + 1
            stack.append((x, None))
    return order, found, uses


def _hand_out(recipe: Recipe, share: Share) -> None:
    """Let each node that waits for the value have it."""
    for known, place in recipe.users:
        node = known()
        kept = None if node is None else node.saved
        if node is not None and isinstance(kept, Kept) and place in kept.absent:
            kept.put(node, place, share)


def new_tape(budget: budgets.budget) -> tuple[Evictions, Recording]:
    """Return what evicts for `budget`, and a block in which it is shown what is recorded."""
    tape = Evictions(budget)
    return tape, Recording(tape)
