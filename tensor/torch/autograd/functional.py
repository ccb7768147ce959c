"""``torch.autograd.functional``: Jacobians, Hessians and products with them.

All functions call `func` with new tensors of the values of `inputs`, and compute backward. Without
`create_graph`, the results have no gradient history. Where an output does not depend on an input, its
derivative is 0; with `strict`, that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensor as tn
from tensor import InvalidArgumentError, Tensor, enable_grad
from tensor.autograd import grad
from tensor.core.tensor import TensorCore

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_Tensors = Tensor | tuple[Tensor, ...]


def jacobian(
    func: Callable[..., _Tensors],
    inputs: _Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the derivatives of each element of the outputs of `func` by each element of `inputs`.

    Parameters
    ----------
    func
        A function of tensors that returns a tensor, or a tuple of them.
    inputs
        The arguments of `func`: a tensor, or a tuple of them.
    create_graph
        Record the computation, so that the result has a gradient.
    strict
        Raise an error if an output does not depend on an input or, with `create_graph`, if a derivative does
        not. Without it, the derivatives are 0.
    vectorize, strategy
        No effect: each element of the outputs has a backward of its own.

    Returns
    -------
    A tensor of shape ``(*output.shape, *input.shape)``. For several inputs, a tuple of them; for several
    outputs, a tuple with an entry for each.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    del vectorize
    if strategy not in ("reverse-mode", "forward-mode"):
        raise InvalidArgumentError(
            f"jacobian: strategy must be 'reverse-mode' or 'forward-mode', not {strategy!r}"
        )
    with enable_grad():
        given = _inputs("jacobian", inputs, create_graph)
        outputs = _outputs("jacobian", func(*given), strict)
        rows = []
        for out in outputs:
            flat = out.reshape(-1)
            parts = [
                _gradients("jacobian", (flat[i],), given, None, create_graph, strict)
                for i in range(len(flat))
            ]
            columns = zip(*parts, strict=True) if parts else [() for _ in given]
            rows.append(
                tuple(
                    (tn.stack(column) if column else tn.zeros((0,), dtype=x.dtype)).reshape(
                        *out.shape, *x.shape
                    )
                    for column, x in zip(columns, given, strict=True)
                )
            )
    by_input = [row if isinstance(inputs, tuple) else row[0] for row in rows]
    return tuple(by_input) if _is_many(outputs) else by_input[0]


def hessian(
    func: Callable[..., Tensor],
    inputs: _Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the second derivatives of `func`, whose output has one element, by `inputs`.

    Returns
    -------
    A tensor of shape ``(*input.shape, *input.shape)``; for several inputs, a tuple of tuples of them.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """

    def slopes(*given: Tensor) -> _Tensors:
        out = _single("hessian", func(*given), strict)
        found = _gradients("hessian", (out,), given, None, True, strict)
        return found if isinstance(inputs, tuple) else found[0]

    return jacobian(slopes, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vjp(
    func: Callable[..., _Tensors],
    inputs: _Tensors,
    v: _Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the outputs of `func`, and the product of `v` with its Jacobian, in the shapes of `inputs`.

    Parameters
    ----------
    v
        A tensor of the shape of each output; None for one output of one element.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> out, product = torch.autograd.functional.vjp(lambda x: x * x, torch.ones(2), torch.tensor([1.0, 3.0]))
    >>> product.tolist()
    [2.0, 6.0]
    """
    with enable_grad():
        given = _inputs("vjp", inputs, create_graph)
        outputs = _outputs("vjp", func(*given), strict)
        weights = _vectors("vjp", v, outputs)
        found = _gradients("vjp", outputs, given, weights, create_graph, strict)
    return _result(outputs, create_graph), _as_given(found, inputs)


def jvp(
    func: Callable[..., _Tensors],
    inputs: _Tensors,
    v: _Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the outputs of `func`, and the product of its Jacobian with `v`, in the shapes of the outputs.

    It is the derivative of the vector-Jacobian product by its vector: backward runs twice.

    Parameters
    ----------
    v
        A tensor of the shape of each input; None for one input of one element.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> out, product = torch.autograd.functional.jvp(lambda x: x * x, torch.ones(2), torch.tensor([1.0, 3.0]))
    >>> product.tolist()
    [2.0, 6.0]
    """
    with enable_grad():
        given = _inputs("jvp", inputs, create_graph)
        directions = _vectors("jvp", v, given)
        outputs = _outputs("jvp", func(*given), strict)
        weights = tuple(tn.zeros_like(x).requires_grad_() for x in outputs)
        slopes = _gradients("jvp", outputs, given, weights, True, strict)
        found = _gradients("jvp", slopes, weights, directions, create_graph, strict)
    return _result(outputs, create_graph), found if _is_many(outputs) else found[0]


def vhp(
    func: Callable[..., Tensor],
    inputs: _Tensors,
    v: _Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the output of `func`, and the product of `v` with its Hessian, in the shapes of `inputs`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> out, product = torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
    >>> product.tolist()
    [6.0, 6.0]
    """
    return _times_hessian("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Callable[..., Tensor],
    inputs: _Tensors,
    v: _Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the output of `func`, and the product of its Hessian with `v`: that of ``vhp``.

    A Hessian with continuous second derivatives is symmetric, so both are equal.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> out, product = torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
    >>> product.tolist()
    [6.0, 6.0]
    """
    return _times_hessian("hvp", func, inputs, v, create_graph, strict)


def _times_hessian(
    name: str,
    func: Callable[..., Tensor],
    inputs: _Tensors,
    v: _Tensors | None,
    create_graph: bool,
    strict: bool,
) -> tuple[Any, Any]:
    with enable_grad():
        given = _inputs(name, inputs, create_graph)
        directions = _vectors(name, v, given)
        out = _single(name, func(*given), strict)
        slopes = _gradients(name, (out,), given, None, True, strict)
        found = _gradients(name, slopes, given, directions, create_graph, strict)
    return _result(out, create_graph), _as_given(found, inputs)


class _Many(tuple[Tensor, ...]):
    """The outputs of a function that returns a tuple."""


def _is_many(outputs: tuple[Tensor, ...]) -> bool:
    return isinstance(outputs, _Many)


def _inputs(name: str, inputs: _Tensors, create_graph: bool) -> tuple[Tensor, ...]:
    """Return new tensors of the values of `inputs`, with their history if it is needed."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    for x in given:
        if not isinstance(x, TensorCore):
            raise TypeError(f"{name}: inputs must be a tensor, or a tuple of them, not {type(x).__name__}")
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in given
    )


def _outputs(name: str, outputs: Any, strict: bool) -> tuple[Tensor, ...]:
    many: tuple[Tensor, ...] = _Many(outputs) if isinstance(outputs, tuple) else (outputs,)
    for x in many:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: func must return a tensor, or a tuple of them, not {type(x).__name__}")
        if strict and not x.requires_grad:
            raise RuntimeError(f"{name}: an output of func does not depend on the inputs: pass strict=False")
    return many


def _single(name: str, out: Any, strict: bool) -> Tensor:
    if isinstance(out, tuple):
        raise TypeError(f"{name}: func must return one tensor, not a tuple")
    (single,) = _outputs(name, out, strict)
    if single.numel() != 1:
        raise RuntimeError(f"{name}: func must return one tensor with one element: sum its output")
    return single.reshape(())


def _vectors(name: str, v: _Tensors | None, like: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return `v` as a tuple of tensors with the shapes of `like`; ones for None, if `like` is one number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{name}: v can be omitted for one tensor with one element only: pass v")
        return (tn.ones_like(like[0]),)
    given = v if isinstance(v, tuple) else (v,)
    for x in given:
        if not isinstance(x, TensorCore):
            raise TypeError(f"{name}: v must be a tensor, or a tuple of them, not {type(x).__name__}")
    if [tuple(x.shape) for x in given] != [tuple(x.shape) for x in like]:
        raise RuntimeError(
            f"{name}: v must have the shapes {[tuple(x.shape) for x in like]}, not "
            f"{[tuple(x.shape) for x in given]}"
        )
    return given


def _gradients(
    name: str,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    weights: Sequence[Tensor] | None,
    create_graph: bool,
    strict: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of `outputs` by `inputs`, or zeros where there is no dependency."""
    given = range(len(outputs))
    recorded = [
        (outputs[i], None if weights is None else weights[i]) for i in given if outputs[i].requires_grad
    ]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if recorded:
        found = grad(
            [x for x, _ in recorded],
            list(inputs),
            [weight for _, weight in recorded],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    if strict and any(x is None for x in found):
        raise RuntimeError(f"{name}: the outputs do not depend on each input: pass strict=False")
    if strict and create_graph and not all(x is not None and x.requires_grad for x in found):
        raise RuntimeError(f"{name}: the derivatives do not depend on the inputs: pass strict=False")
    return tuple(tn.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True))


def _as_given(found: tuple[Tensor, ...], inputs: _Tensors) -> _Tensors:
    return found if isinstance(inputs, tuple) else found[0]


def _result(outputs: _Tensors, create_graph: bool) -> _Tensors:
    """Return the outputs of a function as it returned them; without history unless `create_graph`."""
    if isinstance(outputs, tuple):
        kept = tuple(x if create_graph else x.detach() for x in outputs)
        return kept if _is_many(outputs) else kept[0]
    return outputs if create_graph else outputs.detach()
