"""Call forms and values that PyTorch's own test data found wrong: each as a test of its own."""

from __future__ import annotations

import threading
from math import inf, nan
from typing import Any

import pytest

import tensor
import tensor.torch as torch
from tensor import InvalidArgumentError


def test_matmul_is_a_method_that_binds() -> None:
    assert torch.ones(2, 2).matmul(torch.ones(2)).tolist() == [2.0, 2.0]
    assert tensor.ones((2, 2)).matmul(tensor.eye(2)).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_index_fill_gives_the_value_one_gradient_for_a_repeated_index() -> None:
    value = torch.tensor(3.0, requires_grad=True)
    torch.zeros(3).index_fill(0, torch.tensor([1, 1, 2]), value).sum().backward()
    assert value.grad is not None
    assert value.grad.item() == 2.0


@pytest.mark.parametrize("name", ["std_mean", "var_mean"])
def test_a_bool_behind_the_tensor_is_unbiased_and_no_dimension(name: str) -> None:
    x = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    spread, mean = getattr(torch, name)(x, False)
    assert (spread.shape, mean.item()) == ((), 4.0)
    assert [y.shape for y in getattr(torch, name)(x, 0, True, True)] == [(1, 2), (1, 2)]


def test_take_along_dim_without_a_dimension_counts_all_elements() -> None:
    x = torch.tensor([[1, 2], [3, 4]])
    assert torch.take_along_dim(x, torch.tensor([[3], [0]])).tolist() == [4, 1]


def test_the_gradient_of_eigenvectors_from_the_upper_triangle_is_that_from_the_lower() -> None:
    grads = []
    for uplo in ("L", "U"):
        x = torch.tensor([[2.0, 1.0], [1.0, 5.0]], dtype=torch.float64, requires_grad=True)
        torch.linalg.eigh(x, UPLO=uplo).eigenvectors.abs()[0, 1].sum().backward()
        assert x.grad is not None
        grads.append(x.grad)
    assert torch.allclose(grads[0], grads[1])


def test_quantile_has_a_gradient_by_q() -> None:
    q = torch.tensor([0.25, 0.75], requires_grad=True)
    torch.tensor([0.0, 1.0, 10.0]).quantile(q).sum().backward()
    assert q.grad is not None
    assert q.grad.tolist() == [2.0, 18.0]


def test_unique_compares_the_parts_along_a_dimension() -> None:
    x = torch.tensor([[1, 2], [0, 3], [1, 2]])
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=0)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([[0, 3], [1, 2]], [1, 0, 1], [1, 2])


def test_isclose_and_allclose_take_equal_nan() -> None:
    x = torch.tensor([nan, 1.0])
    assert torch.isclose(x, x).tolist() == [False, True]
    assert torch.isclose(x, x, equal_nan=True).tolist() == [True, True]
    assert torch.allclose(x, x, equal_nan=True)
    with pytest.raises(InvalidArgumentError, match="at least 0, not -1"):
        torch.isclose(x, x, rtol=-1)


def test_solve_takes_a_batch_of_vectors() -> None:
    a = torch.stack([torch.eye(2), 2 * torch.eye(2)])
    assert torch.linalg.solve(a, torch.ones(2, 2)).tolist() == [[1.0, 1.0], [0.5, 0.5]]


def test_scatter_adds_or_multiplies() -> None:
    x, at = torch.full((2,), 3.0), torch.tensor([0, 0])
    assert x.scatter(0, at, torch.tensor([1.0, 2.0]), reduce="add").tolist() == [6.0, 3.0]
    assert x.scatter(0, at, torch.tensor([2.0, 2.0]), reduce="multiply").tolist() == [12.0, 3.0]
    with pytest.raises(InvalidArgumentError, match="'add' or 'multiply', not 'mean'"):
        x.scatter(0, at, torch.ones(2), reduce="mean")


def test_matrix_rank_takes_absolute_and_relative_tolerances() -> None:
    x = torch.diag(torch.tensor([1.0, 1e-2]))
    assert [torch.linalg.matrix_rank(x, **by).item() for by in ({}, {"atol": 0.1}, {"rtol": 0.1})] == [
        2,
        1,
        1,
    ]


def test_gaussian_nll_loss_broadcasts_a_target_of_size_one() -> None:
    x, one = torch.zeros(2, 3), torch.ones(2, 1)
    found = torch.nn.functional.gaussian_nll_loss(x, one, torch.ones(2, 1))
    assert found.item() == pytest.approx(0.5)


def test_a_mean_over_no_dimensions_is_over_all() -> None:
    assert torch.tensor([1.0, 3.0]).mean(dim=()).item() == 2.0


def test_a_learning_rate_may_be_a_tensor_of_one_element() -> None:
    x = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([x], lr=torch.tensor(0.5))
    x.sum().backward()
    optimizer.step()
    assert x.tolist() == [0.5]


def test_atleast_1d_takes_several_tensors() -> None:
    assert [x.shape for x in torch.atleast_1d((torch.tensor(1), torch.ones(2)))] == [(1,), (2,)]
    with pytest.raises(TypeError, match=r"takes tensors, not float: write torch.tensor\(data\)"):
        torch.atleast_1d(1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, at: x.index_select(0, at),
        lambda x, at: x.index_add(0, at, torch.ones(1)),
        lambda x, at: x.index_copy(0, at, torch.ones(1)),
        lambda x, at: x.gather(0, at),
        lambda x, at: x.scatter(0, at, 1.0),
    ],
)
def test_a_negative_index_raises_where_pytorch_has_none(call) -> None:
    with pytest.raises(IndexError, match="takes no negative indices, write 2"):
        call(torch.ones(3), torch.tensor([-1]))


def test_a_view_disposed_during_its_fill_raises_that_it_is_disposed() -> None:
    stop = threading.Event()
    wrong: list[BaseException] = []
    current: list[tensor.Tensor] = []

    def fill() -> None:
        while not stop.is_set():
            for x in tuple(current):
                try:
                    x.fill_(1.0)
                except tensor.TensorDisposedError:
                    pass
                except RuntimeError as error:
                    if "requires grad" not in str(error):
                        wrong.append(error)
                except AttributeError as error:
                    wrong.append(error)

    thread = threading.Thread(target=fill)
    thread.start()
    for _ in range(3000):
        base = tensor.ones((4,), requires_grad=True) * 1
        view = base[:2]
        current[:] = [view]
        view.dispose()
        base.dispose()
    stop.set()
    thread.join()
    assert wrong == []


def test_out_takes_no_dtype_that_the_result_does_not_fit() -> None:
    with pytest.raises(TypeError, match="the result is float32, which does not fit out= of int64"):
        torch.add(torch.ones(1), 1.5, out=torch.zeros(1, dtype=torch.int64))


def test_the_square_of_bools_counts_them() -> None:
    assert torch.square(torch.tensor([True])).dtype == torch.int64


def test_a_masked_fill_broadcasts_the_tensor_to_the_mask() -> None:
    assert torch.zeros(1).masked_fill(torch.tensor([True, False]), 2.0).tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("lgamma", (), [0.0]),
        ("frac", (), [0.0]),
        ("eq", (1.0,), [1.0]),
        ("addmm", (torch.ones(1, 1), torch.ones(1, 1)), [[2.0]]),
        ("cumsum", (0,), [1.0]),
        ("logical_not", (), [0.0]),
    ],
)
def test_a_form_in_place_writes_what_the_function_returns(name: str, arguments, expected) -> None:
    x = torch.ones(1, 1) if name == "addmm" else torch.ones(1)
    assert getattr(x, f"{name}_")(*arguments) is x
    assert x.tolist() == expected


def test_lgamma_is_infinite_at_its_poles_and_exact_at_its_zeros() -> None:
    assert torch.tensor([0.0, -1.0, 1.0, 2.0, inf]).lgamma().tolist() == [inf, inf, 0.0, 0.0, inf]


def test_a_product_scattered_onto_a_zero_has_the_gradient_of_the_others() -> None:
    source = torch.tensor([0.0, 3.0], requires_grad=True)
    out = torch.ones(1).scatter_reduce(0, torch.tensor([0, 0]), source, "prod")
    out.sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [3.0, 0.0]


@pytest.mark.parametrize("call", ["sum", "prod", "nansum", "cumsum", "cumprod", "trace"])
def test_totals_of_unsigned_integers_are_int64(call: str) -> None:
    x = torch.full((2, 2), 200, dtype=torch.uint8)
    total = getattr(x, call)(0) if call.startswith("cum") else getattr(x, call)()
    assert total.dtype == torch.int64
    assert (total - 1000).dtype == torch.int64
    assert tensor.sum(x).dtype == tensor.uint64  # as in the array API standard


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_with_an_empty_index_gives_a_copy(reduce: str) -> None:
    x, index = torch.ones(2, 2), torch.zeros(0, dtype=torch.int64)
    y = torch.scatter_reduce(x, 0, index, x, reduce, include_self=False)
    assert y.tolist() == x.tolist()
    y.zero_()
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_randint_takes_high_and_size_by_name() -> None:
    assert torch.randint(high=1, size=(2,)).tolist() == [0, 0]


def test_a_scalar_tensor_is_float32_unless_it_says_so() -> None:
    assert torch.scalar_tensor(2).dtype == torch.scalar_tensor(True).dtype == torch.float32
    assert torch.scalar_tensor(2, dtype=torch.int64).dtype == torch.int64


def test_clamp_takes_at_least_one_limit() -> None:
    x = torch.ones(2)
    for call in (x.clamp, x.clip, x.clamp_):
        with pytest.raises(InvalidArgumentError, match=r"min, max or both: write x\.clamp\(min=0\.0\)"):
            call()


def test_a_fraction_as_alpha_needs_a_floating_tensor() -> None:
    x = torch.ones(2, dtype=torch.int64)
    for call in (x.add, x.sub):
        with pytest.raises(
            InvalidArgumentError, match=r"alpha=1\.5 takes a floating tensor, not int64: write alpha=2"
        ):
            call(x, alpha=1.5)
    assert x.add(x.float(), alpha=1.5).tolist() == [2.5, 2.5]
    assert x.sub(x, alpha=2).tolist() == [-1, -1]


def test_ravel_is_contiguous() -> None:
    x = torch.arange(6.0)
    y = x[::2].ravel()
    assert y.is_contiguous()
    y.zero_()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    x.ravel().zero_()
    assert x.tolist() == [0.0] * 6


@pytest.mark.parametrize(
    ("data", "place"),
    [([nan, nan, 1.0], 0), ([nan, 1.0, 2.0], 0), ([nan, 1.0, nan, 1.0], 3), ([2.0, nan, nan], 1)],
)
def test_each_nan_counts_once_for_the_mode_and_as_the_smallest(data: list[float], place: int) -> None:
    found = torch.mode(torch.tensor(data))
    assert found.indices.item() == place
    assert found.values.isnan().item() == (data[place] != data[place])


def test_a_creation_function_fills_out_in_its_dtype() -> None:
    whole = torch.empty(2, 2, dtype=torch.int64)
    assert torch.eye(2, out=whole) is whole
    assert (whole.dtype, whole.tolist()) == (torch.int64, [[1, 0], [0, 1]])
    assert torch.full((2, 2), 7.0, out=whole).tolist() == [[7, 7], [7, 7]]
    assert torch.randint(3, 4, (2, 2), out=whole).tolist() == [[3, 3], [3, 3]]
    assert sorted(torch.randperm(3, out=torch.empty(3)).tolist()) == [0.0, 1.0, 2.0]
    wide = torch.empty(4, dtype=torch.float64)
    torch.manual_seed(0)
    torch.rand(4, out=wide)
    torch.manual_seed(0)
    assert wide.tolist() == torch.rand(4, dtype=torch.float64).tolist()


def test_a_range_fills_a_view_of_as_many_elements() -> None:
    x = torch.zeros(2, 3)
    torch.arange(0, 4, out=x.narrow(1, 1, 2))
    assert x.tolist() == [[0.0, 0.0, 1.0], [0.0, 2.0, 3.0]]
    torch.linspace(0, 3, 4, out=x.narrow(1, 0, 2))
    assert x.tolist() == [[0.0, 1.0, 1.0], [2.0, 3.0, 3.0]]


def test_combinations_of_no_elements_are_empty() -> None:
    assert torch.combinations(torch.arange(3), r=0).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("value", [5, [1.0, 2.0], torch.tensor([3, 4]), torch.tensor(2.0)])
def test_real_and_imaginary_parts_can_be_assigned(dtype: tensor.Dtype, value: object) -> None:
    x = torch.tensor([1 + 2j, 3 + 4j], dtype=dtype)
    expected = torch.as_tensor(value).expand(2).tolist()
    x.real = value
    assert (x.real.tolist(), x.imag.tolist(), x.dtype) == (expected, [2.0, 4.0], dtype)
    x.imag = value
    x.real += 1
    assert (x.real.tolist(), x.imag.tolist()) == ([n + 1 for n in expected], expected)


def test_a_real_tensor_has_a_real_part_to_assign_and_no_imaginary_one() -> None:
    x = torch.zeros(2)
    x.real = 3
    assert x.tolist() == [3.0, 3.0]
    with pytest.raises(InvalidArgumentError, match="no imaginary part"):
        x.imag = 3


@pytest.mark.parametrize("shape", [(3, 3), (2, 3), (3, 2), (2, 3, 3), (3, 2, 3), (1, 3, 2), (3,)])
def test_cross_takes_the_first_dimension_of_size_3_by_default(shape: tuple[int, ...]) -> None:
    x, y = torch.randn(shape), torch.randn(shape)
    expected = torch.linalg.cross(x, y, dim=shape.index(3)).tolist()
    assert torch.cross(x, y).tolist() == x.cross(y).tolist() == expected
    assert torch.cross(x, y, dim=shape.index(3)).tolist() == expected


def test_the_helpers_of_modules_that_programs_import() -> None:
    from tensor.torch.nn.modules.utils import (
        _pair,
        _triple,
        consume_prefix_in_state_dict_if_present,
    )

    assert (_pair(3), _pair([1, 2]), _triple(1)) == ((3, 3), (1, 2), (1, 1, 1))
    model = torch.nn.Linear(1, 1)
    state = {f"module.{name}": x for name, x in model.state_dict().items()}
    consume_prefix_in_state_dict_if_present(state, "module.")
    model.load_state_dict(state)
    before = torch.backends.cudnn.benchmark
    with torch.backends.cudnn.flags(enabled=False, benchmark=not before):
        assert torch.backends.cudnn.benchmark == before


def test_memory_formats_have_no_effect() -> None:
    x = torch.arange(8).reshape(1, 2, 2, 2)
    for same in (
        x.contiguous(memory_format=torch.channels_last),
        x.clone(memory_format=torch.preserve_format),
        torch.clone(x, memory_format=torch.contiguous_format),
    ):
        assert same.stride() == x.stride()
        assert torch.equal(same, x)
    model = torch.nn.Conv2d(2, 1, 1)
    assert model.to(memory_format=torch.channels_last) is model


def test_a_copy_in_place_takes_pytorchs_arguments() -> None:
    x = torch.zeros(2)
    assert x.copy_(src=torch.ones(2), non_blocking=True) is x
    assert x.copy_(torch.tensor([1, 2]), True).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("base", ["float32", "complex64", "bfloat16", "int32"])
@pytest.mark.parametrize("exponent", ["float32", "complex64", "int64"])
def test_float_power_computes_in_double_precision(base: str, exponent: str) -> None:
    theirs = pytest.importorskip("torch")

    def powers(library):
        x = library.tensor([2, 3]).to(getattr(library, base))
        y = library.tensor([2, -1]).to(getattr(library, exponent))
        if "complex" in exponent:
            y = y * 1j
        return [library.float_power(*pair) for pair in ((x, y), (x, 2.5), (x, 1.5j), (0.1, y), (2j, y))]

    for found, expected in zip(powers(torch), powers(theirs), strict=True):
        assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
        assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
@pytest.mark.parametrize("name", ["xlogy", "special.xlog1py"])
def test_logarithms_times_numbers_have_the_precision_of_the_result(name: str, dtype: str) -> None:
    theirs = pytest.importorskip("torch")

    def products(library):
        function = library.special.xlog1py if "1" in name else library.xlogy
        x = library.tensor([0.0, 1.0, 2.0, 0.5], dtype=library.float64)
        y = library.tensor([0.0, 0.3, 1.0, 2.0]).to(getattr(library, dtype))
        return [function(x, y), function(x, 0.3), function(x.float(), y), function(2.0, y)]

    for found, expected in zip(products(torch), products(theirs), strict=True):
        assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
        np_values = pytest.approx(expected.tolist(), rel=1e-12 if expected.dtype == theirs.float64 else 1e-6)
        assert found.tolist() == np_values or found.dtype in (torch.float16, torch.bfloat16)


def test_the_gradient_of_xlog1py_at_0_is_the_logarithm() -> None:
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    torch.special.xlog1py(x, torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx([0.0, 0.6931471805599453, 0.0])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_fmod_of_the_smallest_integer(dtype: str) -> None:
    theirs = pytest.importorskip("torch")
    smallest = theirs.iinfo(getattr(theirs, dtype)).min
    x = [smallest, smallest + 1, -5, -1, 0, 1, 5, -(smallest + 1)]

    def rests(library: Any) -> list[Any]:
        values = library.tensor(x, dtype=getattr(library, dtype))
        y = library.tensor([n for n in x if n], dtype=values.dtype)
        pairs = library.fmod(values.reshape(-1, 1), y)
        return [pairs.tolist(), library.fmod(values, -3).tolist(), library.fmod(values, 2.5).tolist()]

    assert rests(torch) == rests(theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_to_num_has_the_limits_of_the_dtype(dtype: str) -> None:
    theirs = pytest.importorskip("torch")

    def replaced(library: Any) -> list[Any]:
        x = library.tensor([nan, inf, -inf, 1.5], dtype=getattr(library, dtype))
        found = [library.nan_to_num(x), x.nan_to_num(nan=2.0, posinf=7.0), x.nan_to_num(neginf=-1.0)]
        assert all(y.dtype == x.dtype for y in found)
        return [y.tolist() for y in found]

    assert replaced(torch) == replaced(theirs)
