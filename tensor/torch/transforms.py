"""Functions that return the derivatives of a function: ``torch.func.grad`` and its family.

Each call makes new variables of the arguments, records the function on them, and runs backward once. If an
argument requires grad, its variable is a view of it, so that outer transforms and ``backward`` go through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensor as tn
from scopes._shared.clearing import clear_errors_of, without_frames
from tensor import Tensor, autograd
from tensor.tape.recording import Leaf
from tensor.torch.calling import transformed
from tensor.torch.trees import Structure, flatten, map_leaves

__all__ = ["grad", "grad_and_value", "jacrev", "vjp"]


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`.

    Parameters
    ----------
    func
        A function that returns a tensor of shape ``()``.
    argnums
        The position of the argument to differentiate by, or a tuple of positions. Each argument is a tensor,
        or tensors in lists, tuples and dicts.
    has_aux
        `func` returns a pair: the tensor, and anything else, which is returned beside the gradient.

    Returns
    -------
    A function with the arguments of `func`. It returns the gradient, a new tensor for each one in the
    argument; a tuple if `argnums` is one. With `has_aux`, it returns a pair: the gradient, and the rest. The
    gradient is zero where the result does not depend on the argument. No ``grad`` attribute changes. The
    gradient has history only if something else requires grad, such as a parameter that `func` uses.

    Raises
    ------
    RuntimeError
        If the result is no tensor of shape ``()``, or there is no argument with this position.
    ValueError
        If the argument has something else than tensors.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.func.grad(lambda x: (x * x).sum())(torch.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]

    Gradients of each sample of a batch:

    >>> loss = lambda w, x, y: ((x * w).sum() - y) ** 2
    >>> each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    >>> each(torch.tensor([1.0]), torch.tensor([[1.0], [2.0]]), torch.tensor([0.0, 0.0])).tolist()
    [[2.0], [8.0]]
    """

    def gradient(*args: Any, **kwargs: Any) -> Any:
        slopes, value = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return transformed(func, gradient)


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`, and its value.

    Parameters and errors are those of ``grad``.

    Returns
    -------
    A function that returns a pair of the gradient and the value. With `has_aux`, the second is itself a pair
    of the value and the rest.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> slope, value = torch.func.grad_and_value(lambda x: x**3)(torch.tensor(2.0))
    >>> slope.item(), value.item()
    (12.0, 8.0)
    """

    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)

    return transformed(func, gradient_and_value)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return ``func(*primals)``, and a function that multiplies vectors by its Jacobian.

    Parameters
    ----------
    func
        A function that returns a tensor, or tensors in lists, tuples and dicts.
    primals
        Tensors, or tensors in lists, tuples and dicts.
    has_aux
        `func` returns a pair: the tensors, and anything else, which is returned last.

    Returns
    -------
    The result, and a function. Its arguments are tensors of the shapes of the result, in the same containers.
    It returns the gradient for each primal: a tuple, or the only one. It keeps the graph of `func` alive, and
    may be called again.

    Raises
    ------
    RuntimeError
        If the result has something else than floating or complex tensors.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> y, pull = torch.func.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]))
    >>> y.tolist(), [x.tolist() for x in pull(torch.tensor([1.0, 10.0]))]
    ([1.0, 4.0], [[2.0, 40.0]])
    """
    found = _Pull(func, primals, None, has_aux)
    result = found.structure.unflatten(found.results)
    # Not a closure: a frame keeps its function, and so what that has in its closure.
    pull = without_frames(found.pull)
    return (result, pull, found.aux) if has_aux else (result, pull)


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func`: one backward for each element of the result.

    Parameters
    ----------
    func
        A function that returns a tensor, or tensors in lists, tuples and dicts.
    argnums, has_aux
        As in ``grad``.
    chunk_size
        Accepted for PyTorch's sake: it changes neither values nor memory.

    Returns
    -------
    A function that returns, instead of each tensor of the result, the Jacobian for each tensor of the
    argument: a tensor with the shape of the result and then that of the argument.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def jacobian(*args: Any) -> Any:
        found = _Pull(func, args, argnums, has_aux, "jacrev")
        for x in found.variables:
            if x.is_complex():
                raise RuntimeError(
                    "jacrev: Expected all inputs to be real but received complex tensor: real tensors have a "
                    "Jacobian of real numbers"
                )
        by_output = [found.arguments.unflatten(found.jacobians_of(i)) for i in range(len(found.outputs))]
        result = found.structure.unflatten(by_output)
        return (result, found.aux) if has_aux else result

    return transformed(func, jacobian)


def _grad_and_value(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...],
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any]:
    is_recorded = _is_recording()
    with autograd.set_grad_enabled(True):
        args, variables, structure = _with_variables(args, argnums, is_recorded)
        y, aux = _call("grad_and_value(f)(*args)", func, args, kwargs, has_aux)
        if not isinstance(y, Tensor):
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(y)}: return the "
                "loss as a tensor, and other results beside it with has_aux=True"
            )
        if y.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{y.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        own = {id(x._node) for x in variables}
        is_kept = is_recorded and _depends_on_others([y], own)
        slopes = _cut(_gradients([y], variables, None, is_kept, is_kept), own, is_kept)
        value, aux = _cut((y, aux), own, is_recorded)
    found = structure.unflatten(slopes)
    return found, (value, aux) if has_aux else value


class _Pull:
    """A recorded call of a function, and backward through it."""

    def __init__(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        argnums: int | tuple[int, ...] | None,
        has_aux: bool,
        name: str = "vjp",
    ) -> None:
        is_recorded = _is_recording()
        with autograd.set_grad_enabled(True):
            args, self.variables, self.arguments = _with_variables(args, argnums, is_recorded)
            y, aux = _call("vjp(f, *primals)", func, args, {}, has_aux)
            self.outputs, self.structure = flatten(y)
            if not self.outputs:
                raise RuntimeError(
                    f"vjp(f, *primals): Expected f to be a function that has non-empty output (got "
                    f"output = {y})"
                )
            for each in self.outputs:
                if not isinstance(each, Tensor):
                    raise RuntimeError(
                        f"{name}(f, *primals): Expected f to return only tensors, got {type(each)}: return "
                        "other results beside them with has_aux=True"
                    )
                if not (each.is_floating_point() or each.is_complex()):
                    raise RuntimeError(
                        f"{name}(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                        f"Tensor with dtype {each.dtype}"
                    )
            own = {id(x._node) for x in self.variables}
            self.is_kept = is_recorded and _depends_on_others(self.outputs, own)
            self.results, self.aux = _cut((self.outputs, aux), own, is_recorded)

    def pull(self, *cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        """Multiply `cotangents`, in the containers of the function's result, by the Jacobian."""
        seeds, structure = flatten(cotangents[0] if len(cotangents) == 1 else cotangents)
        if structure != self.structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                f"the function. cotangents: {structure}, primal output: {self.structure}"
            )
        return self.arguments.unflatten(self.gradients(seeds, retain_graph, create_graph))

    def gradients(
        self, seeds: Sequence[Tensor | None], retain_graph: bool, create_graph: bool | None
    ) -> list[Tensor]:
        """Return the gradient for each variable. None is no gradient for this output."""
        pairs = [(y, seed) for y, seed in zip(self.outputs, seeds, strict=True) if seed is not None]
        if create_graph is None:
            create_graph = autograd.is_grad_enabled()
        create_graph = create_graph and (self.is_kept or any(seed.requires_grad for _, seed in pairs))
        return _gradients(
            [y for y, _ in pairs], self.variables, [seed for _, seed in pairs], retain_graph, create_graph
        )

    def jacobians_of(self, index: int) -> list[Tensor]:
        """Return the Jacobian of the output `index` for each variable."""
        y = self.outputs[index]
        rows: list[list[Tensor]] = []
        for k in range(y.numel()):
            basis = tn.zeros((y.numel(),), dtype=y.dtype)
            basis[k] = 1
            seeds: list[Tensor | None] = [None] * len(self.outputs)
            seeds[index] = basis.reshape(y.shape)
            rows.append(self.gradients(seeds, True, None))
        if not rows:
            return [tn.zeros((*y.shape, *x.shape), dtype=x.dtype) for x in self.variables]
        return [
            tn.stack([row[j] for row in rows]).reshape((*y.shape, *x.shape))
            for j, x in enumerate(self.variables)
        ]


def _is_recording() -> bool:
    if autograd.is_grad_enabled():
        return True
    if tn.is_inference_mode_enabled():
        raise RuntimeError(
            "inference_mode() records nothing, so there is no gradient to compute: use no_grad() instead"
        )
    return False


def _with_variables(
    args: tuple[Any, ...], argnums: int | tuple[int, ...] | None, is_recorded: bool
) -> tuple[tuple[Any, ...], list[Tensor], Structure]:
    """Return `args` with new variables, the variables, and the structure of what `argnums` selects."""
    new = list(args)
    if argnums is None:
        places = list(range(len(args)))
    elif isinstance(argnums, tuple):
        if not argnums:
            raise RuntimeError("argnums must be non-empty")
        places = [_position(i, len(args)) for i in argnums]
        if len(set(places)) != len(places):
            raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    else:
        places = [_position(argnums, len(args))]
    for i in places:
        new[i] = map_leaves(lambda x: _variable(x, is_recorded), new[i])
    chosen = new[places[0]] if isinstance(argnums, int) else tuple(new[i] for i in places)
    variables, structure = flatten(chosen)
    return tuple(new), variables, structure


def _position(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def _variable(x: Any, is_recorded: bool) -> Tensor:
    if not isinstance(x, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"only Tensors of floating point dtype can require gradients, not {x.dtype}: convert it first, "
            "x.float(), or leave it out of argnums"
        )
    return x.view_as(x) if is_recorded and x.requires_grad else x.detach().requires_grad_()


def _call(
    name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], has_aux: bool
) -> tuple[Any, Any]:
    result = func(*args, **kwargs)
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def _gradients(
    outputs: list[Tensor],
    variables: list[Tensor],
    seeds: list[Tensor] | None,
    retain_graph: bool,
    create_graph: bool,
) -> list[Tensor]:
    """Return the gradients; zeros where no output depends on a variable."""
    used = [i for i, y in enumerate(outputs) if y.requires_grad]
    if not used:
        return [tn.zeros_like(x) for x in variables]
    return list(
        autograd.grad(
            [outputs[i] for i in used],
            variables,
            None if seeds is None else [seeds[i] for i in used],
            retain_graph=retain_graph,
            create_graph=create_graph,
            materialize_grads=True,
        )
    )


def _depends_on_others(outputs: list[Tensor], own: set[int]) -> bool:
    """Return whether a leaf that is not in `own` has a part in `outputs`."""
    seen: set[int] = set()
    waiting = [y._node for y in outputs]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Leaf) and id(node) not in own:
            return True
        waiting += node.next
    return False


def _cut(aux: Any, own: set[int], is_recorded: bool) -> Any:
    """Return `aux` with its tensors detached, unless something else than our variables requires grad."""

    def cut(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.requires_grad:
            return x
        return x if is_recorded and _depends_on_others([x], own) else x.detach()

    return map_leaves(cut, aux)


clear_errors_of(globals(), __all__)
