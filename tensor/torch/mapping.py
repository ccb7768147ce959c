"""``torch.vmap``: call a function for each sample of a batch, and stack the results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import tensor as tn
from scopes._shared.clearing import clear_errors_of
from tensor import Tensor
from tensor.creation.generators import default_generator
from tensor.torch.calling import transformed
from tensor.torch.trees import Structure, broadcast_prefix, flatten

__all__ = ["vmap"]

Randomness = Literal["error", "different", "same"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: Randomness = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that calls `func` for each sample of a batch, and stacks the results.

    This is a loop: it takes the time of one call for each sample. PyTorch runs each op once for the whole
    batch, which is faster for many small samples. Values, shapes and gradients are the same. A function that
    takes a batch itself is faster than both. In a loop, `func` may also call ``item()``, and depend on values
    in ``if`` and ``while``, which PyTorch refuses.

    Parameters
    ----------
    func
        A function of tensors, or of tensors in lists, tuples and dicts. It returns the same.
    in_dims
        The dimension of the batch in each argument; None passes an argument whole to each call. An int is for
        all arguments, a tuple has an entry for each. An entry is an int or None for all tensors in the
        argument, or has the argument's containers. Keyword arguments are passed whole.
    out_dims
        The dimension of the batch in each result, likewise. None is for a result that is the same for each
        sample.
    randomness
        What random functions do: "error" refuses them, "different" draws new numbers for each sample, "same"
        draws the same numbers for each. It covers the default generator.
    chunk_size
        Accepted for PyTorch's sake: a loop needs the memory of one sample at a time.

    Raises
    ------
    ValueError
        If `in_dims` or `out_dims` do not fit the arguments or results, if the sizes of the batch differ, or
        if a result is no tensor.
    RuntimeError
        If `func` draws random numbers and `randomness` is "error".

    Examples
    --------
    >>> import tensor.torch as torch
    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.vmap(torch.dot)(rows, rows).tolist()
    [5.0, 25.0]
    >>> torch.vmap(lambda x, y: x * y, in_dims=(0, None), out_dims=1)(rows, torch.tensor(10.0)).tolist()
    [[10.0, 30.0], [20.0, 40.0]]
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        name = _name_of(func)
        _check_out_dims(out_dims, name)
        count, dims, leaves, structure = _batch(in_dims, args, name)
        draws = _Draws(randomness)
        columns = [None if dim is None else _slices(x, dim) for x, dim in zip(leaves, dims, strict=True)]
        # One call on zeros tells what an empty batch returns.
        if count == 0:
            columns = [
                None if dim is None else (_without(x, dim),) for x, dim in zip(leaves, dims, strict=True)
            ]
        outputs: list[list[Any]] = []
        form: Structure | None = None
        places: list[int | None] = []
        for i in range(max(count, 1)):
            sample = [x if column is None else column[i] for x, column in zip(leaves, columns, strict=True)]
            flat, found = flatten(draws.run(partial(func, *structure.unflatten(sample), **kwargs)))
            if form is None:
                form = found
                places = _out_dims(out_dims, form, name)
                outputs = [[] for _ in flat]
            elif found != form:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` returns {found} for sample {i}, and {form} for the first "
                    "one. Return the same containers for each sample"
                )
            for place, value, column in zip(places, flat, outputs, strict=True):
                if place is None and column:
                    _check_same(column[0], value, name)
                elif place is not None and not isinstance(value, Tensor):
                    raise ValueError(
                        f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. "
                        "Did you mean to set out_dims= to None for output?"
                    )
                else:
                    column.append(value)
        assert form is not None
        results = [
            column[0] if place is None else _stacked(column, place, count, name)
            for place, column in zip(places, outputs, strict=True)
        ]
        return form.unflatten(results)

    return transformed(func, mapped)


class _Draws:
    """Runs a function for each sample, and manages the random numbers that it draws."""

    def __init__(self, randomness: Randomness) -> None:
        self.randomness = randomness
        self.state = None if randomness == "different" else default_generator.get_state()

    def run(self, function: Callable[[], Any]) -> Any:
        if self.state is None:
            return function()
        if self.randomness == "same":
            default_generator.set_state(self.state)
            return function()
        result = function()
        if default_generator.get_state() != self.state:
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the "
                "'same' or 'different' randomness flags on vmap or perform the randomness operation out of "
                "vmap"
            )
        return result


def _name_of(func: Callable[..., Any]) -> str:
    if isinstance(func, partial):
        return f"functools.partial({_name_of(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _check_out_dims(out_dims: Any, name: str) -> None:
    for place in flatten(out_dims)[0]:
        if place is not None and not isinstance(place, int):
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                "collection of ints representing where in the outputs the vmapped dimension should appear."
            )


def _batch(
    in_dims: Any, args: tuple[Any, ...], name: str
) -> tuple[int, list[int | None], list[Any], Structure]:
    """Return the size of the batch, its dimension in each leaf of `args`, the leaves, and their structure."""
    call = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to "
            "vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, structure = flatten(args)
    dims = broadcast_prefix(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{flatten(in_dims)[1]} but inputs has structure {structure}."
        )
    found: list[int | None] = []
    sizes: list[int] = []
    for x, dim in zip(leaves, dims, strict=True):
        if dim is None:
            found.append(None)
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but in_dim must be either an integer "
                "dimension or None."
            )
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap "
                "over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -x.dim() <= dim < x.dim():
            raise ValueError(
                f"{call}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                f"{x.dim()} so expected in_dim to satisfy -{x.dim()} <= in_dim < {x.dim()}."
            )
        found.append(dim % x.dim())
        sizes.append(x.shape[dim])
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0], found, leaves, structure


def _slices(x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Return ``x.unbind(dim)``. If `x` requires grad, take the slices from larger slices.

    The gradient of a slice is as large as what it is a slice of. So backward through n slices of `x` itself
    would write n times the bytes of `x`.
    """
    size = x.shape[dim]
    if size <= 16 or not x.requires_grad:
        return x.unbind(dim)
    return tuple(row for part in x.split(-(-size // 8), dim) for row in _slices(part, dim))


def _without(x: Tensor, dim: int) -> Tensor:
    """Return zeros in the shape of one sample of the empty batch `x`."""
    return tn.zeros((*x.shape[:dim], *x.shape[dim + 1 :]), dtype=x.dtype)


def _out_dims(out_dims: Any, form: Structure, name: str) -> list[int | None]:
    """Return the dimension of the batch in each result."""
    if form.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    places = broadcast_prefix(out_dims, form)
    if places is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {flatten(out_dims)[1]} but "
            f"outputs has structure {form}."
        )
    return places


def _check_same(first: Any, value: Any, name: str) -> None:
    if first is value or not (isinstance(first, Tensor) and isinstance(value, Tensor)):
        return
    if first.shape != value.shape or not first.isclose(value, 0, 0, True).all():
        raise ValueError(
            f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None: the result "
            "differs between samples. Pass the dimension in which to stack it as out_dims="
        )


def _stacked(column: list[Tensor], place: int, count: int, name: str) -> Tensor:
    first = column[0]
    if not -first.dim() - 1 <= place <= first.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-first.dim() - 1}, {first.dim()}], but "
            f"got {place}): out_dims of vmap({name}, ...)"
        )
    if count == 0:
        shape = list(first.shape)
        shape.insert(place % (first.dim() + 1), 0)
        return tn.zeros(tuple(shape), dtype=first.dtype)
    for i, x in enumerate(column):
        if x.shape != first.shape:
            raise ValueError(
                f"vmap({name}, ...): `{name}` returns a tensor of shape {tuple(x.shape)} for sample {i}, and "
                f"of shape {tuple(first.shape)} for the first one. The results of all samples need one shape"
            )
    return tn.stack(column, axis=place)


clear_errors_of(globals(), __all__)
