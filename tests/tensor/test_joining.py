"""Tensors made of others, and parts of one."""

import pytest

import tensor


def test_concat_names_the_tensor_whose_sizes_differ():
    parts = [tensor.zeros((2, 3)), tensor.zeros((1, 3)), tensor.zeros((2, 4))]
    with pytest.raises(ValueError, match=r"tensor 0 has shape \(2, 3\) and tensor 2 has \(2, 4\)"):
        tensor.concat(parts)


def test_concat_without_an_axis_joins_all_elements():
    assert tensor.concat([tensor.ones((1, 2)), tensor.zeros((1,))], axis=None).tolist() == [1.0, 1.0, 0.0]


def test_concat_promotes():
    assert tensor.concat([tensor.tensor([1]), tensor.tensor([0.5])]).dtype == tensor.float32


def test_stack_names_the_tensor_whose_shape_differs():
    with pytest.raises(ValueError, match=r"tensor 0 has \(2,\) and tensor 1 has \(3,\)"):
        tensor.stack([tensor.zeros((2,)), tensor.zeros((3,))])


@pytest.mark.parametrize("join", [tensor.concat, tensor.cat, tensor.stack])
def test_joining_no_tensors_raises_an_error(join):
    with pytest.raises(ValueError, match="no tensors to join"):
        join([])


@pytest.mark.parametrize("join", [tensor.concat, tensor.cat, tensor.stack])
def test_one_number_is_no_list_of_tensors(join):
    with pytest.raises(TypeError, match="takes a list or tuple of tensors, not int"):
        join(5)


def test_a_joined_tensor_has_memory_of_its_own():
    x = tensor.zeros((2,))
    joined = tensor.concat([x])
    x[0] = 1.0
    assert joined.tolist() == [0.0, 0.0]


def test_split_takes_one_size_or_all_of_them():
    x = tensor.arange(5)
    assert [part.tolist() for part in x.split(2)] == [[0, 1], [2, 3], [4]]
    assert [part.tolist() for part in x.split([1, 4])] == [[0], [1, 2, 3, 4]]
    with pytest.raises(ValueError, match=r"\[1, 2\] must add up to 5"):
        x.split([1, 2])


def test_chunk_gives_at_most_one_part_for_each_element():
    assert [len(part) for part in tensor.arange(5).chunk(4)] == [2, 2, 1]
    assert [len(part) for part in tensor.zeros((0,)).chunk(3)] == [0, 0, 0]


def test_meshgrid_in_both_orders():
    a, b = tensor.arange(2), tensor.arange(3)
    assert [x.shape for x in tensor.meshgrid(a, b)] == [(3, 2), (3, 2)]
    assert [x.shape for x in tensor.meshgrid(a, b, indexing="ij")] == [(2, 3), (2, 3)]


def test_a_disposed_tensor_among_others_is_an_error():
    x = tensor.ones((2,))
    x.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        tensor.stack([tensor.ones((2,)), x])
