"""In-place methods that are derived from methods which return a new tensor or a view.

Most write the result to the tensor, whose shape and dtype it must fit. Those of methods that return a view
change the shape of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.writing import become
from tensor.tape.modes import enable_grad
from tensor.tape.nodes import Leaf
from tensor.tape.tensor_hooks import keep_retaining

if TYPE_CHECKING:
    from tensor._tensor import Tensor

Class = TypeVar("Class", bound=type[TensorCore])


def with_in_place(names: str = "", *, views: str = "") -> Callable[[Class], Class]:
    """Return a decorator that adds in-place forms to a class: ``sinc_`` for its method ``sinc``.

    Parameters
    ----------
    names
        The names of the methods. Two names of one method share one form.
    views
        The names of methods that return views.
    """

    def add(owner: Class) -> Class:
        for make, listed in ((_in_place, names), (_view_in_place, views)):
            forms: dict[Any, Any] = {}
            for name in listed.split():
                method = getattr(owner, name)
                if method not in forms:
                    forms[method] = make(owner, name)
                setattr(owner, f"{name}_", forms[method])
        return owner

    return add


def _in_place(owner: type[TensorCore], name: str) -> Callable[..., Tensor]:
    """Return the in-place form of the method `name` of `owner`."""
    method: Callable[..., Tensor] = getattr(owner, name)

    @wraps(method)
    def write(x: TensorCore, /, *args: Any, **kwargs: Any) -> TensorCore:
        become(name, as_tensor(x), method(x, *args, **kwargs))
        return x

    write.__name__ = write.__qualname__ = f"{name}_"
    write.__doc__ = f"Write the result of ``{name}`` to the tensor, which keeps its shape and dtype."
    return composite(write)  # type: ignore[return-value]  # every instance is a Tensor


def _view_in_place(owner: type[TensorCore], name: str) -> Callable[..., Tensor]:
    """Return the in-place form of the method `name` of `owner`, which returns a view."""
    method: Callable[..., Tensor] = getattr(owner, name)

    @wraps(method)
    def change(x: TensorCore, /, *args: Any, **kwargs: Any) -> TensorCore:
        if isinstance(x._node, Leaf):
            raise RuntimeError(
                f"{name}_: a leaf that requires grad keeps its shape, which its gradient has too. Write "
                f"x = x.{name}(...) instead"
            )
        with enable_grad():  # the history has the new shape under no_grad() too
            view = method(x, *args, **kwargs)
        if view is x:
            return x
        if view._node is not None:
            keep_retaining(x, view._node)
        x._set_layout_of(view)
        view.dispose()
        return x

    change.__name__ = change.__qualname__ = f"{name}_"
    change.__doc__ = f"""Give the tensor the shape of the result of ``{name}``, without moving elements.

    Views of the tensor keep their shape, and share its memory as before.

    Raises
    ------
    RuntimeError
        If the tensor is a leaf that requires grad.
    """
    return change  # type: ignore[return-value]  # every instance is a Tensor
