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
from nn.layers.containers import ModuleDict, ModuleList, Sequential
from nn.layers.convolutions import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
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
from nn.layers.normalizations import BatchNorm1d, LayerNorm, RMSNorm
from nn.layers.parameter_containers import ParameterDict, ParameterList
from nn.layers.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
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
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "HuberLoss",
    "Identity",
    "IncompatibleKeys",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ParameterDict",
    "ParameterList",
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
    "Softmax",
    "Softplus",
    "Tanh",
    "Unflatten",
    "data",
    "functional",
    "init",
    "optim",
    "utils",
]

_clear_errors_of(globals(), __all__)
