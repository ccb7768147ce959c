"""Memory that is shared: aliases see writes, clones don't, and only who must copies."""

import sys

import numpy as np
import pytest

import tensor
from tensor import Tensor


def address(x: Tensor) -> int:
    return x._array.__array_interface__["data"][0]


@pytest.mark.parametrize(
    "sharing", [Tensor.alias, Tensor.detach, lambda x: x[:], lambda x: x.reshape(2, 2).view(4)]
)
def test_a_write_through_one_is_seen_by_all_on_the_storage(sharing):
    x = tensor.zeros((4,))
    y = sharing(x)
    x[1] = 5.0
    assert y.tolist() == [0.0, 5.0, 0.0, 0.0]
    y[0] = 7.0
    assert x.tolist() == [7.0, 5.0, 0.0, 0.0]


@pytest.mark.parametrize("writer", ["original", "clone"])
def test_after_a_clone_the_first_write_on_either_side_copies_for_the_writer_alone(writer):
    x = tensor.zeros((4,))
    before = address(x)
    y = x.clone()
    assert address(y) == before
    written, other = (x, y) if writer == "original" else (y, x)
    written[0] = 1.0
    assert address(written) != before
    assert address(other) == before
    assert other.tolist() == [0.0] * 4
    assert written.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_the_side_that_is_left_alone_writes_in_place():
    x = tensor.zeros((4,))
    y = x.clone()
    y[0] = 1.0
    before = address(x)
    x[0] = 2.0
    assert address(x) == before


def test_once_the_clone_is_gone_the_original_writes_in_place():
    x = tensor.zeros((4,))
    before = address(x)
    x.clone().dispose()
    y = x.clone()
    del y
    x[0] = 1.0
    assert address(x) == before


def test_an_unshared_tensor_is_written_in_place():
    x = tensor.zeros((4,))
    before = address(x)
    for _ in range(3):
        x += 1
        x[0] = 0.0
    assert address(x) == before


def test_a_tensor_whose_view_is_gone_is_written_in_place_and_copied_once_somebody_looks():
    x = tensor.zeros((4,))
    x.detach()
    before = address(x)
    x.fill_(1)
    assert address(x) == before
    clone = x.clone()
    x.fill_(2)
    assert clone.tolist() == [1.0] * 4
    view = x[1:]
    x.fill_(3)
    assert view.tolist() == [3.0] * 3


def test_views_stay_with_their_side_when_a_write_copies():
    x = tensor.zeros((4,))
    view = x[1:3]
    y = x.clone()
    y_view = y[1:3]
    x[1] = 1.0
    y[2] = 2.0
    assert view.tolist() == [1.0, 0.0]
    assert y_view.tolist() == [0.0, 2.0]
    view[1] = 3.0
    assert x.tolist() == [0.0, 1.0, 3.0, 0.0]
    assert y.tolist() == [0.0, 0.0, 2.0, 0.0]


def test_a_clone_of_a_view_sees_no_write_to_the_base():
    x = tensor.zeros((4,))
    clone = x[1:3].clone()
    x[1] = 1.0
    assert clone.tolist() == [0.0, 0.0]
    clone[0] = 5.0
    assert x.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_a_clone_outlives_its_base_whose_views_still_write():
    x = tensor.zeros((4,))
    view = x[1:3]
    clone = x.clone()
    x.dispose()
    clone[1] = 9.0
    assert view.tolist() == [0.0, 0.0]
    view[0] = 4.0
    assert clone.tolist() == [0.0, 9.0, 0.0, 0.0]


def test_a_clone_of_a_clone_is_independent_of_both():
    x = tensor.zeros((2,))
    y = x.clone()
    z = y.clone()
    y[0] = 1.0
    assert (x.tolist(), z.tolist()) == ([0.0, 0.0], [0.0, 0.0])
    z[1] = 2.0
    assert (x.tolist(), y.tolist()) == ([0.0, 0.0], [1.0, 0.0])


def test_numpy_shares_memory_both_ways_and_outlives_the_tensor():
    x = tensor.zeros((3,))
    array = x.numpy()
    array[0] = 1.0
    x[1] = 2.0
    assert x.tolist() == [1.0, 2.0, 0.0]
    x.dispose()
    assert array.tolist() == [1.0, 2.0, 0.0]
    array[2] = 3.0


def test_a_clone_never_sees_a_write_through_an_exported_array():
    x = tensor.zeros((3,))
    array = x.numpy()
    clone = x.clone()
    array[0] = 1.0
    assert clone.tolist() == [0.0, 0.0, 0.0]
    clone[1] = 1.0
    assert array.tolist() == [1.0, 0.0, 0.0]


def test_an_array_exported_after_the_clone_shares_with_its_own_side_only():
    x = tensor.zeros((3,))
    clone = x.clone()
    array = x.numpy()
    array[0] = 1.0
    assert x.tolist() == [1.0, 0.0, 0.0]
    assert clone.tolist() == [0.0, 0.0, 0.0]
    clone.numpy()[2] = 2.0
    assert x.tolist() == [1.0, 0.0, 0.0]


def test_once_the_exported_array_is_gone_clones_are_lazy_again():
    x = tensor.zeros((3,))
    array = x.numpy()
    eager = x.clone()
    assert address(eager) != address(x)
    del array
    lazy = x.clone()
    assert address(lazy) == address(x)


def test_a_view_of_an_exported_array_is_an_outsider_too():
    x = tensor.zeros((3,))
    part = x.numpy()[1:]
    clone = x.clone()
    part[0] = 1.0
    assert x.tolist() == [0.0, 1.0, 0.0]
    assert clone.tolist() == [0.0, 0.0, 0.0]


def test_from_numpy_shares_both_ways_and_its_clone_does_not():
    array = np.zeros(3)
    x = tensor.from_numpy(array)
    clone = x.clone()
    array[0] = 1.0
    x[1] = 2.0
    assert array.tolist() == [1.0, 2.0, 0.0]
    assert x.tolist() == [1.0, 2.0, 0.0]
    assert clone.tolist() == [0.0, 0.0, 0.0]


def test_over_a_read_only_array_the_first_write_makes_a_private_copy():
    array = np.zeros(3)
    array.flags.writeable = False
    x = tensor.from_numpy(array)
    view = x[:2]
    x[0] = 1.0
    assert view.tolist() == [1.0, 0.0]
    assert array.tolist() == [0.0, 0.0, 0.0]


def test_an_expanded_view_can_not_be_written_but_its_clone_can():
    x = tensor.zeros((1, 2))
    wide = x.expand(3, 2)
    with pytest.raises(RuntimeError, match="expanded view"):
        wide[0, 0] = 1.0
    clone = wide.clone()
    clone[0, 0] = 1.0
    assert clone.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert x.tolist() == [[0.0, 0.0]]


def test_views_of_the_clone_of_an_expanded_view_have_elements_of_their_own():
    wide = tensor.zeros((2,)).expand(3, 2)
    clone = wide.clone()
    clone[::2].add_(1.0)
    assert clone.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    alias = clone.alias()
    alias[1, 0] = 5.0
    assert clone.tolist() == [[1.0, 1.0], [5.0, 0.0], [1.0, 1.0]]
    assert wide.tolist() == [[0.0, 0.0]] * 3


def test_an_expanded_view_follows_its_base_through_a_copy():
    x = tensor.zeros((1, 2))
    wide = x.expand(3, 2)
    kept = x.clone()
    x[0, 1] = 4.0
    assert wide.tolist() == [[0.0, 4.0]] * 3
    assert kept.tolist() == [[0.0, 0.0]]


def test_a_transposed_tensor_keeps_its_elements_when_a_write_copies():
    x = tensor.tensor([[[1, 2, 3], [4, 5, 6]]])
    y = x.permute(2, 0, 1)
    kept = y.clone()
    y[0, 0, 0] = 9
    assert x.tolist() == [[[9, 2, 3], [4, 5, 6]]]
    assert kept.tolist() == [[[1, 4]], [[2, 5]], [[3, 6]]]


def test_views_that_are_gone_leave_nothing_behind_and_no_copy_is_made_for_them():
    x = tensor.zeros((4,))
    kept = [x[:2] for _ in range(100)]
    for _ in range(1000):
        x.T.dispose()
        x.reshape(2, 2)
    storage = x._seat.storage
    assert len(storage.members) <= 2 * len(kept) + 2
    assert storage.is_shared()
    kept.clear()
    before = address(x)
    x += 1
    assert address(x) == before
    assert not storage.is_shared()
    assert len(storage.members) == 1


def test_a_detached_tensor_is_no_relative_of_one_long_gone():
    x = tensor.ones((2,), requires_grad=True) * 1
    families = set()
    for _ in range(3):
        y = x.detach()
        assert y._seat.family not in families
        assert y[0:1]._seat.family == y._seat.family
        families.add(y._seat.family)
        del y


def test_nbytes_of_a_scope_counts_shared_memory_once():
    from scopes import new_dispose_scope

    with new_dispose_scope() as scope:
        x = tensor.zeros((100,))
        views = [x[:], x.alias(), x.clone(), x[10:20]]
        assert scope.nbytes == 400
        assert len(scope) == 1 + len(views)


def test_values_are_claimed_by_reference_so_the_baselines_hold_on_this_interpreter():
    x = tensor.zeros((2,))
    assert tensor.core.storage._is_sole(x)
    holder = x._array
    assert not tensor.core.storage._is_sole(x)
    del holder
    assert tensor.core.storage._is_sole(x)
    assert sys.getrefcount(x) >= 1
