"""Attributes of one module that are computed whenever they are read, instead of a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from nn.module.module import Module
    from tensor import Tensor

M = TypeVar("M", bound="Module")


class Computation(Protocol):
    """What an attribute is computed from; it holds no module, so that copies of modules can share it.

    With a method ``assign(module, value)`` the attribute can be assigned to.
    """

    name: str

    def compute(self, module: Module) -> Tensor:
        """Return the value that the attribute has now."""
        ...


def computations_of(module: Module) -> tuple[Computation, ...]:
    """Return those of the attributes of `module`."""
    found: tuple[Computation, ...] = getattr(type(module), "_computations", ())
    return found


def set_computations(module: Module, computations: tuple[Computation, ...]) -> None:
    """Let `module`, alone of its class, compute the attributes that `computations` name."""
    base: type[Module] = getattr(type(module), "_computed_base", type(module))
    module.__class__ = _derived(base, computations) if computations else base


def _derived(base: type[M], computations: tuple[Computation, ...]) -> type[M]:
    """Return a class of the same name, with properties."""

    def reduced(module: Any, protocol: Any) -> tuple[Any, ...]:  # noqa: ARG001  # the protocol of copies
        return _rebuilt, (base, computations), dict(vars(module))

    def assigned(module: Any, name: str, value: object) -> None:
        computation = by_name.get(name)
        if computation is not None:
            assign = getattr(computation, "assign", None)
            if assign is not None:
                assign(module, value)
                return
            raise AttributeError(
                f"{name!r} of this {base.__name__} is computed by {computation!r}: assign what it is made "
                "of, or remove that first"
            )
        base.__setattr__(module, name, value)

    by_name = {computation.name: computation for computation in computations}
    body: dict[str, Any] = {name: property(computation.compute) for name, computation in by_name.items()}
    body |= {"_computations": computations, "_computed_base": base}
    body |= {"__reduce_ex__": reduced, "__setattr__": assigned}
    return type(base.__name__, (base,), {**body, "__module__": base.__module__, "__doc__": base.__doc__})


def _rebuilt(base: type[M], computations: tuple[Computation, ...]) -> M:
    kind = _derived(base, computations)
    return kind.__new__(kind)
