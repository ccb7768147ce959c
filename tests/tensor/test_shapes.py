"""Shapes: views on one storage, copies where there is no view, errors that name what does not fit."""

import weakref

import numpy as np
import pytest

import tensor
from tensor import Tensor


def counted(*shape: int) -> Tensor:
    return tensor.reshape(tensor.arange(float(np.prod(shape))), shape)


VIEWS = {
    "reshape": lambda x: x.reshape(6, 4),
    "view": lambda x: x.view(-1),
    "view_as": lambda x: x.view_as(tensor.zeros((4, 6))),
    "flatten": lambda x: x.flatten(1),
    "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(2, (2, -1)),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, 2),
    "T": lambda x: x[0].T,
    "mT": lambda x: x.mT,
    "t": lambda x: x[0].t(),
    "movedim": lambda x: x.movedim(0, 2),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "narrow": lambda x: x.narrow(1, 0, 2),
    "select": lambda x: x.select(0, 0),
    "unbind": lambda x: x.unbind(1)[0],
    "split": lambda x: x.split(2, 2)[0],
    "chunk": lambda x: x.chunk(2)[0],
    "diagonal": lambda x: x.diagonal(),
    "index": lambda x: x[0, ..., None],
    "expand": lambda x: x.expand(2, 3, 4),
    "broadcast_to": lambda x: tensor.broadcast_to(x, (2, 3, 4)),
}


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_a_view_and_its_tensor_see_each_others_writes(make):
    x = tensor.zeros((2, 3, 4))
    view = make(x)
    x[0, 0, 0] = 5.0
    assert view.flatten()[0].item() == 5.0
    view[...] = 7.0
    assert x[0, 0, 0].item() == 7.0


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_a_view_outlives_its_tensor(make):
    x = counted(2, 3, 4)
    view = make(x)
    before = view.tolist()
    x.dispose()
    assert view.tolist() == before


def test_reshape_copies_where_the_memory_has_no_such_view():
    x = counted(2, 3)
    flat = x.T.reshape(-1)
    assert flat.tolist() == [0, 3, 1, 4, 2, 5]
    x[0, 0] = 9.0
    assert flat[0].item() == 0


def test_view_says_that_only_a_copy_has_the_shape():
    with pytest.raises(ValueError, match=r"strides \(1, 3\) has no view of shape \(6,\).*reshape"):
        counted(2, 3).T.view(-1)


def test_reshape_with_copy_is_never_a_view():
    x = counted(2)
    y = tensor.reshape(x, (2, 1), copy=True)
    x[0] = 9.0
    assert y.tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((4, 2), "6 elements and"),
        ((4, -1), "any size for -1"),
        ((-1, -1), "one of them may be -1"),
        ((-2, 3), "at least 0"),
    ],
)
def test_reshape_names_the_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(ValueError, match=message):
        counted(2, 3).reshape(sizes)


def test_reshape_takes_sizes_one_by_one_or_together():
    x = counted(6)
    assert x.reshape(2, 3).shape == x.reshape((2, 3)).shape == x.reshape([2, -1]).shape == (2, 3)
    with pytest.raises(TypeError, match=r"integers, not \(2.0, 3\)"):
        x.reshape(2.0, 3)


def test_empty_and_dimensionless_tensors_have_shapes_too():
    assert tensor.zeros((0, 3)).reshape(3, 0).shape == (3, 0)
    assert tensor.zeros((0, 3)).flatten().shape == tensor.zeros((0, 3)).ravel().shape == (0,)
    assert tensor.tensor(1.0).flatten().shape == tensor.tensor(1.0).reshape(1).shape == (1,)
    assert tensor.tensor(1.0).T.shape == ()


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.transpose(0, 2),
        lambda x: x.unsqueeze(4),
        lambda x: x.squeeze(2),
        lambda x: x.flatten(5),
        lambda x: x.permute(0, 2),
        lambda x: x.size(-3),
        lambda x: x.unbind(2),
    ],
)
def test_a_dimension_out_of_range_is_named(use):
    with pytest.raises(IndexError, match=r"dimension -?\d is out of range: it must be from -\d to \d"):
        use(counted(2, 3))


def test_permute_takes_each_dimension_once():
    with pytest.raises(ValueError, match="twice"):
        counted(2, 3).permute(0, 0)
    with pytest.raises(ValueError, match="each of the 2 dimensions"):
        counted(2, 3).permute(0)


def test_squeeze_drops_sizes_of_one_only():
    x = tensor.zeros((1, 2, 1))
    assert x.squeeze().shape == (2,)
    assert x.squeeze(1).shape == (1, 2, 1)
    with pytest.raises(ValueError, match="squeeze removes dimensions of size 1, but dimension 1"):
        tensor.squeeze(x, 1)


def test_expand_needs_sizes_of_one():
    with pytest.raises(ValueError, match=r"shape \(2, 3\) does not broadcast to \(2, 4\)"):
        counted(2, 3).expand(2, 4)
    with pytest.raises(ValueError, match="no size to keep"):
        counted(3).expand(-1, 3)
    assert counted(3).expand(0, 3).shape == (0, 3)


def test_repeats_need_one_number_for_each_dimension():
    with pytest.raises(ValueError, match="fewer numbers"):
        counted(2, 3).repeat(2)
    with pytest.raises(ValueError, match="2 repeats don't match 3 slices"):
        tensor.repeat(counted(3), tensor.tensor([1, 2]))


def test_functions_that_move_elements_copy_them():
    x = counted(2, 2)
    copies = [x.flip(0), x.roll(0), x.tril(), x.rot90(4), x.tile(1), x.contiguous().clone()]
    x[...] = 9.0
    assert [9.0 in copy for copy in copies] == [False] * 6


def test_rot90_turns_four_times_to_itself():
    x = counted(2, 3)
    assert x.rot90(2).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert x.rot90(3).tolist() == [[3, 0], [4, 1], [5, 2]]
    assert x.rot90(-1).tolist() == x.rot90(3).tolist()


def test_the_parts_of_complex_numbers_are_views():
    x = tensor.zeros((2,), dtype="complex64")
    x.real[0] = 1.0
    x.imag[1] = 2.0
    assert x.tolist() == [1 + 0j, 2j]


def test_real_tensors_are_their_own_real_parts_and_have_imaginary_parts_of_zero():
    x = tensor.ones((2,), dtype="float64")
    assert tensor.real(x) is x
    assert (tensor.imag(x).tolist(), x.imag.dtype) == ([0.0, 0.0], tensor.float64)


def test_sizes_strides_and_places_in_memory():
    x = counted(2, 3)
    assert (x.ndim, x.dim(), x.numel(), x.itemsize, x.nbytes) == (2, 2, 6, 4, 24)
    assert (x.size(), x.size(1), x.stride(), x.T.stride(0)) == ((2, 3), 3, (3, 1), 1)
    assert x.is_contiguous()
    assert not x.T.is_contiguous()
    assert x.contiguous() is x
    assert x.T.contiguous().is_contiguous()
    assert x.device == "cpu"


@pytest.mark.parametrize(
    "use", [lambda x, d: x.transpose(d, 1), lambda x, d: x.permute(1 - d, d), lambda x, d: x.unsqueeze(d)]
)
def test_a_dimension_in_a_tensor_is_read_each_time_and_not_kept(use):
    x, dim = tensor.zeros((2, 3)), tensor.tensor(0)
    before = use(x, dim).shape
    dim += 1
    assert use(x, dim).shape != before
    gone = weakref.ref(dim)
    del dim
    assert gone() is None


@pytest.mark.parametrize("is_lent", [False, True])
def test_a_clone_of_an_expanded_view_is_laid_out_in_order(is_lent):
    x = tensor.arange(3.0)
    exported = x.numpy() if is_lent else None
    y = x.unsqueeze(0).expand(2, 3).clone()
    z = x.unsqueeze(1).expand(3, 2).clone()
    assert y.view(-1).tolist() == [0.0, 1.0, 2.0] * 2
    assert z.view(-1).tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert tensor.ones((1, 2)).expand(3, 2).clone().view(-1).shape == (6,)
    del exported
