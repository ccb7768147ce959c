"""Attention in blocks: values, gradients, masks, dropout and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.functional.derivatives import attention_factors
from scopes import new_dispose_scope
from tensor import Generator, autograd, memory
from tests.simd import printed_at_each_level

F = nn.functional
Array = np.ndarray[Any, Any]
random = np.random.default_rng(5)


def by_formula(q: Array, k: Array, v: Array, mask: Array | None = None, causal: bool = False) -> Array:
    """Return the attention of heads that are as many as those of keys."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        mask = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def drawn(*shape: int, dtype: str = "float64") -> Any:
    return tensor.tensor(random.standard_normal(shape).astype(dtype), requires_grad=True)


# Leading dimensions, queries, keys, features, value features: within a block, at its edges, over several.
SIZES = [
    ((), 3, 4, 2, 5),
    ((2,), 1, 1, 1, 1),
    ((2, 3), 64, 64, 16, 16),
    ((1, 2), 65, 129, 17, 3),
    ((2, 1, 2), 130, 7, 8, 33),
    ((1, 1), 7, 200, 65, 70),
]
MASKS = ["none", "causal", "booleans", "row of booleans", "numbers"]


def mask_of(kind: str, lead: tuple[int, ...], queries: int, keys: int) -> Array | None:
    if kind == "booleans":
        return random.random((*lead, queries, keys)) < 0.6
    if kind == "row of booleans":
        return random.random((1, keys)) < 0.6
    return random.standard_normal((queries, keys)) if kind == "numbers" else None


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("sizes", SIZES)
def test_blocks_give_what_the_formula_gives(sizes: Any, kind: str) -> None:
    lead, queries, keys, features, width = sizes
    q, k, v = drawn(*lead, queries, features), drawn(*lead, keys, features), drawn(*lead, keys, width)
    mask = mask_of(kind, lead, queries, keys)
    given = None if mask is None else tensor.tensor(mask)
    found = F.scaled_dot_product_attention(q, k, v, given, is_causal=kind == "causal")
    expected = by_formula(*(x.detach().numpy() for x in (q, k, v)), mask, kind == "causal")
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_are_those_of_single_ops(sizes: Any, kind: str) -> None:
    lead, queries, keys, features, width = sizes
    inputs = drawn(*lead, queries, features), drawn(*lead, keys, features), drawn(*lead, keys, width)
    mask = mask_of(kind, lead, queries, keys)
    g = tensor.tensor(random.standard_normal((*lead, queries, width)))
    given = None if mask is None else tensor.tensor(mask)
    out = F.scaled_dot_product_attention(*inputs, given, is_causal=kind == "causal")
    found = autograd.grad(out, inputs, g)
    # A mask of numbers that requires gradients is added to whole matrices.
    if mask is None:
        mask = np.tri(queries, keys, dtype=bool) if kind == "causal" else np.zeros((queries, keys))
    numbers = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask
    wanting = tensor.tensor(numbers, requires_grad=True)
    expected = autograd.grad(F.scaled_dot_product_attention(*inputs, wanting), (*inputs, wanting), g)
    for x, y in zip(found, expected, strict=False):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_heads_of_queries_may_share_one_of_keys(is_causal: bool) -> None:
    q, k, v = drawn(2, 6, 5, 3), drawn(2, 2, 7, 3), drawn(2, 2, 7, 4)
    shared = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
    whole = (q, *(x.repeat_interleave(3, 1) for x in (k, v)))
    repeated = F.scaled_dot_product_attention(*whole, is_causal=is_causal)
    np.testing.assert_allclose(shared.detach().numpy(), repeated.detach().numpy(), rtol=1e-13)
    for x, y in zip(
        autograd.grad(shared.square().sum(), (q, k, v)),
        autograd.grad(repeated.square().sum(), (q, k, v)),
        strict=True,
    ):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-11, atol=1e-13)


def test_leading_dimensions_broadcast() -> None:
    q, k, v = drawn(3, 1, 5, 2), drawn(4, 6, 2), drawn(1, 1, 6, 2)
    found = F.scaled_dot_product_attention(q, k, v)
    assert found.shape == (3, 4, 5, 2)
    expected = by_formula(*(x.detach().numpy() for x in (q, k, v)))
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-13)
    assert [x.shape for x in autograd.grad(found.sum(), (q, k, v))] == [q.shape, k.shape, v.shape]


def test_a_query_without_a_key_gets_zeros_and_no_gradient() -> None:
    q, k, v = drawn(1, 2, 3, 2), drawn(1, 2, 4, 2), drawn(1, 2, 4, 2)
    hidden = np.zeros((3, 4), np.bool_)
    hidden[0] = True
    for mask in (tensor.tensor(hidden), tensor.tensor(np.where(hidden, 0.0, -np.inf))):
        out = F.scaled_dot_product_attention(q, k, v, mask)
        assert (out[:, :, 1:] == 0).all()
        assert (out[:, :, 0] != 0).all()
        d_q, _, _ = autograd.grad(out.sum(), (q, k, v))
        assert (d_q[:, :, 1:] == 0).all()
    assert (F.scaled_dot_product_attention(q, k[:, :, :0], v[:, :, :0]) == 0).all()


@pytest.mark.parametrize("empty", ["batch", "heads", "queries", "keys", "features"])
def test_attention_over_an_empty_dimension_has_the_right_shapes(empty: str) -> None:
    n, h, queries, keys, e = (
        0 if what == empty else 2 for what in ("batch", "heads", "queries", "keys", "features")
    )
    q, k, v = drawn(n, h, queries, e), drawn(n, h, keys, e), drawn(n, h, keys, 3)
    out = F.scaled_dot_product_attention(q, k, v)
    assert out.shape == (n, h, queries, 3)
    grads = autograd.grad(out.sum(), (q, k, v))
    assert [x.shape for x in grads] == [q.shape, k.shape, v.shape]
    assert (grads[0] == 0).all()


def test_heads_inside_rows_are_joined_without_a_copy() -> None:
    x = drawn(2, 5, 3 * 4)
    heads = x.reshape(2, 5, 3, 4).permute(0, 2, 1, 3)
    out = F.scaled_dot_product_attention(heads, heads, heads)
    joined = out.permute(0, 2, 1, 3)
    assert joined.is_contiguous()
    across = x.permute(1, 0, 2).contiguous().reshape(5, 2, 3, 4).permute(1, 2, 0, 3)
    assert F.scaled_dot_product_attention(across, across, across).permute(2, 0, 1, 3).is_contiguous()


# --- Dropout ------------------------------------------------------------------------------------------------


def seeded(*inputs: Any, p: float, **options: Any) -> Any:
    generator = Generator().manual_seed(3)
    return F.scaled_dot_product_attention(*inputs, dropout_p=p, generator=generator, **options)


def test_dropout_drops_with_its_probability_and_scales_what_stays() -> None:
    nothing = tensor.zeros((4, 300, 1))
    dropped = seeded(nothing, nothing, tensor.eye(300).expand(4, 300, 300), p=0.3)
    rows = dropped.numpy() * 300
    assert set(np.unique(rows.round(4))) == {0.0, np.float32(1 / 0.7).round(4)}
    assert abs((rows == 0).mean() - 0.3) < 0.003
    # Neighbours, along either axis and from head to head, are dropped without regard to each other.
    zeros = rows == 0
    for a, b in ((zeros[:, 1:], zeros[:, :-1]), (zeros[..., 1:], zeros[..., :-1]), (zeros[1:], zeros[:-1])):
        assert abs((a & b).mean() - 0.09) < 0.003
    assert (seeded(nothing, nothing, tensor.ones((4, 300, 1)), p=1.0) == 0).all()


def test_dropout_differs_between_calls_and_is_equal_for_equal_seeds() -> None:
    x = drawn(1, 1, 8, 4)
    assert seeded(x, x, x, p=0.5).tolist() == seeded(x, x, x, p=0.5).tolist()
    first, second = (F.scaled_dot_product_attention(x, x, x, dropout_p=0.5) for _ in range(2))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("sizes", [(1, 1, 3, 5, 2), (2, 3, 70, 130, 4)])
def test_backward_drops_what_forward_dropped(sizes: tuple[int, ...]) -> None:
    n, h, queries, keys, e = sizes
    inputs = drawn(n, h, queries, e), drawn(n, h, keys, e), drawn(n, h, keys, e)
    out = seeded(*inputs, p=0.4)
    seed = int(Generator().manual_seed(3).numbers.bit_generator.random_raw())
    factors = tensor.tensor(attention_factors((n, h, queries, keys), seed, 0.4))
    q, k, v = inputs
    expected = ((q @ k.mT * e**-0.5).softmax(-1) * factors) @ v
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-13)
    g = tensor.tensor(random.standard_normal(out.shape))
    for x, y in zip(autograd.grad(out, inputs, g), autograd.grad(expected, inputs, g), strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-10, atol=1e-12)


# --- Kernels ------------------------------------------------------------------------------------------------

AT_EACH_LEVEL = """
import numpy as np
from tensor.kernels import attention_backward, attention_forward, run_kernel
random = np.random.default_rng(2)
for dtype in (np.float32, np.float64):
    q, k, v, g = (random.standard_normal((2, 3, 70, e)).astype(dtype) for e in (20, 20, 33, 33))
    common = None, True, 0.3, 7, 0.2
    out, sums = run_kernel(attention_forward, q, k, v, *common)
    found = run_kernel(attention_backward, g, (True,) * 3, q, k, v, *common, out, sums)
    sums = (float(x.astype(np.float64).sum()) for x in (out, *found))
    print(*sums, *out[1, 2, 69, :3], *found[1][0, 1, 3, :3])
"""


def test_each_instruction_set_computes_the_same() -> None:
    printed = printed_at_each_level(AT_EACH_LEVEL)
    baseline = np.array(printed.pop("baseline").split(), np.float64).reshape(2, -1)
    for text in printed.values():
        found = np.array(text.split(), np.float64).reshape(2, -1)
        np.testing.assert_allclose(found[0], baseline[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[1], baseline[1], rtol=1e-11, atol=1e-11)


def test_no_bit_depends_on_the_number_of_threads() -> None:
    q, k, v = (drawn(2, 3, 150, 16, dtype="float32") for _ in range(3))
    before, found = tensor.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            tensor.set_num_threads(threads)
            out = seeded(q, k, v, p=0.1, is_causal=True)
            found.append([x.tolist() for x in (out, *autograd.grad(out.square().sum(), (q, k, v)))])
    finally:
        tensor.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_nan_and_infinity_stay_in_their_rows() -> None:
    q, k, v = (random.standard_normal((1, 1, 70, 4)).astype(np.float32) for _ in range(3))
    q[0, 0, 3, 1] = np.nan
    k[0, 0, 69, 0] = np.nan
    out = F.scaled_dot_product_attention(*map(tensor.tensor, (q, k, v)), is_causal=True).numpy()
    assert np.isnan(out[0, 0, [3, 69]]).all()
    assert np.isfinite(np.delete(out, [3, 69], axis=2)).all()


def test_half_precision_is_computed_in_single() -> None:
    x = tensor.tensor(random.standard_normal((2, 3, 9, 4)).astype(np.float16), requires_grad=True)
    out = F.scaled_dot_product_attention(x, x, x)
    assert out.dtype == tensor.float16
    single = F.scaled_dot_product_attention(*(x.float(),) * 3)
    assert out.tolist() == single.half().tolist()
    (gradient,) = autograd.grad(out.sum(), x)
    assert gradient.dtype == tensor.float16


# --- Memory -------------------------------------------------------------------------------------------------


@pytest.fixture
def every_array_counts() -> Iterator[None]:
    before = memory.configuration().min_pooled_bytes
    memory.configure(min_pooled_bytes=0)
    yield
    memory.configure(min_pooled_bytes=before)


def peak_of(length: int, **options: Any) -> int:
    q, k, v = (drawn(1, 2, length, 16, dtype="float32") for _ in range(3))
    with new_dispose_scope(), memory.measure() as measured:
        F.scaled_dot_product_attention(q, k, v, **options).sum().backward()
    return measured.peak_bytes


@pytest.mark.usefixtures("every_array_counts")
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"dropout_p": 0.1}])
def test_memory_is_linear_in_the_length(options: dict[str, Any]) -> None:
    first, second, third = (peak_of(length, **options) for length in (1024, 2048, 4096))
    assert second - first == pytest.approx((third - second) / 2, rel=0.02)
    assert third < 4096 * 4096  # bytes: less than a quarter of one matrix of scores


@pytest.mark.usefixtures("every_array_counts")
def test_a_mask_of_padding_stays_a_row() -> None:
    def masked(length: int) -> int:
        mask = tensor.ones((1, 1, 1, length), dtype=tensor.bool)
        return peak_of(length, attn_mask=mask)

    assert masked(4096) - masked(2048) < 1.05 * (peak_of(4096) - peak_of(2048))


def test_a_write_after_forward_does_not_change_backward() -> None:
    q, k, v = drawn(1, 1, 3, 2), drawn(1, 1, 3, 2), drawn(1, 1, 3, 2)
    mask = tensor.tensor([[True, False, True]] * 3)
    expected = autograd.grad(F.scaled_dot_product_attention(q, k, v, mask).sum(), q)[0].tolist()
    moved, key = q * 1, k * 1
    out = F.scaled_dot_product_attention(moved, key, v, mask)
    mask.fill_(False)
    key.mul_(0)
    moved.dispose()
    assert autograd.grad(out.sum(), q)[0].tolist() == expected


def test_nothing_is_kept_where_nothing_is_recorded() -> None:
    x = drawn(1, 1, 256, 16)
    with tensor.no_grad():
        out = F.scaled_dot_product_attention(x, x, x)
    assert not out.requires_grad


# --- Errors -------------------------------------------------------------------------------------------------


def test_arguments_that_do_not_fit_raise_an_error_that_explains() -> None:
    x = tensor.ones((2, 4, 5, 3))
    for arguments, options, message in (
        ((x, x[..., :2], x), {}, "query and key must have the same number of features"),
        ((x, x, x[..., :2, :]), {}, "key and value the same length"),
        ((x, x[:, :3], x[:, :3]), {}, "leading dimensions must broadcast"),
        ((x, x[:, :3], x[:, :3]), {"enable_gqa": True}, "the same number of heads \\(dimension -3\\)"),
        ((x, x.double(), x), {}, r"must have one dtype.*write key.to\(query.dtype\)"),
        ((x[0, 0, 0], x, x), {}, r"shapes must be \(\*, length, features\)"),
        ((x, x, x, tensor.ones((4, 5))), {}, r"attn_mask must broadcast to \(2, 4, 5, 5\)"),
        ((x, x, x, tensor.ones((3, 2, 4, 5, 5))), {}, "attn_mask must broadcast to"),
        ((x, x, x, tensor.ones((5, 5))), {"is_causal": True}, "can't be combined"),
        ((x, x, x), {"dropout_p": 1.5}, "dropout_p must be from 0 to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            F.scaled_dot_product_attention(*arguments, **options)
    for arguments, message in (
        ((x, x, [1.0]), "value must be a tensor, not list"),
        ((x, x.long(), x), "key must be floating, not int64"),
        ((x, x, x, x.long()), r"attn_mask must be boolean or floating, not int64"),
    ):
        with pytest.raises(TypeError, match=message):
            F.scaled_dot_product_attention(*arguments)


# --- PyTorch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_are_pytorch_s(kind: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    arrays = [random.standard_normal((2, 4, 90, e)).astype(dtype) for e in (24, 24, 24)]
    mask = mask_of(kind, (2, 4), 90, 90)
    if mask is not None:
        if mask.shape[-2] > 1:
            mask[..., 5, :] = False if mask.dtype == bool else -np.inf  # a query that sees no key
        mask = mask if mask.dtype == bool else mask.astype(dtype)
    found = []
    for library, run in ((torch, torch.nn.functional), (tensor, F)):
        q, k, v = (library.tensor(x, requires_grad=True) for x in arrays)
        given = None if mask is None else library.tensor(mask)
        out = run.scaled_dot_product_attention(q, k, v, given, is_causal=kind == "causal", scale=0.3)
        (out * out).sum().backward()
        found.append([x.detach().numpy() for x in (out, q.grad, k.grad, v.grad)])
    for x, y in zip(*found, strict=True):
        rtol = 2e-4 if dtype == "float32" else 1e-10
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol / 20)
