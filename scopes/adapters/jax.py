"""JAX's arrays in scopes: found by ``jax.live_arrays()`` when scopes begin and end, deleted by disposal."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any
from weakref import ref

from scopes._shared.naming import set_module
from scopes.adapters.adapter import Adapter, check_version, import_library, raise_unsupported
from scopes.adapters.foreign import (
    add_adapter,
    adopt,
    count_located,
    dispose_adopted,
    end_located,
    is_adopted,
    leave_alone,
    locate,
    located,
    raise_if_disposed,
)
from scopes.core.containers import add_container, add_virtual_container
from scopes.tracking.sites import skip_package

jax = import_library("jax", "JAX", "jax")
check_version("jax", jax.__version__, (0, 9))
# The class of arrays with values. Tracers are also instances of jax.Array, but are never adopted.
_Array = type(jax.numpy.zeros(()))


class JaxAdapter(Adapter):
    """The adapter for JAX's arrays."""

    library = "jax"
    noun = "array"
    kinds = (_Array,)

    def __init__(self) -> None:
        # The thread whose scopes own new arrays, and the number of its open `owning` blocks.
        self.thread = 0
        self.depth = 0
        # The number of open `watching` blocks of the process.
        self.watchers = 0
        # Weak references by id: to arrays older than the first block, and to arrays adopted since.
        self.earlier: dict[int, ref[Any]] = {}
        self.adopted: dict[int, ref[Any]] = {}

    def harvest(self) -> None:
        """Adopt new arrays. Dispose arrays that JAX has deleted, such as donated arguments."""
        if self.thread != threading.get_ident() if self.depth else not self.watchers:
            return
        register = adopt if self.depth else leave_alone
        for key, known in list(self.adopted.items()):
            x = known()
            if x is None:
                self.adopted.pop(key, None)
            elif x.is_deleted():
                del self.adopted[key]
                dispose_adopted(x)
        for x in jax.live_arrays():
            key = id(x)
            before = self.earlier.get(key)
            if (before is None or before() is not x) and not is_adopted(x):
                self.adopted[key] = ref(x)
                register(x)
        # Deleted arrays, and those of other devices than the default ones.
        for x in located():
            if x.is_deleted():
                end_located(x)
            else:
                self.adopted[id(x)] = ref(x)
                register(x)

    def count_new(self) -> None:
        """Count new arrays in the blocks that are open now."""
        count_located(self.depth > 0 or self.watchers > 0, self.thread if self.depth else 0)

    def begin(self) -> None:
        """Make scopes of this thread own new arrays."""
        if self.depth and self.thread != threading.get_ident():
            raise RuntimeError(
                "scopes.jax.owning() is open in another thread, and JAX does not report which thread created "
                "an array: use it in one thread at a time, or attach arrays with scope.attach(x)"
            )
        if not self.depth:
            self.harvest()  # what is watched
            self.thread = threading.get_ident()
            self.remember_earlier()
        self.depth += 1
        self.count_new()

    def remember_earlier(self) -> None:
        """Remember the arrays that are older than the block which begins."""
        self.earlier = {id(x): ref(x) for x in jax.live_arrays() if not is_adopted(x)}

    def finish(self) -> None:
        """Adopt new arrays for the last time, and undo ``begin()``."""
        try:
            self.harvest()
        finally:
            self.depth -= 1
            self.count_new()
            if not self.depth and not self.watchers:
                self.earlier = {}

    def end(self, x: Any, is_safe: bool) -> object:  # noqa: ARG002  # JAX keeps arrays alive while it reads them
        """Delete `x`. JAX then raises an error for its uses."""
        if not x.is_deleted():
            x.delete()
        return x.shape, x.dtype

    def describe(self, ending: Any) -> str:
        """Return shape and dtype in words."""
        shape, dtype = ending
        return f"shape {shape}, dtype {dtype}"

    def footprint(self, x: Any) -> tuple[int, int]:
        """Return the key and size of the buffer of `x`. Each array has its own buffer."""
        return id(x), 0 if x.is_deleted() else int(x.nbytes)

    def device(self, x: Any) -> str:
        """Return the names of the array's devices."""
        return ", ".join(sorted(map(str, x.devices())))


ADAPTER = JaxAdapter()


def _self_test() -> None:
    x = jax.numpy.ones(3) * 2
    if not any(x is found for found in jax.live_arrays()):
        raise_unsupported("jax", jax.__version__, "jax.live_arrays() does not return all live arrays")
    x.delete()
    try:
        x + 1
    except RuntimeError:
        return
    raise_unsupported("jax", jax.__version__, "a deleted array can be used")


def _explain_errors() -> None:
    """Make JAX raise `TensorDisposedError` for uses of disposed arrays, with shape, scope and lines of code.

    JAX calls the method ``_check_if_deleted`` of an array before it uses the values. In a version without
    it, JAX raises its own error.
    """
    check = getattr(_Array, "_check_if_deleted", None)
    if check is None:
        return

    @functools.wraps(check)
    def checked(x: Any) -> None:
        try:
            check(x)
        except RuntimeError:
            raise_if_disposed(x)
            raise

    _Array._check_if_deleted = checked


def _is_node(x: object) -> bool:
    """Return whether `x` is a node of a pytree whose class is registered with JAX, such as Flax's modules."""
    # Scopes search containers themselves, because JAX raises an error for a dict with keys that can't be
    # sorted.
    return not issubclass(type(x), (Mapping, Sequence, Set)) and not jax.tree_util.all_leaves([x])


def _children(node: object) -> list[Any]:
    children: list[Any] = jax.tree_util.tree_leaves(node, is_leaf=lambda x: x is not node)
    return children


_self_test()
_explain_errors()
locate(_Array)
add_adapter(ADAPTER)
add_container(type(jax.random.key(0)), lambda key: [key._base_array])
add_virtual_container(_is_node, _children)
skip_package("jax")


@set_module("scopes.jax")
@contextmanager
def owning() -> Iterator[None]:
    """Make the current scope own each new JAX array of this thread inside the block.

    The adapter finds new arrays when a scope begins or ends, and when you read its members. So single
    operations are not slower. Arrays that are alive when the block begins get no owner. Tracers are never
    changed. Other threads must not create arrays meanwhile, because JAX does not tell which thread created an
    array.

    Examples
    --------
    >>> import jax.numpy as jnp, scopes.jax
    >>> from scopes import new_dispose_scope
    >>> with scopes.jax.owning():
    ...     with new_dispose_scope() as scope:
    ...         x = jnp.ones(3)
    ...         y = scope.detach(x * 2)
    >>> x.is_deleted(), y.tolist()
    (True, [2.0, 2.0, 2.0])
    """
    ADAPTER.begin()
    try:
        yield
    finally:
        ADAPTER.finish()


class watching:  # noqa: N801  # it is called like a function
    """Track each new JAX array inside the block. No scope owns it. Tracking opens this block."""

    def __enter__(self) -> None:
        if not ADAPTER.depth and not ADAPTER.watchers:
            ADAPTER.remember_earlier()
        ADAPTER.watchers += 1
        ADAPTER.count_new()

    def __exit__(self, *error: object) -> None:
        ADAPTER.harvest()
        ADAPTER.watchers -= 1
        ADAPTER.count_new()


_enabled: list[Any] = []


@set_module("scopes.jax")
def enable() -> None:
    """Make scopes of this thread own each new JAX array until ``disable()``."""
    disable()
    block = owning()
    block.__enter__()
    _enabled.append(block)


@set_module("scopes.jax")
def disable() -> None:
    """Undo ``enable()``."""
    while _enabled:
        _enabled.pop().__exit__(None, None, None)
