"""L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from nn.module.gradients import gradient_of
from nn.optim.line_search import Point, strong_wolfe
from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import bounds
from scopes._shared.naming import set_module
from tensor import Tensor, enable_grad
from tensor._dtypes import Array
from tensor._errors import shown
from tensor.core.tensor import snapshot, writing_all
from tensor.kernels import empty, run_kernel


@set_module("nn.optim")
class LBFGS(Optimizer):
    """L-BFGS: a quasi-Newton method that estimates second derivatives from recent gradients (Nocedal, 1980).

    One step calls a closure several times to evaluate the loss. The loss should be over all data, not over a
    batch. All parameters are in one group and form one vector. The state is stored with the first parameter.

    Parameters
    ----------
    params
        Leaf tensors.
    lr
        The step length, or the first step length of the line search.
    max_iter
        The most iterations in one step.
    max_eval
        The most evaluations of the loss in one step; by default 1.25 times `max_iter`. A line search may add
        one evaluation.
    tolerance_grad
        A step ends when no absolute value in the gradient is larger than this.
    tolerance_change
        A step ends when the loss changes by less than this, or no parameter changes by more than this.
    history_size
        The number of past iterations to keep, each as two vectors of the size of all parameters.
    line_search_fn
        None, or ``"strong_wolfe"`` for a line search in each iteration.

    Raises
    ------
    ValueError
        If an option is out of its range, or there is more than one group.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0, 2.0]))
    >>> optimizer = nn.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - 3) ** 4).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    17.0
    >>> [round(v, 1) for v in x.tolist()]
    [3.0, 3.0]
    """

    _bounds = bounds("lr", "max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size")

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        """Add the group of all parameters, the only one.

        Raises
        ------
        ValueError
            If the optimizer already has a group.
        """
        if self.param_groups:
            raise ValueError("LBFGS supports one parameter group only: pass a list of tensors")
        super().add_param_group(param_group)

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(
                f"LBFGS: line_search_fn must be None or 'strong_wolfe', not {shown(group['line_search_fn'])}"
            )

    def _shape_of(self, name: str, x: Tensor) -> tuple[int, ...]:  # noqa: ARG002
        return (_Parameters(self.param_groups[0]["params"]).size,)

    def _raise_unless_fits(self, name: str, value: object, x: Tensor, shape: tuple[int, ...]) -> None:  # noqa: ARG002
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, (Tensor, np.ndarray)) and each.shape not in ((), shape):
                raise ValueError(
                    f"{name} has shape {each.shape} in the state dict, but must have shape {shape}, because "
                    f"the parameters have {shape[0]} elements. Nothing was loaded"
                )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Minimize the loss that `closure` evaluates, in up to ``max_iter`` iterations.

        If `closure` or another part raises an error, the parameters get the values that they had before the
        step, and the state does not change.

        Parameters
        ----------
        closure
            A function that clears the gradients, computes the loss and its gradients, and returns the loss.

        Returns
        -------
        The result of the first call of `closure`.

        Raises
        ------
        TypeError
            If `closure` is None.
        TensorDisposedError
            If a parameter or the optimizer is disposed.
        """
        self._raise_if_disposed()
        if closure is None:
            raise TypeError(
                "LBFGS evaluates the loss several times in a step: pass a closure that clears the gradients, "
                "computes the loss, calls backward() and returns the loss"
            )
        group = self.param_groups[0]
        parameters = _Parameters(group["params"])
        run = _Run(self, group, parameters, closure)
        try:
            loss = run.minimize()
        except BaseException:
            if run.before is not None:
                parameters.write(run.before)
            raise
        self.state[group["params"][0]] = run.state
        return loss


class _Parameters:
    """All parameters as one vector. Real and imaginary parts are separate elements."""

    def __init__(self, tensors: list[Tensor]) -> None:
        for x in tensors:
            x._raise_if_disposed()
        self.tensors = tensors
        self.sizes = [math.prod(x.shape) * (2 if x.dtype.kind == "c" else 1) for x in tensors]
        self.size = sum(self.sizes)

    def values(self) -> list[Array]:
        """Return snapshots of the values, which later writes do not change."""
        return [snapshot(x) for x in self.tensors]

    def gradient(self) -> Array:
        """Return the gradients as one vector, with zeros for parameters without a gradient."""
        arrays = [x._live_array() for x in self.tensors]
        vector = empty((self.size,), np.result_type(*(a.real.dtype for a in arrays)), None)
        for x, part in self._parts(vector):
            grad = gradient_of(x)
            part[...] = 0 if grad is None else _as_reals(grad._live_array())
        return vector

    def write(self, values: list[Array]) -> None:
        """Write `values` to the parameters, all or none."""
        with writing_all(self.tensors) as arrays:
            for array, value in zip(arrays, values, strict=True):
                array[...] = value

    def move(self, start: list[Array], t: float, direction: Array) -> None:
        """Write `start` plus `t` times `direction` to the parameters, all or none."""
        with writing_all(self.tensors) as arrays:
            for array, value, (_, part) in zip(arrays, start, self._parts(direction), strict=True):
                step = np.asarray(part * t, array.real.dtype)
                np.add(value, step.view(array.dtype).reshape(array.shape), out=array)

    def _parts(self, vector: Array) -> Iterator[tuple[Tensor, Array]]:
        end = 0
        for x, size in zip(self.tensors, self.sizes, strict=True):
            end += size
            yield x, vector[end - size : end]


def _as_reals(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)


class _Run:
    """One step. It changes a copy of the optimizer's state. `LBFGS.step` stores this copy at the end."""

    def __init__(
        self, optimizer: LBFGS, group: Group, parameters: _Parameters, closure: Callable[[], Any]
    ) -> None:
        self.keep = optimizer._unowned
        self.options = group
        self.parameters = parameters
        self.closure = closure
        # The values of the parameters before the step.
        self.before: list[Array] | None = None
        first: dict[str, Any] = optimizer.state.get(group["params"][0], {})
        lists = {name: list(first.get(name, ())) for name in ("old_dirs", "old_stps", "ro")}
        self.state = {"func_evals": 0, "n_iter": 0, **first, **lists}

    def minimize(self) -> Any:
        """Update the parameters to reduce the loss, and return the first result of the closure."""
        options, state = self.options, self.state
        first = self._evaluate()
        loss, grad, evaluations = float(first), run_kernel(self.parameters.gradient), 1
        state["func_evals"] += 1
        if _largest(grad) <= options["tolerance_grad"]:
            return first
        for iteration in range(1, options["max_iter"] + 1):
            state["n_iter"] += 1
            is_new = state["n_iter"] == 1
            t: float = options["lr"]
            if is_new:
                state["H_diag"] = 1.0
                t = min(1.0, 1.0 / np.abs(grad).sum()) * t
            else:
                self._remember(grad)
            direction = run_kernel(self._direction, grad)
            slope = grad.dot(direction)
            previous = loss
            state |= {"d": self.keep(direction), "prev_flat_grad": self.keep(grad), "prev_loss": loss}
            if slope > -options["tolerance_change"]:
                state["t"] = t
                break
            start = self.parameters.values()
            self.before = self.before or start
            if options["line_search_fn"] is None:
                run_kernel(self.parameters.move, start, t, direction)
                made = 0
                if iteration < options["max_iter"]:
                    loss, grad, made = float(self._evaluate()), run_kernel(self.parameters.gradient), 1
            else:
                found, made = strong_wolfe(
                    partial(self._point, start, direction),
                    Point(0.0, loss, grad, slope),
                    t,
                    _largest(direction),
                    max(0, options["max_eval"] - evaluations),
                )
                t, loss, grad = found.t, found.loss, found.gradient
                run_kernel(self.parameters.move, start, t, direction)
            evaluations += made
            state["func_evals"] += made
            state["t"] = t
            if evaluations >= options["max_eval"] or _largest(grad) <= options["tolerance_grad"]:
                break
            tolerance = options["tolerance_change"]
            if _largest(direction) * abs(t) <= tolerance or abs(loss - previous) < tolerance:
                break
        return first

    def _evaluate(self) -> Any:
        with enable_grad():
            return self.closure()

    def _point(self, start: list[Array], direction: Array, t: float) -> Point:
        run_kernel(self.parameters.move, start, t, direction)
        loss = float(self._evaluate())
        grad = run_kernel(self.parameters.gradient)
        return Point(t, loss, grad, grad.dot(direction))

    def _remember(self, grad: Array) -> None:
        """Store the last step and the change of the gradient in it, if the curvature is above 1e-10."""
        state = self.state
        change = run_kernel(np.subtract, grad, state["prev_flat_grad"]._live_array())
        step = run_kernel(np.multiply, state["d"]._live_array(), float(state["t"]))
        curvature = change.dot(step)
        if curvature <= 1e-10:
            return
        held = state["old_dirs"], state["old_stps"], state["ro"]
        for values, new in zip(held, (self.keep(change), self.keep(step), 1.0 / curvature), strict=True):
            values.append(new)
            del values[: max(0, len(values) - self.options["history_size"])]
        state["H_diag"] = curvature / change.dot(change)

    def _direction(self, grad: Array) -> Array:
        """Return the search direction: the negative gradient times the estimate of the inverse Hessian."""
        changes, steps = ([x._live_array() for x in self.state[name]] for name in ("old_dirs", "old_stps"))
        weights = [float(ro) for ro in self.state["ro"]]
        direction = -grad
        shares = [0.0] * len(weights)
        for i in reversed(range(len(weights))):
            shares[i] = steps[i].dot(direction) * weights[i]
            direction -= changes[i] * shares[i]
        direction *= self.state["H_diag"]
        for i, weight in enumerate(weights):
            direction += steps[i] * (shares[i] - changes[i].dot(direction) * weight)
        return direction


def _largest(vector: Array) -> float:
    """Return the largest absolute value in `vector`."""
    return float(max(vector.max(initial=0), -vector.min(initial=0)))
