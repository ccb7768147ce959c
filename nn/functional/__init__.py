"""The functional forms of layers and losses: PyTorch's ``torch.nn.functional``."""

from typing import TYPE_CHECKING

from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand

if TYPE_CHECKING:
    from nn.functional.activations import (
        elu,
        gelu,
        leaky_relu,
        log_softmax,
        relu,
        sigmoid,
        silu,
        softmax,
        softplus,
        tanh,
    )
    from nn.functional.attention import scaled_dot_product_attention
    from nn.functional.average_pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        lp_pool1d,
        lp_pool2d,
        lp_pool3d,
    )
    from nn.functional.convolutions import (
        conv1d,
        conv2d,
        conv3d,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )
    from nn.functional.densities import gaussian_nll_loss, kl_div, poisson_nll_loss
    from nn.functional.distances import (
        cosine_similarity,
        normalize,
        pairwise_distance,
        pdist,
    )
    from nn.functional.dropouts import (
        alpha_dropout,
        dropout,
        dropout1d,
        dropout2d,
        dropout3d,
        feature_alpha_dropout,
    )
    from nn.functional.group_normalizations import (
        group_norm,
        instance_norm,
    )
    from nn.functional.in_place import (
        celu_,
        elu_,
        hardtanh_,
        leaky_relu_,
        relu_,
        rrelu_,
        selu_,
        threshold_,
    )
    from nn.functional.interpolation import (
        interpolate,
        upsample,
    )
    from nn.functional.likelihood import cross_entropy, linear_cross_entropy, nll_loss
    from nn.functional.linear_maps import bilinear, embedding, linear, one_hot
    from nn.functional.losses import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
        huber_loss,
        l1_loss,
        mse_loss,
        smooth_l1_loss,
    )
    from nn.functional.max_pooling import (
        adaptive_max_pool1d,
        adaptive_max_pool2d,
        adaptive_max_pool3d,
        max_pool1d,
        max_pool2d,
        max_pool3d,
    )
    from nn.functional.multihead import multi_head_attention_forward
    from nn.functional.normalizations import batch_norm, layer_norm, local_response_norm, rms_norm
    from nn.functional.padding import (
        pad,
    )
    from nn.functional.patches import (
        fold,
        unfold,
    )
    from nn.functional.piecewise_activations import (
        hardshrink,
        hardsigmoid,
        hardswish,
        hardtanh,
        prelu,
        relu6,
        rrelu,
        softshrink,
        threshold,
    )
    from nn.functional.rare.aliases import (
        adaptive_max_pool1d_with_indices,
        adaptive_max_pool2d_with_indices,
        adaptive_max_pool3d_with_indices,
        fractional_max_pool2d_with_indices,
        fractional_max_pool3d_with_indices,
        max_pool1d_with_indices,
        max_pool2d_with_indices,
        max_pool3d_with_indices,
        native_channel_shuffle,
        upsample_bilinear,
        upsample_nearest,
    )
    from nn.functional.rare.bags import (
        embedding_bag,
    )
    from nn.functional.rare.ctc import ctc_loss
    from nn.functional.rare.fractional_pooling import fractional_max_pool2d, fractional_max_pool3d
    from nn.functional.rare.margins import (
        cosine_embedding_loss,
        hinge_embedding_loss,
        margin_ranking_loss,
        multi_margin_loss,
        multilabel_margin_loss,
        multilabel_soft_margin_loss,
        soft_margin_loss,
        triplet_margin_loss,
        triplet_margin_with_distance_loss,
    )
    from nn.functional.rare.max_unpooling import max_unpool1d, max_unpool2d, max_unpool3d
    from nn.functional.sampling import affine_grid, grid_sample
    from nn.functional.shuffles import (
        channel_shuffle,
        pixel_shuffle,
        pixel_unshuffle,
    )
    from nn.functional.smooth_activations import (
        celu,
        glu,
        gumbel_softmax,
        logsigmoid,
        mish,
        selu,
        softmin,
        softsign,
        tanhshrink,
    )

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# Loaded when they are first used.
_ON_DEMAND = {
    name: module
    for module, names in {
        "nn.functional.activations": (
            "elu gelu leaky_relu log_softmax relu sigmoid silu softmax softplus tanh"
        ),
        "nn.functional.attention": "scaled_dot_product_attention",
        "nn.functional.average_pooling": (
            "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d "
            "avg_pool3d lp_pool1d lp_pool2d lp_pool3d"
        ),
        "nn.functional.rare.bags": "embedding_bag",
        "nn.functional.convolutions": (
            "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
        ),
        "nn.functional.rare.ctc": "ctc_loss",
        "nn.functional.densities": "gaussian_nll_loss kl_div poisson_nll_loss",
        "nn.functional.distances": "cosine_similarity normalize pairwise_distance pdist",
        "nn.functional.dropouts": (
            "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout"
        ),
        "nn.functional.rare.fractional_pooling": "fractional_max_pool2d fractional_max_pool3d",
        "nn.functional.group_normalizations": "group_norm instance_norm",
        "nn.functional.in_place": "celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_",
        "nn.functional.interpolation": "interpolate upsample",
        "nn.functional.likelihood": "cross_entropy linear_cross_entropy nll_loss",
        "nn.functional.losses": (
            "binary_cross_entropy binary_cross_entropy_with_logits huber_loss l1_loss mse_loss smooth_l1_loss"
        ),
        "nn.functional.linear_maps": "bilinear embedding linear one_hot",
        "nn.functional.rare.margins": (
            "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss "
            "multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss triplet_margin_loss "
            "triplet_margin_with_distance_loss"
        ),
        "nn.functional.max_pooling": (
            "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_pool1d max_pool2d max_pool3d"
        ),
        "nn.functional.rare.max_unpooling": "max_unpool1d max_unpool2d max_unpool3d",
        "nn.functional.multihead": "multi_head_attention_forward",
        "nn.functional.normalizations": "batch_norm layer_norm local_response_norm rms_norm",
        "nn.functional.padding": "pad",
        "nn.functional.patches": "fold unfold",
        "nn.functional.piecewise_activations": (
            "hardshrink hardsigmoid hardswish hardtanh prelu relu6 rrelu softshrink threshold"
        ),
        "nn.functional.sampling": "affine_grid grid_sample",
        "nn.functional.rare.aliases": (
            "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices "
            "adaptive_max_pool3d_with_indices fractional_max_pool2d_with_indices "
            "fractional_max_pool3d_with_indices max_pool1d_with_indices max_pool2d_with_indices "
            "max_pool3d_with_indices native_channel_shuffle upsample_bilinear upsample_nearest"
        ),
        "nn.functional.shuffles": "channel_shuffle pixel_shuffle pixel_unshuffle",
        "nn.functional.smooth_activations": (
            "celu glu gumbel_softmax logsigmoid mish selu softmin softsign tanhshrink"
        ),
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
