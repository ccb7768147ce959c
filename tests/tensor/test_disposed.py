"""A disposed tensor in every function, method, property and operator: TensorDisposedError, nothing else."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, TensorDisposedError, autograd

# What may be asked of a disposed tensor: whether it is, who owns it, and that it be left alone.
ANSWERED = {
    "__del__",
    "__exit__",
    "__format__",
    "detach_from_dispose_scope",
    "dispose",
    "from_handle",
    "is_invalid",
    "move_to_other_dispose_scope",
    "move_to_outer_dispose_scope",
    "owning_dispose_scope",
}
# These take memory of other kinds, numbers and dtypes; and NumPy's protocols have a test of their own.
NO_TENSORS = {
    "__array_function__",
    "__array_ufunc__",
    "finfo",
    "from_address",
    "from_blob",
    "from_numpy",
    "from_slice",
    "iinfo",
    "save_file",
    "save_npz",
}

# Operands, where a matrix of floats would be refused before it is seen to be disposed.
BITS = tensor.tensor([[1, 0], [0, 1]])
OPERANDS = {
    **dict.fromkeys(["condition", "mask"], BITS.bool()),
    **dict.fromkeys(["index", "indices"], BITS),
    ("dot", "self"): tensor.ones((2,)),
    ("dot", "other"): tensor.ones((2,)),
    ("outer", "self"): tensor.ones((2,)),
    ("outer", "x1"): tensor.ones((2,)),
    ("outer", "x2"): tensor.ones((2,)),
    ("meshgrid", "arrays"): tensor.ones((2,)),
    ("fill_", "value"): tensor.ones(()),
    **{
        (f"{name}{ending}", "index"): tensor.tensor([1, 0])
        for name in ("index_add", "index_copy", "index_fill", "index_reduce")
        for ending in ("", "_")
    },
    **dict.fromkeys([("index_fill", "value"), ("index_fill_", "value")], tensor.ones(())),
    ("masked_fill_", "value"): tensor.ones(()),
    ("narrow", "start"): tensor.tensor(0),
    **{
        (f"{name}{ending}", vector): tensor.ones((2,))
        for name, vector in (("addmv", "vec"), ("addr", "vec1"), ("addr", "vec2"))
        for ending in ("", "_")
    },
    **dict.fromkeys(["batch1", "batch2"], tensor.ones((2, 2, 2))),
    ("bmm", "self"): tensor.ones((2, 2, 2)),
    ("bmm", "other"): tensor.ones((2, 2, 2)),
    ("cross", "self"): tensor.ones((3,)),
    ("cross", "other"): tensor.ones((3,)),
    ("einsum", "operands"): tensor.ones((2, 2)),
    ("index_select", "index"): tensor.tensor([1, 0]),
    ("lu_solve", "LU_pivots"): tensor.tensor([1, 2], dtype="int32"),
    ("mv", "other"): tensor.ones((2,)),
    ("multinomial", "input"): tensor.ones((2,)),
    ("searchsorted", "x1"): tensor.ones((2,)),
    ("take", "indices"): tensor.tensor([1, 0]),
    ("take", "x"): tensor.ones((2,)),
    # No tensors, though the annotation allows them.
    ("__deepcopy__", "memo"): {},
    ("register_hook", "hook"): print,
    ("register_post_accumulate_grad_hook", "hook"): print,
    ("__getitem__", "key"): 0,
    ("__setitem__", "key"): 0,
    ("__reduce_ex__", "protocol"): 2,
}
# Arguments with a default that a call needs nevertheless.
GIVEN = {("scatter", "src"), ("scatter_", "src")}
VALUES = {
    "axes": (1, 0), "chunks": 2, "dim1": 1, "dtype": "float64", "equation": "ij", "k": 1, "length": 1,
    "maxnorm": 1.0, "num_samples": 1, "p": 1, "repetitions": 2,
    "split_sizes": (1, 1), "shape": 4, "sizes": 1, "split_size": 1, "to": "float32",
    ("broadcast_to", "shape"): (2, 2), ("expand", "sizes"): 2, ("reshape", "shape"): (4,),
    ("squeeze", "axis"): (), ("tile", "repetitions"): (2, 2), ("unflatten", "sizes"): (1, 2),
    ("as_strided", "size"): (2,), ("as_strided", "stride"): (1,), ("view", "shape"): 4,
}  # fmt: skip


def takes_tensors(parameter: inspect.Parameter) -> bool:
    words = str(parameter.annotation)
    return parameter.name == "self" or any(word in words for word in ("Tensor", "Operand", "Any", "object"))


def argument(owner: str, parameter: inspect.Parameter) -> object:
    name = parameter.name
    if not takes_tensors(parameter):
        return VALUES.get((owner, name), VALUES.get(name, 0))
    if (
        any(word in owner for word in ("and", "or", "xor", "shift", "invert", "bitwise"))
        and name != "indices"
    ):
        default = BITS
    else:
        default = tensor.ones((2, 2))
    found = OPERANDS.get((owner, name), OPERANDS.get(name, default))
    return found.clone() if isinstance(found, Tensor) else found


def calls_of(owner: str, function: Callable[..., object]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield a call for each parameter that takes a tensor: that one is disposed, and all else is in order."""
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.VAR_POSITIONAL
        or (parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY)
        or (owner, parameter.name) in GIVEN
    ]
    for place, parameter in enumerate(needed):
        if not isinstance(argument(owner, parameter), Tensor):
            continue

        def call(place: int = place) -> object:
            given = [argument(owner, parameter) for parameter in needed]
            given[place].dispose()
            many = ["Sequence[Tensor]" in str(parameter.annotation) for parameter in needed]
            return function(*[[x] if is_many else x for x, is_many in zip(given, many, strict=True)])

        yield f"{owner}-{parameter.name}", call


def all_calls() -> Iterator[tuple[str, Callable[[], object]]]:
    for name in tensor.__all__:
        if inspect.isfunction(inspect.unwrap(getattr(tensor, name))) and name not in NO_TENSORS:
            yield from calls_of(name, getattr(tensor, name))
    for name in dir(Tensor):
        found = inspect.getattr_static(Tensor, name)
        inherited = found is inspect.getattr_static(object, name, None)
        is_protocol = name.startswith("__") and not inherited
        if name in ANSWERED | NO_TENSORS or (name.startswith("_") and not is_protocol):
            continue
        if isinstance(found, property):
            yield f"Tensor.{name}", lambda name=name: getattr(disposed(), name)
        elif inspect.isfunction(inspect.unwrap(found)) and name not in (
            "__new__",
            "__repr__",
            "__str__",
            "__hash__",
            "__init_subclass__",
        ):
            yield from ((f"Tensor.{case}", call) for case, call in calls_of(name, found))


def disposed() -> Tensor:
    x = tensor.ones((2, 2))
    x.dispose()
    return x


CALLS = dict(all_calls())


@pytest.mark.parametrize("name", CALLS)
def test_it_raises_tensor_disposed_error(name):
    if name == "Tensor.bfloat16-self":
        pytest.importorskip("ml_dtypes")
    with pytest.raises(TensorDisposedError, match=r"disposed by dispose\(\)"):
        CALLS[name]()


def test_the_whole_namespace_is_called():
    assert {"add-x1", "add-x2", "Tensor.add_-self", "Tensor.add_-other", "Tensor.zero_-self"} <= set(CALLS)


OTHERS = {
    "item": lambda x: tensor.ones((2,))[x],
    "written": lambda x: tensor.ones((2,)).__setitem__(0, x),
    "nested data": lambda x: tensor.tensor([x, x]),
    "a bound": lambda x: tensor.ones((2, 2)).clamp(x),
    "the upper bound": lambda x: tensor.ones((2, 2)).clamp_(0.0, x),
    "scaled by alpha": lambda x: tensor.ones((2, 2)).add(x, alpha=2),
    "a dimension to take from": lambda x: tensor.concat([tensor.ones((2, 2)), x]),
    "backward": lambda x: x.backward(),
    "the gradient of backward": lambda x: (tensor.ones((2, 2), requires_grad=True) * 1).backward(x),
    "autograd.grad": lambda x: autograd.grad(x, tensor.ones((1,), requires_grad=True)),
    "a ufunc of NumPy": np.sin,
    "a ufunc of NumPy that we lack": np.cbrt,
    "a function of NumPy": np.median,
    "an array of NumPy": np.asarray,
    "an array on the left": lambda x: np.ones((2, 2)) + x,
    "augmented assignment": lambda x: np.ones((2, 2)).__iadd__(x),
    "a number": float,
    "iteration": list,
    "math": math.floor,
}


@pytest.mark.parametrize("use", OTHERS.values(), ids=OTHERS)
def test_elsewhere_too(use):
    with pytest.raises(TensorDisposedError):
        use(disposed())


def test_its_repr_says_so_and_its_identity_stays():
    x = disposed()
    assert "disposed" in repr(x)
    assert x in {x}
    assert x.is_invalid
    assert x.owning_dispose_scope is None
    x.dispose()


def test_the_error_says_that_the_scope_which_owns_a_tensor_must_move_it():
    with new_dispose_scope("outer") as outer, new_dispose_scope("inner"):
        x = outer.move_to_outer(tensor.ones((2,)))
    advice = r"'inner' ended\. Move it out before that scope ends: call that scope's move_to_outer\(x\)"
    with pytest.raises(TensorDisposedError, match=advice):
        x + 1


def test_the_error_of_a_kept_gradient_says_that_its_tensor_ended():
    with new_dispose_scope():
        x = tensor.ones((2,), requires_grad=True)
        x.sum().backward()
        kept = x.grad
    with pytest.raises(
        TensorDisposedError, match=r"was a gradient, and ended with its tensor\. Keep a copy: x\."
    ):
        kept + 1


@pytest.mark.parametrize(
    "clears", [lambda layer: layer, lambda layer: nn.optim.SGD(layer.parameters(), lr=0.1)]
)
def test_the_error_of_a_kept_gradient_names_zero_grad(clears):
    layer = nn.Linear(2, 2)
    layer(tensor.ones((1, 2))).sum().backward()
    kept = layer.weight.grad
    clears(layer).zero_grad()
    with pytest.raises(
        TensorDisposedError, match=r"was a gradient, and zero_grad\(\) ended it\. Keep a copy: x\."
    ):
        kept + 1


def test_the_error_of_a_gradient_disposed_by_its_user_says_so():
    layer = nn.Linear(2, 2)
    layer(tensor.ones((1, 2))).sum().backward()
    kept = layer.weight.grad
    kept.dispose()
    layer.zero_grad()
    with pytest.raises(TensorDisposedError, match=r"disposed by dispose\(\)"):
        kept + 1
