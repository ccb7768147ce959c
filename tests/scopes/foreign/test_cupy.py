"""CuPy's arrays in scopes: without a device over memory of others; and on a device, where there is one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest

import scopes
from scopes import DisposeStatistics, TensorDisposedError, dispose, new_dispose_scope, statistics

cupy = pytest.importorskip("cupy")
import scopes.cupy  # noqa: E402

Window = Callable[[], DisposeStatistics]


def has_device() -> bool:
    try:
        return bool(cupy.cuda.is_available())
    except RuntimeError:  # older versions, without a driver
        return False


on_a_device = pytest.mark.skipif(not has_device(), reason="needs a CUDA device")


class Owner:
    """Owns memory that arrays are made over."""


def array(kind: type = cupy.ndarray) -> tuple[Any, Callable[[], object]]:
    """Return an array of six numbers that are never read, and what returns the owner of its memory."""
    owner = Owner()
    memory = cupy.cuda.UnownedMemory(512, 24, owner, 0)
    return kind((2, 3), dtype="float32", memptr=cupy.cuda.MemoryPointer(memory, 0)), ref(owner)


def test_scope_frees_the_memory_of_an_array_even_if_a_reference_exists(window: Window) -> None:
    x, owner = array()
    with new_dispose_scope() as scope:
        scope.attach({"x": x})
        assert scope.nbytes == 24
        assert owner() is not None
    assert owner() is None
    assert window().disposed_in_scope_count == 1


def test_memory_stays_for_as_long_as_a_view_is_over_it() -> None:
    x, owner = array()
    view = x[0]
    base = x.reshape(6)
    dispose(x, base)
    assert view.shape == (3,)
    assert view.data.ptr == 512
    assert owner() is not None
    dispose(view)
    assert owner() is None


USES: dict[str, Callable[[Any], object]] = {
    "arithmetic": lambda x: x + 1,
    "arithmetic, reflected": lambda x: 1 + x,
    "in place": lambda x: x.__iadd__(1),
    "another's arithmetic": lambda x: array()[0] * x,
    "comparison": lambda x: x == x,
    "a function": cupy.sum,
    "a method": lambda x: x.sum(),
    "index": lambda x: x[0],
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "iteration": list,
    "length": len,
    "truth": bool,
    "float": float,
    "shape": lambda x: x.shape,
    "setting the shape": lambda x: setattr(x, "shape", (6,)),
    "dtype": lambda x: x.dtype,
    "data": lambda x: x.data,
    "view": lambda x: x.view(),
    "transposed": lambda x: x.T,
    "get": lambda x: x.get(),
    "asnumpy": cupy.asnumpy,
    "dlpack": lambda x: x.__dlpack__(),
    "cuda array interface": lambda x: x.__cuda_array_interface__,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "format": lambda x: f"{x:.2f}",
    "str": str,
}


if cupy.__version__ >= "14":  # from here on they ask the class before the memory
    USES["a universal function"] = lambda x: cupy.add(x, 1)
    USES["a universal function of another"] = lambda x: cupy.add(array()[0], x)


@pytest.mark.parametrize("use", USES)
def test_each_use_of_a_disposed_array_is_an_error_that_names_it(use: str) -> None:
    x, _ = array()
    with new_dispose_scope("step") as scope:
        scope.attach(x)
    with pytest.raises(
        TensorDisposedError,
        match=r"this cupy tensor \(shape \(2, 3\), dtype float32\) is empty: its dispose scope 'step' ended",
    ):
        USES[use](x)


def test_functions_that_ask_no_class_see_an_empty_array() -> None:
    x, _ = array()
    dispose(x)
    size = vars(cupy.ndarray.__mro__[1])["size"]
    assert size.__get__(x) == 0


def test_disposed_array_supports_repr_is_invalid_and_isinstance() -> None:
    x, _ = array()
    dispose(x)
    assert repr(x).startswith("<disposed: this cupy tensor (shape (2, 3), dtype float32) is empty")
    assert x.is_invalid
    assert isinstance(x, cupy.ndarray)


class Tagged(cupy.ndarray):  # type: ignore[misc, name-defined]
    """A user's own array, with attributes."""


def test_an_array_of_a_users_own_class_ends_too() -> None:
    x, owner = array(Tagged)
    x.tag = "mine"
    dispose(x)
    assert owner() is None
    assert isinstance(x, Tagged)
    with pytest.raises(TensorDisposedError):
        x + 1


def test_a_scope_owns_arrays_created_inside_of_owning(window: Window) -> None:
    x, _ = array()
    with scopes.cupy.owning(), new_dispose_scope() as scope:
        y, inner = array()
        view = x.T
        kept = scope.detach(y.reshape(6))
        assert x not in scope
        assert y in scope
        assert view in scope
        assert len(scope) == 2
    assert x.shape == (2, 3)
    assert kept.shape == (6,)
    assert inner() is not None
    for end in (y, view):
        with pytest.raises(TensorDisposedError):
            end + 1
    assert statistics.of(cupy.ndarray).live_count == 1


def test_nothing_is_noticed_outside_of_it() -> None:
    before = vars(cupy.ndarray)["__new__"]
    with scopes.cupy.owning(), scopes.cupy.owning():
        assert vars(cupy.ndarray)["__new__"] is not before
    assert vars(cupy.ndarray)["__new__"] is before
    with new_dispose_scope() as scope:
        assert array()[0] not in scope


def test_enable_owns_until_disable() -> None:
    scopes.cupy.enable()
    with new_dispose_scope() as scope:
        assert array()[0] in scope or len(scope) == 0
        x, _ = array()
        assert x in scope
    scopes.cupy.disable()
    with new_dispose_scope() as scope:
        assert array()[0] not in scope


def test_reports_name_the_line_and_the_bytes() -> None:
    with scopes.track(), scopes.cupy.owning():
        x, _ = array()
        (row,) = scopes.leaks().rows
        assert (row.kinds, row.nbytes) == (("cupy.ndarray",), 24)
        dispose(x)
        assert scopes.leaks().count == 0


def test_tracking_counts_the_bytes_that_the_pool_gives_a_new_array() -> None:
    # CuPy makes an array, then asks the pool for its memory, and the pool tells its hooks: by their
    # documented keywords, as the calls below do.
    from scopes.adapters.cupy import _Blocks

    with scopes.track(), scopes.cupy.owning(), new_dispose_scope("step"):
        x = cupy.ndarray.__new__(cupy.ndarray, _no_init=True)
        _Blocks().malloc_postprocess(device_id=0, size=24, mem_size=512, mem_ptr=512, pmem_id=77)
        _Blocks().malloc_postprocess(device_id=0, size=24, mem_size=512, mem_ptr=512, pmem_id=77)
        row = scopes.scope_tree()["step"]
        assert (row.created_count, row.alive_bytes, row.peak_bytes) == (1, 512, 512)
        del x
        assert scopes.scope_tree()["step"].alive_bytes == 0


@on_a_device
def test_on_a_device_memory_returns_to_the_pool_with_the_scope() -> None:
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    with scopes.track(), scopes.cupy.owning():
        with new_dispose_scope("step") as scope:
            x = cupy.ones(1_000_000, dtype=cupy.float32)
            y = scope.detach((x * 2).sum())
            assert pool.used_bytes() >= before + 4_000_000
            assert scopes.scope_tree()["step"].peak_bytes >= 8_000_000
        assert pool.used_bytes() < before + 4096
    assert float(y) == 2_000_000.0
    with pytest.raises(TensorDisposedError):
        x + 1


@on_a_device
def test_on_a_device_results_in_place_stay_where_they_were() -> None:
    x = cupy.ones(3)
    out = cupy.zeros(3)
    with scopes.cupy.owning(), new_dispose_scope() as scope:
        x += 1
        cupy.add(x, 1, out=out)
        assert x not in scope
        assert out not in scope
    assert out.tolist() == [3.0, 3.0, 3.0]


@on_a_device
def test_on_a_device_functions_that_check_no_class_refuse_disposed_arrays() -> None:
    x = cupy.ones(3)
    dispose(x)
    with pytest.raises(ValueError, match="dim"):
        cupy.concatenate([cupy.ones(3), x])
    with pytest.raises((IndexError, TypeError)):
        cupy.ones(3)[x]
