"""Neural networks: parameters, modules, losses, optimizers, data. Names and defaults are PyTorch's."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

import scopes as _scopes  # noqa: F401  # first, since it refuses subinterpreters before other compiled modules do
from nn.module.module import Module
from nn.module.parameter import Parameter
from nn.module.states import IncompatibleKeys
from nn.module.uninitialized import UninitializedBuffer, UninitializedParameter
from scopes import __version__ as __version__
from scopes.lowlevel import clear_errors_of as _clear_errors_of
from scopes.lowlevel import names_on_demand as _names_on_demand
from tensor.lowlevel import RemovableHandle

if TYPE_CHECKING:
    from nn import data as data
    from nn import functional as functional
    from nn import init as init
    from nn import optim as optim
    from nn import utils as utils
    from nn.layers.activations import (
        CELU,
        ELU,
        GELU,
        GLU,
        SELU,
        Hardshrink,
        Hardsigmoid,
        Hardswish,
        Hardtanh,
        LeakyReLU,
        LogSigmoid,
        LogSoftmax,
        Mish,
        PReLU,
        ReLU,
        ReLU6,
        RReLU,
        Sigmoid,
        SiLU,
        Softmax,
        Softmax2d,
        Softmin,
        Softplus,
        Softshrink,
        Softsign,
        Tanh,
        Tanhshrink,
        Threshold,
    )
    from nn.layers.attention import MultiheadAttention, NonDynamicallyQuantizableLinear
    from nn.layers.channel_norms import (
        BatchNorm1d,
        BatchNorm2d,
        BatchNorm3d,
        InstanceNorm1d,
        InstanceNorm2d,
        InstanceNorm3d,
    )
    from nn.layers.containers import ModuleDict, ModuleList, Sequential
    from nn.layers.convolutions import (
        Conv1d,
        Conv2d,
        Conv3d,
        ConvTranspose1d,
        ConvTranspose2d,
        ConvTranspose3d,
    )
    from nn.layers.densities import CTCLoss, GaussianNLLLoss, KLDivLoss, PoissonNLLLoss
    from nn.layers.distances import CosineSimilarity, PairwiseDistance
    from nn.layers.dropouts import (
        AlphaDropout,
        Dropout,
        Dropout1d,
        Dropout2d,
        Dropout3d,
        FeatureAlphaDropout,
    )
    from nn.layers.embeddings import (
        Embedding,
        EmbeddingBag,
    )
    from nn.layers.group_norms import (
        GroupNorm,
    )
    from nn.layers.linear import Bilinear, Flatten, Identity, Linear, Unflatten
    from nn.layers.losses import (
        BCELoss,
        BCEWithLogitsLoss,
        CrossEntropyLoss,
        HuberLoss,
        L1Loss,
        LinearCrossEntropyLoss,
        MSELoss,
        NLLLoss,
        SmoothL1Loss,
    )
    from nn.layers.normalizations import LayerNorm, LocalResponseNorm, RMSNorm
    from nn.layers.padding import (
        CircularPad1d,
        CircularPad2d,
        CircularPad3d,
        ConstantPad1d,
        ConstantPad2d,
        ConstantPad3d,
        ReflectionPad1d,
        ReflectionPad2d,
        ReflectionPad3d,
        ReplicationPad1d,
        ReplicationPad2d,
        ReplicationPad3d,
        ZeroPad1d,
        ZeroPad2d,
        ZeroPad3d,
    )
    from nn.layers.parameter_containers import ParameterDict, ParameterList
    from nn.layers.pooling import (
        AdaptiveAvgPool1d,
        AdaptiveAvgPool2d,
        AdaptiveAvgPool3d,
        AdaptiveMaxPool1d,
        AdaptiveMaxPool2d,
        AdaptiveMaxPool3d,
        AvgPool1d,
        AvgPool2d,
        AvgPool3d,
        LPPool1d,
        LPPool2d,
        LPPool3d,
        MaxPool1d,
        MaxPool2d,
        MaxPool3d,
        MaxUnpool1d,
        MaxUnpool2d,
        MaxUnpool3d,
    )
    from nn.layers.rare.adaptive_softmax import AdaptiveLogSoftmaxWithLoss
    from nn.layers.rare.fractional_pooling import FractionalMaxPool2d, FractionalMaxPool3d
    from nn.layers.rare.lazy_convolutions import (
        LazyConv1d,
        LazyConv2d,
        LazyConv3d,
        LazyConvTranspose1d,
        LazyConvTranspose2d,
        LazyConvTranspose3d,
    )
    from nn.layers.rare.lazy_linear import LazyLinear
    from nn.layers.rare.lazy_norms import (
        LazyBatchNorm1d,
        LazyBatchNorm2d,
        LazyBatchNorm3d,
        LazyInstanceNorm1d,
        LazyInstanceNorm2d,
        LazyInstanceNorm3d,
    )
    from nn.layers.rare.margins import (
        CosineEmbeddingLoss,
        HingeEmbeddingLoss,
        MarginRankingLoss,
        MultiLabelMarginLoss,
        MultiLabelSoftMarginLoss,
        MultiMarginLoss,
        SoftMarginLoss,
        TripletMarginLoss,
        TripletMarginWithDistanceLoss,
    )
    from nn.layers.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
    from nn.layers.resizing import (
        ChannelShuffle,
        Fold,
        PixelShuffle,
        PixelUnshuffle,
        Unfold,
        Upsample,
        UpsamplingBilinear2d,
        UpsamplingNearest2d,
    )
    from nn.layers.transformer import (
        Transformer,
        TransformerDecoder,
        TransformerDecoderLayer,
        TransformerEncoder,
        TransformerEncoderLayer,
    )
    from nn.module.lazy import LazyModuleMixin

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "IncompatibleKeys",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTMCell",
    "LayerNorm",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LazyModuleMixin",
    "LeakyReLU",
    "Linear",
    "LinearCrossEntropyLoss",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "NonDynamicallyQuantizableLinear",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "RemovableHandle",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "UninitializedBuffer",
    "UninitializedParameter",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "data",
    "functional",
    "init",
    "optim",
    "utils",
]

# Load each module at its first use: all of them take longer to load than NumPy.
_ON_DEMAND = {
    name: module
    for module, names in {
        "nn.layers.activations": (
            "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
            "LogSoftmax Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin "
            "Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
        ),
        "nn.layers.rare.adaptive_softmax": "AdaptiveLogSoftmaxWithLoss",
        "nn.layers.attention": "MultiheadAttention NonDynamicallyQuantizableLinear",
        "nn.layers.channel_norms": (
            "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d"
        ),
        "nn.layers.containers": "ModuleDict ModuleList Sequential",
        "nn.layers.convolutions": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
        "nn.layers.densities": "CTCLoss GaussianNLLLoss KLDivLoss PoissonNLLLoss",
        "nn.layers.distances": "CosineSimilarity PairwiseDistance",
        "nn.layers.dropouts": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
        "nn.layers.embeddings": "Embedding EmbeddingBag",
        "nn.layers.rare.fractional_pooling": "FractionalMaxPool2d FractionalMaxPool3d",
        "nn.layers.group_norms": "GroupNorm",
        "nn.layers.rare.lazy_convolutions": (
            "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
        ),
        "nn.layers.rare.lazy_linear": "LazyLinear",
        "nn.layers.rare.lazy_norms": (
            "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
            "LazyInstanceNorm3d"
        ),
        "nn.layers.losses": (
            "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss L1Loss LinearCrossEntropyLoss MSELoss "
            "NLLLoss SmoothL1Loss"
        ),
        "nn.layers.linear": "Bilinear Flatten Identity Linear Unflatten",
        "nn.layers.rare.margins": (
            "CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss "
            "MultiLabelSoftMarginLoss MultiMarginLoss SoftMarginLoss TripletMarginLoss "
            "TripletMarginWithDistanceLoss"
        ),
        "nn.layers.normalizations": "LayerNorm LocalResponseNorm RMSNorm",
        "nn.layers.padding": (
            "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
            "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
            "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d"
        ),
        "nn.layers.parameter_containers": "ParameterDict ParameterList",
        "nn.layers.pooling": (
            "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
            "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d "
            "LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d"
        ),
        "nn.layers.recurrent": "GRU LSTM RNN GRUCell LSTMCell RNNBase RNNCell RNNCellBase",
        "nn.layers.resizing": (
            "ChannelShuffle Fold PixelShuffle PixelUnshuffle Unfold Upsample UpsamplingBilinear2d "
            "UpsamplingNearest2d"
        ),
        "nn.layers.transformer": (
            "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
            "TransformerEncoderLayer"
        ),
        "nn.module.lazy": "LazyModuleMixin",
    }.items()
    for name in names.split()
} | {name: f"nn.{name}" for name in ("data", "functional", "init", "optim", "utils")}

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])


def _advice(name: str) -> str:
    if not name.startswith("_"):
        for place in ("data", "functional", "optim", "optim.lr_scheduler", "utils", "utils.rnn", "init"):
            if name in _import_module(f"nn.{place}").__all__:
                return f"module 'nn' has no attribute {name!r}: write nn.{place}.{name}"
    return f"module 'nn' has no attribute {name!r}"


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of, advice=_advice)
