"""Tensors of a few bytes: their values lie in the tensor itself until somebody asks for its array."""

from __future__ import annotations

import gc
import operator
import subprocess
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from scopes import TensorDisposedError, new_dispose_scope
from tensor import Tensor, memory
from tensor.memory import OutOfMemoryError
from tests.process import needs_process_memory
from tests.threads import run_at_once

SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, 3e38, 1e308, 5e-324, 1 / 3]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
SHAPES = [(), (1,), (2,), (1, 1), (2, 1), (1, 1, 1, 1)]


def values(shape: tuple[int, ...], dtype: str, start: int) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return np.resize(np.roll(SPECIAL, -start), shape).astype(dtype)


def assert_same_bits(x: Tensor, expected: np.ndarray[Any, Any]) -> None:
    assert (x.shape, x.dtype) == (expected.shape, expected.dtype)
    assert x.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_is_numpys_to_the_bit(op: Callable[[Any, Any], Any], dtype: str) -> None:
    for shape in SHAPES:
        for i in range(len(SPECIAL)):
            for j in range(len(SPECIAL)):
                a, b = values(shape, dtype, i), values(shape, dtype, j)
                with np.errstate(all="ignore"):
                    expected = np.asarray(op(a, b))
                assert_same_bits(op(tensor.tensor(a), tensor.tensor(b)), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "bool", "complex64"])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_numbers_on_either_side_promote_as_in_numpy(op: Callable[[Any, Any], Any], dtype: str) -> None:
    a = np.array([3, 1]).astype(dtype)[:1]
    for number in [2, -7, 0.1, 1e300, 2**24 + 1, -(2**24), 2**70, True, -0.0, 1j]:
        with np.errstate(all="ignore"):
            try:
                # A factor or a divisor beside float16 is a float32, as in PyTorch.
                is_wide = dtype == "float16" and op in (operator.mul, operator.truediv) and number != 1j
                b = a.astype(np.float32) if is_wide else a
                expected = [np.asarray(op(b, number)), np.asarray(op(number, b))]
                expected = [x.astype(a.dtype) if is_wide else x for x in expected]
            except (OverflowError, TypeError):
                with pytest.raises((OverflowError, TypeError)):
                    op(tensor.tensor(a), number)
                continue
        expected = [tensor.tensor(each).numpy() for each in expected]
        found = [op(tensor.tensor(a), number), op(number, tensor.tensor(a))]
        if found[0].dtype == expected[0].dtype:  # else promotion is ours, which test_dtypes looks at
            for x, y in zip(found, expected, strict=True):
                assert_same_bits(x, y)


@pytest.mark.parametrize(
    ("left", "right"), [((), (2,)), ((2,), ()), ((1,), (2,)), ((2, 1), (1, 2)), ((3,), (3, 1))]
)
def test_shapes_broadcast_as_in_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = np.full(left, 1.5, np.float32), np.arange(np.prod(right), dtype=np.float32).reshape(right)
    assert_same_bits(tensor.tensor(a) - tensor.tensor(b), np.asarray(a - b))


def test_dtypes_mix_as_in_numpy() -> None:
    one, two = tensor.tensor([1.5], dtype="float32"), tensor.tensor([2.25], dtype="float64")
    assert_same_bits(one + two, np.array([3.75]))


def test_integers_wrap_around_as_in_numpy() -> None:
    most = np.array([2**31 - 1], np.int32)
    assert_same_bits(tensor.tensor(most) + tensor.tensor(most), np.array([-2], np.int32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize(
    "name", ["exp", "tanh", "sigmoid", "relu", "negative", "abs", "sqrt", "gelu", "erf", "sin"]
)
def test_functions_of_one_operand_give_the_same_as_in_large_arrays(name: str, dtype: str) -> None:
    function = getattr(tensor, name)
    for shape in SHAPES:
        for i in range(len(SPECIAL)):
            with np.errstate(invalid="ignore"):
                x = values(shape, dtype, i)
            if name != "sin" and dtype in {"float32", "float64"}:  # the others are NumPy's
                assert_same_bits(function(tensor.tensor(x)), tiled(function, x))
            in_place = tensor.tensor(x)
            in_place.numpy()  # from here on with an array
            assert_same_bits(function(in_place), function(tensor.tensor(x)).numpy())


def tiled(function: Callable[[Tensor], Tensor], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what `function` makes of `x` among many others."""
    return function(tensor.tensor(np.tile(x, (50, *[1] * x.ndim)))).numpy()[0]


def test_functions_of_one_operand_record_and_refuse_as_others_do() -> None:
    x = tensor.tensor([0.5], requires_grad=True)
    x.exp().tanh().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.exp(0.5) / np.cosh(np.exp(0.5)) ** 2, rtol=1e-6)
    x.dispose()
    with pytest.raises(TensorDisposedError, match="disposed by dispose"):
        x.exp()


def test_operands_with_an_array_are_read_there() -> None:
    x, y = tensor.tensor([1.0, 2.0, 3.0, 4.0]), tensor.tensor([10.0, 20.0])
    x.numpy()[0] = 5.0
    assert (x[::2] + y).tolist() == [15.0, 23.0]
    assert (x[1:3] + y).tolist() == [12.0, 23.0]
    assert (x + x).tolist() == [10.0, 4.0, 6.0, 8.0]


def test_a_history_is_still_recorded() -> None:
    x, y = tensor.tensor([3.0], requires_grad=True), tensor.tensor([2.0])
    (x * y + x / 2.0).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.5]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_recorded_arithmetic_gives_the_bits_and_gradients_of_large_arrays(
    op: Callable[[Any, Any], Any], dtype: str
) -> None:
    for shape in SHAPES:
        for wanted in [(True, False), (False, True), (True, True)]:
            a, b = np.full(shape, 1.7, dtype), np.full(shape, -0.3, dtype)
            few = recorded(op, a, b, wanted)
            many = recorded(op, np.tile(a, (50, *[1] * a.ndim)), np.tile(b, (50, *[1] * b.ndim)), wanted)
            for x, expected in zip(few, many, strict=True):
                assert (x is None) == (expected is None)
                if x is not None and expected is not None:
                    assert_same_bits(x, expected.numpy()[0])


def recorded(
    op: Callable[[Any, Any], Any], a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the result of `op`, and the gradients of operands that want one."""
    x, y = tensor.tensor(a, requires_grad=wanted[0]), tensor.tensor(b, requires_grad=wanted[1])
    out = op(x, y)
    out.backward(tensor.ones(a.shape, dtype=str(a.dtype)))
    return out.detach(), x.grad, y.grad


@pytest.mark.parametrize("number", [2.0, -3, 0])
@pytest.mark.parametrize("op", ARITHMETIC[:3])
def test_arithmetic_with_a_number_on_either_side_is_recorded(
    op: Callable[[Any, Any], Any], number: float
) -> None:
    x = tensor.tensor([1.5, -4.0], requires_grad=True)
    values, slopes = np.array([1.5, -4.0], np.float32), []
    for y, expected in [(op(x, number), op(values, number)), (op(number, x), op(number, values))]:
        assert_same_bits(y.detach(), expected)
        y.sum().backward()
        assert x.grad is not None
        slopes.append(x.grad.tolist())
        x.grad = None
    wanted = {operator.add: (1, 1), operator.sub: (1, -1), operator.mul: (number, number)}[op]
    assert slopes == [[float(slope)] * 2 for slope in wanted]


def test_a_recorded_result_needs_no_array() -> None:
    x, y = tensor.tensor([2.0], requires_grad=True), tensor.tensor([3.0])
    (x + y).sum().backward()  # so that what is made once is there
    start = memory.statistics()
    plain = [y + y for _ in range(100)]
    between = memory.statistics()
    held = [x + y for _ in range(100)]
    of_plain, of_recorded = between - start, memory.statistics() - between
    assert of_recorded.bytes_live == of_plain.bytes_live == 400
    assert len(plain) == len(held)
    # A node with its two tuples, one that names its inputs' nodes and a shape.
    assert of_recorded.bytes_overhead - of_plain.bytes_overhead < 100 * 360


def test_the_saved_value_of_a_small_operand_stays_unchanged() -> None:
    x, y = tensor.tensor([2.0], requires_grad=True), tensor.tensor([3.0]) + 1.0
    product, power = x * y, x.exp()
    kept = power.tolist()
    y.fill_(100.0)
    with tensor.no_grad():
        power.fill_(100.0)
    (product + power).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0 + kept[0]]


def test_small_results_record_nothing_where_nothing_is_to_be_recorded() -> None:
    x = tensor.tensor([2.0], requires_grad=True)
    with tensor.no_grad():
        for y in (x + 1.0, x * x, x.exp(), -x):
            assert not y.requires_grad
    assert (x + 1.0).requires_grad
    assert (-x).requires_grad


def test_disposing_small_operands_does_not_break_backward() -> None:
    with new_dispose_scope() as scope:
        x = tensor.tensor([2.0], requires_grad=True)
        with new_dispose_scope() as inner:
            y = tensor.tensor([3.0]) + 1.0
            out = inner.move_to_outer((x * y) / (x + 1.0))
        out.backward()
        assert x.grad is not None
        assert abs(x.grad.item() - 4.0 / 9.0) < 1e-6
        assert x in scope


def test_disposed_operands_are_refused() -> None:
    x = tensor.tensor([1.0])
    x.dispose()
    for use in (lambda: x + x, lambda: x * 2.0, lambda: 2.0 - x, lambda: tensor.tensor([1.0]) + x):
        with pytest.raises(TensorDisposedError, match="disposed by dispose"):
            use()


def test_a_donated_operand_is_used_up() -> None:
    x = tensor.tensor([1.0])
    donated = x.donate()
    assert x.is_invalid
    assert (donated + 1.0).tolist() == [2.0]
    assert donated.is_invalid


# --- One value, inline or not -------------------------------------------------------------------------------


def test_bytes_are_live_once_with_and_without_an_array() -> None:
    start = memory.statistics()
    x = tensor.tensor([1.0, 2.0])
    inline = memory.statistics() - start
    x.numpy()
    stored = memory.statistics() - start
    assert (inline.bytes_live, inline.bytes_allocated, inline.allocation_count) == (8, 8, 1)
    assert (stored.bytes_live, stored.bytes_allocated, stored.allocation_count) == (8, 8, 1)
    # What holds the values elsewhere: a buffer, and NumPy's array object.
    assert stored.bytes_overhead > inline.bytes_overhead + 100
    x.dispose()
    del x
    end = memory.statistics() - start
    assert (end.bytes_live, end.bytes_freed, end.bytes_overhead) == (0, 8, 0)


@pytest.mark.parametrize("ends", ["dispose", "drop", "scope"])
def test_inline_bytes_are_freed_with_the_tensor(ends: str) -> None:
    start = memory.statistics()
    with new_dispose_scope():
        x = tensor.ones((2,)) + tensor.ones((2,))
        assert (memory.statistics() - start).bytes_live == 8
        if ends == "dispose":
            x.dispose()
        elif ends == "drop":
            del x
        assert (memory.statistics() - start).bytes_live == (8 if ends == "scope" else 0)
    assert (memory.statistics() - start).bytes_live == 0


def test_a_small_tensor_takes_less_than_200_bytes_in_addition_to_its_values() -> None:
    start = memory.statistics().bytes_overhead
    held = [tensor.ones((4,)) for _ in range(100)]
    held += [held[0] + held[1] for _ in range(100)]
    taken = memory.statistics().bytes_overhead - start
    assert 0 < taken / len(held) < 200


def test_the_overhead_of_a_view_includes_its_object_and_its_array() -> None:
    x = tensor.ones((100, 100))
    start = memory.statistics().bytes_overhead
    views = [x[n:] for n in range(50)]
    taken = memory.statistics().bytes_overhead - start
    assert taken / len(views) >= sys.getsizeof(x) + np.ndarray.__basicsize__


def test_numpy_of_an_inline_tensor_shares_memory_in_each_call() -> None:
    x = tensor.tensor([1.0]) + 1.0
    array = x.numpy()
    array[0] = 7.0
    assert x.numpy() is not array
    assert np.shares_memory(x.numpy(), array)
    assert (x + 0.0).item() == 7.0


def test_clones_and_views_of_an_inline_value() -> None:
    x = tensor.tensor([[1.0, 2.0]]) * 2.0
    clone, view = x.clone(), x[0]
    x.add_(1.0)
    assert (x.tolist(), view.tolist(), clone.tolist()) == ([[3.0, 5.0]], [3.0, 5.0], [[2.0, 4.0]])


def test_an_inline_value_moves_with_its_handle() -> None:
    start = memory.statistics()
    x = tensor.tensor([1.0]) * 3.0
    parameter = nn.Parameter(x)
    assert x.is_invalid
    assert (memory.statistics() - start).bytes_live == 4
    assert parameter.tolist() == [3.0]
    again = Tensor.from_handle((tensor.tensor([1.0]) * 4.0).move_handle())
    assert again.tolist() == [4.0]


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, 2], ">i4"),
        np.array([1.5], ">f8"),
        np.zeros((0,), np.float32),
        np.zeros((0, 1000), np.int8),
        np.zeros((1,) * 5, np.float32),
        np.array([[1, 2], [3, 4]], np.int16, order="F"),
        np.array(True),
        np.array([1 + 2j]),
        np.array([1.5, 2.5], np.float16),
        np.arange(16, dtype=np.int8).reshape(2, 2, 2, 2),
        np.arange(17, dtype=np.int8),
    ],
)
def test_each_kind_of_small_array_is_returned_unchanged(array: np.ndarray[Any, Any]) -> None:
    x = tensor.tensor(array)
    assert (x.shape, x.dtype) == (array.shape, array.dtype.newbyteorder("="))
    assert np.array_equal(x.numpy(), array)


def test_over_a_limit_a_small_result_is_refused_and_nothing_has_changed() -> None:
    x = tensor.tensor([1.0, 2.0])
    gc.collect()  # so that at the limit nothing is found to be given back
    memory.trim()
    start = memory.statistics()
    with memory.limit(start.bytes_live + start.bytes_pinned + 7):
        with pytest.raises(OutOfMemoryError):
            x + x
        with pytest.raises(OutOfMemoryError):
            tensor.tensor([1.0, 2.0])
        y = x[:1] + x[1:]  # of 4 bytes
    assert y.tolist() == [3.0]
    assert (memory.statistics() - start).bytes_live == 4


def test_a_pool_for_all_sizes_counts_small_values_once() -> None:
    before = memory.configuration().min_pooled_bytes
    start = memory.statistics().bytes_live
    x = tensor.tensor([1.0]) + 1.0  # inline
    memory.configure(min_pooled_bytes=0)
    try:
        y = tensor.exp(x - x)
        x.add_(y)
        assert (x.tolist(), y.tolist()) == ([3.0], [1.0])
        assert memory.statistics().bytes_live - start == 8
        del x, y
        assert memory.statistics().bytes_live == start
    finally:
        memory.configure(min_pooled_bytes=before)
        memory.trim()


def test_threads_that_ask_for_the_array_at_once_get_the_same() -> None:
    for _ in range(50):
        x = tensor.tensor([1.0]) + 1.0
        found: list[Any] = []
        run_at_once([Thread(target=lambda x=x, found=found: found.append(x.numpy())) for _ in range(8)])
        assert len(found) == 8
        assert all(np.shares_memory(found[0], array) for array in found)


PROCESS = """
import sys
import tensor
from scopes import new_dispose_scope
from tensor import memory
from tests.process import own_bytes

def told():
    now = memory.statistics()
    return now.bytes_live + now.bytes_overhead

with new_dispose_scope():
    a = tensor.ones((4,))
    held = [a + a] * 300_000
    before, ours = own_bytes(), told()
    for i in range(300_000):
        held[i] = a + a if i % 2 else tensor.ones((4,))
    print(own_bytes() - before, told() - ours)
"""


@needs_process_memory
def test_many_small_tensors_take_the_reported_bytes_and_no_other() -> None:
    run = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True)
    process, ours = [int(number) for number in run.stdout.split()]
    assert ours < 300_000 * 216
    assert abs(process - ours) < 0.05 * ours + 2_000_000
