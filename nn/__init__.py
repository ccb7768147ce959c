"""Neural networks: parameters, modules, losses, optimizers, data. Names and defaults are PyTorch's."""

from nn import data, functional, init, optim, utils
from nn.layers.activations import (
    ELU,
    GELU,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from nn.layers.attention import MultiheadAttention
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
from nn.layers.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from nn.layers.maps import Dropout, Embedding, Flatten, Identity, Linear, Unflatten
from nn.layers.margins import (
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
from nn.layers.normalizations import BatchNorm1d, LayerNorm, RMSNorm
from nn.layers.parameter_containers import ParameterDict, ParameterList
from nn.layers.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from nn.layers.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from nn.module.module import Module
from nn.module.parameter import Parameter
from nn.module.states import IncompatibleKeys
from scopes.lowlevel import clear_errors_of as _clear_errors_of
from tensor.lowlevel import RemovableHandle

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "CTCLoss",
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
    "Embedding",
    "Flatten",
    "GRUCell",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "IncompatibleKeys",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "ReLU",
    "RemovableHandle",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softplus",
    "Tanh",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "data",
    "functional",
    "init",
    "optim",
    "utils",
]

_clear_errors_of(globals(), __all__)
