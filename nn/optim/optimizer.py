"""The base class of optimizers: parameter groups, and the state of parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np

from nn.module.module import Module
from nn.optim.chunks import real_chunks
from nn.optim.options import Bound, require_within
from nn.optim.state import calling_hooks, keep_state, keeping_state
from scopes import current_dispose_scope, dispose
from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand
from scopes.core.scope import ending_by
from scopes.tracking.memory_owners import note_role
from scopes.tracking.tracking import note_created, note_ended, note_made_for
from tensor import Tensor, TensorDisposedError, enable_grad
from tensor._dtypes import Array
from tensor._errors import shown
from tensor.autograd.engine import clear_gradients
from tensor.autograd.nesting import map_nested
from tensor.core.tensor import TensorCore, snapshot, wrap_snapshot, wrap_unowned
from tensor.kernels import empty, run_kernel
from tensor.kernels.updates import Step
from tensor.memory.allocator import is_in_budget
from tensor.memory.out_of_memory import OutOfMemoryError
from tensor.tape.hooks import HookTable, RemovableHandle
from tensor.tape.recording import Leaf

Group = dict[str, Any]

# Imported at its first use, because most programs use no budget.
_streaming: Any = ModuleOnDemand("nn.optim.streaming")


@set_module("nn.optim")
class Optimizer:
    """Base class of all optimizers.

    A subclass defines ``step``, as in PyTorch, and stores the state of ``parameter`` in
    ``self.state[parameter]``.

    The state of a parameter (momenta, averages) belongs to the optimizer, not to a scope. It stays alive when
    the scope of a step ends, until ``dispose()`` or the end of the last reference to the optimizer. State
    that your ``step`` or ``__init__`` stores is detached from the current scope when the method returns. If
    the method opens a scope itself, move the state out of that scope.

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    defaults
        The default options of groups.

    Attributes
    ----------
    param_groups
        The groups: dicts of options. Options may be changed at any time.
    state
        The state of each parameter: a dict, created when it is first read.
    """

    # Instead of `step`, most optimizers of this library define `_numbers`, `_formula` and the following.

    # The bounds of each option.
    _bounds: Mapping[str, Bound] = {}
    # The names of the tensors in the state of each parameter, if they do not depend on options.
    _state_names: tuple[str, ...] = ()
    # The name of the step counter in the state of each parameter.
    _counter: str | None = None
    # The name in `Step` of the compiled function that computes `_formula`.
    _rule: str | None = None

    param_groups: list[Group]
    state: defaultdict[Tensor, dict[str, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = calling_hooks(cls.step)  # type: ignore[method-assign]
        if cls.__module__.partition(".")[0] == "nn":  # no scope ever owns their state
            return
        for name in ("__init__", "step"):
            if name in vars(cls):
                setattr(cls, name, keeping_state(vars(cls)[name]))

    def __getstate__(self) -> dict[str, Any]:
        # A copy has no hooks, as in PyTorch.
        return {name: x for name, x in vars(self).items() if not isinstance(x, HookTable)}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        # A copy or an unpickled optimizer: its tensors were created in the current scope.
        vars(self).update(attributes)
        self._create_hook_tables()
        keep_state(self)

    def __init__(self, params: Iterable[Tensor] | Iterable[Group], defaults: Group) -> None:
        self.defaults = defaults
        self.param_groups = []
        self.state = defaultdict(dict)
        self._is_disposed = False
        self._create_hook_tables()
        note_created(self, current_dispose_scope())
        if isinstance(params, TensorCore):
            raise TypeError(
                f"{type(self).__name__} requires an iterable of tensors or dicts, not one tensor: write "
                "[parameter] or model.parameters()"
            )
        self._require_parameters(params)
        given: list[Any] = list(params)
        if not given:
            raise ValueError(
                f"{type(self).__name__} got no parameters: the model has none, or the iterator is exhausted. "
                "Write model.parameters() again for each optimizer"
            )
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def _create_hook_tables(self) -> None:
        self._pre_hooks, self._post_hooks = HookTable(), HookTable()
        self._is_stepping = False

    def register_step_pre_hook(self, hook: Callable[[Any, Any, Any], Any]) -> RemovableHandle:
        """Register ``hook(optimizer, args, kwargs)`` to run before each step.

        `args` begins with the optimizer itself. The hook returns None, or the new `args` and `kwargs`.
        Hooks run in the order of registration. A copy of the optimizer has no hooks.

        Examples
        --------
        >>> import nn
        >>> optimizer = nn.optim.SGD(nn.Linear(2, 1).parameters())
        >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
        >>> optimizer.step()
        before
        """
        return self._pre_hooks.register(hook)

    def register_step_post_hook(self, hook: Callable[[Any, Any, Any], Any]) -> RemovableHandle:
        """Register ``hook(optimizer, args, kwargs)`` to run after each step. Its result has no effect.

        `args` and `kwargs` are those of ``register_step_pre_hook``.
        """
        return self._post_hooks.register(hook)

    def _require_parameters(self, given: object) -> None:
        if isinstance(given, Module):
            name = type(self).__name__
            raise TypeError(
                f"{name} requires parameters, not a module: write {name}(model.parameters(), ...)"
            )

    def _require_group(self, given: object) -> None:
        if not isinstance(given, dict) or "params" not in given:
            raise TypeError(
                "a parameter group must be a dict with the parameters under the key 'params', not "
                f"{shown(given)}"
            )

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with tensors under ``"params"``, and its options that differ from the defaults.

        Raises
        ------
        TypeError
            If a parameter is not a tensor.
        ValueError
            If a parameter is not a leaf, is already in a group, or an option is out of its range.

        Examples
        --------
        >>> import nn
        >>> body, head = nn.Linear(2, 2), nn.Linear(2, 1)
        >>> optimizer = nn.optim.SGD(body.parameters(), lr=0.1)
        >>> optimizer.add_param_group({"params": head.parameters(), "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        self._require_group(param_group)
        given = param_group["params"]
        self._require_parameters(given)
        params: list[Any] = [given] if isinstance(given, TensorCore) else list(given)
        known = {id(x) for group in self.param_groups for x in group["params"]}
        for i, x in enumerate(params):
            if not isinstance(x, TensorCore):
                raise TypeError(
                    f"parameters of {type(self).__name__} must be tensors, not {type(x).__name__}: write "
                    "model.parameters(), or dicts with tensors under the key 'params'"
                )
            x._raise_if_disposed()
            if x._node is not None and not isinstance(x._node, Leaf):
                raise ValueError(
                    f"parameters of {type(self).__name__} must be leaves, but {x._node.name()} computed "
                    f"parameter {i}: pass the leaves that it depends on, or x.detach().requires_grad_()"
                )
            if id(x) in known:
                raise ValueError(
                    f"parameter {i} occurs twice, and each step would update it twice: remove it once"
                )
            known.add(id(x))
        options = {**self.defaults, **param_group}
        # Convert NumPy's scalars to Python's, because arithmetic with a NumPy float32 gives float32.
        group = {key: x.item() if isinstance(x, np.generic) else x for key, x in options.items()}
        group["params"] = params
        self._check_options(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Dispose the gradients of all parameters, or fill them with zeros.

        Examples
        --------
        >>> import nn, tensor
        >>> layer = nn.Linear(2, 1)
        >>> optimizer = nn.optim.SGD(layer.parameters(), lr=0.1)
        >>> layer(tensor.ones((1, 2))).sum().backward()
        >>> optimizer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        for group in self.param_groups:
            clear_gradients(group["params"], set_to_none)

    @calling_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, in place.

        Parameters
        ----------
        closure
            A function that computes the loss again, with gradients, and returns it. Most optimizers do not
            need it.

        Returns
        -------
        The result of `closure`, or None.

        Raises
        ------
        TensorDisposedError
            If a parameter or the optimizer is disposed. No parameter is updated.
        OutOfMemoryError
            If there is not enough memory for state, or for a copy of memory that clones share. No parameter
            is updated.
        RuntimeError
            Within a budget, if another thread uses a parameter while the step runs in blocks. No parameter is
            updated.

        Examples
        --------
        >>> import nn, tensor
        >>> x = nn.Parameter(tensor.tensor([1.0]))
        >>> optimizer = nn.optim.SGD([x], lr=0.5)
        >>> (x * 2).sum().backward()
        >>> optimizer.step()
        >>> x.tolist()
        [0.0]
        """
        self._raise_if_disposed()
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if is_in_budget() and _streaming.steps_in_blocks(self) and _streaming.step_in_blocks(self):
            return loss
        try:
            self._step_in_memory()
        except OutOfMemoryError:
            if self._rule is None or not is_in_budget():
                raise
            is_short = True
        else:
            is_short = False
        # Outside of the handler, where Python no longer refers to the error and its frames.
        if is_short and not _streaming.step_in_blocks(self):
            self._step_in_memory()  # raises the error again
        return loss

    def _step_in_memory(self) -> None:
        step = Step(self._rule)
        for group in self.param_groups:
            for params, names in self._parts(group):
                step.gather(
                    params,
                    self.state,
                    names,
                    self._counter,
                    partial(self._new_state, group),
                    partial(self._numbers, group),
                )
        step.run(self._update_plainly)

    def _update_plainly(self, numbers: tuple[float, ...], arrays: list[Array]) -> None:
        for p, g, *state in real_chunks(arrays):
            self._formula(numbers, p, g, state)

    def _parts(self, group: Group) -> Sequence[tuple[list[Tensor], tuple[str, ...]]]:
        """Return lists of parameters of `group`, each with the names of the tensors in their states."""
        return ((group["params"], self._tensors(group)),)

    def _tensors(self, group: Group) -> tuple[str, ...]:  # noqa: ARG002  # subclasses use it
        """Return the names of the tensors in the state of each parameter of `group`."""
        return self._state_names

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        """Return the argument `numbers` of `_formula` and of the compiled rule.

        `steps` is the number of earlier steps of the parameter. If ``_counter`` is None, it is 0 if some
        tensors of the state are new, else 1.
        """
        raise NotImplementedError

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        """Update a parameter `p` and its `state` in place. Do not change its gradient `g`.

        ``step`` calls it where no compiled rule applies: without a ``_rule``, for float16, for memory with
        gaps, and for memory that tensors share. Its results are bit-identical to those of the compiled rule.
        """
        raise NotImplementedError

    def _check_options(self, group: Group) -> None:
        """Raise ``ValueError`` if an option is out of its range."""
        require_within(type(self).__name__, group, self._bounds)

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options. Parameters are numbered in the order of the groups.

        The tensors in it are clones. They belong to the current scope, and later steps do not change them.
        The next step copies their memory.

        Examples
        --------
        >>> import nn
        >>> optimizer = nn.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0, 1]
        """
        self._raise_if_disposed()
        numbers: dict[int, int] = {}
        groups: list[Group] = []
        for group in self.param_groups:
            # A parameter that occurs again keeps its first number.
            first = sum(len(earlier["params"]) for earlier in groups)
            for i, x in enumerate(group["params"], first):
                numbers.setdefault(id(x), i)
            options = {key: value for key, value in group.items() if key != "params"}
            groups.append({**options, "params": [numbers[id(x)] for x in group["params"]]})
        state = {
            numbers[id(x)]: {
                key: map_nested(value, _snapshot, f"{key!r} of the state: its values")
                for key, value in held.items()
            }
            for x, held in self.state.items()
            if id(x) in numbers
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load state and options from a result of ``state_dict()``. Tensors are copied.

        If a value does not fit, the error names it, and nothing changes.

        Raises
        ------
        ValueError
            If groups, their sizes, or a shape differ.
        KeyError
            If ``"state"`` or ``"param_groups"`` is missing.

        Examples
        --------
        >>> import nn
        >>> model = nn.Linear(2, 1)
        >>> first, second = (nn.optim.SGD(model.parameters(), lr=rate) for rate in (0.1, 0.2))
        >>> second.load_state_dict(first.state_dict())
        >>> second.param_groups[0]["lr"]
        0.1
        """
        self._raise_if_disposed()
        name = type(self).__name__
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"{name}.load_state_dict requires a dict from state_dict(), not {type(state_dict).__name__}"
            )
        for key in ("param_groups", "state"):
            if key not in state_dict:
                raise KeyError(
                    f"{name}.load_state_dict requires a dict from state_dict(), with the key {key!r}"
                )
        saved, held = list(state_dict["param_groups"]), dict(state_dict["state"])
        sizes, own = [len(g["params"]) for g in saved], [len(g["params"]) for g in self.param_groups]
        if sizes != own:
            raise ValueError(
                f"the groups of the state dict have {sizes} parameters, but those of this {name} have {own}. "
                "Nothing was loaded: create the optimizer with the same parameters in the same order"
            )
        params = {
            number: x
            for group, old in zip(self.param_groups, saved, strict=True)
            for number, x in zip(old["params"], group["params"], strict=True)
        }
        groups = [
            {**group, **{key: value for key, value in old.items() if key != "params"}}
            for group, old in zip(self.param_groups, saved, strict=True)
        ]
        for group in groups:
            self._check_options(group)
        state = defaultdict(dict, {params[number]: values for number, values in self._loaded(params, held)})
        before = self.state
        # Set state and groups in one call, so that an interrupt leaves either both old or both new.
        vars(self).update(state=state, param_groups=groups)
        dispose(*before.values())

    def _loaded(
        self, params: dict[Any, Tensor], held: dict[Any, Mapping[str, Any]]
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield the number and the state of each parameter, with copies of the tensors in the state."""
        for number, values in held.items():
            x = params.get(number)
            if x is None:
                raise ValueError(
                    f"the state dict holds parameter {number!r}, but no group has it. Nothing was loaded"
                )
            x._raise_if_disposed()
            loaded: dict[str, Any] = {}
            for key, value in values.items():
                name = f"{key!r} of parameter {number}"
                self._raise_unless_fits(name, value, x, self._shape_of(key, x))
                loaded[key] = map_nested(value, _copied, f"{name}: its values")
            yield number, loaded

    def _raise_unless_fits(self, name: str, value: object, x: Tensor, shape: tuple[int, ...]) -> None:
        """Raise ``ValueError`` if `value` is an array or a tensor with neither `shape` nor shape ``()``."""
        if isinstance(value, (Tensor, np.ndarray)) and value.shape not in ((), shape):
            raise ValueError(
                f"{name} has shape {value.shape} in the state dict, but must have shape {shape} for a "
                f"parameter of shape {x.shape}. Nothing was loaded"
            )

    def _shape_of(self, name: str, x: Tensor) -> tuple[int, ...]:  # noqa: ARG002  # subclasses use it
        """Return the shape of the tensor `name` in the state of `x`."""
        return x.shape

    def _raise_if_disposed(self) -> None:
        if self._is_disposed:
            raise TensorDisposedError(
                f"this {type(self).__name__} is disposed, and its state too: dispose it after the last step, "
                "or create a new one with model.parameters()"
            )

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:  # noqa: ARG002  # subclasses use it
        """Return the initial tensor `name` of the state of `x`: zeros."""
        return self._filled_like(x, 0.0)

    def _filled_like(self, x: Tensor, value: float) -> Tensor:
        """Return a tensor like `x`, filled with `value`: both parts of complex numbers. No scope owns it."""
        array = x._array
        if array is None:
            x._raise_disposed()
        filled = empty(array.shape, array.dtype, array)
        filled.fill(complex(value, value) if array.dtype.kind == "c" else value)
        return self._unowned(filled)

    def _unowned(self, array: Array) -> Tensor:
        """Return a tensor of the state over the memory of `array`. No scope owns it."""
        made = wrap_unowned(array)
        note_made_for(self, made)
        return made

    def _drop_state(self) -> None:
        state, self.state = self.state, defaultdict(dict)
        dispose(*state.values())

    def dispose(self) -> None:
        """Dispose the state and drop the parameters, which stay alive. A second call does nothing.

        Examples
        --------
        >>> import nn
        >>> with nn.optim.Adam(nn.Linear(2, 1).parameters()) as optimizer:
        ...     optimizer.step()
        >>> optimizer.is_disposed
        True
        """
        self._is_disposed = True
        note_ended(self, ending_by(None))
        self._drop_state()
        self.param_groups = []

    @property
    def is_disposed(self) -> bool:
        """Whether ``dispose`` was called."""
        return self._is_disposed

    @property
    def nbytes(self) -> int:
        """The memory of the state, in bytes."""
        held: list[object] = []
        for values in self.state.values():
            map_nested(values, held.append, "the state's values")
        return sum(x._array.nbytes for x in held if isinstance(x, TensorCore) and x._array is not None)

    def __enter__(self) -> Self:
        self._raise_if_disposed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.dispose()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _snapshot(value: Any) -> Any:
    return wrap_snapshot(value) if isinstance(value, TensorCore) else value


def _copied(value: Any) -> Any:
    """Copy a tensor or an array to a new tensor that no scope owns. Return other values unchanged."""
    if isinstance(value, TensorCore):
        value = snapshot(value)
    return wrap_unowned(run_kernel(np.array, value, order="C")) if isinstance(value, np.ndarray) else value


note_role(Optimizer, "optimizer")
