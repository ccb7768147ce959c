"""Recurrent layers and cells."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import tensor as tn
from nn import functional as F
from nn import init
from nn.functional.checks import array_of, check_probability
from nn.functional.recurrent import Recurrent
from nn.layers.weighted import new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from nn.utils.rnn import PackedSequence
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import Dtype, DtypeLike, is_floating
from tensor._errors import InvalidArgumentError, shown
from tensor.core.tensor import TensorCore

# The type of the input and of the output.
_S = TypeVar("_S", Tensor, PackedSequence)

_NONLINEARITIES = ("tanh", "relu")


def require_nonlinearity(name: str, nonlinearity: str) -> None:
    """Raise ValueError unless `nonlinearity` is ``"tanh"`` or ``"relu"``."""
    if nonlinearity not in _NONLINEARITIES:
        raise ValueError(f"{name}: nonlinearity must be 'tanh' or 'relu', not {shown(nonlinearity)}")


def _init_recurrent(layer: RNNBase | RNNCellBase) -> None:
    """Initialize all parameters uniformly within +-1 / sqrt(hidden_size)."""
    bound = 1 / math.sqrt(layer.hidden_size) if layer.hidden_size else 0.0
    for weight in layer.parameters():
        init.uniform_(weight, -bound, bound)


@set_module("nn")
class RNNBase(Module):
    """Base class of `RNN`, `LSTM` and `GRU`: sizes, parameters and the loop over layers.

    Parameters have PyTorch's names: ``weight_ih_l0`` and so on, with the suffix ``_reverse`` for the backward
    direction. All are initialized uniformly within +-1 / sqrt(hidden_size).
    """

    # The number of gates of a cell.
    _blocks: ClassVar[int] = 1

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        name = type(self).__name__
        for parameter, size in (
            ("input_size", input_size),
            ("hidden_size", hidden_size),
            ("num_layers", num_layers),
        ):
            if type(size) is not int or size < 1:
                raise ValueError(f"{name}: {parameter} must be an integer of at least 1, not {shown(size)}")
        # An argument at a wrong position, such as `dropout` or `nonlinearity`, has another type.
        for parameter, flag in (("bias", bias), ("batch_first", batch_first)):
            if type(flag) is not bool:
                raise TypeError(f"{name}: {parameter} must be True or False, not {shown(flag)}")
        if type(proj_size) is not int or not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{name}: proj_size must be at least 0 and less than hidden_size, {hidden_size}, not "
                f"{shown(proj_size)}; 0 means no projection"
            )
        check_probability(name, "dropout", dropout)
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: dropout={dropout} has no effect with num_layers=1, because it applies between "
                "layers: omit it, or add nn.Dropout after this layer",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout: float = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._names: list[dict[str, str]] = []
        width, rows = proj_size or hidden_size, self._blocks * hidden_size
        for layer in range(num_layers):
            layer_input_size = input_size if layer == 0 else width * (1 + bidirectional)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, layer_input_size),
                    "weight_hh": (rows, width),
                }
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = {parameter: f"{parameter}_l{layer}{suffix}" for parameter in shapes}
                for parameter, shape in shapes.items():
                    self.register_parameter(names[parameter], new_parameter(shape, dtype))
                self._names.append(names)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize all parameters uniformly within +-1 / sqrt(hidden_size)."""
        _init_recurrent(self)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names.values()] for names in self._names]

    def flatten_parameters(self) -> None:
        """Do nothing. PyTorch moves the weights to one block of memory on other devices."""

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for option, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            value = getattr(self, option)
            if value != default:
                parts.append(f"{option}={value}")
        return ", ".join(parts)

    # --- The loop over layers -------------------------------------------------------------------------------

    def _run(self, input: Any, initial: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """Return the output and the last states of all layers, in the layout of the input."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, initial)
        name = type(self).__name__
        x = array_of(name, "input", input)
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            layout = f"({'batch, length' if self.batch_first else 'length, batch'}, {self.input_size})"
            raise ValueError(
                f"{name}: input must have shape {layout} or (length, {self.input_size}) with "
                f"batch_first={self.batch_first}, not {x.shape}"
            )
        self._require_dtype(x.dtype)
        is_batched, swaps_dims = x.ndim == 3, self.batch_first and x.ndim == 3
        if not is_batched:
            input = input.unsqueeze(1)
        elif swaps_dims:
            input = input.transpose(0, 1)
        length, count, _ = input.shape
        if length == 0:
            raise ValueError(f"{name}: sequences must have at least one step, but input has shape {x.shape}")
        states = self._initial(initial, count, is_batched)
        data = input.reshape(length * count, self.input_size)
        data, last_states = self._run_layers(data, (count,) * length, states)
        output = data.reshape(length, count, data.shape[1])
        if swaps_dims:
            output = output.transpose(0, 1)
        if is_batched:
            return output, *last_states
        return output.squeeze(1), *(x.squeeze(1) for x in last_states)

    def _run_packed(self, input: PackedSequence, initial: tuple[Any, ...] | None) -> tuple[Any, ...]:
        input._raise_if_disposed()
        name, data = type(self).__name__, input.data
        if len(data.shape) != 2 or data.shape[1] != self.input_size:
            raise ValueError(
                f"{name}: packed sequences must have shape (length, {self.input_size}), but the data has "
                f"shape {data.shape}"
            )
        self._require_dtype(data.dtype)
        sizes = tuple(input.batch_sizes.tolist())
        states = self._initial(initial, sizes[0], True)
        if input.sorted_indices is not None and states is not None:
            states = tuple(x[:, input.sorted_indices] for x in states)
        data, last_states = self._run_layers(data, sizes, states)
        if input.unsorted_indices is not None:
            last_states = tuple(x[:, input.unsorted_indices] for x in last_states)
        return PackedSequence(data, *list(input)[1:]), *last_states  # type: ignore[arg-type]  # sizes and indices

    def _require_dtype(self, dtype: Dtype) -> None:
        if not is_floating(dtype):
            raise TypeError(
                f"{type(self).__name__}: input must be floating, not {dtype}: convert it with input.float()"
            )
        weights = next(self.parameters()).dtype
        if dtype != weights:
            raise InvalidArgumentError(
                f"{type(self).__name__}: input and weights must have the same dtype, not {dtype} and "
                f"{weights}: write input.to(tensor.{weights}) or model.to(tensor.{dtype})"
            )

    def _initial(
        self, initial: tuple[Any, ...] | None, count: int, is_batched: bool
    ) -> tuple[Any, ...] | None:
        """Return the initial states, with a batch dimension."""
        if initial is None:
            return None
        name = type(self).__name__
        widths = (self.proj_size or self.hidden_size, self.hidden_size)
        for what, x, width in zip(("h_0", "c_0"), initial, widths, strict=False):
            sizes = (len(self._names), count, width) if is_batched else (len(self._names), width)
            found = array_of(name, what, x).shape
            if found != sizes:
                raise ValueError(f"{name}: {what} must have shape {sizes}, not {found}")
        return initial if is_batched else tuple(x.unsqueeze(1) for x in initial)

    def _run_layers(
        self, data: Any, sizes: tuple[int, ...], states: tuple[Any, ...] | None
    ) -> tuple[Any, tuple[Any, ...]]:
        directions = 1 + self.bidirectional
        last_states: list[Any] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                data = F.dropout(data, self.dropout, self.training)
            outs = []
            for direction in range(directions):
                index = layer * directions + direction
                h, c = (*(x[index] for x in states), None)[:2] if states is not None else (None, None)
                out, *last = self._run_one(index, sizes, direction == 1, data, h, c)
                outs.append(out)
                last_states.append(last)
            data = outs[0] if directions == 1 else tn.concat(outs, axis=1)
        return data, tuple(tn.stack(each) for each in zip(*last_states, strict=True))

    def _run_one(
        self, index: int, sizes: tuple[int, ...], is_reversed: bool, data: Any, h: Any, c: Any
    ) -> Any:
        names = self._names[index]
        kinds = ("weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh")
        weights = [getattr(self, names[kind]) if kind in names else None for kind in kinds]
        return Recurrent.apply(self.mode, sizes, is_reversed, data, h, c, *weights)


class _SingleStateRNN(RNNBase):
    """Base class of `RNN` and `GRU`, which have one state for each layer. An LSTM has two."""

    if TYPE_CHECKING:  # mypy can't derive this signature from a generic forward

        def __call__(  # type: ignore[override]
            self, input: _S, hx: Tensor | None = None
        ) -> tuple[_S, Tensor]: ...

    def forward(self, input: _S, hx: Tensor | None = None) -> tuple[_S, Tensor]:
        """Return the output at all steps and the last states."""
        output, last = self._run(input, None if hx is None else (hx,))
        return output, last


@set_module("nn")
class RNN(_SingleStateRNN):
    """Elman network: ``h = tanh(x @ W_ih.T + b_ih + h_before @ W_hh.T + b_hh)`` (Elman, 1990).

    Input ``(length, batch, input_size)``, ``(batch, length, input_size)`` with `batch_first`, ``(length,
    input_size)``, or a `PackedSequence`. The layer returns two results. The first is the output of the last
    layer at all steps, in the same form, with ``hidden_size`` features for each direction. The second is the
    last state of each layer and direction, ``(num_layers * directions, batch, hidden_size)``. The initial
    states ``h_0`` have that shape too; the default is zeros.

    Parameters
    ----------
    input_size, hidden_size
        The numbers of features of input and state.
    num_layers
        The number of stacked layers.
    nonlinearity
        ``"tanh"`` or ``"relu"``.
    bias
        Whether to add biases.
    batch_first
        Whether the batch is the first dimension of input and output. It does not apply to states.
    dropout
        The probability of dropout between layers.
    bidirectional
        Whether each layer also processes the sequence backward, and concatenates both outputs.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> output, last = nn.RNN(3, 5)(tensor.ones((7, 2, 3)))
    >>> output.shape, last.shape
    ((7, 2, 5), (1, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        require_nonlinearity("RNN", nonlinearity)
        super().__init__(
            *(nonlinearity, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional),
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity


@set_module("nn")
class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates, Gers et al., 2000).

    Input and output are as in `RNN`. It returns ``output, (h_n, c_n)``, and takes initial states ``(h_0,
    c_0)``. With `proj_size`, a projection reduces the states ``h`` to that many features (Sak et al., 2014).
    The gates are in PyTorch's order: input, forget, cell, output. Each layer and direction is one op: one
    matrix product for the inputs of all steps, and for each step one product with the state and one pass over
    the gates. The graph owns the memory saved for backward.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype
        As in `RNN`.
    proj_size
        The number of output features; 0 for no projection.

    Examples
    --------
    >>> import nn, tensor
    >>> from nn.utils.rnn import pack_sequence
    >>> lstm = nn.LSTM(3, 5, bidirectional=True)
    >>> packed = pack_sequence([tensor.ones((4, 3)), tensor.ones((2, 3))])
    >>> output, (h, c) = lstm(packed)
    >>> output.data.shape, h.shape, c.shape
    ((6, 10), (2, 2, 5), (2, 2, 5))
    """

    _blocks = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            *("lstm", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional),
            proj_size,
            device=device,
            dtype=dtype,
        )

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]
            self, input: _S, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[_S, tuple[Tensor, Tensor]]: ...

    def forward(self, input: _S, hx: tuple[Tensor, Tensor] | None = None) -> tuple[_S, tuple[Tensor, Tensor]]:
        """Return the output at all steps, and the last states ``(h_n, c_n)``."""
        output, h, c = self._run(input, None if hx is None else _state_pair(hx, "LSTM"))
        return output, (h, c)


@set_module("nn")
class GRU(_SingleStateRNN):
    """Gated recurrent unit (Cho et al., 2014). The reset gate applies after the product, as in PyTorch.

    Input, output and states are as in `RNN`. The gates are in the order reset, update, new.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype
        As in `RNN`.

    Examples
    --------
    >>> import nn, tensor
    >>> output, last = nn.GRU(3, 5, num_layers=2, batch_first=True)(tensor.ones((2, 7, 3)))
    >>> output.shape, last.shape
    ((2, 7, 5), (2, 2, 5))
    """

    _blocks = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(
            *("gru", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional),
            device=device,
            dtype=dtype,
        )


def _state_pair(hx: Any, name: str) -> tuple[Any, Any]:
    if isinstance(hx, TensorCore) or not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise TypeError(f"{name}: the initial states must be a pair (h_0, c_0), not {type(hx).__name__}")
    return hx[0], hx[1]


@set_module("nn")
class RNNCellBase(Module):
    """Base class of the cells: parameters and one step."""

    _blocks: ClassVar[int] = 1

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__()
        require_cpu(device)
        name = type(self).__name__
        require_size(name, "input_size", input_size)
        require_size(name, "hidden_size", hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = self._blocks * hidden_size
        self.weight_ih: Parameter = new_parameter((rows, input_size), dtype)
        self.weight_hh: Parameter = new_parameter((rows, hidden_size), dtype)
        for what in ("bias_ih", "bias_hh"):
            self.register_parameter(what, new_parameter((rows,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize all parameters uniformly within +-1 / sqrt(hidden_size)."""
        _init_recurrent(self)

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not defaults."""
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}"

    def _step(self, cell: str, input: Any, states: tuple[Any, ...] | None) -> tuple[Any, ...]:
        name = type(self).__name__
        x = array_of(name, "input", input)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ValueError(
                f"{name}: input must have shape (batch, {self.input_size}) or ({self.input_size},), not "
                f"{x.shape}"
            )
        sizes = (*x.shape[:-1], self.hidden_size)
        for what, state in zip(("h", "c"), states or (), strict=False):
            found = array_of(name, what, state).shape
            if found != sizes:
                raise ValueError(f"{name}: {what} must have shape {sizes}, not {found}")
        h, c = (*(states or (None, None)), None)[:2]
        if x.ndim == 1:
            input, h, c = (None if x is None else x.unsqueeze(0) for x in (input, h, c))
        weights = (self.weight_ih, self.weight_hh, None, self.bias_ih, self.bias_hh)
        _, *last_states = Recurrent.apply(cell, (input.shape[0],), False, input, h, c, *weights)
        return tuple(x.squeeze(0) for x in last_states) if x.ndim == 1 else tuple(last_states)


@set_module("nn")
class RNNCell(RNNCellBase):
    """One step of an Elman network; see `RNN`.

    Input ``(batch, input_size)`` or ``(input_size,)``; state and result ``(batch, hidden_size)`` or
    ``(hidden_size,)``.

    Parameters
    ----------
    input_size, hidden_size, bias, nonlinearity, dtype
        As in `RNN`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.RNNCell(3, 5)(tensor.ones((2, 3))).shape
    (2, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        require_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return self._step(self.nonlinearity, input, None if hx is None else (hx,))[0]  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not defaults."""
        option = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + option


@set_module("nn")
class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: returns the next ``(h, c)``.

    Parameters
    ----------
    input_size, hidden_size, bias, dtype
        As in `RNN`.

    Examples
    --------
    >>> import nn, tensor
    >>> h, c = nn.LSTMCell(3, 5)(tensor.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    _blocks = 4

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next state ``(h, c)``."""
        h, c = self._step("lstm", input, None if hx is None else _state_pair(hx, "LSTMCell"))
        return h, c


@set_module("nn")
class GRUCell(RNNCellBase):
    """One step of a `GRU`.

    Parameters
    ----------
    input_size, hidden_size, bias, dtype
        As in `RNN`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.GRUCell(3, 5)(tensor.ones((3,))).shape
    (5,)
    """

    _blocks = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return self._step("gru", input, None if hx is None else (hx,))[0]  # type: ignore[no-any-return]
