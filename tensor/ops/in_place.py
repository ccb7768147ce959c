"""The table of in-place methods that are derived from methods which return a new tensor or a view.

``in_place`` writes the result to the tensor, whose shape and dtype it must fit. ``view_in_place`` changes the
shape of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.gamma import Gamma
from tensor.ops.matrices import Matrices
from tensor.ops.methods import ElementwiseMethods
from tensor.ops.moving import Moving
from tensor.ops.rare.arithmetic import Arithmetic
from tensor.ops.rare.counting import Counting
from tensor.ops.rare.decomposing import Decomposing
from tensor.ops.rare.scattering import Scattering
from tensor.ops.reducing import Reductions
from tensor.ops.shapes import Shapes
from tensor.ops.writing import become
from tensor.tape.hooks import continue_with
from tensor.tape.modes import enable_grad
from tensor.tape.nodes import Leaf

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def in_place(owner: type[TensorCore], name: str) -> Callable[..., Tensor]:
    """Return the in-place form of the method `name` of `owner`."""
    method: Callable[..., Tensor] = getattr(owner, name)

    @wraps(method)
    def write(x: TensorCore, /, *args: Any, **kwargs: Any) -> TensorCore:
        become(name, as_tensor(x), method(x, *args, **kwargs))
        return x

    write.__name__ = write.__qualname__ = f"{name}_"
    write.__doc__ = f"Write what ``{name}`` returns over the tensor, whose shape and dtype it must fit."
    return composite(write)  # type: ignore[return-value]  # every instance is a Tensor


def view_in_place(owner: type[TensorCore], name: str) -> Callable[..., Tensor]:
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
        x._set_layout_of(view)
        if view._node is not None:
            continue_with(x, view._node)
        view.dispose()
        return x

    change.__name__ = change.__qualname__ = f"{name}_"
    change.__doc__ = f"""Give the tensor the shape of what ``{name}`` returns. No element moves.

    Views of the tensor keep their shape, and share its memory as before.

    Raises
    ------
    RuntimeError
        If the tensor is a leaf that requires grad.
    """
    return change  # type: ignore[return-value]  # every instance is a Tensor


class InPlace(TensorCore):
    """The in-place methods of the table."""

    __slots__ = ()

    squeeze_: Final = view_in_place(Shapes, "squeeze")
    unsqueeze_: Final = view_in_place(Shapes, "unsqueeze")
    transpose_: Final = view_in_place(Shapes, "transpose")
    swapaxes_: Final = transpose_
    swapdims_: Final = transpose_
    t_: Final = view_in_place(Shapes, "t")
    frac_: Final = in_place(Arithmetic, "frac")
    deg2rad_: Final = in_place(Arithmetic, "deg2rad")
    rad2deg_: Final = in_place(Arithmetic, "rad2deg")
    sinc_: Final = in_place(Arithmetic, "sinc")
    heaviside_: Final = in_place(Arithmetic, "heaviside")
    gcd_: Final = in_place(Arithmetic, "gcd")
    lcm_: Final = in_place(Arithmetic, "lcm")
    ldexp_: Final = in_place(Arithmetic, "ldexp")
    float_power_: Final = in_place(Arithmetic, "float_power")
    mvlgamma_: Final = in_place(Arithmetic, "mvlgamma")
    lgamma_: Final = in_place(Gamma, "lgamma")
    i0_: Final = in_place(Gamma, "i0")
    digamma_: Final = in_place(Gamma, "digamma")
    polygamma_: Final = in_place(Gamma, "polygamma")
    scatter_reduce_: Final = in_place(Scattering, "scatter_reduce")
    index_reduce_: Final = in_place(Scattering, "index_reduce")
    put_: Final = in_place(Scattering, "put")
    masked_scatter_: Final = in_place(Scattering, "masked_scatter")
    renorm_: Final = in_place(Counting, "renorm")
    addmm_: Final = in_place(Matrices, "addmm")
    addmv_: Final = in_place(Matrices, "addmv")
    addr_: Final = in_place(Matrices, "addr")
    baddbmm_: Final = in_place(Matrices, "baddbmm")
    addbmm_: Final = in_place(Decomposing, "addbmm")
    eq_: Final = in_place(ElementwiseMethods, "eq")
    ne_: Final = in_place(ElementwiseMethods, "ne")
    lt_: Final = in_place(ElementwiseMethods, "lt")
    le_: Final = in_place(ElementwiseMethods, "le")
    gt_: Final = in_place(ElementwiseMethods, "gt")
    ge_: Final = in_place(ElementwiseMethods, "ge")
    logical_and_: Final = in_place(ElementwiseMethods, "logical_and")
    logical_or_: Final = in_place(ElementwiseMethods, "logical_or")
    logical_xor_: Final = in_place(ElementwiseMethods, "logical_xor")
    logical_not_: Final = in_place(ElementwiseMethods, "logical_not")
    bitwise_not_: Final = in_place(ElementwiseMethods, "bitwise_not")
    clamp_: Final = in_place(ElementwiseMethods, "clamp")
    clip_: Final = clamp_
    clamp_min_: Final = in_place(ElementwiseMethods, "clamp_min")
    clamp_max_: Final = in_place(ElementwiseMethods, "clamp_max")
    nextafter_: Final = in_place(ElementwiseMethods, "nextafter")
    fmod_: Final = in_place(ElementwiseMethods, "fmod")
    nan_to_num_: Final = in_place(ElementwiseMethods, "nan_to_num")
    xlogy_: Final = in_place(ElementwiseMethods, "xlogy")
    logit_: Final = in_place(ElementwiseMethods, "logit")
    cumsum_: Final = in_place(Reductions, "cumsum")
    cumprod_: Final = in_place(Reductions, "cumprod")
    tril_: Final = in_place(Moving, "tril")
    triu_: Final = in_place(Moving, "triu")
    not_equal_: Final = ne_
    less_: Final = lt_
    less_equal_: Final = le_
    greater_: Final = gt_
    greater_equal_: Final = ge_
