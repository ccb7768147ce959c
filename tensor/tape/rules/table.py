"""The table of derivatives, with one entry for each op.

Entries use functions of the array API standard in ``xp``: NumPy while gradients are plain arrays, and
functions of tensors while backward is itself recorded (``create_graph``): then ``xp.is_recorded`` is True.
`g` is the gradient of the output. The other parameters of a function name the values that it needs (see
`tensor.tape.recording.Rule`). A gradient may have the broadcast shape of the output: the engine sums it to
the input's shape, and casts it to the input's dtype. For complex tensors a gradient is the conjugate
Wirtinger derivative, as in PyTorch: the direction of steepest ascent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensor.tape.recording import Rule

_MISSING = (
    "the op {name!r} has no entry in the table of derivatives. In the file of its kind in tensor/tape/rules "
    "write define({name!r}, x=derivative), with a function derivative(xp, g, x) for each input x, and None "
    "for an input without a derivative"
)


class _Rules(dict[str, Rule]):
    """The table. Access to a missing op raises an error that says what to write."""

    def __missing__(self, name: str) -> Rule:
        raise NotImplementedError(_MISSING.format(name=name))


RULES: dict[str, Rule] = _Rules()


def define(
    name: str,
    /,
    *,
    derived: Mapping[str, Mapping[str, Callable[..., Any]]] | None = None,
    together: Callable[..., Any] | None = None,
    **functions: Callable[..., Any] | None,
) -> Rule:
    """Define the derivatives of the op `name`, in the order of its inputs; None for an input without one.

    `derived` has the derivatives of parameters that the forward pass computes from the inputs. Without them,
    higher derivatives treat such a parameter as a constant. `together` computes the gradients of all inputs
    in one call (see `tensor.tape.recording.Rule`).
    """
    rules: dict[str, Rule] = {}
    for parameter, own in (derived or {}).items():
        rules[parameter] = Rule(f"{parameter}_of_{name}", {i: own.get(i) for i in functions}, rules)
    rule = RULES[name] = Rule(name, functions, rules, together)
    return rule


def conj(xp: Any, x: Any) -> Any:
    """Return the conjugate of an array or a scalar, or `x` itself if it is real."""
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        return x.conjugate()
    return xp.conj(x) if dtype.kind == "c" else x
