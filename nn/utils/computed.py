"""Compute attributes of a module at each read, instead of storing a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tensor import Tensor

if TYPE_CHECKING:
    from nn.module.module import Module

M = TypeVar("M", bound="Module")


class Computation(Protocol):
    """Interface of a computed attribute. It holds no module, so copies of a module can share it.

    The method ``assign(module, value)`` is optional and allows assignments.
    """

    name: str

    def compute(self, module: Module) -> Tensor:
        """Return the current value of the attribute."""
        ...


def computations_of(module: Module) -> tuple[Computation, ...]:
    """Return the computed attributes of `module`."""
    found: tuple[Computation, ...] = getattr(type(module), "_computations", ())
    return found


def set_computations(module: Module, computations: tuple[Computation, ...]) -> None:
    """Make this module, and no other instance of its class, compute the attributes in `computations`."""
    base: type[Module] = getattr(type(module), "_computed_base", type(module))
    module.__class__ = _derived(base, computations) if computations else base


def _derived(base: type[M], computations: tuple[Computation, ...]) -> type[M]:
    """Return a subclass with the same name and a property for each computation."""

    def reduced(module: Any, protocol: Any) -> tuple[Any, ...]:  # noqa: ARG001  # copy and pickle pass the protocol
        return _rebuilt, (base, computations), dict(vars(module))

    def assigned(module: Any, name: str, value: object) -> None:
        computation = by_name.get(name)
        if computation is not None:
            assign = getattr(computation, "assign", None)
            if assign is not None:
                assign(module, value)
                return
            raise AttributeError(
                f"{name!r} of this {base.__name__} is computed by {computation!r}: assign the parameters "
                "that it is computed from, or remove the computation first"
            )
        base.__setattr__(module, name, value)

    by_name = {computation.name: computation for computation in computations}
    body: dict[str, Any] = {name: property(computation.compute) for name, computation in by_name.items()}
    body |= {"_computations": computations, "_computed_base": base}
    body |= {"__reduce_ex__": reduced, "__setattr__": assigned}
    return type(base.__name__, (base,), {**body, "__module__": base.__module__})


def _rebuilt(base: type[M], computations: tuple[Computation, ...]) -> M:
    kind = _derived(base, computations)
    return kind.__new__(kind)
