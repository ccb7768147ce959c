"""``gradcheck`` and ``gradgradcheck``: compare first and second derivatives with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes._shared.tracebacks import clear_library_frames
from tensor.autograd.differences import Comparison, GradcheckError, as_tuple, floating, is_tensor
from tensor.autograd.gradients import grad
from tensor.core.tensor import wrap
from tensor.creation.from_data import zeros_like
from tensor.tape.modes import enable_grad

if TYPE_CHECKING:
    from tensor._tensor import Tensor

    Function = Callable[..., Tensor | Sequence[Tensor]]

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def gradcheck(
    func: Function,
    inputs: Tensor | Sequence[object],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare the gradients of `func` with central differences, for each output and input element.

    Also check that two calls give the same gradients, and that a gradient of zeros gives zeros. Each element
    of the inputs is changed in place by `eps`, and then restored. So `func` need not use its arguments: in
    ``lambda x, *_: model(x)`` the further inputs may be the model's parameters. The ``grad`` of the inputs
    does not change.

    Parameters
    ----------
    func
        Takes `inputs` and returns a tensor or a tuple of tensors. It must be deterministic. Outputs of
        integers and bools are ignored. An output without gradient history is a constant, with derivative 0.
    inputs
        A tensor, or a tuple of arguments. The tensors that require grad are checked; they should have double
        precision. All other arguments are constants.
    eps
        The change of an element in both directions.
    atol, rtol
        The tolerance is ``atol + rtol * abs(differences)``.
    raise_exception
        If false, return False instead of raising a `GradcheckError`.

    Raises
    ------
    GradcheckError
        If a gradient does not match the differences, or another check fails.
    ValueError
        If no input requires grad, if no output is floating or complex, or if elements of inputs share memory,
        so that one can't be changed alone.
    TypeError
        If `func` returns other objects than tensors.

    Warns
    -----
    UserWarning
        If an input that requires grad has less than double precision, which makes differences inaccurate.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.tensor([0.5, 2.0], dtype=tensor.float64, requires_grad=True)
    >>> autograd.gradcheck(lambda x: (x * x).sum(), x)
    True
    >>> autograd.gradcheck(lambda x: x * x.detach(), x, raise_exception=False)
    False
    """
    return _passes(lambda: _compare_first(func, inputs, (eps, atol, rtol)), raise_exception)


def gradgradcheck(
    func: Function,
    inputs: Tensor | Sequence[object],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare the second derivatives of `func` with finite differences of its gradients.

    It is ``gradcheck`` of the function of `inputs` and `grad_outputs` that returns the gradients of the
    inputs, computed by ``autograd.grad(..., create_graph=True)``.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception
        As in ``gradcheck``.
    grad_outputs
        The gradient of each floating or complex output, in its shape and dtype. Those that require grad are
        checked too. By default, random tensors that require grad: values from -1 to 1, the same in each call.

    Raises
    ------
    GradcheckError, ValueError, TypeError
        As in ``gradcheck``. Also a `ValueError` if no output of `func` has gradient history.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.tensor([0.5, 2.0], dtype=tensor.float64, requires_grad=True)
    >>> autograd.gradgradcheck(lambda x: x.sin() * x, x)
    True
    """
    tolerances = (eps, atol, rtol)
    return _passes(lambda: _compare_second(func, inputs, grad_outputs, tolerances), raise_exception)


def _passes(compare: Callable[[], None], raise_exception: bool) -> bool:
    try:
        with enable_grad():
            compare()
    except BaseException as error:
        # So that a stored error keeps no tensor memory alive.
        clear_library_frames(error)
        if isinstance(error, GradcheckError) and not raise_exception:
            return False
        raise
    return True


def _compare_first(func: Function, inputs: object, tolerances: tuple[float, float, float]) -> None:
    name = "gradcheck"
    arguments = as_tuple(inputs)
    _wanted(name, arguments)
    Comparison(name, func, arguments, _named("inputs", arguments), *tolerances).run()


def _compare_second(
    func: Function, inputs: object, grad_outputs: object, tolerances: tuple[float, float, float]
) -> None:
    name = "gradgradcheck"
    arguments = as_tuple(inputs)
    count = len(arguments)
    wanted = _wanted(name, arguments)
    outputs = floating(name, func(*arguments))
    given = _random_like(outputs) if grad_outputs is None else as_tuple(grad_outputs)
    if len(given) != len(outputs):
        raise ValueError(f"{name}: {len(outputs)} outputs need {len(outputs)} grad_outputs, not {len(given)}")
    if not any(x.requires_grad for x in outputs):
        raise ValueError(f"{name}: no output of the function has gradient history to differentiate")
    del outputs

    def gradients(*both: Any) -> list[Tensor]:
        by = [both[i] for i in wanted]
        pairs = zip(floating(name, func(*both[:count])), both[count:], strict=True)
        ends, weights = zip(*[(x, g) for x, g in pairs if x.requires_grad], strict=True)
        found = grad(ends, by, weights, retain_graph=True, create_graph=True, allow_unused=True)
        return [zeros_like(x) if g is None else g for x, g in zip(by, found, strict=True)]

    names = [*_named("inputs", arguments), *_named("grad_outputs", given)]
    results = [f"the gradient of {names[i]}" for i in wanted]
    Comparison(name, gradients, (*arguments, *given), names, *tolerances, results).run()


def _named(what: str, arguments: tuple[object, ...]) -> list[str]:
    return [f"{what}[{i}]" for i in range(len(arguments))]


def _wanted(name: str, inputs: tuple[object, ...]) -> list[int]:
    """Return the indices of the inputs that require grad."""
    wanted = [i for i, x in enumerate(inputs) if is_tensor(x) and x.requires_grad]
    if not wanted:
        raise ValueError(
            f"{name}: none of the inputs requires grad, so there is nothing to check. Create them with "
            "requires_grad=True"
        )
    return wanted


def _random_like(outputs: list[Tensor]) -> tuple[Tensor, ...]:
    numbers = np.random.default_rng(0)
    found = []
    for x in outputs:
        array = numbers.uniform(-1, 1, x.shape)
        if x.dtype.kind == "c":
            array = array + 1j * numbers.uniform(-1, 1, x.shape)
        found.append(wrap(np.asarray(array, x.dtype)).requires_grad_())
    return tuple(found)
