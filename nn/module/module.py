"""The base class of modules."""

from __future__ import annotations

from typing import Any

from nn.module.conversion import Conversion
from nn.module.hooks import Hooks
from nn.module.inference import Inference
from nn.module.states import States
from scopes.lowlevel import advise_calls_of, clear_frames_of, show_members
from tensor import TensorDisposedError
from tensor.lowlevel import TensorCore, call_advice

clear_frames_of("nn")
advise_calls_of("nn", call_advice)


class Module(Inference, States, Conversion, Hooks):
    """Base class of all layers and models.

    A subclass calls ``super().__init__()`` and defines ``forward``. Assigning an ``nn.Parameter`` or a module
    to an attribute registers it and detaches it from its dispose scope: it lives as long as the module.
    Assigning a new value disposes the old one, unless the old one is registered elsewhere.
    ``del module.name`` only removes the attribute. ``dispose()`` or the end of a ``with`` block disposes all
    registered parameters, buffers and modules.

    Examples
    --------
    >>> import nn, tensor
    >>> from scopes import new_dispose_scope
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(tensor.tensor([3.0]))
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> with new_dispose_scope():
    ...     model = Scale()
    ...     model(tensor.ones((1,))).item()
    3.0
    >>> model.factor.is_invalid
    False
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output. Subclasses define it; users call the module."""
        raise NotImplementedError(
            f"{type(self).__name__} has no forward: define `def forward(self, x)` in the class"
        )

    def _named_error(self, error: TensorDisposedError) -> TensorDisposedError | None:
        if self._is_disposed:
            return None  # the error names this module already
        for name, kind, value in self._registered():
            if isinstance(value, TensorCore) and value.is_invalid:
                return TensorDisposedError(f"{kind} {name!r} of {type(self).__name__}: {error}")
        return None

    def extra_repr(self) -> str:
        """Return the text that ``repr`` shows in the parentheses, before the submodules."""
        return ""

    def __repr__(self) -> str:
        out: list[str] = []
        # A stack of modules and lines to write, with their indentation. Recursion could exceed its limit.
        waiting: list[tuple[str, str, Any]] = [("", "", self)]
        while waiting:
            indent, label, item = waiting.pop()
            if isinstance(item, Module) and type(item).__repr__ is Module.__repr__:
                extra = item.extra_repr()
                lines = extra.split("\n") if extra else []
                children = item._labelled_modules()
                name = type(item).__name__
                if children or len(lines) > 1:
                    out.append(f"{indent}{label}{name}(")
                    out += [f"{indent}  {line}" for line in lines]
                    waiting.append((indent, "", ")"))
                    waiting += [(indent + "  ", label, child) for label, child in reversed(children)]
                    continue
                item = f"{name}({extra})"
            # `item` is a line, or a module whose class defines its own `__repr__`.
            text = item if isinstance(item, str) else repr(item)
            out.append(f"{indent}{label}" + f"\n{indent}".join(text.split("\n")))
        return "\n".join(out)

    def _labelled_modules(self) -> list[tuple[str, Any]]:
        """Return the modules that ``repr`` lists, each with its label."""
        return [(f"({name}): ", value) for name, kind, value in self._registered() if kind == "module"]


def _members_of(module: Module) -> list[tuple[str, object]]:
    # Not `_registered`: a module whose constructor has failed may have no attributes.
    attributes = vars(module)
    return [(name, attributes.get(name)) for name in attributes.get("_kinds", ())]


show_members(Module, _members_of)
