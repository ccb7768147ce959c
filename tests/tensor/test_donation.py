"""donate(): the next op may use the memory, and nobody can tell but by the counters."""

import gc

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import memory

SHAPES = [(3,), (300, 300)]  # from NumPy, and from the pool


class Donations:
    """What the counters say since the beginning."""

    def __init__(self) -> None:
        gc.collect()
        self.start = memory.statistics()

    @property
    def used(self) -> tuple[int, int]:
        now = memory.statistics() - self.start
        return now.donation_reuse_count, now.donation_miss_count

    @property
    def allocated(self) -> int:
        return (memory.statistics() - self.start).bytes_allocated


@pytest.fixture
def donations() -> Donations:
    return Donations()


def of(shape):
    """Return a tensor that alone looks at its memory."""
    return tensor.tensor(np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "op",
    [
        lambda x, other: x + 1.0,
        lambda x, other: 1.0 - x,
        lambda x, other: x * other,
        lambda x, other: other - x,
        lambda x, other: np.negative(x),
        lambda x, other: np.sqrt(x),
        lambda x, other: np.maximum(x, other),
        lambda x, other: np.hypot(other, x),
    ],
)
def test_an_elementwise_op_writes_its_result_into_the_donated_block(op, shape, donations) -> None:
    x, other = of(shape), tensor.full(shape, 2.0)
    expected = op(np.array(x), np.array(other))
    place = x.data_ptr()
    y = op(x.donate(), other)
    assert y.data_ptr() == place
    assert donations.used == (1, 0)
    assert x.is_invalid
    assert y.dtype == tensor.float32
    assert np.allclose(y.numpy(), expected)


def test_a_reuse_allocates_nothing(donations) -> None:
    x = of((300, 300))
    allocated = donations.allocated
    for _ in range(10):
        x = x.donate() * 0.5
    assert donations.allocated == allocated
    assert donations.used == (10, 0)


def looks_by_a_view(x):
    return x[:1]


def looks_by_an_alias(x):
    return x.alias()


def looks_by_a_clone(x):
    return x.clone()


def looks_by_an_exported_array(x):
    return x.numpy()


def looks_by_a_detached_tensor(x):
    return x.detach()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "look",
    [
        looks_by_a_view,
        looks_by_an_alias,
        looks_by_a_clone,
        looks_by_an_exported_array,
        looks_by_a_detached_tensor,
    ],
)
def test_donated_memory_with_a_view_or_clone_is_not_overwritten(look, shape, donations) -> None:
    x = of(shape)
    other = look(x)
    seen = other.tolist()  # not by an export, which would give a clone memory of its own
    y = x.donate() * 2.0
    assert donations.used == (0, 1)
    assert other.tolist() == seen
    assert y.tolist() == of(shape).mul_(2.0).tolist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("look", [looks_by_a_view, looks_by_an_alias, looks_by_a_clone])
def test_once_the_looker_is_gone_the_block_is_used(look, shape, donations) -> None:
    x = of(shape)
    look(x).dispose()
    place = x.data_ptr()
    y = x.donate() * 2.0
    assert donations.used == (1, 0)
    assert y.data_ptr() == place


def test_borrowed_memory_is_never_used(donations) -> None:
    array = np.ones(3, np.float32)
    y = tensor.from_numpy(array).donate() * 2.0
    assert donations.used == (0, 1)
    assert array.tolist() == [1, 1, 1]
    assert y.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (lambda x: x.donate() > 2.0, "another dtype"),
        (lambda x: x.donate() * tensor.ones((2, 3)), "another shape"),
        (lambda x: x.donate() + np.float64(1) * np.ones(3), "a wider dtype"),
        (lambda x: tensor.sum(x.donate()), "a reduction"),
        (lambda x: x.donate() @ tensor.ones((3,)), "a product"),
        (lambda x: tensor.erfinv(x.donate()), "several passes over the operand"),
        (lambda x: tensor.flip(x.donate()), "elements move"),
    ],
)
def test_a_result_that_does_not_fit_is_no_error_and_the_memory_is_freed(op, why, donations) -> None:
    live = memory.statistics().bytes_live
    x = of((3,))
    y = op(x)
    assert x.is_invalid, why
    assert donations.used == (0, 1), why
    nbytes = y.numel() * y.dtype.itemsize
    assert memory.statistics().bytes_live - live == nbytes, why


def test_a_part_of_a_larger_block_is_not_used(donations) -> None:
    x = of((4,))
    part = x[:3]
    x.dispose()
    y = part.donate() * 2.0
    assert donations.used == (0, 1)
    assert y.tolist() == [2, 4, 6]


def test_a_transposed_tensor_of_its_own_block_is_used(donations) -> None:
    x = of((2, 3))
    turned = x.T
    x.dispose()
    y = turned.donate() * 2.0
    assert donations.used == (1, 0)
    assert y.tolist() == [[2, 8], [4, 10], [6, 12]]


def test_of_two_donated_operands_one_is_used_and_the_other_released(donations) -> None:
    live = memory.statistics().bytes_live
    x, y = of((3,)), of((3,))
    z = x.donate() + y.donate()
    assert z.tolist() == [2, 4, 6]
    assert donations.used == (1, 1)
    assert memory.statistics().bytes_live - live == 12


def test_one_donated_tensor_as_both_operands(donations) -> None:
    x = of((3,)).donate()
    y = x * x
    assert y.tolist() == [1, 4, 9]
    assert x.is_invalid
    assert donations.used == (1, 0)


def test_a_donated_tensor_that_is_kept_by_name_is_empty_after_the_op() -> None:
    donated = of((3,)).donate()
    _ = donated + 1.0
    with pytest.raises(tensor.TensorDisposedError, match="the op that it was donated to has used it"):
        donated + 1.0


def test_the_emptied_tensor_says_that_it_was_donated() -> None:
    x = of((3,))
    _ = x.donate()
    with pytest.raises(tensor.TensorDisposedError, match=r"donated by donate\(\)"):
        x + 1


def test_a_donation_that_no_op_takes_gives_the_memory_back_with_its_scope(donations) -> None:
    live = memory.statistics().bytes_live
    with new_dispose_scope() as scope:
        donated = of((3,)).donate()
        assert donated in scope
        assert len(scope) == 1
    assert donated.is_invalid
    assert donations.used == (0, 1)
    assert memory.statistics().bytes_live == live


def test_counters_of_lifetimes_see_one_disposal(window) -> None:
    with new_dispose_scope():
        x = of((3,))
        y = x.donate() * 2.0
        assert (window().created_in_scope_count, window().disposed_in_scope_count) == (2, 1)
        assert window().live_count == 1
    assert y.is_invalid
    assert (window().created_in_scope_count, window().disposed_in_scope_count) == (2, 2)


def test_it_can_be_used_in_other_ways_before_the_op(donations) -> None:
    donated = of((3,)).donate()
    assert donated.tolist() == [1, 2, 3]
    assert donated.shape == (3,)
    copy = donated.clone()
    y = donated + 1.0
    assert donations.used == (0, 1)
    assert copy.tolist() == [1, 2, 3]
    assert y.tolist() == [2, 3, 4]


def test_a_parameter_can_be_made_of_it(donations) -> None:
    weight = nn.Parameter(of((3,)).donate())
    assert weight.tolist() == [1, 2, 3]
    weight.dispose()
    del weight
    assert donations.used[0] == 0


# Gradients.


def test_a_value_that_backward_needs_is_not_overwritten(donations) -> None:
    w = tensor.tensor([2.0, 3.0, 4.0], requires_grad=True)
    x = of((3,))
    y = x.donate() * w  # the derivative by w is x
    assert donations.used == (0, 1)
    y.sum().backward()
    assert w.grad.tolist() == [1, 2, 3]


def test_where_backward_needs_no_value_the_block_is_used(donations) -> None:
    w = tensor.tensor([2.0, 3.0, 4.0], requires_grad=True)
    h = w * 1.0
    y = h.donate() + 1.0
    assert donations.used == (1, 0)
    y.sum().backward()
    assert w.grad.tolist() == [1, 1, 1]


def test_a_value_saved_by_an_earlier_op_is_not_overwritten(donations) -> None:
    w = tensor.tensor([2.0, 3.0, 4.0], requires_grad=True)
    h = w * 1.0
    square = h * h
    y = h.donate() + 1.0
    assert donations.used == (0, 1)
    (square.sum() + y.sum()).backward()
    assert w.grad.tolist() == [5, 7, 9]


def test_an_output_that_backward_needs_stays_right(donations) -> None:
    w = tensor.tensor([0.0, 1.0], requires_grad=True)
    h = w + 0.0
    y = tensor.exp(h.donate())
    assert donations.used == (1, 0)
    y.sum().backward()
    assert np.allclose(w.grad.numpy(), np.exp([0, 1]))


def test_without_recording_a_value_is_not_needed(donations) -> None:
    w = tensor.tensor([2.0, 3.0, 4.0], requires_grad=True)
    x = of((3,))
    with tensor.no_grad():
        y = x.donate() * w
    assert donations.used == (1, 0)
    assert y.tolist() == [2, 6, 12]
