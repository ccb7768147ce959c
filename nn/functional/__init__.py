"""The functional forms of layers and losses: PyTorch's ``torch.nn.functional``."""

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
from nn.functional.convolutions import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from nn.functional.ctc import ctc_loss
from nn.functional.densities import gaussian_nll_loss, kl_div, poisson_nll_loss
from nn.functional.distances import cosine_similarity, pairwise_distance
from nn.functional.likelihood import cross_entropy, nll_loss
from nn.functional.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from nn.functional.maps import dropout, embedding, linear, one_hot
from nn.functional.margins import (
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
from nn.functional.multihead import multi_head_attention_forward
from nn.functional.normalizations import batch_norm, layer_norm, rms_norm
from scopes.lowlevel import clear_errors_of as _clear_errors_of

__all__ = [
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
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
    "elu",
    "embedding",
    "gaussian_nll_loss",
    "gelu",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "margin_ranking_loss",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "one_hot",
    "pairwise_distance",
    "poisson_nll_loss",
    "relu",
    "rms_norm",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softplus",
    "tanh",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

_clear_errors_of(globals(), __all__)
