"""Neural networks: parameters, modules, losses, optimizers, data. Names and defaults are PyTorch's."""

from importlib import import_module as _import_module

import tensor as _tensor  # first, because it imports `scopes`, which refuses subinterpreters

if not hasattr(_tensor, "Tensor"):
    raise ImportError(
        f"{_tensor.__file__} has the name of the package `tensor` of disposescope, and Python finds it "
        "instead: rename it, or move it into a package",
        name="tensor",
    )

from nn.module.module import Module
from nn.module.parameter import Parameter
from nn.module.states import IncompatibleKeys
from nn.module.uninitialized import UninitializedBuffer, UninitializedParameter
from scopes import __version__ as __version__
from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of
from tensor.tape.hooks import RemovableHandle

# Load each module at its first use: loading all of them takes longer than loading NumPy.
# Type checkers read a stub, which .ci/write-stubs makes from this table.
_ON_DEMAND = _origins_of(
    {
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
    }
) | {name: f"nn.{name}" for name in ("data", "functional", "init", "optim", "utils")}

__all__ = [
    "IncompatibleKeys",
    "Module",
    "Parameter",
    "RemovableHandle",
    "UninitializedBuffer",
    "UninitializedParameter",
    *_ON_DEMAND,
]

_clear_errors_of(globals(), [name for name in __all__ if name not in _ON_DEMAND])


def _advice(name: str) -> str:
    if not name.startswith("_"):
        for place in ("data", "functional", "optim", "optim.lr_scheduler", "utils", "utils.rnn", "init"):
            if name in _import_module(f"nn.{place}").__all__:
                return f"module 'nn' has no attribute {name!r}: write nn.{place}.{name}"
    return f"module 'nn' has no attribute {name!r}"


__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of, advice=_advice)
