"""Samples of what `nn` computes in one piece, and of what is built of it, for the gradient checker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensor
from nn import functional as F
from nn.functional import padding
from nn.functional.convolutions import weight_of_convolution
from nn.functional.plane_gather import gather, scatter_add
from nn.utils import rnn
from tensor import Generator, Tensor
from tensor.autograd.recorded_functions import Functions
from tensor.kernels import Geometry
from tests.tensor.gradients import Function, Sample

CLASSES = tensor.tensor([2, 0, 1, 2])
IGNORING = tensor.tensor([2, -100, 1, 2])
COUNTS = tensor.tensor([0.5, 1.5, 1.0], dtype=tensor.float64)
PLACES = tensor.tensor([[0, 2], [1, -100]])
ROWS = tensor.tensor([[2, 0], [2, 2]])
HALVES = tensor.tensor([0.5, 0.5, 0.5], dtype=tensor.float64)

ROWS_OF_CLASSES = (4, 3)


def _with(function: Callable[..., Tensor], *constants: Any, **options: Any) -> Function:
    """Return the function of its first argument alone."""
    return lambda x: function(x, *constants, **options)


def _opted(function: Callable[..., Tensor], **options: Any) -> Function:
    """Return the function of all its arguments, with these options."""
    return lambda *given: function(*given, **options)


def _dropped(x: Tensor, p: float, inplace: bool = False) -> Tensor:
    return F.dropout(x * 1, p, inplace=inplace, generator=Generator().manual_seed(3))


MAPS = [
    Sample("linear", F.linear, ((4, 3), (2, 3), (2,))),
    Sample("linear", F.linear, ((4, 3), (2, 3))),
    Sample("linear", F.linear, ((2, 4, 3), (2, 3), (2,))),
    Sample("linear", F.linear, ((3,), (2, 3), (2,))),
    Sample("linear", lambda x: F.linear(x, x, x[0]), ((3, 3),)),
    Sample("embedding", lambda w: F.embedding(CLASSES, w), ((3, 2),)),
    Sample("embedding", lambda w: F.embedding(ROWS, w), ((4, 2),)),
    Sample("embedding", lambda w: F.embedding(ROWS, w, padding_idx=-1), ((4, 2),)),
    Sample("dropout", partial(_dropped, p=0.4), ((4, 3),)),
    Sample("dropout", partial(_dropped, p=0.4, inplace=True), ((4, 3),)),
    Sample("dropout", partial(_dropped, p=1.0), ((4, 3),)),
]

STRIDED = Geometry((2, 3), (2, 1), ((0, 1), (1, 0)), (1, 2), 2)


def _attended(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    generator = Generator().manual_seed(3)
    return F.scaled_dot_product_attention(q, k, v, generator=generator, **options)


SOME_KEYS = tensor.tensor([[True, False, True], [False, False, False]])
TO_SCORES = tensor.tensor([[[0.5, -1.0, 2.0]], [[0.0, 1.0, 0.5]]], dtype=tensor.float64)
OF_TWO_HEADS = ((1, 2, 2, 2), (1, 2, 3, 2), (1, 2, 3, 2))

ATTENTION = [
    Sample("attention", _attended, ((2, 2), (3, 2), (3, 1))),
    Sample("attention", _opted(_attended, is_causal=True, scale=0.7), ((1, 2, 3), (1, 3, 3), (1, 3, 2))),
    Sample("attention", _opted(_attended, attn_mask=SOME_KEYS), OF_TWO_HEADS),
    Sample("attention", _opted(_attended, attn_mask=TO_SCORES, dropout_p=0.4), OF_TWO_HEADS),
    Sample("attention", _opted(_attended, enable_gqa=True), ((1, 4, 2, 2), *OF_TWO_HEADS[1:])),
    Sample("attention", lambda x: _attended(x, x, x, dropout_p=0.3), ((2, 3, 2),)),
]

CONVOLUTIONS = [
    Sample("convolution", F.conv1d, ((2, 2, 4), (3, 2, 3), (3,))),
    Sample("convolution", F.conv1d, ((2, 4), (1, 2, 2))),
    Sample(
        "convolution",
        _opted(F.conv2d, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
        ((2, 4, 3, 5), (2, 2, 2, 2), (2,)),
    ),
    Sample("convolution", _opted(F.conv2d, padding="same"), ((1, 2, 3, 2), (2, 2, 2, 3))),
    Sample("convolution", F.conv2d, ((2, 3, 2, 2), (2, 3, 1, 1), (2,))),
    Sample("convolution", _opted(F.conv3d, stride=2), ((1, 2, 3, 2, 3), (2, 2, 2, 1, 2))),
    Sample(
        "transposed_convolution",
        _opted(F.conv_transpose1d, stride=2, padding=1, output_padding=1, groups=2),
        ((2, 2, 3), (2, 2, 3), (4,)),
    ),
    Sample(
        "transposed_convolution",
        _opted(F.conv_transpose2d, stride=(1, 2), dilation=(2, 3), output_padding=(0, 2)),
        ((1, 2, 2, 2), (2, 1, 2, 2)),
    ),
    Sample("transposed_convolution", F.conv_transpose3d, ((1, 1, 2, 1, 2), (1, 2, 1, 2, 2), (2,))),
    Sample(
        "weight_of_convolution",
        lambda x, y: weight_of_convolution(x, y, STRIDED),
        ((2, 4, 3, 5), (2, 2, 2, 2)),
    ),
]


def _packed_and_padded(x: Tensor, y: Tensor) -> Tensor:
    return rnn.pad_packed_sequence(rnn.pack_sequence([x, y], enforce_sorted=False), padding_value=2.0)[0]


DRAWS = tensor.tensor([[[0.2, 0.7], [0.9, 0.4]]], dtype=tensor.float64)
WHERE_LARGEST = tensor.tensor([[3, 0], [1, 2]])
BAGS = tensor.tensor([2, 0, 2, 1, 2, 3])
BAG_STARTS = tensor.tensor([0, 3, 3])


def _bagged(mode: str, **options: Any) -> Function:
    return lambda weight: F.embedding_bag(BAGS, weight, BAG_STARTS, mode=mode, **options)


def _dropped_with(function: Callable[..., Tensor], **options: Any) -> Function:
    return lambda x: function(x * 1, 0.5, True, generator=Generator().manual_seed(3), **options)


POOLS = [
    Sample("axis_matrix", _opted(F.avg_pool1d, kernel_size=2, stride=1, padding=1), ((2, 2, 3),)),
    Sample(
        "axis_matrix",
        _opted(
            F.avg_pool2d, kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False
        ),
        ((2, 1, 4, 3),),
    ),
    Sample("axis_matrix", _opted(F.avg_pool3d, kernel_size=2, divisor_override=3), ((1, 1, 2, 3, 4),)),
    Sample("axis_matrix", _opted(F.adaptive_avg_pool2d, output_size=(2, 3)), ((1, 2, 3, 2),)),
    Sample("axis_matrix", _opted(F.lp_pool2d, norm_type=3, kernel_size=2), ((1, 1, 3, 2),), "positive"),
    Sample("axis_matrix", _opted(F.local_response_norm, size=2, alpha=0.3), ((2, 4, 2),)),
    Sample("max_pool", _opted(F.max_pool1d, kernel_size=2, stride=1, padding=1), ((2, 2, 3),)),
    Sample("max_pool", _opted(F.max_pool2d, kernel_size=(3, 2), dilation=(1, 2)), ((2, 1, 4, 4),)),
    Sample("max_pool", _opted(F.adaptive_max_pool3d, output_size=2), ((1, 1, 2, 3, 2),)),
    Sample("max_pool", lambda x: F.max_pool2d(x, 2, 1, return_indices=True)[0] ** 2, ((1, 1, 3, 3),)),
    Sample(
        "max_pool", lambda x: F.fractional_max_pool2d(x, 2, 2, _random_samples=DRAWS) ** 2, ((1, 2, 4, 3),)
    ),
    Sample("add_at_places", lambda x: scatter_add(Functions, x, WHERE_LARGEST.numpy(), (2, 4), 1), ((2, 2),)),
    Sample("take_places", lambda x: gather(Functions, x, WHERE_LARGEST.numpy(), 1), ((2, 4),)),
    Sample("max_unpool", lambda x: F.max_unpool1d(x, WHERE_LARGEST, 2), ((2, 2),)),
]

RESIZED = [
    *[
        Sample("axis_matrix", _opted(F.interpolate, size=5, mode=mode), ((1, 2, 3),))
        for mode in ("nearest", "nearest-exact", "linear", "area")
    ],
    Sample("axis_matrix", _opted(F.interpolate, scale_factor=1.7, mode="bilinear"), ((1, 2, 3, 2),)),
    Sample(
        "axis_matrix", _opted(F.interpolate, size=(2, 5), mode="bicubic", align_corners=True), ((1, 1, 3, 4),)
    ),
    Sample(
        "axis_matrix", _opted(F.interpolate, size=(2, 3), mode="bilinear", antialias=True), ((1, 1, 5, 4),)
    ),
    Sample("axis_matrix", _opted(F.interpolate, size=(2, 3, 1), mode="trilinear"), ((1, 1, 1, 2, 3),)),
    Sample("permute_dims", _opted(F.pixel_shuffle, upscale_factor=2), ((1, 4, 1, 2),)),
    Sample("permute_dims", _opted(F.channel_shuffle, groups=2), ((1, 4, 2),)),
    *[Sample("edge_pad", _opted(F.pad, pad=(2, 1, 1, 2), mode=mode), ((1, 3, 4),)) for mode in padding.MODES],
    Sample("edge_pad", _opted(F.pad, pad=(2, -1, -1, 1), mode="reflect"), ((1, 3, 4),)),
    *[
        Sample("edge_unpad", _with(partial(padding._unpadded, Functions), ((0, 0), (1, 2)), mode), ((2, 6),))
        for mode in padding.MODES
    ],
    Sample("unfold", _opted(F.unfold, kernel_size=2, padding=1, stride=(2, 1)), ((2, 1, 3, 2),)),
    Sample("fold", _opted(F.fold, output_size=(3, 2), kernel_size=2, dilation=(2, 1)), ((2, 4, 1),)),
    Sample("fold", _opted(F.fold, output_size=3, kernel_size=2, padding=1, stride=2), ((4, 4),)),
]

BAGGED = [
    *[Sample("embedding_bag", _bagged(mode), ((4, 3),)) for mode in ("sum", "mean")],
    Sample("embedding_bag", _bagged("mean", padding_idx=2, scale_grad_by_freq=False), ((4, 3),)),
    Sample("getitem", _bagged("max"), ((4, 3),)),
    Sample(
        "embedding_bag",
        lambda weight, shares: F.embedding_bag(
            BAGS, weight, BAG_STARTS, mode="sum", per_sample_weights=shares
        ),
        ((4, 3), (6,)),
    ),
    Sample("linear", F.bilinear, ((2, 3), (2, 2), (4, 3, 2), (4,))),
    *[
        Sample("multiply", _dropped_with(function, inplace=inplace), (shape,))
        for function, shape in (
            (F.dropout1d, (3, 2)),
            (F.dropout2d, (2, 2, 1, 2)),
            (F.dropout3d, (2, 1, 2, 1)),
            (F.alpha_dropout, (4,)),
            (F.feature_alpha_dropout, (2, 2, 2)),
        )
        for inplace in (False, True)
    ],
]

SEQUENCES = [
    Sample("pack", lambda *xs: rnn.pack_sequence(xs, enforce_sorted=False).data, ((2, 3), (4, 3), (1, 3))),
    Sample("pack_padded", lambda x: rnn.pack_padded_sequence(x, [4, 2, 1]).data, ((4, 3, 2),)),
    Sample("pack_padded", lambda x: rnn.pack_padded_sequence(x, [1, 3], True, False).data, ((2, 4),)),
    Sample("pad", lambda *xs: rnn.pad_sequence(xs, padding_value=2.0), ((2, 3), (4, 3))),
    Sample("pad", lambda *xs: rnn.pad_sequence(xs, True, padding_side="left"), ((2,), (4,))),
    Sample("pad_packed", _packed_and_padded, ((2, 3), (4, 3))),
]

NORMALIZATIONS = [
    Sample("layer_norm", lambda x, w, b: F.layer_norm(x, (3, 2), w, b), ((4, 3, 2), (3, 2), (3, 2))),
    Sample("layer_norm", lambda x, w: F.layer_norm(x, 3, w), ((4, 3), (3,))),
    Sample("layer_norm", lambda x, b: F.layer_norm(x, 3, None, b), ((4, 3), (3,))),
    Sample("layer_norm", lambda x: F.layer_norm(x, 3), ((4, 3),)),
    *[
        Sample("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (shape, (3,), (3,)))
        for shape in ((4, 3), (2, 3, 4), (2, 3, 2, 2))
    ],
    Sample("batch_norm", lambda x: F.batch_norm(x, None, None), ((4, 3),)),
    Sample("rms_norm", lambda x, w: F.rms_norm(x, 3, w), ((4, 3), (3,))),
    Sample("rms_norm", lambda x: F.rms_norm(x, (3, 2)), ((4, 3, 2),)),
    *[
        Sample("scale_and_shift", lambda x, w, b: F.batch_norm(x, HALVES, COUNTS, w, b), (shape, (3,), (3,)))
        for shape in ((4, 3), (2, 3, 4))
    ],
    Sample("scale_and_shift", lambda x: F.batch_norm(x, HALVES, COUNTS), ((4, 3),)),
    *[
        Sample("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), (shape, (4,), (4,)))
        for shape in ((3, 4), (2, 4, 3))
    ],
    Sample("group_norm", lambda x: F.group_norm(x, 1), ((2, 2, 3),)),
    Sample(
        "batch_norm",
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=0.1),
        ((2, 2, 3), (2,), (2,)),
    ),
]

REDUCTIONS = ("mean", "sum", "none")

# What `nn` computes in one piece is the mean over a batch without options; else it is made of two ops.
CROSS_ENTROPIES = [
    Sample("cross_entropy", _with(F.cross_entropy, CLASSES), (ROWS_OF_CLASSES,)),
    Sample("cross_entropy", lambda x: F.cross_entropy(x * x, CLASSES), (ROWS_OF_CLASSES,)),
    *[
        Sample(rule, _with(function, target, reduction=reduction, **options), (shape,))
        for rule, function in (("log_softmax", F.cross_entropy), ("nll_loss", F.nll_loss))
        for reduction in REDUCTIONS
        for shape, target, options in (
            (ROWS_OF_CLASSES, IGNORING, {}),
            (ROWS_OF_CLASSES, CLASSES, {"weight": COUNTS}),
            (ROWS_OF_CLASSES, CLASSES, {"ignore_index": 2}),
            (ROWS_OF_CLASSES, IGNORING, {"weight": COUNTS}),
            ((2, 3, 2), PLACES, {}),
            ((3,), tensor.tensor(1), {}),
        )
    ],
    *[
        Sample("log_softmax", _with(F.cross_entropy, target, label_smoothing=0.2, **options), (shape,))
        for shape, target, options in (
            (ROWS_OF_CLASSES, CLASSES, {}),
            (ROWS_OF_CLASSES, IGNORING, {"weight": COUNTS}),
            (ROWS_OF_CLASSES, IGNORING, {"weight": COUNTS, "reduction": "none"}),
            ((2, 3, 2), PLACES, {"reduction": "sum"}),
        )
    ],
    *[
        Sample("log_softmax", partial(F.cross_entropy, **options), (shape, shape), "unit positive")
        for shape, options in (
            *[(ROWS_OF_CLASSES, {"reduction": reduction}) for reduction in REDUCTIONS],
            (ROWS_OF_CLASSES, {"weight": COUNTS, "label_smoothing": 0.1}),
            ((2, 3, 2), {"weight": COUNTS, "reduction": "none"}),
            ((3,), {"label_smoothing": 0.1}),
        )
    ],
]


def _weighed_logits(x: Tensor, y: Tensor, weight: Tensor, positive: Tensor, reduction: str) -> Tensor:
    return F.binary_cross_entropy_with_logits(x, y, weight, reduction, positive)


ELEMENTWISE_LOSSES = [
    *[
        Sample(rule, partial(function, reduction=reduction, **options), ((3, 4), (3, 4)), domain)
        for rule, function, domain, options in (
            ("mse_loss", F.mse_loss, "any", {}),
            ("l1_loss", F.l1_loss, "any", {}),
            ("huber_loss", F.huber_loss, "any", {"delta": 0.7}),
            ("smooth_l1_loss", F.smooth_l1_loss, "any", {"beta": 0.7}),
            ("binary_cross_entropy", F.binary_cross_entropy, "unit positive", {}),
            ("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, "any", {}),
        )
        for reduction in REDUCTIONS
    ],
    Sample("l1_loss", partial(F.smooth_l1_loss, beta=0), ((3, 4), (3, 4))),
    Sample("mse_loss", lambda x: F.mse_loss(x, x * x), ((3,),)),
    *[
        Sample(
            "binary_cross_entropy",
            partial(F.binary_cross_entropy, reduction=reduction),
            ((4, 3), (4, 3), (3,)),
            "unit positive",
        )
        for reduction in REDUCTIONS
    ],
    *[
        Sample(
            "binary_cross_entropy_with_logits",
            partial(_weighed_logits, reduction=reduction),
            ((4, 3), (4, 3), (3,), (4, 1)),
        )
        for reduction in REDUCTIONS
    ],
]

SPOKEN = tensor.tensor([[1, 2, 2], [3, 1, 0]])


def _spoken(x: Tensor, reduction: str = "mean", **options: Any) -> Tensor:
    return F.ctc_loss(F.log_softmax(x, dim=-1), SPOKEN, [6, 4], [3, 2], reduction=reduction, **options)


TIMED = [
    *[Sample("ctc_loss", partial(_spoken, reduction=reduction), ((6, 2, 4),)) for reduction in REDUCTIONS],
    Sample("ctc_loss", partial(_spoken, blank=3, zero_infinity=True), ((6, 2, 4),)),
]

ACTIVATIONS = [
    *[
        Sample(name, getattr(F, name), ((3, 4),))
        for name in ("relu", "leaky_relu", "elu", "silu", "gelu", "sigmoid", "tanh")
    ],
    *[
        Sample(name, lambda x, name=name: getattr(F, name)(x * 1, inplace=True), ((3, 4),))
        for name in ("relu", "leaky_relu", "elu", "silu")
    ],
    Sample("leaky_relu", _with(F.leaky_relu, 0.2), ((3, 4),)),
    Sample("elu", _with(F.elu, 1.5), ((3, 4),)),
    Sample("gelu_by_tanh", _with(F.gelu, approximate="tanh"), ((3, 4),)),
    Sample("softplus_with_bend", _with(F.softplus, beta=2.0, threshold=1.0), ((3, 4),)),
    *[Sample("bounded", getattr(F, name), ((3, 4),)) for name in ("relu6", "hardsigmoid")],
    Sample("bounded", _with(F.hardtanh, -0.7, 0.9), ((3, 4),)),
    Sample("bounded", _with(F.threshold, 0.05, 2.0), ((3, 4),)),
    Sample("bounded", lambda x: F.relu6(x * 4, inplace=True), ((3, 4),)),
    Sample("hardswish", lambda x: F.hardswish(x * 2.5), ((3, 4),)),
    Sample("shrunk", _with(F.hardshrink, 0.05), ((3, 4),)),
    Sample("shrunk", _with(F.softshrink, 0.05), ((3, 4),)),
    Sample("celu", F.celu, ((3, 4),)),
    Sample("celu", _with(F.celu, -0.5), ((3, 4),)),
    Sample("elu", F.selu, ((3, 4),)),
    Sample("softplus_with_bend", F.mish, ((3, 4),)),
    Sample("sigmoid", F.glu, ((3, 4),)),
    Sample("where", lambda x, w: F.prelu(x, w), ((3, 4), (4,))),
    Sample("divide", F.normalize, ((3, 4),)),
    Sample("getitem", F.pdist, ((3, 4),)),
    Sample("softmax", _with(F.softmax, dim=1), ((3, 4),)),
    Sample("log_softmax", _with(F.log_softmax, dim=0), ((3, 4),)),
]


def _perceptron(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    hidden = F.gelu(F.layer_norm(F.linear(x, w1, b1), 5))
    return F.cross_entropy(F.linear(hidden, w2, b2), CLASSES, label_smoothing=0.1)


def _attention(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One head over a batch of sequences, masked so that no place looks ahead."""
    queries, keys, carried = (F.linear(x, w) for w in (q, k, v))
    scores = queries @ keys.mT / 2**0.5
    ahead = tensor.ones((3, 3), dtype=tensor.bool).triu(1)
    return F.softmax(scores.masked_fill(ahead, float("-inf")), dim=-1) @ carried


def _gated(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    normal = F.rms_norm(x, 4, scale)
    return F.mse_loss(F.silu(F.linear(normal, w)) * normal, x)


COMPOSITIONS = [
    Sample("log_softmax", _perceptron, ((4, 3), (5, 3), (5,), (3, 5), (3,))),
    Sample("softmax", _attention, ((2, 3, 4), (2, 4), (2, 4), (3, 4))),
    Sample("rms_norm", _gated, ((2, 4), (4, 4), (4,))),
]

SAMPLES = [
    *MAPS,
    *ATTENTION,
    *CONVOLUTIONS,
    *POOLS,
    *RESIZED,
    *BAGGED,
    *SEQUENCES,
    *NORMALIZATIONS,
    *CROSS_ENTROPIES,
    *ELEMENTWISE_LOSSES,
    *TIMED,
    *ACTIVATIONS,
    *COMPOSITIONS,
]
