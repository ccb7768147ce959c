"""Values against NumPy's formulas, errors by what they name. Gradients: see `test_derivatives`."""

from __future__ import annotations

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from tensor import memory

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


CLASSES = np.array([2, 0, 1, 2])
IGNORING = np.array([2, -100, 1, 2])
CLASS_WEIGHTS = np.array([0.5, 1.5, 1.0])


def t(array: np.ndarray) -> tensor.Tensor:
    return tensor.tensor(array)


def test_linear_is_a_product_and_a_sum():
    x, w, b = normal(4, 3), normal(2, 3), normal(2)
    np.testing.assert_allclose(F.linear(t(x), t(w), t(b)).numpy(), x @ w.T + b)


def test_layer_norm_has_mean_0_and_variance_1():
    y = F.layer_norm(t(normal(5, 100)), 100).numpy()
    np.testing.assert_allclose(y.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(y.var(axis=1), 1, atol=1e-4)


def test_batch_norm_takes_the_unbiased_variance_into_the_running_one():
    x = normal(6, 2)
    mean, var = t(np.zeros(2)), t(np.ones(2))
    F.batch_norm(t(x), mean, var, training=True, momentum=0.1)
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.mean(axis=0))
    np.testing.assert_allclose(var.numpy(), 0.9 + 0.1 * x.var(axis=0, ddof=1))


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def test_cross_entropy_is_the_mean_of_the_targets_log_probabilities():
    x = normal(4, 3)
    expected = -log_softmax(x)[np.arange(4), CLASSES].mean()
    np.testing.assert_allclose(F.cross_entropy(t(x), t(CLASSES)).item(), expected)


def test_cross_entropy_with_weights_is_their_weighted_mean():
    x = normal(4, 3)
    w = CLASS_WEIGHTS[CLASSES]
    expected = -(w * log_softmax(x)[np.arange(4), CLASSES]).sum() / w.sum()
    np.testing.assert_allclose(F.cross_entropy(t(x), t(CLASSES), t(CLASS_WEIGHTS)).item(), expected)


def test_label_smoothing_mixes_in_an_even_distribution():
    x = normal(4, 3)
    chances = np.eye(3)[CLASSES] * 0.7 + 0.1
    smoothed = F.cross_entropy(t(x), t(CLASSES), label_smoothing=0.3).item()
    np.testing.assert_allclose(smoothed, F.cross_entropy(t(x), t(chances)).item())


def test_an_ignored_row_counts_nothing():
    x = normal(4, 3)
    kept = [0, 2, 3]
    expected = F.cross_entropy(t(x[kept]), t(CLASSES[kept])).item()
    np.testing.assert_allclose(F.cross_entropy(t(x), t(IGNORING)).item(), expected)
    logs = tensor.tensor(x, requires_grad=True)
    F.cross_entropy(logs, t(IGNORING)).backward()
    assert logs.grad[1].tolist() == [0.0, 0.0, 0.0]


def test_when_all_rows_are_ignored_the_mean_is_nan():
    assert np.isnan(F.cross_entropy(t(normal(2, 3)), tensor.tensor([-100, -100])).item())


def test_large_logits_overflow_nothing():
    x = tensor.tensor([[1e4, -1e4]], requires_grad=True)
    loss = F.cross_entropy(x, tensor.tensor([1]))
    loss.backward()
    assert loss.item() == 2e4
    assert x.grad.tolist() == [[1.0, -1.0]]
    y = F.binary_cross_entropy_with_logits(tensor.tensor([1e4, -1e4]), tensor.tensor([0.0, 1.0]))
    assert y.item() == 1e4
    assert F.sigmoid(tensor.tensor([-1e4, 1e4])).tolist() == [0.0, 1.0]


def test_cross_entropy_of_a_batch_has_one_node_and_saves_its_inputs_and_two_figures_a_row():
    x = tensor.tensor(normal(400, 300), requires_grad=True)
    with memory.measure() as measured:
        loss = F.cross_entropy(x, tensor.zeros((400,), dtype="int64"))
    assert repr(loss.grad_fn) == "<CrossEntropyBackward>"
    assert [s.shape for s in loss.grad_fn.saved] == [(400, 300), (400,), (400,), (400,)]
    assert measured.peak_bytes_change < x.nbytes // 10


@pytest.mark.parametrize("loss", [F.binary_cross_entropy, F.binary_cross_entropy_with_logits])
def test_operands_of_a_loss_may_be_written_over_before_backward(loss):
    x = tensor.tensor([0.25, 0.75], requires_grad=True)
    target, weight = tensor.tensor([0.0, 1.0]), tensor.tensor([1.0, 2.0])
    loss(x, target.clone(), weight.clone()).backward()
    expected, x.grad = x.grad, None
    value = loss(x, target, weight)
    target.fill_(0.5)
    weight.fill_(9.0)
    value.backward()
    assert x.grad.tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(200_000, 5), (3_000, 300), (70, 30_000)])
def test_cross_entropy_of_many_is_that_of_each_whatever_the_number_of_threads(shape):
    rng = np.random.default_rng(0)
    logits = rng.uniform(-9, 9, shape).astype(np.float32)
    classes = tensor.tensor(rng.integers(0, shape[1], shape[0]))
    before = tensor.get_num_threads()
    found = []
    try:
        for count in (1, 3):
            tensor.set_num_threads(count)
            x = tensor.tensor(logits, requires_grad=True)
            loss = F.cross_entropy(x, classes)
            loss.backward()
            assert loss.item() == F.cross_entropy(x.detach(), classes).item()
            found.append((loss.item(), x.grad.numpy()))
    finally:
        tensor.set_num_threads(before)
    (alone, slope), (several, slope_of_several) = found
    assert alone == several
    np.testing.assert_array_equal(slope, slope_of_several)
    expected = F.cross_entropy(tensor.tensor(logits.astype(np.float64)), classes).item()
    assert alone == pytest.approx(expected, rel=1e-6)


def test_binary_cross_entropy_keeps_the_digits_of_a_small_loss_and_slope():
    x = tensor.tensor([20.0, -20.0], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, tensor.tensor([1.0, 0.0]), reduction="none")
    loss.sum().backward()
    small = np.exp(-20.0)
    np.testing.assert_allclose(loss.detach().numpy(), [small, small], rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [-small, small], rtol=1e-6)


def test_linear_saves_input_and_weight_without_a_copy():
    x, w, b = (tensor.tensor(normal(*s), requires_grad=True) for s in ((4, 3), (2, 3), (2,)))
    saved = F.linear(x, w, b).grad_fn.saved
    assert {s.__array_interface__["data"][0] for s in saved} == {x.data_ptr(), w.data_ptr()}


def test_nothing_is_saved_under_no_grad():
    x = tensor.tensor(normal(4, 3), requires_grad=True)
    with tensor.no_grad():
        assert F.cross_entropy(x, t(CLASSES)).grad_fn is None
        assert F.layer_norm(x, 3).grad_fn is None


def test_dropout_scales_what_it_keeps_and_repeats_with_a_seed():
    x = tensor.ones((1000,), requires_grad=True)
    first, second = (F.dropout(x, 0.25, generator=tensor.Generator().manual_seed(3)) for _ in range(2))
    assert first.tolist() == second.tolist()
    kept = [v for v in first.tolist() if v]
    assert 680 < len(kept) < 820
    np.testing.assert_allclose(kept, 1 / 0.75, rtol=1e-6)
    first.sum().backward()
    assert x.grad.tolist() == first.tolist()


def test_dropout_of_all_or_nothing():
    x = tensor.ones((3,))
    assert F.dropout(x, 1.0).tolist() == [0.0, 0.0, 0.0]
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 0.5, training=False) is x
    F.dropout(x, 1.0, inplace=True)
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_the_padding_row_gets_no_gradient():
    w = tensor.tensor(normal(3, 2), requires_grad=True)
    F.embedding(tensor.tensor([0, 2, 2]), w, padding_idx=-1).sum().backward()
    assert w.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_indices_changed_after_the_forward_do_not_change_the_gradient():
    w = tensor.tensor(normal(3, 2), requires_grad=True)
    indices = tensor.tensor([0, 0])
    out = F.embedding(indices, w)
    indices.fill_(2)
    out.sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_float16_and_float32_keep_their_dtype():
    for dtype in ("float16", "float32"):
        x = tensor.ones((4, 3), dtype=dtype)
        outs = [
            F.linear(x, tensor.ones((2, 3), dtype=dtype), tensor.ones((2,), dtype=dtype)),
            F.layer_norm(x, 3),
            F.rms_norm(x, 3),
            F.gelu(x),
            F.dropout(x),
            F.cross_entropy(x, t(CLASSES), label_smoothing=0.1),
            F.mse_loss(x, x),
            F.binary_cross_entropy_with_logits(x, x),
        ]
        assert {str(out.dtype) for out in outs} == {dtype}


ONES = tensor.ones((4, 3))


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: F.linear([1.0], ONES), TypeError, "input must be a tensor"),
        (lambda: F.linear(ONES, tensor.ones((2, 4))), ValueError, r"\(2, 4\).*in_features"),
        (lambda: F.linear(ONES, tensor.ones((2, 3)), tensor.ones((3,))), ValueError, r"bias.*\(2,\).*\(3,\)"),
        (lambda: F.embedding(ONES, ONES), TypeError, "integers"),
        (lambda: F.embedding(tensor.tensor([4]), ONES), IndexError, "0 to 3, but input holds 4"),
        (lambda: F.embedding(tensor.tensor([-1]), ONES), IndexError, "-1"),
        (
            lambda: F.embedding(tensor.tensor([0]), ONES, padding_idx=9),
            ValueError,
            "padding_idx must be from -4 to 3.*not 9",
        ),
        (lambda: F.dropout(ONES, 1.5), ValueError, "1.5"),
        (lambda: F.dropout(tensor.tensor([1])), TypeError, "int64"),
        (lambda: F.layer_norm(ONES, 4), ValueError, r"\(4,\).*\(4, 3\)"),
        (lambda: F.layer_norm(ONES, 3, tensor.ones((2,))), ValueError, r"weight.*\(3,\)"),
        (
            lambda: F.batch_norm(tensor.ones((1, 3)), None, None, training=True),
            ValueError,
            r"module\.eval\(\)",
        ),
        (lambda: F.batch_norm(tensor.ones((3,)), None, None), ValueError, "batch, channels"),
        (lambda: F.cross_entropy(ONES, tensor.tensor([0, 1, 2, 3])), IndexError, "holds 3.*0 to 2"),
        (lambda: F.cross_entropy(ONES, tensor.tensor([0, 1])), ValueError, r"\(4,\), not \(2,\)"),
        (lambda: F.cross_entropy(ONES, tensor.ones((4,))), ValueError, "class indices must hold integers"),
        (lambda: F.cross_entropy(ONES.long(), t(CLASSES)), TypeError, "input must be floating"),
        (lambda: F.cross_entropy(ONES, t(CLASSES), reduction="avg"), ValueError, "'avg'"),
        (lambda: F.cross_entropy(ONES, t(CLASSES), label_smoothing=2), ValueError, "label_smoothing"),
        (lambda: F.cross_entropy(ONES, t(CLASSES), tensor.ones((4,))), ValueError, r"weight.*\(3,\)"),
        (
            lambda: F.nll_loss(ONES, t(CLASSES), tensor.ones((3,), dtype="float64")),
            ValueError,
            r"weight must have the input's dtype, float32, not float64: write weight.to\(tensor.float32\)",
        ),
        (
            lambda: F.cross_entropy(ONES, ONES, ignore_index=1),
            ValueError,
            "ignore_index=1 requires .* probabilities",
        ),
        (lambda: F.batch_norm(ONES, None, None, training=True, eps=0), ValueError, "eps must be above 0"),
        (
            lambda: F.batch_norm(ONES, ONES[0], ONES[0], eps=-1.0),
            ValueError,
            "eps must be at least 0",
        ),
        (lambda: F.huber_loss(ONES, ONES, delta=1j), TypeError, "delta must be a float or int, not 1j"),
        (lambda: F.nll_loss(ONES, ONES), TypeError, "class indices"),
        (lambda: F.mse_loss(ONES, tensor.ones((4, 1))), ValueError, r"\(4, 3\).*\(4, 1\)"),
        (lambda: F.binary_cross_entropy(ONES * 2, ONES), ValueError, "with_logits"),
        (
            lambda: F.binary_cross_entropy_with_logits(ONES, ONES, pos_weight=tensor.ones((2,))),
            ValueError,
            "pos_weight",
        ),
        (lambda: F.huber_loss(ONES, ONES, delta=0), ValueError, "delta"),
        (lambda: F.softmax(ONES), TypeError, "dim=-1"),
        (lambda: F.gelu(ONES, "fast"), ValueError, "'fast'"),
        (lambda: F.one_hot(tensor.tensor([3]), 2), IndexError, "3"),
    ],
)
def test_wrong_use_names_the_culprit(call, error, named):
    with pytest.raises(error, match=named):
        call()


@pytest.mark.parametrize("name", [name for name in F.__all__ if name != "one_hot"])
def test_a_disposed_input_is_an_error(name):
    x, y = tensor.ones((4, 3)), tensor.ones((4, 3))
    x.dispose()
    more = {
        "linear": (y,),
        "embedding": (y,),
        "layer_norm": (3,),
        "rms_norm": (3,),
        "batch_norm": (None, None),
        "softmax": (1,),
        "log_softmax": (1,),
        "cosine_similarity": (y,),
        "kl_div": (y,),
        "pairwise_distance": (y,),
        "margin_ranking_loss": (y, y),
        "cosine_embedding_loss": (y, y),
        "gaussian_nll_loss": (y, y),
        "triplet_margin_loss": (y, y),
        "triplet_margin_with_distance_loss": (y, y),
        "ctc_loss": (y, [4], [3]),
        "bilinear": (y, y),
        "embedding_bag": (y,),
        "fold": (2, 2),
        "multi_head_attention_forward": (y, y, 3, 1, *[None] * 4, False, 0.0, y, y),
        "scaled_dot_product_attention": (y, y),
        "prelu": (y,),
        "softmin": (1,),
        "threshold": (1.0, 2.0),
        "threshold_": (1.0, 2.0),
        "linear_cross_entropy": (y, y),
        "group_norm": (1,),
        "local_response_norm": (2,),
        "pad": ((1, 1),),
        "unfold": (2,),
        "affine_grid": ((1, 1, 2, 2),),
        "grid_sample": (y,),
        **{name: (2, 1) for name in F.__all__ if name.startswith("fractional_max_pool")},
        **{f"lp_pool{n}d": (2, 2) for n in (1, 2, 3)},
        **{f"max_unpool{n}d": (y, 2) for n in (1, 2, 3)},
        **{name: (2,) for name in F.__all__ if name.split("_")[-1] == "shuffle" or "unshuffle" in name},
        **{name: (2,) for name in F.__all__ if name.startswith(("adaptive", "avg_pool", "max_pool"))},
    }.get(name, (y,) if any(part in name for part in ("loss", "entropy", "conv")) else ())
    with pytest.raises(tensor.TensorDisposedError):
        getattr(F, name)(x, *more)


def test_loss_modules_are_their_functions():
    x, y = tensor.rand(4, 3), tensor.rand(4, 3)
    pairs = [
        (nn.MSELoss(), F.mse_loss),
        (nn.L1Loss(), F.l1_loss),
        (nn.HuberLoss(), F.huber_loss),
        (nn.SmoothL1Loss(), F.smooth_l1_loss),
        (nn.BCELoss(), F.binary_cross_entropy),
        (nn.BCEWithLogitsLoss(), F.binary_cross_entropy_with_logits),
        (nn.CrossEntropyLoss(), F.cross_entropy),
    ]
    for module, function in pairs:
        assert module(x, y).item() == function(x, y).item()
    assert nn.NLLLoss()(x, t(CLASSES)).item() == F.nll_loss(x, t(CLASSES)).item()


def test_linear_maps_and_look_ups_without_elements_have_gradients():
    weight = tensor.ones((0, 4), requires_grad=True)
    F.linear(tensor.ones((2, 3, 4)), weight).sum().backward()
    assert weight.grad.shape == (0, 4)
    rows = tensor.ones((5, 0), requires_grad=True)
    F.embedding(tensor.tensor([[1, 2]]), rows).sum().backward()
    assert rows.grad.shape == (5, 0)


def test_a_weight_has_a_gradient_beside_probabilities():
    x = tensor.tensor([[1.0, 2.0, 3.0], [1.0, 0.0, 2.0]])
    target = tensor.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    weight = tensor.tensor([1.0, 2.0, 3.0], requires_grad=True)
    F.cross_entropy(x, target, weight=weight, reduction="sum").backward()
    expected = -(target * tensor.log_softmax(x, axis=1)).sum(dim=0)
    np.testing.assert_allclose(weight.grad.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_a_weight_that_requires_grad_is_refused_beside_class_indices(loss):
    x, target = tensor.zeros((2, 3), requires_grad=True), tensor.tensor([0, 2])
    weight = tensor.ones((3,), requires_grad=True)
    with pytest.raises(RuntimeError, match=r"no gradient for weight.*weight.detach\(\)"):
        loss(x, target, weight=weight)
    with tensor.no_grad():
        assert loss(x, target, weight=weight).shape == ()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32"])
def test_linear_casts_integers_to_the_dtype_of_the_weight(dtype):
    x = tensor.ones((4, 3)).to(dtype)
    y = F.linear(x, tensor.ones((2, 3)), tensor.ones((2,)))
    assert (y.dtype, y.tolist()) == (tensor.float32, [[4.0, 4.0]] * 4)


@pytest.mark.parametrize("function", [nn.functional.softmax, nn.functional.log_softmax])
def test_softmax_computes_in_another_dtype(function):
    x = tensor.tensor([3, 1])
    found = function(x, dim=0, dtype=tensor.float64)
    assert found.dtype == tensor.float64
    assert found.tolist() == function(x.double(), dim=0).tolist()


def test_l1_loss_of_complex_numbers_is_the_mean_absolute_value():
    x = tensor.tensor([3 + 4j, 1j], requires_grad=True)
    loss = F.l1_loss(x, tensor.zeros((2,)))
    loss.backward()
    assert loss.item() == 3.0
    assert x.grad.tolist() == pytest.approx([0.3 + 0.4j, 0.5j])
    with pytest.raises(ValueError, match="same shape"):
        F.l1_loss(x, tensor.zeros((3,)))


def test_one_hot_without_elements_needs_the_number_of_classes():
    empty = tensor.zeros((2, 0), dtype=tensor.int64)
    assert F.one_hot(empty, 3).shape == (2, 0, 3)
    with pytest.raises(ValueError, match="pass num_classes="):
        F.one_hot(empty)


@pytest.mark.parametrize("dtype", [tensor.float16, tensor.bfloat16])
@pytest.mark.parametrize("function", [F.elu, F.celu, F.selu])
def test_slopes_of_elu_in_16_bits_are_those_of_float32(function, dtype):
    x = tensor.linspace(-6, 2, 50, dtype=dtype, requires_grad=True)
    wide = x.detach().float().requires_grad_()
    function(x).sum().backward()
    function(wide).sum().backward()
    np.testing.assert_allclose(x.grad.float().numpy(), wide.grad.numpy(), rtol=0.02)
