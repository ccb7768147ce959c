"""bfloat16: what is stored in 16 bits, and computed with in float32."""

from __future__ import annotations

import copy
import io
import math
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nn
import tensor
import tensor.torch as torch
from scopes import TensorDisposedError, new_dispose_scope
from tensor import memory

ml_dtypes = pytest.importorskip("ml_dtypes")
bfloat16 = tensor.bfloat16


def numbers(*shape: int, seed: int = 0) -> tensor.Tensor:
    return tensor.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).bfloat16()


def rounded(x: tensor.Tensor) -> np.ndarray:
    """Return the float32 values of `x`, each rounded to bfloat16 by ml_dtypes."""
    return x.numpy().astype(ml_dtypes.bfloat16)


# --- The dtype ----------------------------------------------------------------------------------------------


def test_the_dtype_is_that_of_ml_dtypes_by_all_its_names() -> None:
    for name in ("bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), bfloat16):
        assert tensor.zeros((2,), dtype=name).dtype is bfloat16
    assert repr(tensor.ones((1,), dtype=bfloat16)) == "tensor([1.], dtype=bfloat16)"


@pytest.mark.parametrize(
    ("other", "result"),
    [
        ("bool", "bfloat16"),
        ("uint8", "bfloat16"),
        ("int64", "bfloat16"),
        ("bfloat16", "bfloat16"),
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("complex64", "complex64"),
        ("complex128", "complex128"),
    ],
)
def test_it_is_promoted_as_by_pytorch(other: str, result: str) -> None:
    x, y = numbers(3), tensor.ones((3,), dtype=other)
    assert tensor.result_type(bfloat16, other) == tensor.result_type(other, bfloat16)
    for found in (tensor.result_type(x, y), (x + y).dtype, (y * x).dtype, tensor.concat([x, y]).dtype):
        assert found == tensor.asarray(0, dtype=result).dtype


def test_pythons_numbers_have_no_width_beside_it() -> None:
    x = numbers(3)
    assert [(x + number).dtype for number in (True, 2, 0.1)] == [bfloat16] * 3
    assert (x * 1j).dtype == tensor.complex64
    assert tensor.result_type(bfloat16, 2.5) == bfloat16


@pytest.mark.parametrize("number", [0.1, 0.3, 257, 1.00390625, -100.3])
def test_pythons_numbers_are_rounded_to_it_unless_they_are_factors(number: float) -> None:
    x = tensor.tensor([number, -number, 3.0]).bfloat16()
    near = x[0].item()
    assert near != number
    assert (x == number).tolist() == (number == x).tolist() == [True, False, False]
    assert (x < number).tolist() == [each < near for each in x.tolist()]
    assert (x <= number).tolist() == [each <= near for each in x.tolist()]
    assert (x - number)[0].item() == (number - x)[0].item() == 0.0
    assert tensor.maximum(x, number).tolist() == [max(each, near) for each in x.tolist()]
    assert (x * number)[2].item() == tensor.tensor(3 * number).bfloat16().item()


def test_its_limits_and_kinds() -> None:
    limits = tensor.finfo(bfloat16)
    assert (limits.bits, limits.eps, limits.tiny) == (16, 2.0**-7, 2.0**-126)
    assert limits.max == -limits.min == 3.3895313892515355e38
    with pytest.raises(TypeError, match="use finfo"):
        tensor.iinfo(bfloat16)
    assert tensor.isdtype(bfloat16, "real floating")
    assert tensor.can_cast(bfloat16, "float32")
    assert not tensor.can_cast("float32", bfloat16)
    assert numbers(1).is_floating_point()


# --- Making and casting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda: tensor.zeros((2, 3), dtype=bfloat16),
        lambda: tensor.full((2, 3), 0.3, dtype=bfloat16),
        lambda: tensor.rand(2, 3, dtype=bfloat16),
        lambda: tensor.randn(2, 3, dtype=bfloat16),
        lambda: tensor.eye(2, 3, dtype=bfloat16),
        lambda: tensor.arange(6, dtype=bfloat16).reshape(2, 3),
        lambda: tensor.linspace(0, 1, 6, dtype=bfloat16).reshape(2, 3),
        lambda: tensor.tensor([[1, 2, 3], [4, 5, 6]], dtype=bfloat16),
        lambda: tensor.ones_like(numbers(2, 3)),
        lambda: tensor.empty((2, 3), dtype=bfloat16).normal_(),
        lambda: tensor.normal(numbers(2, 3), 0.0),
    ],
)
def test_it_is_made_in_two_bytes_an_element(made) -> None:
    with new_dispose_scope() as scope:
        x = made()
        assert (x.shape, x.dtype, x.nbytes) == ((2, 3), bfloat16, 12)
        assert scope.nbytes >= 12


def test_random_numbers_stay_below_1() -> None:
    tensor.manual_seed(0)
    for dtype in (bfloat16, tensor.float16):
        assert tensor.rand(10_000, dtype=dtype).max().item() < 1


def test_casts_round_to_the_nearest_and_ties_to_even() -> None:
    values = np.random.default_rng(1).integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    values[:4] = 1 + 2.0**-8, 1 + 3 * 2.0**-8, np.float32(3.4e38), -0.0
    found = tensor.tensor(values).bfloat16()
    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    same = found.numpy().view(np.uint16) == expected.view(np.uint16)
    assert (same | np.isnan(values)).all()
    assert np.array_equal(np.isnan(values), found.isnan().numpy())
    assert np.array_equal(found.float().numpy(), expected.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64", "complex64"])
def test_casts_to_and_from_each_dtype(dtype: str) -> None:
    x = tensor.tensor([0, 1, 100], dtype=dtype)
    assert x.to(bfloat16).float().tolist() == x.real.float().tolist()
    assert x.to(bfloat16).to(dtype).tolist() == x.tolist()


def test_a_cast_passes_the_gradient_on() -> None:
    x = tensor.tensor([1.0, 2.0], requires_grad=True)
    (x.bfloat16() * 3).float().sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (tensor.float32, [3.0, 3.0])


# --- Computing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: x + y,
        lambda x, y: x.T @ y,
        lambda x, y: x.exp(),
        lambda x, y: x.sum(0),
        lambda x, y: x.mean(),
        lambda x, y: x.softmax(-1),
        lambda x, y: x.cumsum(1),
        lambda x, y: x.std(1),
        lambda x, y: x.addcmul(x, y, value=0.1),
        lambda x, y: x.logsumexp(0),
        lambda x, y: nn.functional.layer_norm(x, 4),
        lambda x, y: nn.functional.mish(x),
        lambda x, y: nn.functional.mse_loss(x, y),
        lambda x, y: nn.functional.linear(x, y),
        lambda x, y: nn.functional.scaled_dot_product_attention(x, y, y),
        lambda x, y: tensor.einsum("ij,kj->ik", x, y),
        lambda x, y: tensor.sort(x),
        lambda x, y: tensor.where(x > y, x, y),
    ],
)
def test_a_result_is_that_of_float32_rounded_once(compute) -> None:
    x, y = numbers(5, 4), numbers(5, 4, seed=1)
    found, wide = compute(x, y), compute(x.float(), y.float())
    assert found.dtype == bfloat16
    assert np.array_equal(found.numpy(), rounded(wide))


def test_results_of_other_dtypes_stay_what_they_are() -> None:
    x = numbers(5, 4)
    assert ((x > 0).dtype, x.argmax().dtype, x.sum(dtype=tensor.float32).dtype) == (
        tensor.bool,
        tensor.int64,
        tensor.float32,
    )
    assert tensor.ones((3,)).sum(dtype=bfloat16).dtype == bfloat16


def test_a_function_of_several_ops_keeps_the_dtype_of_another_operand_or_the_one_given() -> None:
    x = tensor.ones((2, 3), dtype="bfloat16")
    similar = nn.functional.cosine_similarity
    assert (similar(x, x).dtype, similar(x, tensor.ones((2, 3))).dtype) == (x.dtype, tensor.float32)
    var = torch.masked.var
    assert (var(x, 1).dtype, var(x, 1, dtype=tensor.float32).dtype) == (x.dtype, tensor.float32)


def test_views_share_its_memory() -> None:
    x = tensor.zeros((2, 3), dtype=bfloat16)
    x[0].fill_(2.5)
    x.T[2] = 7
    assert x.tolist() == [[2.5, 2.5, 7.0], [0.0, 0.0, 7.0]]


def test_writes_in_place_round_once() -> None:
    x, y = numbers(50), numbers(50, seed=1)
    expected = rounded(x.float() * y.float())
    out = tensor.empty((50,), dtype=bfloat16)
    assert np.array_equal(tensor.multiply(x, y, out=out).numpy(), expected)
    kept = x.clone()
    assert x.mul_(y) is x
    assert np.array_equal(x.numpy(), expected)
    assert not np.array_equal(kept.numpy(), expected)
    x.add_(tensor.ones((50,)))  # a wider operand
    assert x.dtype == bfloat16
    z = numbers(20)
    assert nn.functional.mish(z, inplace=True) is z
    assert np.array_equal(z.numpy(), rounded(nn.functional.mish(numbers(20).float())))


def test_its_largest_number_replaces_infinity() -> None:
    x = tensor.tensor([np.inf, np.nan, 1.0], dtype=bfloat16)
    assert x.nan_to_num().tolist() == [tensor.finfo(bfloat16).max, 0.0, 1.0]


def test_gradients_are_those_of_float32_rounded() -> None:
    x, y = numbers(5, 4).requires_grad_(), numbers(3, 4, seed=1).requires_grad_()
    wide_x, wide_y = x.detach().float().requires_grad_(), y.detach().float().requires_grad_()
    g = numbers(5, 3, seed=2)
    nn.functional.linear(x, y).backward(g)
    nn.functional.linear(wide_x, wide_y).backward(g.float())
    for narrow, wide in ((x, wide_x), (y, wide_y)):
        assert narrow.grad.dtype == bfloat16
        assert np.array_equal(narrow.grad.numpy(), rounded(wide.grad))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4), (3000,)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_second_gradient_is_added_in_place(shape: tuple[int, ...], is_transposed: bool) -> None:
    x = tensor.zeros(shape, dtype=bfloat16, requires_grad=True)
    first, second = numbers(*shape), numbers(*shape, seed=1)
    if is_transposed and len(shape) > 1:
        first = first.mT.contiguous().mT
    (x * 1).backward(first)
    grad = x.grad
    (x * 1).backward(second)
    assert x.grad is grad
    assert np.array_equal(grad.numpy(), rounded(first.float() + second.float()))


def test_all_bit_patterns_of_gradients_are_added_with_rounding() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)
    for other in (0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 1e-3, 3e38, -3e38, np.inf, np.nan):
        x = tensor.zeros(every.shape, dtype=bfloat16, requires_grad=True)
        x.grad = tensor.from_numpy(every.copy())
        (x * 1).backward(tensor.full(every.shape, other, dtype=bfloat16))
        with np.errstate(all="ignore"):
            expected = every + np.asarray(other, bfloat16)
        found = x.grad.numpy().astype(np.float32)
        np.testing.assert_array_equal(found, expected.astype(np.float32))
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


def test_gradients_of_two_uses_and_two_passes_are_summed() -> None:
    x = tensor.ones((4,), dtype=bfloat16, requires_grad=True)
    for _ in range(2):
        (x * 3 + x * 2).sum().backward()
    assert x.grad.tolist() == [10.0] * 4


def test_its_graph_keeps_two_bytes_an_element() -> None:
    x = numbers(100, 100).requires_grad_()
    y = x * x.exp()
    assert tensor.autograd.graph_statistics(y).bytes_saved <= 3 * x.nbytes + 1000
    del y


def test_second_derivatives_are_bfloat16() -> None:
    x = tensor.tensor([1.5, 2.0], dtype=bfloat16, requires_grad=True)
    (first,) = tensor.autograd.grad((x**3).sum(), [x], create_graph=True)
    first.sum().backward()
    assert (first.tolist(), x.grad.dtype, x.grad.tolist()) == ([6.75, 12.0], bfloat16, [9.0, 12.0])


def test_a_donated_operand_is_empty_afterwards() -> None:
    for use in (lambda x: x + 1, lambda x: x.exp(), lambda x: x.softmax(0), lambda x: x.fmod(2)):
        x = numbers(1000).donate()
        y = use(x)
        assert x.is_invalid
        assert y.dtype == bfloat16


def test_a_large_one_comes_from_the_pool_and_goes_back() -> None:
    start = memory.statistics().bytes_live
    x = tensor.zeros((1000, 1000), dtype=bfloat16)
    assert memory.statistics().bytes_live - start == 2_000_000
    y = x + 1
    assert memory.statistics().bytes_live - start == 4_000_000
    x.dispose()
    y.dispose()
    assert memory.statistics().bytes_live == start


# --- Modules ------------------------------------------------------------------------------------------------


def test_a_module_of_bfloat16_trains() -> None:
    tensor.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(64, 3))
    model.bfloat16()
    assert {x.dtype for x in model.parameters()} == {bfloat16}
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.01)
    x, y = tensor.randn(8, 1, 6, 6, dtype=bfloat16), tensor.randint(0, 3, (8,))
    losses = []
    for _ in range(20):
        with new_dispose_scope():
            loss = nn.functional.cross_entropy(model(x), y)
            assert loss.dtype == bfloat16
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert model.state_dict()["1.running_mean"].dtype == bfloat16


@pytest.mark.parametrize("layer", [nn.LSTM(4, 5), nn.GRU(4, 5), nn.TransformerEncoderLayer(4, 2, 8)])
def test_a_layer_of_sequences_computes_in_bfloat16(layer: nn.Module) -> None:
    layer = copy.deepcopy(layer).bfloat16()
    found = layer(numbers(3, 2, 4))
    out = found[0] if isinstance(found, tuple) else found
    out.square().mean().backward()
    assert {out.dtype, *(x.grad.dtype for x in layer.parameters())} == {bfloat16}


# --- Files and other libraries ------------------------------------------------------------------------------


def test_its_array_is_one_of_ml_dtypes_over_the_same_memory() -> None:
    x = tensor.zeros((2,), dtype=bfloat16)
    x.numpy()[0] = 5
    assert (x.numpy().dtype, x.tolist(), x[0].item()) == (bfloat16, [5.0, 0.0], 5.0)
    assert tensor.from_numpy(np.ones(2, ml_dtypes.bfloat16)).dtype is bfloat16
    with pytest.raises(BufferError, match=r"x\.float\(\)"):
        x.__buffer__(0)


def test_pickles_and_copies_keep_it() -> None:
    x = numbers(4, 3)
    first, second = pickle.loads(pickle.dumps((x, x[1:])))
    first[1, 0] = 9.0
    assert (second.dtype, second[0, 0].item()) == (bfloat16, 9.0)
    assert copy.deepcopy(x).equal(x)
    assert x.clone().equal(x)


def test_safetensors_files_keep_its_bits(tmp_path: Path) -> None:
    tensors = {"x": numbers(4, 3), "half": tensor.ones((2,), dtype="float16"), "t": numbers(4, 3).T}
    tensor.save_file(tensors, tmp_path / "x.safetensors")
    found = tensor.load_file(tmp_path / "x.safetensors")
    for name, x in tensors.items():
        assert found[name].dtype == x.dtype
        assert found[name].numpy().tobytes() == x.numpy().tobytes()


def test_checkpoints_keep_it_and_what_is_shared() -> None:
    x = numbers(4, 3)
    file = io.BytesIO()
    tensor.save({"x": x, "same": [x], "number": ml_dtypes.bfloat16(1.5)}, file)
    found = tensor.load(file)
    found["x"][0, 0] = 9.0
    assert (found["same"][0][0, 0].item(), found["number"]) == (9.0, 1.5)


def test_numpys_files_refuse_it_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"x\.float\(\)"):
        tensor.save_npy(numbers(2), tmp_path / "x.npy")
    with pytest.raises(TypeError, match=r"tensor\.save_file"):
        tensor.save_npz({"x": numbers(2)}, tmp_path / "x.npz")


def test_dlpack_shares_its_memory() -> None:
    x = numbers(4, 3)
    y = tensor.from_dlpack(x.T)
    y[0, 1] = 9.0
    assert (y.dtype, y.shape, x[1, 0].item()) == (bfloat16, (3, 4), 9.0)
    assert tensor.from_dlpack(x, copy=True).equal(x)


# --- Errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (2,), (1, 3), (300, 70_000), (1, 2, 1, 2, 1, 2)])
def test_the_error_of_an_empty_tensor_names_bfloat16(shape: tuple[int, ...]) -> None:
    x = tensor.zeros(shape, dtype=bfloat16)
    x.dispose()
    sizes = str(shape) if len(shape) <= 4 else "(1, 2, 1, 2, ...)"
    with pytest.raises(
        TensorDisposedError, match=re.escape(f"this bfloat16 tensor of shape {sizes} is empty")
    ):
        x + x


def test_the_error_names_bfloat16_after_the_values_were_in_a_file(tmp_path: Path) -> None:
    x = tensor.ones((1000, 1000), dtype=bfloat16)
    with memory.budget(memory.statistics().bytes_live + 1_000_000, spill=tmp_path) as budget:
        tensor.ones((500_000,))
        assert budget.statistics().spilled_bytes == 2_000_000
        x.dispose()
    with pytest.raises(TensorDisposedError, match=r"bfloat16 tensor of shape \(1000, 1000\) is empty"):
        x + x


# --- Without ml_dtypes --------------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None  # as if it were not installed
import numpy as np, tensor
import tensor.torch as torch
assert repr(tensor.bfloat16) == "bfloat16" and torch.bfloat16 is tensor.bfloat16
assert {"float32": torch.float32, "bfloat16": torch.bfloat16}["float32"] != torch.bfloat16
for use in (
    lambda: tensor.zeros((2,), dtype=tensor.bfloat16),
    lambda: tensor.ones((2,)).bfloat16(),
    lambda: tensor.ones((2,)).to("bfloat16"),
):
    try:
        use()
    except ImportError as error:
        assert "pip install '.[bfloat16]'" in str(error), error
    else:
        raise AssertionError("no error")
x = tensor.load_file(sys.argv[1])["x"]
print(x.dtype, x.tolist())
"""


def test_without_ml_dtypes_its_use_names_what_to_install_and_files_are_read_as_float32(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.safetensors"
    tensor.save_file({"x": tensor.tensor([1.0, -2.5], dtype=bfloat16)}, path)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.stdout.strip(), done.stderr) == ("float32 [1.0, -2.5]", "")


def test_nan_counts_as_the_largest_where_bfloat16_is_sorted() -> None:
    inf = math.inf
    x = tensor.tensor([math.nan, inf, 1.0, -inf], dtype=bfloat16)
    assert x.argsort().tolist() == [3, 2, 1, 0]
    assert x.topk(2).indices.tolist() == [0, 1]
    assert x.topk(2, largest=False).values.tolist() == [-inf, 1.0]
    assert x.kthvalue(1).values.item() == -inf
    values = tensor.unique_values(x)
    assert values.dtype == bfloat16
    assert values[:3].tolist() == [-inf, 1.0, inf]
    assert tensor.searchsorted(values, x[1:]).tolist() == [2, 1, 0]
    assert x[:, None].unique(dim=0).dtype == bfloat16


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_a_sum_or_product_has_the_integer_dtype_that_is_given(name: str, dtype: str) -> None:
    x = tensor.tensor([1.5, 2.5], dtype="bfloat16")
    found = getattr(x, name)(0, dtype=dtype)
    expected = getattr(x.to(dtype).numpy(), name)(0, dtype=dtype)
    assert str(found.dtype) == dtype
    np.testing.assert_array_equal(found.numpy(), expected)
