"""A budget for all that PyTorch's tensors hold in training steps: saved values are computed again or spilled.

A dispatch mode sees each operation of the thread, in forward, backward and the optimizer's step. Before an
operation runs, values that only graphs hold leave memory until its results fit. Backward computes them again
from their recipes (see `recomputing`) or reads them from the file.
"""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections import deque
from collections.abc import Set
from operator import attrgetter
from typing import Any

from scopes._shared.guard import Guard
from scopes._shared.sizes import format_bytes
from scopes._shared.spill import SpillFile
from scopes.adapters.torch.disposal import return_large_blocks, trim
from scopes.adapters.torch.library import torch, tried
from scopes.adapters.torch.noting import paused
from scopes.adapters.torch.recomputing import (
    BATCH_NORMS,
    TRAINING,
    Hold,
    Kind,
    Operand,
    Recipe,
    Value,
    Watch,
    mapped,
    recipe_of,
    recipes_for,
    results_of,
)
from scopes.adapters.torch.saved import SMALL, Version, is_movable, is_wrapped, nothing_on
from scopes.adapters.torch.transfers import buffer_of, paged

TorchDispatchMode: Any = torch.utils._python_dispatch.TorchDispatchMode
TorchFunctionMode: Any = torch.overrides.TorchFunctionMode
_NoFunctions = torch._C.DisableTorchFunction
_NoModes = torch._C._DisableTorchDispatch
_use_count = torch._C._storage_Use_Count
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# The time to write a byte to the file and to read it back, until it has been measured.
_SECONDS_A_BYTE = 1.2e-3 / 2**20
# What a thread dispatches to outside of all modes.
_DISPATCH_KEYS = tried(
    lambda: (torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set())
)
_LEAST_TO_TRIM = 16 * 2**20
_ON_A_GPU = (
    "a budget with recompute=True is for tensors on the CPU, and this step uses {}. For a GPU write "
    "scopes.torch.budget(size), which moves saved tensors to pinned memory"
)


# Methods that read the memory of a tensor without an operation. The first ones hand it out.
_HANDING_OUT = {
    torch.Tensor.data_ptr,
    torch.Tensor.untyped_storage,
    torch.Tensor.storage,
    torch.Tensor.__dlpack__,
    torch.Tensor.share_memory_,
    torch.Tensor.__reduce_ex__,
    torch.Tensor.__deepcopy__,
}
_READING = {
    torch.Tensor.numpy,
    torch.Tensor.tolist,
    torch.Tensor.__array__,
    torch.Tensor.__repr__,
    torch.Tensor.__format__,
}


class _Saved:
    """Represents a saved tensor in the graph."""

    __slots__ = ("hold", "number", "operand", "version")

    def __init__(self, operand: Operand, number: int, version: Version, hold: Hold) -> None:
        self.operand, self.number, self.version, self.hold = operand, number, version, hold


class _SavedLeaf:
    """Represents a saved tensor that the program holds too, such as a parameter or a view of one."""

    __slots__ = ("dtype", "offset", "shape", "storage", "strides", "version")

    def __init__(self, x: Any, storage: Any, version: Version) -> None:
        self.storage, self.version = storage, version
        self.dtype, self.shape = x.dtype, x.shape
        self.strides, self.offset = x.stride(), x.storage_offset()


class _Mark(weakref.ref[Hold]):
    """Weak reference to a hold. One call in C appends it to a list when the hold is freed."""

    __slots__ = ("key",)

    key: int


class _Call:
    """An operation that is running."""

    __slots__ = ("before", "key", "kind", "operands", "recipe", "written")

    def __init__(self, kind: Kind, key: Any, operands: set[int], written: list[Any]) -> None:
        self.kind: Kind = kind
        self.key: Any = key
        # The keys of the storages of its operands.
        self.operands: set[int] = operands
        self.written: list[Any] = written
        self.recipe: Recipe | None = None
        # The values that it writes, by the key of the storage.
        self.before: dict[int, Value] = {}


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    """Shows the budget each operation of the thread."""

    def __init__(self, steps: WholeSteps) -> None:
        super().__init__()
        self._steps = steps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        steps = self._steps
        call = steps.guard.run(steps.begin, func, args, kwargs)
        if call is None:
            return func(*args, **kwargs)
        start = time.perf_counter()
        result = func(*args, **kwargs)
        seconds = time.perf_counter() - start
        steps.guard.run(steps.end, call, result, seconds)
        return result


class _Functions(TorchFunctionMode):  # type: ignore[misc]
    """Shows the budget the methods that read a tensor's memory without an operation."""

    def __init__(self, steps: WholeSteps) -> None:
        super().__init__()
        self._steps = steps

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_handing_out = func in _HANDING_OUT
        if (is_handing_out or func in _READING) and args:
            self._steps.guard.run(self._steps.expose, args[0], is_handing_out)
        return func(*args, **(kwargs or {}))


class WholeSteps:
    """What a ``scopes.torch.budget`` with ``recompute=True`` does."""

    def __init__(self, limit: int, spill: str | os.PathLike[str] | None, spills_parameters: bool) -> None:
        self.limit = limit
        self.spills_parameters = spills_parameters
        self.file: SpillFile | None = None if spill is None else SpillFile(spill)
        self.guard: Guard = Guard()
        self.peak: int = 0
        self.spills: int = 0
        self.returns: int = 0
        self.recomputed: int = 0
        self.recomputed_seconds: float = 0.0
        self._live = 0
        # The storages in memory, and the values in them, by the address of the storage.
        self._watches: dict[int, Watch] = {}
        self._values: dict[int, Value] = {}
        # All holds.
        self._holds: dict[int, _Mark] = {}
        self._let_go: deque[_Mark] = deque()
        self._ended: deque[Watch] = deque()
        # The storages that the program holds and whose content is in the file, and those whose memory it has
        # handed to other code.
        self._emptied: dict[int, Watch] = {}
        self._handed_out: set[int] = set()
        self._operations = 0
        self._kinds: dict[Any, Kind] = {}
        # The bytes of the results, and the least seconds, by the operation and the shapes of its operands.
        self._sizes: dict[Any, int] = {}
        self._seconds: dict[Any, float] = {}
        self._numbers = 0
        self._position = 0
        self._freed = 0
        self._moved_bytes, self._moved_seconds = 0, 0.0
        self._is_known = self._is_under_pressure = False
        self._hooks: Any = None
        self._mode: _Mode | None = None
        self._functions: _Functions | None = None

    @property
    def is_open(self) -> bool:
        """Whether the block is open."""
        return self._mode is not None or self._hooks is not None or self._functions is not None

    def open(self) -> None:
        """Begin the block on this thread."""
        with _NoModes(), _NoFunctions(), paused():
            if not self._is_known:
                self._find_tensors()
            self._collect()
            # An interrupt may have left it wrong.
            self._live = sum(watch.nbytes for watch in self._watches.values())
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        mode, functions = _Mode(self), _Functions(self)
        hooks.__enter__()
        self._hooks = hooks
        mode.__enter__()
        self._mode = mode
        if self.spills_parameters:
            functions.__enter__()
            self._functions = functions

    def close(self) -> None:
        """End the block, with the content of all tensors of the program in memory."""
        functions, self._functions = self._functions, None
        if functions is not None:
            functions.__exit__(None, None, None)
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.__exit__(None, None, None)
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            hooks.__exit__(None, None, None)
        self.guard.run(self._refill_all)

    def held_bytes(self) -> int:
        """Return the bytes of the tensors in memory."""
        self.guard.run(self._collect)
        return self._live

    # --- Storages and their values ------------------------------------------------------------------------

    def _find_tensors(self) -> None:
        """Count the tensors that are older than the block."""
        for x in gc.get_objects():
            if torch.Tensor in type(x).__mro__ and _is_plain(x):
                self._watch_of(x.untyped_storage())
                gradient = x.grad if x.is_leaf and x.requires_grad else None
                if gradient is not None and _is_plain(gradient):
                    self._watch_of(gradient.untyped_storage())
        self._is_known = True
        self.peak = max(self.peak, self._live)

    def _watch_of(self, storage: Any) -> Watch:
        key = storage._cdata
        watch = self._watches.get(key)
        if watch is not None and watch() is storage:
            return watch
        watch = Watch(storage, self._ended.append)
        watch.key = key
        watch.nbytes = 0 if storage.device.type == "meta" else storage.nbytes()
        watch.is_older = self._mode is None
        watch.last_use, watch.spilled = self._operations, None
        self._watches[key] = watch
        self._live += watch.nbytes
        return watch

    def _collect(self) -> None:
        """Forget the storages and the holds that have been freed."""
        let_go, ended = self._let_go, self._ended
        while let_go:
            mark = let_go[0]
            if self._holds.get(mark.key) is mark:
                del self._holds[mark.key]
                if not self._holds:  # no graph needs recipes
                    for value in self._values.values():
                        value.recipe = None
            let_go.popleft()
        while ended:
            watch = ended[0]
            nbytes, watch.nbytes = watch.nbytes, 0
            self._live -= nbytes
            self._freed += nbytes
            if self._watches.get(watch.key) is watch:
                del self._watches[watch.key]
                self._values.pop(watch.key, None)
                self._emptied.pop(watch.key, None)
                self._handed_out.discard(watch.key)
            ended.popleft()

    def _known_value(self, x: Any) -> Value | None:
        """Return the value in the storage of `x`, or None if no recipe or graph needs it."""
        if not _is_plain(x):
            return None
        watch = self._watch_of(x.untyped_storage())
        value = self._values.get(watch.key)
        return value if value is not None and value.watch is watch else None

    def _value_of(self, x: Any) -> Value | None:
        """Return the value in the storage of `x`, or None if this kind of tensor has none."""
        if not _is_plain(x):
            return None
        value = self._known_value(x)
        if value is None:
            watch = self._watch_of(x.untyped_storage())
            value = self._values[watch.key] = Value(watch, None)
        return value

    def _input_of(self, x: Any) -> Value | None:
        """Return the value in the storage of `x`, which a recipe reads."""
        value = self._value_of(x)
        if value is not None and value.recipe is None and value.check is None:
            value.check = _check_of(x)
        return value

    def _keep(self, hold: Hold, storage: Any) -> None:
        """Keep the content of `hold` in memory, in `storage`."""
        watch = self._watch_of(storage)
        mark = self._holds.get(id(hold))
        if mark is None or mark() is not hold:
            mark = _Mark(hold, self._let_go.append)
            mark.key = id(hold)
            self._holds[mark.key] = mark
        hold.value.watch = watch
        self._values[watch.key] = hold.value
        hold.storage = storage

    def _is_there(self, value: Value) -> bool:
        """Return whether the content of `value` is in memory or in the file, and a hold can keep it."""
        hold = value.hold
        return (hold is not None and not hold.is_outside) or self._is_given(value)

    def _is_given(self, value: Value) -> bool:
        """Return whether the program holds the content: a parameter, or a batch."""
        watch = value.watch
        return (
            value.recipe is None
            and watch is not None
            and watch() is not None
            and self._values.get(watch.key) is value
        )

    def _hold_of(self, value: Value) -> Hold:
        """Return the hold of a value that is there."""
        hold = value.hold
        if hold is None or hold.is_outside:
            assert value.watch is not None
            hold = hold or Hold(value, None)
            self._keep(hold, value.watch())
        return hold

    # --- Operations ---------------------------------------------------------------------------------------

    def begin(self, func: Any, args: Any, kwargs: Any) -> _Call | None:
        """Make room for the results of an operation. Return None if it allocates nothing."""
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = Kind(func)
        if kind.is_view and not self._emptied:
            return None
        with _NoFunctions(), paused():
            self._collect()
            operands = [x for x in results_of([*args, *kwargs.values()]) if x is not None]
            if not all(type(x) in _PLAIN for x in operands) or (operands and is_wrapped(operands[0])):
                return None  # the class runs its own operations
            for x in operands:
                if x.device.type not in ("cpu", "meta"):
                    raise RuntimeError(_ON_A_GPU.format(x.device))
            used = [self._watch_of(x.untyped_storage()) for x in operands if _is_plain(x)]
            watches = {watch.key: watch for watch in used}
            self._operations += 1
            for watch in watches.values():
                watch.last_use = self._operations
            keys = set(watches)
            self._refill([watch for watch in watches.values() if watch.key in self._emptied], keys)
            if kind.is_view:
                return None
            writes = [] if func in BATCH_NORMS and not args[TRAINING] else kind.writes
            written = [x for x in results_of([_at(args, kwargs, i) for i in writes]) if x is not None]
            for x in written:
                if _is_plain(x):
                    self._watch_of(x.untyped_storage()).spilled = None
            call = _Call(kind, _key(func, args, kwargs), keys, written)
            nbytes = self._sizes.get(call.key) if call.key is not None else None
            if nbytes is None:
                nbytes = 0 if kind.writes and kind.writes == [0] else _predicted(func, args, kwargs)
            self._make_room(nbytes, str(func), keys=keys)
            if torch.is_grad_enabled() and kind.can_be_again:
                call.recipe = recipe_of(func, kind, args, kwargs, self._input_of)
            for x in written:
                value = self._known_value(x)
                if value is not None and value.watch is not None:
                    self._preserve(value, x)
                    # From here to `end`, the content is unknown: the operation may fail, or be interrupted.
                    call.before[value.watch.key] = self._values.pop(value.watch.key)
                    value.watch = None
                    hold = value.hold
                    if hold is not None and hold.storage is not None and not hold.is_saved:
                        hold.storage = None
            return call

    def end(self, call: _Call, result: Any, seconds: float) -> None:
        """Register the results of an operation."""
        with _NoFunctions(), paused():
            recipe, nbytes = call.recipe, 0
            least = self._seconds.get(call.key)
            seconds = seconds if least is None else min(seconds, least)
            for x in call.written:
                self._rewrite(x, call, recipe if recipe is not None and recipe.written is not None else None)
            outputs: list[weakref.ref[Value] | None] = []
            for x in results_of(result):
                value = None
                if x is not None and _is_plain(x):
                    if x.device.type not in ("cpu", "meta"):
                        raise RuntimeError(_ON_A_GPU.format(x.device))
                    storage = x.untyped_storage()
                    if storage._cdata not in call.operands:
                        watch = self._watch_of(storage)
                        nbytes += watch.nbytes
                        if recipe is not None:
                            value = self._values[watch.key] = Value(watch, recipe)
                outputs.append(None if value is None else weakref.ref(value))
            if recipe is not None:
                recipe.seconds = seconds
                if recipe.written is None:
                    recipe.outputs, recipe.nbytes = outputs, nbytes
            if call.key is not None:
                self._sizes[call.key], self._seconds[call.key] = nbytes, seconds
            x = result = None
            self._make_room(0, "the operation that has run")
            self.peak = max(self.peak, self._live)

    def _preserve(self, value: Value, x: Any) -> None:
        """Copy the content of `value` before a write, if values that left memory are computed from it."""
        needing = value.needing()
        if not needing:
            return
        order = recipes_for(value, self._is_there)
        if order is not None:
            for hold in needing:
                self._pin(order, hold)
            return
        if value.check is not None:
            value.check()
            value.check = None
        hold = self._hold_of(value)
        if self.file is not None:
            hold.spilled = self.file.write(buffer_of(x.untyped_storage()))
            hold.storage = None
        else:
            self._make_room(value.nbytes, "a copy before a write")
            copy = x.untyped_storage().clone()
            self._watch_of(copy)
            hold.storage = copy

    def _rewrite(self, x: Any, call: _Call, recipe: Recipe | None) -> None:
        """Register the value that an operation wrote to the storage of `x`."""
        if not _is_plain(x):
            return
        storage = x.untyped_storage()
        watch = self._watch_of(storage)
        if storage.nbytes() != watch.nbytes and storage.device.type != "meta":  # the program has resized it
            self._live += storage.nbytes() - watch.nbytes
            watch.nbytes = storage.nbytes()
        before = call.before.pop(watch.key, None)
        if before is None and (recipe is None or watch.key in self._values):
            return
        value = Value(watch, recipe)
        if recipe is not None:
            recipe.outputs, recipe.nbytes = [weakref.ref(value)], watch.nbytes
        if before is not None:
            hold = before.hold
            if hold is not None:
                if hold.is_saved:
                    hold.next = Hold(value, None)
                    hold.next.is_saved, hold.next.number = True, hold.number
                    self._keep(hold.next, storage)
                if hold.storage is storage:
                    hold.storage = None
        self._values[watch.key] = value

    # --- Saved tensors ------------------------------------------------------------------------------------

    def _pack(self, x: Any) -> Any:
        with _NoModes(), _NoFunctions():
            version = Version(x)
            if x.device.type != "cpu" or not _is_plain(x):
                return version
            storage = x.untyped_storage()
            version.alias.data = nothing_on(x.device)
            if not is_movable(x):
                return _SavedLeaf(x, storage, version)
            return self.guard.run(self._register, x, version)

    def _register(self, x: Any, version: Version) -> _Saved:
        with paused():
            self._collect()
            value = self._value_of(x)
            assert value is not None
            hold = value.hold
            if hold is None:
                hold = Hold(value, None)
            if hold.storage is None:
                self._keep(hold, x.untyped_storage())
            self._numbers += 1
            self._position = hold.number = self._numbers
            hold.is_saved = True
            if value.check is None:
                value.check = version.check_again
            return _Saved(Operand(value, x), self._numbers, version, hold)

    def _unpack(self, saved: Any) -> Any:
        if isinstance(saved, Version):
            saved.check()
            return saved.alias
        saved.version.check()
        with _NoModes(), _NoFunctions():
            if isinstance(saved, _SavedLeaf):
                return self.guard.run(self._leaf, saved)
            return self.guard.run(self._restored, saved)

    def _leaf(self, saved: _SavedLeaf) -> Any:
        with paused():
            self._collect()
            watch = self._watch_of(saved.storage)
            self._refill([watch] if watch.key in self._emptied else [], {watch.key})
            empty = torch.empty(0, dtype=saved.dtype)
            return empty.set_(saved.storage, saved.offset, saved.shape, saved.strides)

    def _restored(self, saved: _Saved) -> Any:
        with paused():
            self._collect()
            hold = saved.hold
            while hold.next is not None:
                hold = hold.next
            self._position = saved.number
            if hold.storage is None:
                self._restore(hold)
            else:
                watch = self._watch_of(hold.storage)
                self._refill([watch] if watch.key in self._emptied else [], {watch.key})
            self.peak = max(self.peak, self._live)
            return saved.operand.over(hold.storage)

    # --- Room ---------------------------------------------------------------------------------------------

    def _make_room(
        self, nbytes: int, purpose: str, locked: Set[int] = frozenset(), keys: Set[int] = frozenset()
    ) -> None:
        """Let values leave memory until `nbytes` more fit, or raise an error.

        The values with an id in `locked` stay, and so do the storages of `keys`.
        """
        self._collect()
        if self._live + nbytes <= self.limit:
            return
        if not self._is_under_pressure:
            self._is_under_pressure = True
            return_large_blocks()
            trim()
        if self._freed >= max(self.limit // 4, _LEAST_TO_TRIM):
            self._freed = 0
            trim()
        candidates = []
        for mark in list(self._holds.values()):
            hold = mark()
            if hold is None or hold.storage is None or id(hold.value) in locked or hold.value.nbytes < SMALL:
                continue
            if _use_count(hold.storage._cdata) > 1 or hold.storage._cdata in self._emptied:
                continue
            cost = self._cost(hold)
            if cost is not None:
                candidates.append((cost / (hold.value.nbytes * self._distance(hold)), hold.number, hold))
        candidates.sort(key=lambda candidate: candidate[:2])
        hold = None
        for _, _, hold in candidates:
            self._evict(hold)
            self._collect()
            if self._live + nbytes <= self.limit:
                return
        if self.spills_parameters and self._empty_until(nbytes, locked, keys):
            return
        raise torch.OutOfMemoryError(
            f"the budget of {format_bytes(self.limit)} is too small: {purpose} needs {format_bytes(nbytes)} "
            f"while {format_bytes(self._live)} can't leave memory. Write a budget of at least "
            f"{format_bytes(self._live + nbytes)}, or use a smaller batch{self._advice()}"
        )

    def _advice(self) -> str:
        if self.file is None:
            return ". With spill=folder, what can't be computed again goes to a file"
        return (
            "" if self.spills_parameters else ". With spill_parameters=True, parameters may wait in the file"
        )

    def _empty_until(self, nbytes: int, locked: Set[int], keys: Set[int]) -> bool:
        """Move what the program holds to the file until `nbytes` more fit, and return whether they do.

        The tensors stay, without memory. Each operation and each method that reads memory brings back what it
        uses. The first to go are those whose last use is longest ago.
        """
        for watch in sorted(self._watches.values(), key=attrgetter("last_use")):
            if watch.nbytes < SMALL or watch.key in keys or watch.key in self._handed_out:
                continue
            value = self._values.get(watch.key)
            if value is not None and id(value) in locked:
                continue
            storage = watch()
            if storage is None or not storage.resizable():
                continue
            if watch.is_older and _use_count(watch.key) > 2:  # other code may have its address
                continue
            self._empty(watch, storage)
            if self._live + nbytes <= self.limit:
                return True
        return False

    def _empty(self, watch: Watch, storage: Any) -> None:
        assert self.file is not None
        if watch.spilled is None:
            start = time.perf_counter()
            watch.spilled = self.file.write(buffer_of(storage))
            self._note_move(watch.nbytes, start)
            self.spills += 1
        self._emptied[watch.key] = watch
        storage.resize_(0)
        self._live -= watch.nbytes
        self._freed += watch.nbytes
        watch.nbytes = 0

    def _refill(self, watches: list[Watch], keys: Set[int]) -> None:
        """Bring the content of storages that the program holds back into memory."""
        for watch in watches:
            storage, spilled = watch(), watch.spilled
            if storage is None or spilled is None:
                continue
            if keys:
                self._make_room(spilled.nbytes, "a tensor of the program", keys=keys)
            if storage.nbytes() != spilled.nbytes:
                storage.resize_(spilled.nbytes)
            start = time.perf_counter()
            spilled.read_into(buffer_of(storage))
            self._note_move(spilled.nbytes, start)
            self._live += spilled.nbytes - watch.nbytes
            watch.nbytes = spilled.nbytes
            self._emptied.pop(watch.key, None)
            self.returns += 1
            self.peak = max(self.peak, self._live)

    def _refill_all(self) -> None:
        self._collect()
        with _NoModes(), _NoFunctions(), paused():
            self._refill(list(self._emptied.values()), set())
        for watch in self._watches.values():
            watch.spilled = None

    def expose(self, x: Any, is_handing_out: bool) -> None:
        """Prepare for code that reads the memory of `x` without an operation."""
        if isinstance(x, torch.Tensor) and x.layout is torch.strided:
            with _NoModes(), _NoFunctions(), paused():
                if _is_plain(x):
                    watch = self._watch_of(x.untyped_storage())
                    self._refill([watch] if watch.key in self._emptied else [], {watch.key})
                    if is_handing_out:
                        self._handed_out.add(watch.key)

    def _distance(self, hold: Hold) -> int:
        """Return about how many saved tensors backward needs before that of `hold`."""
        distance = self._position - hold.number
        return distance + 1 if distance >= 0 else self._numbers + 1

    def _cost(self, hold: Hold) -> float | None:
        """Return the seconds to bring the content back after it has left, or None if it can't leave."""
        moved = self._seconds_to_move(hold)
        if hold.spilled is not None:
            return moved
        order = recipes_for(hold.value, self._is_there)
        again = None if order is None else sum(recipe.seconds for recipe in order)
        if again is None or moved is None:
            return moved if again is None else again
        return min(again, moved)

    def _seconds_to_move(self, hold: Hold) -> float | None:
        seconds = _SECONDS_A_BYTE
        if self._moved_bytes >= 2**22:
            seconds = 2 * self._moved_seconds / self._moved_bytes
        if hold.spilled is not None:
            return hold.value.nbytes * seconds / 2
        return None if self.file is None else hold.value.nbytes * seconds

    def _evict(self, hold: Hold) -> None:
        """Let the content of `hold` leave memory."""
        value = hold.value
        if value.check is not None:
            value.check()
        if hold.spilled is None:
            order = recipes_for(value, self._is_there)
            moved = self._seconds_to_move(hold)
            if order is not None and (moved is None or sum(recipe.seconds for recipe in order) <= moved):
                self._pin(order, hold)
            elif self.file is not None:
                start = time.perf_counter()
                hold.spilled = self.file.write(buffer_of(hold.storage))
                self._note_move(value.nbytes, start)
                self.spills += 1
            else:
                return
        value.check = None
        value.watch = None
        hold.storage = None

    def _note_move(self, nbytes: int, start: float) -> None:
        self._moved_bytes += nbytes
        self._moved_seconds += time.perf_counter() - start

    def _pin(self, order: list[Recipe], hold: Hold) -> None:
        """Keep what `order` reads, for as long as `hold` is outside."""
        mark = weakref.ref(hold)
        for recipe in order:
            for before in recipe.inputs:
                if self._is_there(before):
                    hold.pins.append(self._hold_of(before))
                    before.dependents.append(mark)

    def _restore(self, hold: Hold) -> None:
        """Bring the content of `hold` back into memory."""
        if hold.spilled is not None:
            self._read(hold, set())
            return
        order = recipes_for(hold.value, self._is_there)
        if order is None:
            raise RuntimeError(
                "a value that the budget dropped can't be computed again, because what it was computed from "
                "is lost: write scopes.torch.budget(size, spill=folder) without recompute=True"
            )
        uses: dict[int, int] = {}
        for recipe in order:
            for before in recipe.inputs:
                uses[id(before)] = uses.get(id(before), 0) + 1
        locked = {*uses, id(hold.value)}
        temporary: dict[int, Any] = {}

        def storage_of(value: Value) -> Any:
            if id(value) in temporary:
                return temporary[id(value)]
            kept = self._hold_of(value)
            if kept.storage is None:
                self._read(kept, locked)
            elif kept.storage._cdata in self._emptied:
                watch = self._emptied[kept.storage._cdata]
                assert watch.spilled is not None
                self._make_room(watch.spilled.nbytes, "a tensor of the program", locked)
                self._refill([watch], set())
            elif value.check is not None:
                value.check()
            return kept.storage

        given = [self._hold_of(x) for recipe in order for x in recipe.inputs if self._is_there(x)]
        for recipe in order:
            for before in recipe.inputs:
                storage_of(before)
            self._make_room(recipe.nbytes, f"computing {recipe.func} again", locked)
            self.peak = max(self.peak, self._live + recipe.nbytes)
            storages = recipe.run(storage_of)
            self.recomputed += 1
            for ref, storage in zip(recipe.outputs, storages, strict=True):
                output = None if ref is None else ref()
                if output is None:
                    continue
                kept = output.hold
                if kept is not None and not kept.is_outside:
                    continue
                if storage.nbytes() != output.nbytes:
                    raise RuntimeError(f"{recipe.func} computed a result of another size than before")
                if kept is not None:
                    self._keep(kept, storage)
                    kept.pins = []
                elif id(output) in uses:
                    temporary[id(output)] = storage
                    output.watch = self._watch_of(storage)
                    self._values[output.watch.key] = output
            del storages, storage
            self.peak = max(self.peak, self._live)
            for before in recipe.inputs:
                uses[id(before)] -= 1
                if not uses[id(before)]:
                    temporary.pop(id(before), None)
                    locked.discard(id(before))
        del given
        self.returns += 1

    def _read(self, hold: Hold, locked: set[int]) -> None:
        """Read the content of `hold` from the file."""
        nbytes = hold.value.nbytes
        self._make_room(nbytes, "a saved tensor", locked)
        start = time.perf_counter()
        storage = paged(nbytes)
        assert hold.spilled is not None
        hold.spilled.read_into(buffer_of(storage))
        self._note_move(nbytes, start)
        self._keep(hold, storage)
        self.returns += 1


def _is_plain(x: Any) -> bool:
    return (
        type(x) in _PLAIN
        and x.layout is torch.strided
        and not is_wrapped(x)
        and not (x.is_conj() or x.is_neg())
    )


def _check_of(x: Any) -> Any:
    """Return a function that raises an error if `x` has changed since now."""
    # Below autograd, as in a dispatch mode, an alias would have its own version counter.
    with torch._C._ForceDispatchKeyGuard(*_DISPATCH_KEYS):
        version = Version(x)
        version.alias.data = nothing_on(x.device)
    return version.check_again


def _at(args: Any, kwargs: Any, where: int | str) -> Any:
    """Return an argument by its position or name; None if it is not given."""
    if isinstance(where, str):
        return kwargs.get(where)
    return args[where] if where < len(args) else None


def _key(func: Any, args: Any, kwargs: Any) -> Any:
    """Return a key for the operation and the shapes of its operands, or None."""
    try:
        key = (func, *(_key_of(x) for x in args), *((name, _key_of(x)) for name, x in kwargs.items()))
        hash(key)
    except TypeError:
        return None
    return key


def _key_of(x: Any) -> Any:
    """Return what decides the sizes of results of an operation with the argument `x`."""
    if isinstance(x, torch.Tensor):
        return x.shape, x.stride() if x.layout is torch.strided else None, x.dtype
    if type(x) is list or type(x) is tuple:
        return tuple(_key_of(item) for item in x)
    return None if isinstance(x, torch.Generator) else (type(x), x)


def _predicted(func: Any, args: Any, kwargs: Any) -> int:
    """Return the bytes of the results of an operation, by running it without memory; 0 if it can't."""

    def without_memory(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        if isinstance(x, torch.device):
            return torch.device("meta")
        return None if isinstance(x, torch.Generator) else x

    try:
        inputs = [mapped(x, without_memory) for x in args]
        named = {name: mapped(x, without_memory) for name, x in kwargs.items()}
        if "pin_memory" in named:
            named["pin_memory"] = False
        given = {x.untyped_storage()._cdata for x in results_of([*inputs, *named.values()]) if x is not None}
        storages = [x.untyped_storage() for x in results_of(func(*inputs, **named)) if x is not None]
        return sum({s._cdata: s.nbytes() for s in storages if s._cdata not in given}.values())
    except Exception:  # noqa: BLE001  # some operations have no such form, or depend on data
        return 0
