"""out=: results where the caller says."""

import numpy as np
import pytest

import tensor
from tensor import memory

A = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
B = np.full((2, 3), 2, np.float32)

CALLS = [
    ("add", lambda x, y, out: tensor.add(x, y, out=out), lambda a, b: a + b),
    ("subtract", lambda x, y, out: tensor.subtract(x, 1.0, out=out), lambda a, b: a - 1),
    ("multiply", lambda x, y, out: tensor.multiply(2.0, y, out=out), lambda a, b: 2 * b),
    ("pow", lambda x, y, out: tensor.pow(x, 2, out=out), lambda a, b: a**2),
    ("maximum", lambda x, y, out: tensor.maximum(x, y, out=out), np.maximum),
    ("exp", lambda x, y, out: tensor.exp(x, out=out), lambda a, b: np.exp(a)),
    ("rsqrt", lambda x, y, out: tensor.rsqrt(x, out=out), lambda a, b: 1 / np.sqrt(a)),
    ("relu", lambda x, y, out: tensor.relu(x, out=out), lambda a, b: np.maximum(a, 0)),
    ("clip", lambda x, y, out: tensor.clip(x, 2, 4, out=out), lambda a, b: np.clip(a, 2, 4)),
    ("clip, open", lambda x, y, out: tensor.clip(x, out=out), lambda a, b: a),
    ("where", lambda x, y, out: tensor.where(x > 3, x, y, out=out), lambda a, b: np.where(a > 3, a, b)),
    ("less", lambda x, y, out: tensor.less(x, y, out=out), np.less),
    ("matmul", lambda x, y, out: tensor.matmul(x, y.T, out=out), lambda a, b: a @ b.T),
    ("sum", lambda x, y, out: tensor.sum(x, axis=0, out=out), lambda a, b: a.sum(0)),
    ("mean", lambda x, y, out: tensor.mean(x, axis=1, out=out), lambda a, b: a.mean(1)),
    ("prod", lambda x, y, out: tensor.prod(x, out=out), lambda a, b: a.prod()),
    (
        "max",
        lambda x, y, out: tensor.max(x, axis=0, keepdims=True, out=out),
        lambda a, b: a.max(0, keepdims=True),
    ),
    ("min", lambda x, y, out: tensor.min(x, out=out), lambda a, b: a.min()),
    ("cumulative_sum", lambda x, y, out: tensor.cumulative_sum(x, axis=1, out=out), lambda a, b: a.cumsum(1)),
    (
        "cumulative_prod",
        lambda x, y, out: tensor.cumulative_prod(x, axis=0, out=out),
        lambda a, b: a.cumprod(0),
    ),
    ("concat", lambda x, y, out: tensor.concat([x, y], out=out), lambda a, b: np.concatenate([a, b])),
    ("stack", lambda x, y, out: tensor.stack([x, y], axis=1, out=out), lambda a, b: np.stack([a, b], 1)),
]
each = pytest.mark.parametrize(
    ("call", "in_numpy"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS]
)


def operands(requires_grad=False):
    return tensor.tensor(A, requires_grad=requires_grad), tensor.tensor(B)


@each
def test_the_result_is_written_there_and_returned(call, in_numpy) -> None:
    expected = np.asarray(in_numpy(A, B))
    out = tensor.empty(expected.shape, dtype=expected.dtype)
    view = out.alias()
    assert call(*operands(), out) is out
    assert np.allclose(out.numpy(), expected)
    assert np.allclose(view.numpy(), expected)


@each
def test_it_takes_no_memory_for_good(call, in_numpy) -> None:
    x, y = operands()
    expected = np.asarray(in_numpy(A, B))
    out = tensor.empty(expected.shape, dtype=expected.dtype)
    before = memory.statistics().bytes_live
    call(x, y, out)
    assert memory.statistics().bytes_live == before


@each
def test_another_shape_is_an_error_and_nothing_is_written(call, in_numpy) -> None:
    out = tensor.zeros((7, 7), dtype=np.asarray(in_numpy(A, B)).dtype)
    with pytest.raises(
        ValueError, match=r"the result has shape .*, but out= has \(7, 7\): write out=tensor.empty"
    ):
        call(*operands(), out)
    assert not out.numpy().any()


@pytest.mark.parametrize(
    ("call", "in_numpy"),
    [case[1:] for case in CALLS if case[0] != "less"],
    ids=[case[0] for case in CALLS if case[0] != "less"],
)
def test_out_raises_where_gradients_are_recorded(call, in_numpy) -> None:
    expected = np.asarray(in_numpy(A, B))
    x, y = operands(requires_grad=True)
    y.requires_grad_()
    out = tensor.zeros(expected.shape)
    with pytest.raises(RuntimeError, match="out= keeps no gradient history"):
        call(x, y, out)
    assert not out.numpy().any()
    with tensor.no_grad():
        call(x, y, out)
    assert np.allclose(out.numpy(), expected)


@each
def test_clones_of_the_target_keep_their_values(call, in_numpy) -> None:
    expected = np.asarray(in_numpy(A, B))
    out = tensor.zeros(expected.shape, dtype=expected.dtype)
    kept = out.clone()
    call(*operands(), out)
    assert not kept.numpy().any()


def test_out_without_gradients_is_written_also_where_operands_have_them() -> None:
    x, y = operands(requires_grad=True)
    out = tensor.zeros((2, 3), dtype="bool")
    assert np.array_equal(tensor.less(x, y, out=out).numpy(), A < B)


def test_a_wider_target_is_cast_into_and_another_kind_is_an_error() -> None:
    x, y = operands()
    wide = tensor.zeros((2, 3), dtype="float64")
    assert np.allclose(tensor.add(x, y, out=wide).numpy(), A + B)
    whole = tensor.zeros((2, 3), dtype="int32")
    for call in (
        lambda: tensor.add(x, y, out=whole),
        lambda: tensor.pow(x, 2, out=whole),
        lambda: tensor.mean(x, axis=0, keepdims=True, out=whole[:1]),
    ):
        with pytest.raises(TypeError, match=r"does not fit out= of int32: pass an out= of float32"):
            call()
    assert not whole.numpy().any()


@pytest.mark.parametrize("target", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("source", ["int8", "int16", "int32", "int64"])
def test_signed_integers_are_written_to_unsigned_tensors(source: str, target: str) -> None:
    x = tensor.tensor([-1, 2], dtype=source)
    expected = x.numpy().astype(target)
    for call in (
        lambda out: tensor.add(x, 0, out=out),
        lambda out: tensor.floor_divide(x, 1, out=out),
        lambda out: tensor.pow(x, 1, out=out),
        lambda out: tensor.concat([x], out=out),
        lambda out: tensor.sum(x.view(1, 2), axis=0, dtype=source, out=out),
        lambda out: tensor.zeros((2,), dtype=target).copy_(out.copy_(x)),
    ):
        out = tensor.zeros((2,), dtype=target)
        call(out)
        assert np.array_equal(out.numpy(), expected)


def test_signed_integers_are_added_in_place_to_unsigned_ones() -> None:
    x, y = tensor.tensor([1, 2], dtype="uint8"), tensor.tensor([3, -1])
    other = x.clone()
    assert x.add_(y).tolist() == [4, 1]
    assert x.mul_(y).tolist() == [12, 255]
    assert x.floor_divide_(y.abs()).tolist() == [4, 255]
    assert x.pow_(y.abs()).tolist() == [64, 255]
    assert other.tolist() == [1, 2]
    with pytest.raises(TypeError, match="the result is float32, which does not fit the tensor's uint8"):
        x.add_(tensor.tensor([1.5, 2.0]))
    with pytest.raises(TypeError, match="does not fit the tensor's bool"):
        tensor.zeros((2,), dtype="bool").add_(x)


def test_complex_numbers_are_not_written_to_floating_tensors() -> None:
    pytest.importorskip("ml_dtypes")
    for name in ("float16", "bfloat16", "float64"):
        with pytest.raises(
            TypeError, match=f"concat: the result is complex64, which does not fit out= of {name}"
        ):
            tensor.concat([tensor.ones((2,), dtype="complex64")], out=tensor.zeros((2,), dtype=name))


def test_the_target_may_be_an_operand_or_overlap_one() -> None:
    x = tensor.arange(10.0)
    tensor.add(x, x, out=x)
    assert x.tolist() == list(range(0, 20, 2))
    x = tensor.arange(5.0)
    tensor.add(x[:-1], 0.0, out=x[1:])
    assert x.tolist() == [0, 0, 1, 2, 3]


def test_the_target_may_be_read_only_memory_of_others_which_stays_as_it_is() -> None:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    out = tensor.from_numpy(array)
    tensor.add(tensor.ones((3,)), 1.0, out=out)
    assert out.tolist() == [2, 2, 2]
    assert not array.any()


def test_an_out_that_is_disposed_or_not_a_tensor_is_an_error() -> None:
    x, y = operands()
    with pytest.raises(
        TypeError, match=r"add: out= takes a tensor, not ndarray: write out=tensor\.empty\(shape\)"
    ):
        tensor.add(x, y, out=np.zeros((2, 3)))
    with pytest.raises(TypeError, match="sum: out= takes a tensor, not int"):
        tensor.sum(x, out=3)
    out = tensor.zeros((2, 3))
    out.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        tensor.add(x, y, out=out)
    with pytest.raises(TypeError, match="add takes tensors, arrays and numbers, not str"):
        tensor.add(x, "y", out=tensor.zeros((2, 3)))
    with pytest.raises(ValueError, match="shapes don't fit together"):
        tensor.add(x, tensor.ones((4,)), out=tensor.zeros((2, 3)))


def test_a_failed_call_leaves_no_tensor_behind(window) -> None:
    x, _ = operands()
    live = window().live_count
    with pytest.raises(ValueError, match="the result has shape"):
        tensor.sum(x, axis=0, out=tensor.zeros((7,)))
    assert window().live_count == live


def test_a_large_result_takes_nothing_from_the_pool() -> None:
    x, y = tensor.ones((600, 600)), tensor.ones((600, 600))
    out = tensor.empty((600, 600))
    before = memory.statistics()
    for _ in range(3):
        tensor.add(x, y, out=out)
        tensor.matmul(x, y, out=out)
        tensor.exp(x, out=out)
    assert (memory.statistics() - before).allocation_count == 0
