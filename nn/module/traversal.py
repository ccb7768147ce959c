"""Iterate over a module's parameters, buffers and submodules, with their dotted names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from nn.module.parameter import Parameter
from nn.module.registration import Kind, ModuleCore
from tensor import Tensor

if TYPE_CHECKING:
    from nn.module.module import Module


class Traversal(ModuleCore):
    """Methods that iterate over parameters, buffers and submodules."""

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield this module and all submodules with their dotted names, outer ones first.

        Parameters
        ----------
        prefix
            The name of this module.
        remove_duplicate
            Yield a module with several names once, under its first name.

        Examples
        --------
        >>> import nn, tensor
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1']
        """
        seen: set[int] = set()
        stack: list[tuple[str, Any]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if remove_duplicate:
                if id(module) in seen:
                    continue
                seen.add(id(module))
            yield name, module
            inner = [
                (_join(name, key), value) for key, kind, value in module._registered() if kind == "module"
            ]
            stack += reversed(inner)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all submodules, each once, outer ones first."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names, each once."""
        seen: set[int] = set()
        for name, kind, value in self._registered():
            if kind == "module" and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names.

        Parameters
        ----------
        prefix
            The name of this module.
        recurse
            Include submodules.
        remove_duplicate
            Yield a shared parameter once, under its first name.

        Examples
        --------
        >>> import nn, tensor
        >>> [name for name, _ in nn.Sequential(nn.Linear(2, 2), nn.ReLU()).named_parameters()]
        ['0.weight', '0.bias']
        """
        return self._named("parameter", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once, for an optimizer.

        Examples
        --------
        >>> import nn, tensor
        >>> sum(p.numel() for p in nn.Linear(3, 2).parameters())
        8
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their dotted names; arguments as in ``named_parameters``."""
        return self._named("buffer", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named(
        self, wanted: Kind, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        places: Iterator[tuple[str, ModuleCore]] = (
            self.named_modules(prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        )
        for place, module in places:
            for name, kind, value in module._registered():
                if kind != wanted or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield _join(place, name), value

    def get_submodule(self, target: str) -> Module:
        """Return the submodule with the dotted name `target`; the empty name returns this module.

        Examples
        --------
        >>> import nn
        >>> nn.Sequential(nn.ReLU()).get_submodule("0")
        ReLU()
        """
        module: Any = self
        for part in target.split(".") if target else ():
            if module._kinds.get(part) != "module" or module.__dict__[part] is None:
                known = [name for name, kind, _ in module._registered() if kind == "module"]
                raise AttributeError(
                    f"there is no module {target!r}: {type(module).__name__} has no module {part!r}. Its "
                    f"modules are {known}"
                )
            module = module.__dict__[part]
        found: Module = module
        return found

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with the dotted name `target`.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Sequential(nn.Linear(2, 1)).get_parameter("0.weight").shape
        (1, 2)
        """
        found: Parameter = self._get("parameter", target)
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with the dotted name `target`.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Sequential(nn.BatchNorm1d(2)).get_buffer("0.running_mean").tolist()
        [0.0, 0.0]
        """
        found: Tensor = self._get("buffer", target)
        return found

    def _get(self, wanted: Kind, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._kinds.get(name) != wanted or module.__dict__[name] is None:
            known = [key for key, kind, _ in module._registered() if kind == wanted]
            raise AttributeError(
                f"there is no {wanted} {target!r}: {type(module).__name__} has no {wanted} {name!r}. Its "
                f"{wanted}s are {known}"
            )
        return module.__dict__[name]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the submodule with the dotted name `target`, and dispose the old one.

        Parameters
        ----------
        target
            The dotted name. The module that contains the last name must exist.
        strict
            Raise if no submodule has that name.

        Examples
        --------
        >>> import nn
        >>> model = nn.Sequential(nn.Linear(2, 1))
        >>> model.set_submodule("0", nn.ReLU())
        >>> model
        Sequential(
          (0): ReLU()
        )
        """
        if not target:
            raise ValueError("set_submodule: the name of the module to replace must not be empty")
        if not isinstance(module, ModuleCore):
            raise TypeError(f"set_submodule requires an nn.Module, not {type(module).__name__}")
        if strict:
            self.get_submodule(target)
        path, _, name = target.rpartition(".")
        setattr(self.get_submodule(path), name, module)

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call `function` on all submodules in order, then on this module, and return this module.

        Each module is visited once, after its own submodules.

        Examples
        --------
        >>> import nn
        >>> def start_at_zero(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.zeros_(module.weight)
        >>> nn.Sequential(nn.Linear(1, 1)).apply(start_at_zero)[0].weight.item()
        0.0
        """
        seen: set[int] = {id(self)}
        waiting: list[tuple[Any, Iterator[Module]]] = [(self, self.children())]
        while waiting:
            module, inside = waiting[-1]
            for child in inside:
                if id(child) not in seen:
                    seen.add(id(child))
                    waiting.append((child, child.children()))
                    break
            else:
                waiting.pop()
                function(module)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` in this module and all submodules, and return this module."""
        if not isinstance(mode, bool):
            raise TypeError(f"train() requires True or False, not {type(mode).__name__}")
        for module in self._tree():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set ``training`` to False in this module and all submodules, and return this module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters, and return this module.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Linear(2, 2).requires_grad_(False).weight.requires_grad
        False
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
