"""What PyTorch's operations compute, as values that can be computed again with the same bits.

A *value* is the content of a storage between two writes. Its *recipe* is the operation that computed it,
below autograd and autocast, with the values that it read. So no code of the program runs twice: no
``forward``, no hook, no counter. A random operation keeps the state of its generator from before it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from scopes._shared.spill import Spilled
from scopes.adapters.torch.library import torch

_aten = torch.ops.aten
# A recipe that is further from a value without a recipe is not kept. It bounds the memory of recipes when
# a state is carried from step to step.
_MAX_DEPTH = 1000

# Their results differ from call to call: uninitialised memory, or sums in the order in which threads arrive.
_NEVER_AGAIN = {
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::empty_permuted",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::resize_",
    "aten::set_",
    "aten::index_put",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::_unsafe_index_put",
    "aten::put_",
    "aten::put",
    "aten::from_file",
    "aten::record_stream",
}
# They write each element of their first argument without reading it.
_OVERWRITING = {
    "aten::zero_",
    "aten::fill_",
    "aten::copy_",
    "aten::bernoulli_",
    "aten::uniform_",
    "aten::normal_",
    "aten::random_",
    "aten::exponential_",
    "aten::cauchy_",
    "aten::log_normal_",
    "aten::geometric_",
}
# With `training` they write the running statistics and do not read them.
BATCH_NORMS = {
    _aten.native_batch_norm.default,
    _aten._native_batch_norm_legit.default,
}
RUNNING, TRAINING = [3, 4], 5


class Value:
    """The content of a storage between two writes. It does not keep the content in memory."""

    __slots__ = ("__weakref__", "_hold", "check", "dependents", "depth", "nbytes", "recipe", "watch")

    def __init__(self, watch: Watch, recipe: Recipe | None) -> None:
        # The storage that has the content now, or had it last; None after a write.
        self.watch: Watch | None = watch
        self.nbytes: int = watch.nbytes
        self.recipe: Recipe | None = recipe
        self.depth: int = 0 if recipe is None else recipe.depth
        self._hold: weakref.ref[Hold] | None = None
        # Holds that left memory and are computed from this value.
        self.dependents: list[weakref.ref[Hold]] = []
        # Raises an error if code that the budget did not see has changed the storage.
        self.check: Callable[[], None] | None = None

    @property
    def hold(self) -> Hold | None:
        """What keeps the content, or None if nothing of the budget does."""
        return None if self._hold is None else self._hold()

    def needing(self) -> list[Hold]:
        """Return the holds that left memory and are computed from this value."""
        holds = [hold for hold in (ref() for ref in self.dependents) if hold is not None and hold.is_outside]
        self.dependents = [weakref.ref(hold) for hold in holds]
        return holds


class Hold:
    """Keeps the content of a value, in memory or in the file, or the values that it is computed from.

    A saved tensor in a graph has one, and so has a hold that left memory for each value it is computed from.
    """

    __slots__ = ("__weakref__", "is_saved", "next", "number", "pins", "spilled", "storage", "value")

    def __init__(self, value: Value, storage: Any) -> None:
        self.value: Value = value
        self.storage: Any = storage
        self.spilled: Spilled | None = None
        self.pins: list[Hold] = []
        self.is_saved: bool = False
        # The number of the last saved tensor of it. Backward needs the highest first.
        self.number: int = 0
        # The hold of what a write made of a saved value, in the same storage.
        self.next: Hold | None = None
        value._hold = weakref.ref(self)

    @property
    def is_outside(self) -> bool:
        """Whether the content is to be computed again."""
        return self.storage is None and self.spilled is None


class Watch(weakref.ref[Any]):
    """Weak reference to a storage. One call in C appends it to a list when the storage is freed."""

    __slots__ = ("is_older", "key", "last_use", "nbytes", "spilled")

    key: int
    # The bytes in memory: 0 while the content is in the file.
    nbytes: int
    # Whether the storage is older than the block.
    is_older: bool
    # The number of the last operation that used it.
    last_use: int
    # The content in the file, which stays there until the next write.
    spilled: Spilled | None


class Operand:
    """A tensor that an operation read: a value, and the position in it."""

    __slots__ = ("dtype", "offset", "shape", "strides", "value")

    def __init__(self, value: Value, x: Any) -> None:
        self.value: Value = value
        self.dtype: Any = x.dtype
        self.shape: tuple[int, ...] = x.shape
        self.strides: tuple[int, ...] = x.stride()
        self.offset: int = x.storage_offset()

    def over(self, storage: Any) -> Any:
        """Return the tensor over `storage`."""
        return torch.empty(0, dtype=self.dtype).set_(storage, self.offset, self.shape, self.strides)


class Recipe:
    """An operation that computed values."""

    __slots__ = (
        "args",
        "depth",
        "func",
        "generator",
        "inputs",
        "kwargs",
        "nbytes",
        "outputs",
        "seconds",
        "settings",
        "written",
    )

    def __init__(self, func: Any, args: Any, kwargs: Any, inputs: list[Value]) -> None:
        self.func: Any = func
        self.args: Any = args
        self.kwargs: Any = kwargs
        self.inputs: list[Value] = inputs
        # The operand that an operation in place writes; its value is the content before. None for others.
        self.written: Operand | None = None
        # The generator and its state before a random operation.
        self.generator: tuple[Any, Any] | None = None
        self.settings: Any = settings()
        self.depth: int = 1 + max((value.depth for value in inputs), default=0)
        # The values that it computes, by the position in its results.
        self.outputs: list[weakref.ref[Value] | None] = []
        self.nbytes: int = 0
        self.seconds: float = 0.0

    def run(self, storage_of: Callable[[Value], Any]) -> list[Any]:
        """Compute the results again, and return the storage of each."""
        with _as_recorded(self):
            target: Any = None
            if self.written is not None:
                target = self._target(storage_of)

            def tensor_of(x: Any) -> Any:
                if x is self.written:
                    return target
                return x.over(storage_of(x.value)) if type(x) is Operand else x

            args = [mapped(x, tensor_of) for x in self.args]
            kwargs = {name: mapped(x, tensor_of) for name, x in self.kwargs.items()}
            result = self.func(*args, **kwargs)
            if target is not None:
                return [target.untyped_storage()]
            return [None if x is None else x.untyped_storage() for x in results_of(result)]

    def _target(self, storage_of: Callable[[Value], Any]) -> Any:
        """Return the tensor to write in place: a copy of the content before, or memory to overwrite."""
        written = self.written
        assert written is not None
        if written.value not in self.inputs:
            return written.over(torch.empty(self.nbytes, dtype=torch.uint8).untyped_storage())
        return written.over(storage_of(written.value).clone())


def mapped(x: Any, function: Callable[[Any], Any]) -> Any:
    """Return `x`, an argument of an operation, with `function` applied to it or to its items."""
    if type(x) is list or type(x) is tuple:
        return [function(item) for item in x]
    return function(x)


def results_of(result: Any) -> list[Any]:
    """Return the tensors in the result of an operation, with None for others."""
    items = result if type(result) in (list, tuple) else (result,)
    found: list[Any] = []
    for item in items:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif type(item) in (list, tuple):
            found += results_of(item)
        else:
            found.append(None)
    return found


def settings() -> tuple[Any, ...]:
    """Return the settings of PyTorch that may change the bits of a result."""
    return (
        torch.get_num_threads(),
        torch._C._get_mkldnn_enabled(),
        torch._C._get_deterministic_algorithms(),
        torch._C._get_float32_matmul_precision(),
    )


def _set(wanted: tuple[Any, ...]) -> None:
    now = settings()
    if wanted[0] != now[0]:
        torch.set_num_threads(wanted[0])
    if wanted[1] != now[1]:
        torch._C._set_mkldnn_enabled(wanted[1])
    if wanted[2] != now[2]:
        warn_only = torch._C._get_deterministic_algorithms_warn_only()
        torch._C._set_deterministic_algorithms(wanted[2], warn_only=warn_only)
    if wanted[3] != now[3]:
        torch._C._set_float32_matmul_precision(wanted[3])


@contextmanager
def _as_recorded(recipe: Recipe) -> Iterator[None]:
    """Compute below autograd, with the settings and the random state of the first time."""
    with ExitStack() as stack:
        stack.enter_context(torch._C._AutoDispatchBelowAutograd())
        stack.enter_context(torch._C._DisableAutocast())
        # Some kernels read the mode, such as that of an LSTM. Recipes are of operations with gradients.
        stack.enter_context(torch.enable_grad())
        now = settings()
        if now != recipe.settings:
            stack.callback(_set, now)
            _set(recipe.settings)
        if recipe.generator is not None:
            generator, state = recipe.generator
            stack.callback(generator.set_state, generator.get_state())
            generator.set_state(state)
        yield


class Kind:
    """What the budget must know of an operation, from its schema."""

    __slots__ = ("can_be_again", "is_overwriting", "is_random", "is_view", "writes")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        # The positions and the names of the arguments that it writes.
        self.writes: list[int | str] = [
            argument.name if argument.kwarg_only else i
            for i, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        if func in BATCH_NORMS:  # one of them does not say it
            self.writes = [*RUNNING]
        aliases = [x.alias_info for x in schema.returns]
        self.is_view: bool = not self.writes and any(alias is not None for alias in aliases)
        self.is_random: bool = torch.Tag.nondeterministic_seeded in func.tags
        self.is_overwriting: bool = schema.name in _OVERWRITING
        # Of the operations that write, only those in place have recipes: ``x.add_(1)``.
        is_in_place = self.writes == [0] and len(aliases) == 1
        self.can_be_again: bool = (
            schema.name.startswith("aten::")
            and schema.name not in _NEVER_AGAIN
            and not schema.name.startswith("aten::_foreach")
            and (not self.writes or is_in_place or func in BATCH_NORMS)
        )


def recipe_of(
    func: Any, kind: Kind, args: Any, kwargs: Any, value_of: Callable[[Any], Value | None]
) -> Recipe | None:
    """Return the recipe of an operation that is about to run, or None if it can't be computed again."""
    inputs: list[Value] = []
    is_known = True

    def described(x: Any) -> Any:
        nonlocal is_known
        if not isinstance(x, torch.Tensor):
            return x
        value = value_of(x)
        if value is None:
            is_known = False
            return x
        inputs.append(value)
        return Operand(value, x)

    if func in BATCH_NORMS and args[TRAINING]:
        args = [None if i in RUNNING else x for i, x in enumerate(args)]
        func = _aten.native_batch_norm.default
    template = [mapped(x, described) for x in args]
    named = {name: mapped(x, described) for name, x in kwargs.items()}
    if not is_known:
        return None
    written = template[0] if kind.writes and func not in BATCH_NORMS else None
    if written is not None and kind.is_overwriting and _covers(args[0]):
        inputs.remove(written.value)
        if written.value in inputs:  # x.copy_(x)
            return None
    recipe = Recipe(func, template, named, inputs)
    if recipe.depth > _MAX_DEPTH:
        return None
    recipe.written = written
    if kind.is_random:
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Generator)]
        generator = given[0] if given else torch.default_generator
        recipe.generator = generator, generator.get_state()
    return recipe


def _covers(x: Any) -> bool:
    """Return whether `x` has each byte of its storage."""
    if x.numel() * x.element_size() != x.untyped_storage().nbytes():
        return False
    return bool(x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)))


def recipes_for(value: Value, is_there: Callable[[Value], bool]) -> list[Recipe] | None:
    """Return the recipes that compute `value`, in order, or None if an input is lost.

    They begin at values for which `is_there` returns True.
    """
    if value.recipe is None:
        return None
    order: list[Recipe] = []
    seen: set[int] = set()
    stack: list[tuple[Recipe, bool]] = [(value.recipe, False)]
    while stack:
        recipe, is_ready = stack.pop()
        if is_ready:
            order.append(recipe)
            continue
        if id(recipe) in seen:
            continue
        seen.add(id(recipe))
        stack.append((recipe, True))
        for before in recipe.inputs:
            if is_there(before):
                continue
            if before.recipe is None:
                return None
            if id(before.recipe) not in seen:
                stack.append((before.recipe, False))
    return order
