"""Recipes: how a budget computes the outputs of recorded ops again.

A budget (``tensor.memory.budget``) limits the memory of tensors: it evicts saved values, and computes them
again for backward or reads them from a file. Each node that it records has a `Recipe` for its output: the
kernel, and the recipes of its operands. A recipe does not keep operands with a history in memory. So the
first recipes of a chain need values in memory or in the file. Before a value is evicted, `Recipe.secure`
makes sure that these values stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import ref

import numpy as np

from tensor._dtypes import Array, Dtype
from tensor.core.tensor import TensorCore, snapshot_share
from tensor.memory.buffer import Share, offset_in, owner_of, share_with, view_at

if TYPE_CHECKING:
    from tensor.tape.recording import Node

# Keep operands of fewer bytes, because computing them again costs more than it saves.
_SMALL = 4096
# The number of floating-point operations that take as long as reading or writing one byte.
_FLOPS_IN_PRODUCT = 16.0
_FLOPS_IN_CONVOLUTION = 8.0
_PRODUCTS = frozenset({"linear", "matmul", "vecdot", "einsum", "tensordot"})
# Ops that take longer for each byte than an addition does.
_SLOW = frozenset(
    {"gelu", "gelu_by_tanh", "silu", "softmax", "log_softmax", "tanh", "exp", "erf", "pow", "dropout"}
)


class Layout(NamedTuple):
    """The position of an array relative to the first element of another array."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Dtype

    def over(self, base: Array) -> Array:
        """Return the array at this position in the memory of `base`."""
        return view_at(base, self.offset, self.shape, self.strides, self.dtype)


def layout_of(array: Array, base: Array) -> Layout:
    """Return the position of `array` in the memory of `base`."""
    return Layout(offset_in(array, base), array.shape, array.strides, array.dtype)


class Stored(Protocol):
    """The contents of a buffer that were written to a file."""

    nbytes: int

    def read(self) -> Share:
        """Return a share of the whole buffer, as bytes."""


class Recipe:
    """How to restore one value: by a kernel, as a view, from a file, or from a share that it keeps."""

    __slots__ = (
        "__weakref__",
        "is_secured",
        "keeps",
        "kernel",
        "operands",
        "recipes_with_memory",
        "share",
        "stored",
        "users",
        "work",
    )

    def __init__(self, recipes_with_memory: list[ref[Recipe]]) -> None:
        # All recipes of the budget with a share, so that their memory can be evicted.
        self.recipes_with_memory: list[ref[Recipe]] = recipes_with_memory
        # A function of the operands' arrays that returns the value's array, or the `Layout` of a view.
        self.kernel: Callable[..., Any] | Layout | None = None
        # Each is a recipe, a small array or a number.
        self.operands: tuple[Any, ...] = ()
        # The nodes that save the value, each with the value's index in it.
        self.users: list[tuple[ref[Node], int]] = []
        # The value itself, if no kernel can compute it again.
        self.share: Share | None = None
        # The bytes in the file, and the position of the value in them.
        self.stored: tuple[Stored, Layout] | None = None
        # The shares of the kernel's parameters.
        self.keeps: tuple[Share, ...] = ()
        # The cost of the kernel, in units of the time to read or write one byte.
        self.work: float = 0.0
        # Whether the value can be restored after any other value is evicted.
        self.is_secured: bool = False

    # --- Recording ------------------------------------------------------------------------------------------

    def remember(
        self,
        node: Node,
        kernel: Callable[..., Any],
        inputs: Sequence[object],
        parameters: Mapping[str, object] | None,
    ) -> None:
        """Record that ``kernel(*arrays)`` computes the value from `inputs`, if these can be restored."""
        keeps = [] if parameters is None else _kept_parameters(node, parameters)
        if keeps is None:
            return
        operands: list[Any] = []
        arrays: list[Any] = []
        for place, x in enumerate(inputs):
            if isinstance(x, TensorCore):
                if x.is_invalid:
                    return
                found = self._of_input(node, place, x)
                if found is None:
                    return
                arrays.append(x._live_array())
                operands.append(found)
            elif isinstance(x, np.ndarray):
                if x.nbytes > _SMALL:
                    return  # the user may write to this array
                arrays.append(x)
                operands.append(x.copy())
            else:
                operands.append(x)
        self.kernel = kernel
        self.operands = tuple(operands)
        self.keeps = tuple(keeps)
        self.work = _work(node, arrays)

    def _of_input(self, node: Node, place: int, x: TensorCore) -> Recipe | None:
        before = node.next[place] if place < len(node.next) else None
        known: Recipe | None = None if before is None else before.recipe
        array = x._live_array()
        if known is not None and array.nbytes >= _SMALL:
            return known
        source = Recipe(self.recipes_with_memory)
        if place < len(node.next) and place in node.plan.saves:
            source.share = _hold_of(node, place)
            if source.share is None:
                return None
        else:
            buffer = x._buffer
            if buffer.is_borrowed or buffer.exports or buffer.writers:
                return None  # other code may write to it, and a copy takes memory
            source.share = snapshot_share(x)
        source.is_secured = True
        self.recipes_with_memory.append(ref(source))
        return source

    def remember_like(self, other: Recipe, kernel: Callable[..., Any]) -> None:
        """Record that `kernel` computes the value from the operands of `other`."""
        if other.kernel is not None:
            self.kernel, self.operands, self.work = kernel, other.operands, other.work

    def remember_after(self, before: Recipe, kernel: Callable[[Array], Any], node: Node) -> None:
        """Record that `kernel` computes the value of `node` from the value of `before`."""
        self.kernel, self.operands = kernel, (before,)
        self.work = _work(node, [])

    def remember_view(self, node: Node, array: Array, out: Array) -> None:
        """Record that the value is the view `out` of `array`, the value of the previous node."""
        before = node.next[0]
        if before is not None and before.recipe is not None and owner_of(array) is owner_of(out):
            self.kernel, self.operands = layout_of(out, array), (before.recipe,)

    # --- Restoring ------------------------------------------------------------------------------------------

    def present(self) -> Share | None:
        """Return a share of the value, if it is in memory."""
        if self.share is not None:
            return self.share
        for known, place in self.users:
            node = known()
            if node is None or node.saved is None:
                continue
            holds = holds_of(node)
            share = holds[place] if place < len(holds) else None
            if share is not None:
                return share
        return None

    def operand_recipes(self) -> Iterator[Recipe]:
        """Return the recipes of the operands."""
        for x in self.operands:
            if isinstance(x, Recipe):
                yield x

    def secure(self, leaving: object) -> bool:
        """Make sure that the value can be restored after the buffer `leaving` and others are evicted.

        Keep the operands that no kernel computes. Return False if such an operand is evicted or in `leaving`.
        """
        waiting, passed = [self], [self]
        kept: list[tuple[Recipe, Share]] = []
        known = {self}
        while waiting:
            recipe = waiting.pop()
            if recipe.share is not None or recipe.stored is not None:
                continue
            if recipe.kernel is None:
                share = None if recipe is self else recipe.present()
                if share is None or share.buffer is leaving:
                    return False
                kept.append((recipe, share))
                continue
            for x in recipe.operand_recipes():
                if x not in known and not x.is_secured:
                    known.add(x)
                    waiting.append(x)
                    passed.append(x)
        for recipe, share in kept:
            recipe.share = share_with(share, share.array)
            self.recipes_with_memory.append(ref(recipe))
        for recipe in passed:
            recipe.is_secured = True
        return True

    def cost(self, depth: int = 8) -> float:
        """Return the cost of restoring the value, including operands that are not in memory."""
        total = self.work
        for x in self.operand_recipes():
            if depth and x.share is None and x.present() is None:
                total += x.cost(depth - 1)
        return total


def holds_of(node: Node) -> Sequence[Share | None]:
    """Return the shares of the saved values of `node`, in the order of its plan."""
    saved: Any = node.saved
    if type(saved) is tuple:
        return node.holds
    return getattr(saved, "holds", ())


def _hold_of(node: Node, source: int | str) -> Share | None:
    """Return the share that `node` saved for an input or a parameter."""
    if source not in node.plan.saves or not isinstance(node.saved, tuple):
        return None
    return node.holds[node.plan.saves.index(source)]


def _kept_parameters(node: Node, parameters: Mapping[str, object]) -> list[Share] | None:
    """Return the shares of the tensors in `parameters`, or None if `node` does not share one's memory."""
    kept = []
    for name, value in parameters.items():
        if not isinstance(value, TensorCore):
            continue
        share = _hold_of(node, name)
        if share is None or value.is_invalid or share.buffer is not value._buffer:
            return None
        kept.append(share)
    return kept


def _work(node: Node, arrays: Sequence[Array]) -> float:
    """Estimate the cost of a kernel from shapes, so that it is the same in each run."""
    name = node.rule.name
    elements = prod(node.shape)
    nbytes = float(elements * node.dtype.itemsize)
    if name in _PRODUCTS and arrays:
        inner: int = arrays[0].shape[-1] if arrays[0].ndim else 1
        return 2.0 * elements * inner / _FLOPS_IN_PRODUCT + nbytes
    if name == "convolution" and len(arrays) > 1:
        taps: int = prod(arrays[1].shape[1:])
        return 2.0 * elements * taps / _FLOPS_IN_CONVOLUTION + nbytes
    if name == "attention" and len(arrays) > 1:
        keys: int = arrays[1].shape[-2]
        return 4.0 * arrays[0].size * keys / _FLOPS_IN_CONVOLUTION + nbytes
    moved = nbytes + (sum(x.nbytes for x in arrays) or nbytes)
    return 4.0 * moved if name in _SLOW else moved
