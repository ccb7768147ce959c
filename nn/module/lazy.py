"""Modules that infer sizes from their first input."""

from __future__ import annotations

from typing import Any, ClassVar

from nn.module.module import Module
from nn.module.uninitialized import Uninitialized
from scopes._shared.naming import set_module


@set_module("nn")
class LazyModuleMixin(Module):
    """Base class of modules whose parameters get their shapes at the first call.

    Parameters are ``nn.UninitializedParameter``, buffers ``nn.UninitializedBuffer``. The first call passes
    its arguments to ``initialize_parameters``, which materializes all parameters and buffers. Then
    ``cls_to_become``, if it is set, becomes the module's class. A state dict that is loaded before the
    first call also sets the shapes.

    Examples
    --------
    >>> import nn, tensor
    >>> class Scale(nn.LazyModuleMixin):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = nn.UninitializedParameter()
    ...
    ...     def initialize_parameters(self, x):
    ...         self.weight.materialize(x.shape[1:])
    ...         nn.init.ones_(self.weight)
    ...
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> scale = Scale()
    >>> scale.has_uninitialized_params()
    True
    >>> scale(tensor.ones((2, 3))).shape, scale.weight.shape
    ((2, 3), (3,))
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for the arguments of the first call. Subclasses define this."""
        raise NotImplementedError(
            f"{type(self).__name__} has no initialize_parameters: define "
            "`def initialize_parameters(self, x)` in the class, which materializes its parameters for x"
        )

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer of this module has no shape yet. Submodules do not count."""
        return any(isinstance(value, Uninitialized) for _, _, value in self._registered())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "_has_initialized" in self.__dict__:
            return super().__call__(*args, **kwargs)
        self._raise_if_module_is_disposed()
        # Call this even if a state dict has set the shapes, because it also sets other attributes.
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(
                f"after {type(self).__name__}.initialize_parameters, some parameters have no shape: call "
                "materialize(shape) on each in that method"
            )
        if self.cls_to_become is None:
            self.__dict__["_has_initialized"] = True
        else:
            self.__class__ = self.cls_to_become  # type: ignore[assignment]  # self has the attributes of that class
        return self(*args, **kwargs)
