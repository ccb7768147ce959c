"""Each function and method of tensors takes a donated operand, and nobody can tell but by the counters."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensor
import tensor.torch as torch
from nn import functional as F
from tensor import Tensor, memory
from tensor.core.tensor import composite, last_use

SPACES = [tensor, tensor.linalg, tensor.fft, F, torch, Tensor]
SHAPE = (4, 4)

# What is drawn differs from call to call; what names memory, copies or describes a tensor is no op.
DRAWN = {
    *("bernoulli", "bernoulli_", "multinomial", "normal", "normal_", "uniform_", "exponential_", "random_"),
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu"),
    *("rrelu_", "gumbel_softmax", "rand_like", "randn_like", "randint_like", "randperm", "rand", "randn"),
    *("randint", "cauchy_", "geometric_", "log_normal_", "poisson", "fractional_max_pool2d"),
}
NO_OPS = {
    *("data_ptr", "dispose", "donate", "move_handle", "backward", "register_hook", "share_memory_"),
    *(
        "empty_like",
        "new_empty",
        "manual_seed",
        "set_default_dtype",
        "set_num_threads",
        "save",
        "compile",
        "vmap",
    ),
    *("empty", "storage", "untyped_storage", "set_rng_state", "set_printoptions", "from_handle", "seed"),
}

# Ops whose result has the shape and dtype of the operand, and why it does not go to the operand's memory.
SHARES = {
    *("broadcast_to", "matrix_transpose", "moveaxis", "permute_dims", "reshape", "adjoint"),
    *("detach", "flatten", "movedim", "permute", "squeeze", "swapaxes", "swapdims", "t"),
    *("transpose", "alias", "expand", "H", "mT", "expand_as", "reshape_as", "view", "view_as"),
    *("imag", "real", "from_dlpack", "from_slice", "clone", "select", "narrow", "atleast_1d", "atleast_2d"),
    *("ravel", "resolve_conj", "resolve_neg", "asarray", "as_tensor", "unflatten", "diagonal"),
    *("contiguous", "split", "chunk", "unbind", "copy", "broadcast_tensors"),
}
MOVES = {
    *("flip", "fliplr", "flipud", "roll", "rot90", "sort", "msort", "tile", "tril", "triu"),
    *("fftshift", "ifftshift", "gather", "repeat", "repeat_interleave", "stack", "vstack"),
    *("take_along_dim", "hstack", "index_select", "take_along_axis", "concat", "cat"),
    *("concatenate", "dstack", "column_stack", "row_stack", "block_diag", "diff", "argsort", "pad"),
    *("unfold", "fold", "pixel_shuffle", "channel_shuffle"),
}
REDUCES = {
    *("matmul", "mm", "spmm", "inner", "tensordot", "linear", "inv", "matrix_power", "pinv", "solve"),
    *("avg_pool1d", "max_pool1d", "lp_pool1d", "batch_norm", "group_norm", "layer_norm", "rms_norm"),
    *("scaled_dot_product_attention", "cholesky", "multi_dot", "chain_matmul"),
    *(
        "cholesky_inverse",
        "cholesky_solve",
        "orgqr",
        "instance_norm",
        "local_response_norm",
        "cdist",
        "cov",
        "corrcoef",
    ),
}
SEVERAL_PASSES = {
    *("erfinv", "softplus", "hardshrink", "softshrink", "fmod", "div", "divide", "true_divide", "logit"),
    *("float_power"),
}
# Made of several ops, the last of which has another operand; lgamma and its kin compute in float64.
COMPOSED = {
    *("angle", "deg2rad", "rad2deg", "diagonal_scatter", "slice_scatter", "masked_scatter", "put", "fill"),
    *("digamma", "lgamma", "mvlgamma", "polygamma", "fmax", "fmin", "frac", "heaviside", "ldexp", "rsub"),
    *("logaddexp2", "logcumsumexp", "sinc", "renorm", "inverse", "pinverse", "kron", "matrix_exp", "i0"),
    "einsum",
}
NEW = {
    *("full_like", "ones_like", "zeros_like", "tensor", "new_ones", "new_zeros", "new_tensor", "new_full"),
    *("scalar_tensor", "astype", "to", "type", "zeros", "ones", "full"),
}
NOT_WRITTEN_OVER = SHARES | MOVES | REDUCES | SEVERAL_PASSES | COMPOSED | NEW


def operand() -> Tensor:
    return tensor.tensor(np.linspace(0.2, 0.8, 16, dtype=np.float32).reshape(SHAPE))


def arguments() -> Iterator[tuple[Any, ...]]:
    """Yield arguments behind the first that some function takes."""
    other = tensor.tensor(np.linspace(0.3, 0.7, 16, dtype=np.float32).reshape(SHAPE))
    mask, places, rows = other > 0.5, tensor.tensor([[0, 1, 2, 3]] * 4), tensor.tensor([2, 0])
    yield from [(), (other,), (other[0],), (other, 0.5), (other, other), (0.5, other), (3, other), (other, 0)]
    yield from [(mask,), (mask, 0.0), (mask, other), (rows,), (0, rows), (0, places), (0, places, other)]
    yield from [(0, rows, other[:2]), (0, rows, 0.5), (other[0], other[1])]
    yield from [(0.5,), (0.3, 0.6), (0,), (1,), (2,), (0, 1), (1, 0), (2, 8), (4, 4), (0, 0, 2), (1, 1, 1)]
    yield from [((2, 8),), ((4, 4),), ((0, 1),), ((1, 0),), ((1, 1),), (0, [1, 3]), (0, 0.5), ("float64",)]


def ops_of(space: ModuleType | type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(space):
        function = getattr(space, name)
        if name in DRAWN | NO_OPS or name.startswith("_") or not callable(function):
            continue
        if not inspect.isclass(function) and not inspect.ismodule(function):
            yield name, function


def values(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.tolist()
    return [values(x) for x in result] if isinstance(result, (tuple, list)) else result


def uses(function: Callable[..., Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the arguments that `function` takes behind an operand, and the values of its result."""
    for others in arguments():
        try:
            yield others, values(function(operand(), *others))
        except Exception:  # noqa: BLE001 - these arguments are not for this function
            continue


@pytest.fixture(autouse=True)
def _without_advice_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # some functions write a file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
def test_each_function_takes_a_donated_operand_and_gives_the_same_result(space) -> None:
    wrong, taken = [], 0
    for name, function in ops_of(space):
        for others, expected in uses(function):
            taken += 1
            try:
                found = values(function(operand().donate(), *others))
            except Exception as error:  # noqa: BLE001 - the test lists all
                wrong.append((name, len(others), repr(error)))
            else:
                if repr(found) != repr(expected) and type(expected) is not object:
                    wrong.append((name, len(others), "other values"))
    assert wrong == []
    assert taken > 5


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
def test_each_op_whose_result_fits_writes_it_to_the_donated_memory_or_is_listed(space) -> None:
    missed = set()
    for name, function in ops_of(space):
        if name in NOT_WRITTEN_OVER or name.endswith("_"):
            continue
        for others, _ in uses(function):
            start, x = memory.statistics(), operand().donate()
            result = function(x, *others)
            if not isinstance(result, Tensor) or result is x:
                continue
            is_fit = (result.shape, result.dtype) == (SHAPE, np.float32)
            if is_fit and (memory.statistics() - start).donation_reuse_count == 0:
                missed.add(name)
    assert missed == set()


@composite
def of_twice(x: Tensor) -> Tensor:
    """Use `x` in two ops, the last time as its last use."""
    root = x.sqrt()
    return last_use(x) + root


@composite
def twice_and_once_more(x: Tensor) -> Tensor:
    """Use `x` after a function that would let go of it."""
    first = of_twice(x)
    return first + x


def test_a_composite_function_may_write_over_its_operand_at_the_last_use() -> None:
    start, x = memory.statistics(), operand().donate()
    of_twice(x)
    assert x.is_invalid
    now = memory.statistics() - start
    assert (now.donation_reuse_count, now.donation_miss_count) == (1, 0)


def test_an_operand_that_a_calling_function_still_needs_is_not_written_over() -> None:
    x = operand().donate()
    expected = values(twice_and_once_more(operand()))
    assert values(twice_and_once_more(x)) == expected
    assert x.is_invalid


def test_after_an_error_the_donated_operand_is_whole() -> None:
    x = operand().donate()
    with pytest.raises(TypeError):
        x.fmod("three")
    assert x.tolist() == operand().tolist()
    start = memory.statistics()
    x + 1.0
    assert (memory.statistics() - start).donation_reuse_count == 1


def test_an_op_in_place_leaves_the_donated_operand_in_use() -> None:
    x = operand().donate()
    assert x.clamp_(0.3, 0.6) is x
    assert x.max().item() == pytest.approx(0.6)


def test_clamp_makes_one_array() -> None:
    x = tensor.rand(300, 300)
    start = memory.statistics()
    x.clamp(0.2, 0.8)
    assert (memory.statistics() - start).bytes_allocated < 2 * x.nbytes


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(3, 5), (9, 1000), (5000, 40)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cumsum", "cumprod"])
def test_functions_along_a_dimension_write_over_their_operand(name, shape, dim) -> None:
    x = tensor.rand(*shape)
    expected = getattr(x, name)(dim).numpy()
    start = memory.statistics()
    found = getattr(x.donate(), name)(dim)
    assert (memory.statistics() - start).donation_reuse_count == 1
    np.testing.assert_array_equal(found.numpy(), expected)
