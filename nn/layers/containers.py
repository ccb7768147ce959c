"""Containers of modules: sequences, lists and dicts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, cast, overload

from nn.layers.fused import children_of, run_in_order
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._errors import shown
from tensor.autograd import checkpoint


class OtherModule(Module):
    """Wrapper of another library's module without parameters, such as a layer of einops."""

    def __init__(self, other: Any) -> None:
        super().__init__()
        self.other: Any = other

    def forward(self, *inputs: Any) -> Any:
        """Return the output of the wrapped module."""
        return self.other(*inputs)

    def __repr__(self) -> str:
        return repr(self.other)


def as_module(x: Any) -> Any:
    """Return `x` as a module; wrap a module of another library without parameters."""
    if isinstance(x, (Module, type)) or not callable(x) or not callable(getattr(x, "parameters", None)):
        return x
    return OtherModule(x) if next(iter(x.parameters()), None) is None else x


class ModuleSequence(Module):
    """Base class of `Sequential` and `ModuleList`: modules with the names "0", "1", ..."""

    def _names(self) -> list[str]:
        return [name for name, kind, _ in self._registered() if kind == "module"]

    def __len__(self) -> int:
        return len(children_of(self))

    def __iter__(self) -> Iterator[Module]:
        return iter(children_of(self))

    def __contains__(self, module: object) -> bool:
        return any(held is module for held in children_of(self))

    def _name_at(self, index: SupportsIndex) -> str:
        names = self._names()
        index = self._as_int(index)
        if not -len(names) <= index < len(names):
            raise IndexError(
                f"index {index} is out of range for a {type(self).__name__} of length {len(names)}"
            )
        return names[index]

    def _as_int(self, index: SupportsIndex) -> int:
        """Return an integer of Python, NumPy or a tensor as an int."""
        try:
            return operator.index(index)
        except TypeError:
            kind = type(index).__name__
        raise TypeError(f"indices of a {type(self).__name__} must be integers or slices, not {kind}")

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return self._of(children_of(self)[index])
        return self.__dict__[self._name_at(index)]

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        """Replace the module at `index`. The old one is disposed unless another module holds it."""
        self.register_module(self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        """Remove modules without disposing them, and number the remaining modules again."""
        members = children_of(self)
        del members[index]
        self._become(members)

    def _become(self, members: list[Module]) -> None:
        for name in self._names():
            delattr(self, name)
        for i, module in enumerate(members):
            self.register_module(str(i), module)

    def _of(self, members: list[Module]) -> Self:
        raise NotImplementedError

    def append(self, module: Module) -> Self:
        """Append `module`, and return this container.

        Examples
        --------
        >>> import nn, tensor
        >>> len(nn.Sequential(nn.ReLU()).append(nn.Tanh()))
        2
        """
        self.register_module(str(len(self)), as_module(module))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append all `modules`, and return this container.

        Examples
        --------
        >>> import nn, tensor
        >>> len(nn.ModuleList().extend([nn.ReLU(), nn.Tanh()]))
        2
        """
        for module in list(modules):
            self.append(module)
        return self

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, modules: Iterable[Module]) -> Self:
        return self._of(children_of(self)).extend(modules)

    def insert(self, index: int, module: Module) -> Self:
        """Insert `module` before `index`, and return this container.

        Examples
        --------
        >>> import nn
        >>> nn.Sequential(nn.ReLU()).insert(0, nn.Tanh())[0]
        Tanh()
        """
        if not isinstance(module, Module):
            raise TypeError(f"insert() requires an nn.Module, not {type(module).__name__}")
        members = children_of(self)
        members.insert(index, module)
        self._become(members)
        return self

    def pop(self, index: int = -1) -> Any:
        """Remove a module without disposing it, and return it.

        Examples
        --------
        >>> import nn
        >>> nn.Sequential(nn.ReLU(), nn.Tanh()).pop()
        Tanh()
        """
        module = self[index]
        del self[index]
        return module


@set_module("nn")
class Sequential(ModuleSequence):
    """Sequential container: the output of each module is the input of the next.

    A `Linear` followed by a `ReLU`, `GELU`, `SiLU`, `Tanh` or `Sigmoid` runs as one fused op. It stores no
    intermediate tensor, unless backward of `GELU` or `SiLU` needs it. Modules with hooks, subclasses and
    modules with another ``forward`` are called one by one.

    Parameters
    ----------
    *modules
        Modules, or a single dict of modules by name.
    checkpoint_every
        Checkpoint each part of this many modules with ``autograd.checkpoint``: keep only the input of a part,
        and recompute the rest in backward.

    Examples
    --------
    >>> import nn, tensor
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model(tensor.ones((3, 4))).shape
    (3, 2)
    >>> model
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    """

    def __init__(self, *modules: Module | dict[str, Module], checkpoint_every: int | None = None) -> None:
        super().__init__()
        if checkpoint_every is not None:
            _require_count(checkpoint_every)
        self.checkpoint_every = checkpoint_every
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.register_module(name, as_module(module))
        else:
            for i, each in enumerate(map(as_module, modules)):
                if not isinstance(each, Module):
                    raise TypeError(
                        f"arguments of Sequential must be modules, but argument {i} is "
                        f"{_instead_of_module(each)}"
                    )
                self.register_module(str(i), each)

    def _of(self, members: list[Module]) -> Self:
        made = type(self)(*members)
        made.checkpoint_every = self.checkpoint_every
        return made

    def insert(self, index: int, module: Module) -> Self:
        """Insert `module` before `index`, and return this container. Unlike a list, check `index`."""
        if not -len(self) <= index <= len(self):
            raise IndexError(f"index {index} is out of range for a Sequential of length {len(self)}")
        return super().insert(index, module)

    def __mul__(self, times: int) -> Self:
        """Return a container of the same modules, `times` times: they share their parameters."""
        return self._of(children_of(self) * _checked_times(times))

    def __rmul__(self, times: int) -> Self:
        return self * times

    def __imul__(self, times: int) -> Self:
        return self.extend(children_of(self) * (_checked_times(times) - 1))

    # Annotated with a tensor, which the last module usually returns.
    def forward(self, input: Any) -> Tensor:
        """Pass `input` through all modules."""
        every = self.__dict__["checkpoint_every"]
        if every is None:
            return cast("Tensor", run_in_order(children_of(self), input))
        _require_count(every)  # the attribute may have been changed
        members = children_of(self)
        for i in range(0, len(members), every):
            input = checkpoint(run_in_order, members[i : i + every], input)
        return cast("Tensor", input)


def _instead_of_module(given: object) -> str:
    if isinstance(given, type) and issubclass(given, Module):
        return f"a class: create a module, with {given.__name__}(...)"
    if callable(given):
        return (
            f"the function {getattr(given, '__name__', '')}: use a module, such as nn.ReLU() instead of "
            "nn.functional.relu, or write a module whose forward calls the function"
        )
    kind = "None" if given is None else f"of type {type(given).__name__}"
    return f"{kind}: write nn.Sequential(a, b), or nn.Sequential(*list_of_modules)"


def _checked_times(times: int) -> int:
    if type(times) is not int:
        raise TypeError(f"a Sequential can be multiplied by an integer, not {shown(times)}")
    if times < 1:
        raise ValueError(f"a Sequential can be multiplied by a number of at least 1, not {times}")
    return times


def _require_count(every: int) -> None:
    if type(every) is not int or every < 1:
        raise ValueError(
            "Sequential: checkpoint_every must be None or a number of modules, at least 1, not "
            f"{shown(every)}"
        )


@set_module("nn")
class ModuleList(ModuleSequence):
    """List of modules. It has no ``forward``.

    Examples
    --------
    >>> import nn, tensor
    >>> layers = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])
    >>> x = tensor.ones((1, 2))
    >>> for layer in layers:
    ...     x = layer(x)
    >>> x.shape
    (1, 2)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _of(self, members: list[Module]) -> Self:
        return type(self)(members)

    def _labelled_modules(self) -> list[tuple[str, Any]]:
        """Return the labels, with one label for successive modules with equal ``repr``, as in PyTorch."""
        labelled = super()._labelled_modules()
        if len(labelled) < 2:
            return labelled
        found: list[tuple[str, Any]] = []
        texts = [repr(module) for _, module in labelled]
        start = 0
        for end in range(1, len(texts) + 1):
            if end == len(texts) or texts[end] != texts[start]:
                count = end - start
                label = f"({start}-{end - 1}): {count} x " if count > 1 else labelled[start][0]
                found.append((label, labelled[start][1]))
                start = end
        return found


@set_module("nn")
class ModuleDict(Module):
    """Dict of modules by name. It has no ``forward``.

    Examples
    --------
    >>> import nn
    >>> heads = nn.ModuleDict({"digit": nn.Linear(8, 10), "parity": nn.Linear(8, 2)})
    >>> heads["parity"]
    Linear(in_features=8, out_features=2, bias=True)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self.__dict__[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.register_module(name, module)

    def __delitem__(self, name: str) -> None:
        """Remove a module without disposing it."""
        if name not in self:
            raise KeyError(name)
        delattr(self, name)

    def __len__(self) -> int:
        return len(list(self.keys()))

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __contains__(self, name: object) -> bool:
        return any(name == held for held in self.keys())

    def keys(self) -> Iterator[str]:
        """Yield the names.

        Examples
        --------
        >>> import nn, tensor
        >>> list(nn.ModuleDict({"a": nn.ReLU()}).keys())
        ['a']
        """
        return iter([name for name, kind, _ in self._registered() if kind == "module"])

    def values(self) -> Iterator[Module]:
        """Yield the modules."""
        return iter([value for _, kind, value in self._registered() if kind == "module"])

    def items(self) -> Iterator[tuple[str, Module]]:
        """Yield pairs of name and module."""
        return zip(self.keys(), self.values(), strict=True)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Register each of `modules` under its name."""
        pairs = modules.items() if hasattr(modules, "items") else modules
        for name, module in list(pairs):
            self[name] = module

    def pop(self, name: str) -> Any:
        """Remove a module without disposing it, and return it.

        Examples
        --------
        >>> import nn
        >>> nn.ModuleDict({"a": nn.ReLU()}).pop("a")
        ReLU()
        """
        module = self[name]
        del self[name]
        return module

    def clear(self) -> None:
        """Remove all modules without disposing them."""
        for name in list(self.keys()):
            del self[name]
