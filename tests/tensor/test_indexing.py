"""Indexing, against NumPy's own on arrays."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor
from tensor import InvalidArgumentError, Tensor


def keys(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    basic = hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)
    picking = hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3))
    return st.one_of(basic, picking, hnp.arrays(np.bool_, shape), st.sampled_from([[0], True, None, ...]))


SHAPES = hnp.array_shapes(max_dims=3, max_side=4)
INDEXED = SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), keys(shape)))


def as_tensors(key: Any) -> Any:
    """Return `key` with tensors instead of arrays."""
    if isinstance(key, tuple):
        return tuple(map(as_tensors, key))
    return tensor.tensor(key) if isinstance(key, np.ndarray) else key


@given(INDEXED)
def test_reading_is_as_in_numpy(case):
    shape, key = case
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    for one in (key, as_tensors(key)):
        found = tensor.tensor(array)[one]
        assert isinstance(found, Tensor)
        np.testing.assert_array_equal(found.numpy(), array[key])


@given(INDEXED)
def test_writing_is_as_in_numpy(case):
    shape, key = case
    array = np.zeros(shape)
    value = np.arange(np.size(array[key]), dtype=np.float64).reshape(np.shape(array[key]))
    x = tensor.tensor(array)
    x[as_tensors(key)] = tensor.tensor(value)
    array[key] = value
    np.testing.assert_array_equal(x.numpy(), array)


@given(INDEXED)
def test_gradients_of_indexing_are_added_at_the_indexed_elements(case):
    shape, key = case
    x = tensor.zeros(shape, dtype="float64", requires_grad=True)
    y = x[as_tensors(key)]
    g = np.arange(1.0, y.numel() + 1).reshape(y.shape)
    y.backward(tensor.tensor(g))
    expected = np.zeros(shape)
    np.add.at(expected, key, g)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (5, "index 5 is out of bounds for dimension 0 with size 2.*0 to size - 1"),
        ((0, -4), "index -4 is out of bounds for dimension 1 with size 3"),
        ([0, 2], "index 2 is out of bounds for dimension 0 with size 2"),
        ((0, 0, 0), "too many indices.*at most 2"),
        (np.ones(3, bool), "boolean index.*dimension 0.*size of dimension is 2.*3"),
        (([0, 1], [0, 1, 2]), "broadcast.*equal sizes, or 1"),
        (1.5, "not float"),
        ("a", "not str"),
        (np.array([0.5]), "not float64.*long"),
    ],
)
def test_a_wrong_index_is_explained_when_reading_and_when_writing(key, message):
    x = tensor.zeros((2, 3))
    with pytest.raises(IndexError, match=message):
        x[key]
    with pytest.raises(IndexError, match=message):
        x[key] = 1.0
    assert x.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        (0, [1.0, 2.0], ValueError, r"value of shape \(2,\).*the shape \(3,\) of the selection"),
        ([0, 1], np.zeros((3, 3)), ValueError, r"shape \(3, 3\) does not broadcast to the shape \(2, 3\)"),
        (np.array([[True] * 3, [False] * 3]), [1.0, 2.0], ValueError, "selection"),
        (0, 1j, TypeError, "complex"),
        (0, "text", TypeError, "can't write str"),
        (0, None, TypeError, "can't write NoneType"),
    ],
)
def test_a_wrong_value_changes_nothing(key, value, error, message):
    x = tensor.zeros((2, 3))
    with pytest.raises(error, match=message):
        x[key] = value
    assert x.tolist() == [[0.0] * 3] * 2
    assert x.grad_fn is None


def test_integers_take_no_infinities():
    x = tensor.zeros((2,), dtype="int64")
    for value in (float("nan"), tensor.tensor([float("inf")])):
        with pytest.raises(InvalidArgumentError):
            x[0] = value
    x[0] = 2.7
    assert x.tolist() == [2, 0]


def test_a_tensor_without_dimensions_is_an_index():
    x = tensor.arange(3)
    view = x[tensor.tensor(1)]
    view[...] = 9
    assert x.tolist() == [0, 9, 2]
    assert [10, 11, 12][tensor.tensor(1)] == 11
    assert x[: tensor.tensor(2)].tolist() == [0, 9]


def test_one_element_is_a_tensor_on_the_same_memory():
    x = tensor.zeros((2,))
    one = x[0]
    assert (type(one), one.shape) == (Tensor, ())
    x[0] = 3.0
    assert one.item() == 3.0


def test_the_index_may_change_after_its_use():
    x = tensor.zeros((3,), requires_grad=True)
    places, array = tensor.tensor([0]), np.array([1])
    y = x[places] + x[array]
    places[0] = 2
    array[0] = 2
    y.backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("kind", ["uint8", "int8", "int64", "uint64"])
def test_rows_read_twice_gather_both_gradients(kind):
    x = tensor.zeros((300, 2), requires_grad=True)
    x[tensor.tensor([100, 0, 100], dtype=kind)].backward(tensor.ones((3, 2)))
    assert x.grad[:, 0].nonzero().ravel().tolist() == [0, 100]
    assert x.grad[100].tolist() == [2.0, 2.0]


def test_a_tensor_may_be_written_into_itself():
    x = tensor.arange(4)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2]
    x[x] = x
    assert x.tolist() == [0, 1, 2, 2]


def test_a_write_after_a_clone_leaves_the_clone():
    x = tensor.zeros((2,))
    y = x.clone()
    x[[0]] = 1.0
    assert (x.tolist(), y.tolist()) == ([1.0, 0.0], [0.0, 0.0])


def test_a_recorded_write_to_a_leaf_is_an_error_and_changes_nothing():
    x = tensor.zeros((2,), requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf tensor that requires grad"):
        x[0] = 1.0
    assert x.tolist() == [0.0, 0.0]
    with tensor.no_grad():
        x[0] = 1.0
    assert x.tolist() == [1.0, 0.0]


def test_values_that_require_grad_do_not_go_into_integers():
    x = tensor.zeros((2,), dtype="int64")
    with pytest.raises(RuntimeError, match="only floating and complex"):
        x[0] = tensor.tensor(1.0, requires_grad=True)
    assert x.tolist() == [0, 0]


def test_iteration_runs_along_the_first_dimension():
    x = tensor.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    first, second = x
    first[0] = 9
    assert (x[0, 0].item(), second.tolist(), len(x)) == (9, [3, 4], 2)


def test_without_dimensions_there_is_nothing_to_iterate_over():
    x = tensor.tensor(1.0)
    for use in (len, iter):
        with pytest.raises(TypeError, match=r"item\(\)"):
            use(x)


def test_in_operator_compares_values():
    x = tensor.tensor([1, 2])
    assert 2 in x
    assert tensor.tensor(2) in x
    assert 3 not in x
    assert "a" not in x


@pytest.mark.parametrize("use", [lambda x: x[0], lambda x: x.__setitem__(0, 1), len, iter, lambda x: 1 in x])
def test_a_disposed_tensor_has_no_elements(use):
    x = tensor.ones((2,))
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        use(x)


def test_gather_and_scatter_are_inverse():
    x = tensor.tensor([[3.0, 1.0, 2.0]])
    order = x.argsort(1)
    assert tensor.zeros((1, 3)).scatter_(1, order, x.gather(1, order)).tolist() == x.tolist()


def test_additions_at_one_place_add_up():
    x = tensor.zeros((2,))
    x.index_add_(0, tensor.tensor([1, 1, 1]), tensor.ones((3,)))
    assert x.tolist() == [0.0, 3.0]


@pytest.mark.parametrize(
    "use",
    [
        lambda x, i: x.gather(1, i),
        lambda x, i: x.scatter_(1, i, 1.0),
        lambda x, i: x.scatter_add_(1, i, tensor.ones((1, 2))),
        lambda x, i: x.index_add_(1, i[0], tensor.ones((2, 2))),
        lambda x, i: x.index_select(1, i[0]),
        lambda x, i: x.take_along_dim(i, 1),
    ],
)
def test_an_index_tensor_out_of_range_changes_nothing(use):
    x = tensor.zeros((2, 3))
    with pytest.raises(IndexError, match="index 3 is out of range for dimension 1 of size 3"):
        use(x, tensor.tensor([[0, 3]]))
    assert not x.numpy().any()


def test_masks_must_be_bool_and_fit():
    x = tensor.zeros((2, 3))
    with pytest.raises(TypeError, match="mask of bool, not int64"):
        x.masked_fill(tensor.ones((2, 3), dtype="int64"), 1.0)
    with pytest.raises(ValueError, match=r"mask of shape \(2,\) does not broadcast"):
        x.masked_fill(tensor.ones((2,), dtype="bool"), 1.0)


def test_distinct_values_with_their_places_and_counts():
    x = tensor.tensor([[3, 1], [3, 2]])
    assert x.unique().tolist() == [1, 2, 3]
    values, places, counts = x.unique(return_inverse=True, return_counts=True)
    assert values[places].tolist() == x.tolist()
    assert counts.tolist() == [1, 1, 2]


def test_sorting_keeps_equal_elements_in_order_both_ways():
    x = tensor.tensor([1.0, 0.0, 1.0, float("nan")])
    assert x.argsort().tolist() == [1, 0, 2, 3]
    assert x.argsort(descending=True).tolist() == [3, 0, 2, 1]
    values, indices = x[:3].topk(1, largest=False)
    assert (values.tolist(), indices.tolist()) == ([0.0], [1])


@pytest.mark.parametrize(
    ("rows", "values", "options", "message"),
    [
        ((2, 3), (2,), {}, r"one dimension, or in rows .* not shape \(2, 3\)"),
        ((), (), {}, r"not shape \(\) for values of shape \(\)"),
        ((3,), (2,), {"side": "middle"}, "side must be 'left' or 'right', not 'middle'"),
        ((2, 3), (2, 1), {"sorter": tensor.arange(3)}, r"shape \(2, 3\), not \(3,\)"),
    ],
)
def test_a_search_that_does_not_fit_is_named(rows, values, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        tensor.searchsorted(tensor.ones(rows), tensor.ones(values), **options)


def test_of_a_tensor_without_dimensions_one_index_selects():
    with pytest.raises(InvalidArgumentError, match="takes one index for a tensor without dimensions, not 2"):
        tensor.tensor(1.0).index_select(0, tensor.tensor([0, 0]))


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2**70, 300, -1])
def test_a_number_that_an_integer_tensor_lacks_is_not_written(value):
    x = tensor.ones((2,), dtype="uint8")
    with pytest.raises(InvalidArgumentError, match=r"tensor of uint8, which has integers from 0 to 255"):
        x[0] = value
    assert x.tolist() == [1, 1]
