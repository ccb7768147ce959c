"""Containers of parameters: lists and dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, overload

from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor.core.tensor import TensorCore


def _as_parameter(x: object) -> Parameter:
    if isinstance(x, Parameter):
        return x
    if isinstance(x, TensorCore):
        return Parameter(x)  # type: ignore[arg-type]  # every instance is a Tensor
    raise TypeError(f"values must be tensors, not {type(x).__name__}: write tensor.tensor(data)")


class _ParameterContainer(Module):
    def _names(self) -> list[str]:
        return [name for name, kind, _ in self._registered() if kind == "parameter"]

    def _parameters(self) -> list[Parameter]:
        return [value for _, kind, value in self._registered() if kind == "parameter"]

    def __len__(self) -> int:
        return len(self._names())

    def extra_repr(self) -> str:
        """Return the dtype and shape of each parameter."""
        lines = []
        for name, x in zip(self._names(), self._parameters(), strict=True):
            what = ", disposed" if x.is_invalid else f" of {x.dtype}{list(x.shape)}"
            lines.append(f"({name}): {type(x).__name__}{what}")
        return "\n".join(lines)


@set_module("nn")
class ParameterList(_ParameterContainer):
    """List of parameters. Other tensors are converted to parameters.

    Examples
    --------
    >>> import nn, tensor
    >>> weights = nn.ParameterList([tensor.ones((2,)), tensor.zeros((3,))])
    >>> [name for name, _ in weights.named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        if values is not None:
            self.extend(values)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters())

    @overload
    def __getitem__(self, index: SupportsIndex) -> Parameter: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Parameter | Self:
        """Return one parameter, or a list that shares those of a slice."""
        if isinstance(index, slice):
            return type(self)(self._parameters()[index])
        found: Parameter = self.__dict__[self._name_at(index)]
        return found

    def __setitem__(self, index: SupportsIndex, value: Tensor) -> None:
        """Replace the parameter at `index`. The old one is disposed unless another module holds it."""
        self.register_parameter(self._name_at(index), _as_parameter(value))

    def _name_at(self, index: SupportsIndex) -> str:
        names = self._names()
        try:
            index = operator.index(index)
        except TypeError:
            kind = type(index).__name__
            raise TypeError(f"indices of a ParameterList must be integers or slices, not {kind}") from None
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range for a ParameterList of length {len(names)}")
        return names[index]

    def append(self, value: Tensor) -> Self:
        """Append a parameter, and return this list.

        Examples
        --------
        >>> import nn, tensor
        >>> len(nn.ParameterList().append(tensor.ones((2,))))
        1
        """
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Append all `values`, and return this list."""
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Tensor]) -> Self:
        return self.extend(values)


@set_module("nn")
class ParameterDict(_ParameterContainer):
    """Dict of parameters by name. Other tensors are converted to parameters.

    Examples
    --------
    >>> import nn, tensor
    >>> gains = nn.ParameterDict({"left": tensor.ones((2,))})
    >>> gains["left"].requires_grad
    True
    """

    def __init__(self, values: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] | None = None) -> None:
        super().__init__()
        if values is not None:
            self.update(values)

    def __getitem__(self, name: str) -> Parameter:
        if name not in self:
            raise KeyError(name)
        found: Parameter = self.__dict__[name]
        return found

    def __setitem__(self, name: str, value: Tensor) -> None:
        """Register a parameter. An old one of that name is disposed unless another module holds it."""
        self.register_parameter(name, _as_parameter(value))

    def __delitem__(self, name: str) -> None:
        """Remove a parameter without disposing it."""
        if name not in self:
            raise KeyError(name)
        delattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def keys(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._names())

    def values(self) -> Iterator[Parameter]:
        """Yield the parameters."""
        return iter(self._parameters())

    def items(self) -> Iterator[tuple[str, Parameter]]:
        """Yield pairs of name and parameter."""
        return zip(self._names(), self._parameters(), strict=True)

    def update(self, values: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]) -> None:
        """Register each of `values` under its name: those of a plain dict in sorted order, as in PyTorch."""
        pairs: Any = values.items() if hasattr(values, "items") else values
        # Optimizers number parameters in this order, and files of PyTorch have these numbers.
        if isinstance(values, Mapping) and not isinstance(values, OrderedDict):
            pairs = sorted(pairs)
        for name, value in list(pairs):
            self[name] = value

    def pop(self, name: str) -> Parameter:
        """Remove a parameter without disposing it, and return it.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.ParameterDict({"gain": tensor.ones((2,))}).pop("gain").shape
        (2,)
        """
        parameter = self[name]
        del self[name]
        return parameter
