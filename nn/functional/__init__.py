"""The functional forms of layers and losses: PyTorch's ``torch.nn.functional``."""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of

# Load each module at its first use.
# Type checkers read a stub, which .ci/write-stubs makes from this table.
_ON_DEMAND = _origins_of(
    {
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
    }
)

__all__ = [*_ON_DEMAND]

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
