"""The base class of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from os import PathLike
from pickle import UnpicklingError
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from nn.module.calling import Callable as CallableModule
from nn.module.conversion import convert, dtype_of
from nn.module.owners import add_owner, owners_of, remove_owner
from nn.module.parameter import Parameter
from nn.module.states import IncompatibleKeys, assign_values, copy_values, require_array, require_fit
from nn.module.uninitialized import Uninitialized, UninitializedBuffer, UninitializedParameter
from scopes import dispose
from scopes._shared.advice import advise_calls_of
from scopes._shared.naming import set_module
from scopes._shared.on_demand import ModuleOnDemand, in_snake_case
from scopes._shared.tracebacks import clear_frames_of
from scopes.core.keepers import add_keeper, forget_keeper, note_held
from scopes.core.scope import owner_of
from scopes.tracking.members import show_members
from scopes.tracking.memory_owners import note_role
from tensor import Device, Tensor, TensorDisposedError, float16, float32, float64
from tensor._advice import call_advice
from tensor._dtypes import DtypeLike, as_dtype, is_floating, is_inexact
from tensor._errors import InvalidArgumentError, shown
from tensor.autograd.engine import clear_gradients
from tensor.core.tensor import TensorCore
from tensor.ops.casts import dtype_asked
from tensor.tape.hooks import HookTable, RemovableHandle
from tensor.tape.modes import is_recording

if TYPE_CHECKING:
    from nn.module import backward_hooks
else:
    backward_hooks = ModuleOnDemand("nn.module.backward_hooks")

Kind = Literal["parameter", "buffer", "module"]
When = Literal["before", "after", "backward"]

# Attributes of every module.
_OWN_ATTRIBUTES = frozenset({"_kinds", "_transient", "_hooks", "_trainable"})

# Methods of TorchSharp's modules.
_ADVICE = {
    "RegisterComponents": (
        ": omit it, because an assignment registers parameters and modules; write "
        "self.register_buffer(name, x) for other tensors"
    ),
    "load": ": write module.load_state_dict(tensor.load(path))",
    "save": ": write tensor.save(module.state_dict(), path)",
}

BEFORE_INIT = "{kind} is not initialized: call super().__init__() at the start of its __init__"

clear_frames_of("nn")
advise_calls_of("nn", call_advice)


@set_module("nn")
class Module(CallableModule):
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

    _kinds: dict[str, Kind]
    # The names of buffers that are not in state dicts.
    _transient: set[str]
    _is_disposed: bool
    # By when they run: "before" or "after" forward, or in "backward". Other kinds have no table yet.
    _hooks: dict[When, HookTable]
    training: bool
    # Whether the class has cached properties, which write attributes without ``__setattr__``.
    _has_cached_properties = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._has_cached_properties = any(
            type(value) is cached_property for base in cls.__mro__ for value in vars(base).values()
        )

    def __init__(self) -> None:
        own = self.__dict__
        own.setdefault("_kinds", {})
        own.setdefault("_transient", set())
        own.setdefault("_is_disposed", False)
        own.setdefault("_hooks", {})
        own.setdefault("training", True)
        add_keeper(self)
        if self._has_cached_properties:
            note_held(self, own)

    def _table(self, when: When) -> HookTable:
        """Return the table of the hooks that run at the time `when`."""
        return self._hooks.setdefault(when, HookTable())

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        kinds = own.get("_kinds")
        if isinstance(value, (Parameter, Module)):
            if kinds is None:
                raise AttributeError(BEFORE_INIT.format(kind=type(self).__name__))
            self._put(name, "parameter" if isinstance(value, Parameter) else "module", value)
        elif kinds is None or name not in kinds:
            object.__setattr__(self, name, value)
            note_held(self, value)
        elif value is None or (kinds[name] == "buffer" and isinstance(value, TensorCore)):
            self._put(name, kinds[name], value)
        else:
            kind = kinds[name]
            needed = {"parameter": "an nn.Parameter", "buffer": "a tensor", "module": "an nn.Module"}[kind]
            advice = (
                "Write nn.Parameter(x). " if kind == "parameter" and isinstance(value, TensorCore) else ""
            )
            raise TypeError(
                f"{name!r} is a {kind} of this {type(self).__name__}: assign {needed} or None, not "
                f"{type(value).__name__}. {advice}To make it a plain attribute, write `del module.{name}` "
                "first"
            )

    def __delattr__(self, name: str) -> None:
        """Remove the name. Unlike a replacement, this does not dispose the value."""
        kinds = self.__dict__.get("_kinds", {})
        if kinds.pop(name, None) is None:
            object.__delattr__(self, name)
            return
        self._transient.discard(name)
        remove_owner(self.__dict__.pop(name), self)

    if not TYPE_CHECKING:  # with this method, type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            # Python calls this only if there is no such attribute.
            if "_kinds" not in self.__dict__ and not name.startswith("__"):
                raise AttributeError(BEFORE_INIT.format(kind=type(self).__name__))
            python_name = in_snake_case(name)
            if python_name != name and hasattr(type(self), python_name):  # a program in C# writes Dispose
                close = [python_name]
            else:
                from difflib import get_close_matches

                close = get_close_matches(name, self.__dict__, n=1)
            hint = f": did you mean {close[0]!r}?" if close else _ADVICE.get(name, "")
            # With `name`, Python adds no suggestion of its own.
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_kinds" not in state:
            raise UnpicklingError(
                f"PyTorch saved this {type(self).__name__}, and its modules have another format: in PyTorch, "
                "save model.state_dict(), and load it with load_state_dict()"
            )
        self.__dict__.update(state)
        add_keeper(self)
        for name, value in state.items():
            if name not in self._kinds and name not in _OWN_ATTRIBUTES:
                note_held(self, value)
        for _, _, value in self._registered():
            unscope(value)
            add_owner(value, self)

    # --- Registration ---------------------------------------------------------------------------------------

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Register `parameter` under `name`, as an assignment does; None reserves the name.

        Examples
        --------
        >>> import nn, tensor
        >>> module = nn.Module()
        >>> module.register_parameter("scale", nn.Parameter(tensor.ones((1,))))
        >>> [name for name, _ in module.named_parameters()]
        ['scale']
        """
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(
                f"parameter {name!r} of {type(self).__name__} must be an nn.Parameter or None, not "
                f"{type(parameter).__name__}: write nn.Parameter(x), or register_buffer() for a tensor that "
                "is not trained"
            )
        self._register(name, "parameter", parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is part of the module's state but not trained.

        Parameters
        ----------
        name
            The name of the attribute.
        tensor
            The tensor. It is not copied, and is detached from its scope. None reserves the name.
        persistent
            Whether state dicts contain it.

        Examples
        --------
        >>> import nn, tensor
        >>> module = nn.Module()
        >>> module.register_buffer("mean", tensor.zeros((2,)))
        >>> module.mean.tolist()
        [0.0, 0.0]
        """
        if tensor is not None and not isinstance(tensor, TensorCore):
            raise TypeError(
                f"buffer {name!r} of {type(self).__name__} must be a tensor or None, not "
                f"{type(tensor).__name__}"
            )
        self._register(name, "buffer", tensor)
        if persistent:
            self._transient.discard(name)
        else:
            self._transient.add(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Register `module` under `name`, as an assignment does.

        Examples
        --------
        >>> import nn
        >>> module = nn.Module()
        >>> module.register_module("head", nn.Linear(2, 1))
        >>> module.head
        Linear(in_features=2, out_features=1, bias=True)
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"module {name!r} of {type(self).__name__} must be an nn.Module or None, not "
                f"{type(module).__name__}"
            )
        self._register(name, "module", module)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register `module` under `name`: PyTorch's alias of ``register_module``."""
        self.register_module(name, module)

    def _register(self, name: str, kind: Kind, value: Any) -> None:
        if "_kinds" not in self.__dict__:
            raise AttributeError(BEFORE_INIT.format(kind=type(self).__name__))
        if not isinstance(name, str):
            raise TypeError(f"the name of a {kind} must be a str, not {name!r}: write {str(name)!r}")
        if type(name) is not str or not name or "." in name:
            raise ValueError(
                f"the name of a {kind} must be a non-empty str without dots, not {name!r}: state dicts join "
                "names with dots"
            )
        if self._kinds.get(name) != kind and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute {name!r}: use another name")
        self._put(name, kind, value)

    def _put(self, name: str, kind: Kind, value: Any) -> None:
        if isinstance(value, TensorCore):
            value._raise_if_disposed()
        elif isinstance(value, Module):
            value._raise_if_module_is_disposed()
            if any(inner is self for inner in value._tree()):
                raise ValueError(f"{name!r}: a module can't contain itself, directly or in a submodule")
        own = self.__dict__
        before = own.get(name) if name in self._kinds else None
        if before is value and self._kinds.get(name) == kind and value is not None:
            return
        unscope(value)
        own[name] = value
        self._kinds[name] = kind
        if kind != "buffer":
            self._transient.discard(name)
        if value is not None:
            add_owner(value, self)
        if before is not None and before is not value:
            _dispose_replaced(before, self)

    def _registered(self) -> Iterator[tuple[str, Kind, Any]]:
        """Yield name, kind and value of this module's own registrations, without None."""
        own = self.__dict__
        for name, kind in list(self._kinds.items()):
            value = own.get(name)
            if value is not None:
                yield name, kind, value

    def _tree(self) -> Iterator[Module]:
        """Yield this module and all submodules, each once, outer ones first."""
        seen: set[int] = set()
        stack: list[Module] = [self]
        while stack:
            module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield module
                stack += reversed([x for _, kind, x in module._registered() if kind == "module"])

    def __disposables__(self) -> list[object]:
        # If a scope moves the module, it also moves all disposables in attributes, even those that the module
        # does not own. Skip iterators, because the search would exhaust them.
        return [value for value in self.__dict__.values() if not isinstance(value, Iterator)]

    # --- Lifetime -------------------------------------------------------------------------------------------

    @property
    def is_disposed(self) -> bool:
        """Whether ``dispose`` was called."""
        return self._is_disposed

    def dispose(self) -> None:
        """Dispose all parameters, buffers and submodules; a second call does nothing.

        This includes values that other modules have registered too. Tensors in plain attributes are not
        disposed: register them as buffers if they should be.

        Raises
        ------
        ExceptionGroup
            The errors of single disposals, raised after all are disposed.

        Examples
        --------
        >>> import nn, tensor
        >>> layer = nn.Linear(2, 2)
        >>> layer.dispose()
        >>> layer.weight.is_invalid
        True
        """
        self._dispose_but(frozenset())

    def _dispose_but(self, kept: frozenset[int]) -> None:
        """Dispose everything in this module and its submodules, except objects with ids in `kept`."""
        inside: dict[int, Module] = {}
        ending: list[Any] = []
        waiting = [self]
        while waiting:
            module = waiting.pop()
            if module._is_disposed or id(module) in inside:
                continue
            inside[id(module)] = module
            for _, kind, value in module._registered():
                if id(value) in kept:
                    continue
                # Call the `dispose` of a class that defines its own, unless there are objects to keep.
                if kind == "module" and (kept or type(value).dispose is Module.dispose):
                    waiting.append(value)
                else:
                    ending.append(value)
        try:
            for module in inside.values():
                module.__dict__["_is_disposed"] = True
                forget_keeper(module)
        finally:
            dispose(ending)

    def _raise_if_module_is_disposed(self) -> None:
        if not self._is_disposed:
            return
        names = [f"{kind} {name!r}" for name, kind, value in self._registered() if kind != "module"]
        detail = f": its {names[0]} is empty" if names else ""
        raise TensorDisposedError(
            f"this {type(self).__name__} is disposed{detail}. Dispose a module after its last use, or copy "
            "it with copy.deepcopy(module) before"
        )

    def __enter__(self) -> Self:
        self._raise_if_module_is_disposed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.dispose()

    # --- Parameters, buffers and submodules with their dotted names -----------------------------------------

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield this module and all submodules with their dotted names, outer ones first.

        Parameters
        ----------
        prefix
            The name of this module.
        remove_duplicate
            Yield a module with several names once, under its first name.

        Examples
        --------
        >>> import nn, tensor
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1']
        """
        seen: set[int] = set()
        stack: list[tuple[str, Any]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if remove_duplicate:
                if id(module) in seen:
                    continue
                seen.add(id(module))
            yield name, module
            inner = [
                (_join(name, key), value) for key, kind, value in module._registered() if kind == "module"
            ]
            stack += reversed(inner)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all submodules, each once, outer ones first."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names, each once."""
        seen: set[int] = set()
        for name, kind, value in self._registered():
            if kind == "module" and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names.

        Parameters
        ----------
        prefix
            The name of this module.
        recurse
            Include submodules.
        remove_duplicate
            Yield a shared parameter once, under its first name.

        Examples
        --------
        >>> import nn, tensor
        >>> [name for name, _ in nn.Sequential(nn.Linear(2, 2), nn.ReLU()).named_parameters()]
        ['0.weight', '0.bias']
        """
        return self._named("parameter", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once, for an optimizer.

        Examples
        --------
        >>> import nn, tensor
        >>> sum(p.numel() for p in nn.Linear(3, 2).parameters())
        8
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their dotted names; arguments as in ``named_parameters``."""
        return self._named("buffer", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named(
        self, wanted: Kind, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        places: Iterator[tuple[str, Module]] = (
            self.named_modules(prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        )
        for place, module in places:
            for name, kind, value in module._registered():
                if kind != wanted or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield _join(place, name), value

    def get_submodule(self, target: str) -> Module:
        """Return the submodule with the dotted name `target`; the empty name returns this module.

        Examples
        --------
        >>> import nn
        >>> nn.Sequential(nn.ReLU()).get_submodule("0")
        ReLU()
        """
        module: Any = self
        for part in target.split(".") if target else ():
            if module._kinds.get(part) != "module" or module.__dict__[part] is None:
                known = [name for name, kind, _ in module._registered() if kind == "module"]
                raise AttributeError(
                    f"there is no module {target!r}: {type(module).__name__} has no module {part!r}. Its "
                    f"modules are {known}"
                )
            module = module.__dict__[part]
        found: Module = module
        return found

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with the dotted name `target`.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Sequential(nn.Linear(2, 1)).get_parameter("0.weight").shape
        (1, 2)
        """
        found: Parameter = self._get("parameter", target)
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with the dotted name `target`.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Sequential(nn.BatchNorm1d(2)).get_buffer("0.running_mean").tolist()
        [0.0, 0.0]
        """
        found: Tensor = self._get("buffer", target)
        return found

    def _get(self, wanted: Kind, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._kinds.get(name) != wanted or module.__dict__[name] is None:
            known = [key for key, kind, _ in module._registered() if kind == wanted]
            raise AttributeError(
                f"there is no {wanted} {target!r}: {type(module).__name__} has no {wanted} {name!r}. Its "
                f"{wanted}s are {known}"
            )
        return module.__dict__[name]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the submodule with the dotted name `target`, and dispose the old one.

        Parameters
        ----------
        target
            The dotted name. The module that contains the last name must exist.
        strict
            Raise if no submodule has that name.

        Examples
        --------
        >>> import nn
        >>> model = nn.Sequential(nn.Linear(2, 1))
        >>> model.set_submodule("0", nn.ReLU())
        >>> model
        Sequential(
          (0): ReLU()
        )
        """
        if not target:
            raise ValueError("set_submodule: the name of the module to replace must not be empty")
        if not isinstance(module, Module):
            raise TypeError(f"set_submodule requires an nn.Module, not {type(module).__name__}")
        if strict:
            self.get_submodule(target)
        path, _, name = target.rpartition(".")
        setattr(self.get_submodule(path), name, module)

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call `function` on all submodules in order, then on this module, and return this module.

        Each module is visited once, after its own submodules.

        Examples
        --------
        >>> import nn
        >>> def start_at_zero(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.zeros_(module.weight)
        >>> nn.Sequential(nn.Linear(1, 1)).apply(start_at_zero)[0].weight.item()
        0.0
        """
        seen: set[int] = {id(self)}
        waiting: list[tuple[Any, Iterator[Module]]] = [(self, self.children())]
        while waiting:
            module, inside = waiting[-1]
            for child in inside:
                if id(child) not in seen:
                    seen.add(id(child))
                    waiting.append((child, child.children()))
                    break
            else:
                waiting.pop()
                function(module)
        return self

    def eval(self) -> Self:
        """Set ``training`` to False in this module and all submodules, and return this module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters, and return this module.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Linear(2, 2).requires_grad_(False).weight.requires_grad
        False
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    # --- Conversion to other dtypes -------------------------------------------------------------------------

    def to(
        self,
        target: DtypeLike | Tensor | None = None,
        dtype: DtypeLike | None = None,
        *,
        device: str | None = None,
        non_blocking: bool = False,
        memory_format: object = None,
    ) -> Self:
        """Convert floating and complex parameters, gradients and buffers, and return this module.

        The tensors stay the same objects, with new memory. Integer tensors do not change. A real dtype drops
        the imaginary parts of complex tensors.

        Parameters
        ----------
        target
            A dtype, a tensor with the wanted dtype, or the device, which must be ``"cpu"`` and changes
            nothing.
        dtype
            The dtype, if `target` is a device or omitted.
        device
            ``"cpu"``.
        non_blocking
            No effect: there is no other device.
        memory_format
            No effect: all tensors are in row-major order.

        Raises
        ------
        TypeError, InvalidArgumentError
            If the dtype is not floating or complex, or the device is not the CPU.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.Linear(2, 2).to("float64").weight.dtype)
        'float64'
        """
        del non_blocking, memory_format
        asked = dtype_asked(target, dtype, device)
        if asked is None:
            return self
        wanted = as_dtype(asked)
        if not is_inexact(wanted):
            raise TypeError(f"a module's parameters can't be {wanted}: pass a floating or a complex dtype")
        convert([x for x in (*self.parameters(), *self.buffers()) if is_inexact(dtype_of(x))], wanted)
        return self

    def cpu(self) -> Self:
        """Return this module: its memory is always on the CPU."""
        return self

    def cuda(self, device: str | int | None = None) -> Self:
        """Raise an error: there is no CUDA device, and ``tensor.torch.cuda.is_available()`` returns False.

        Examples
        --------
        >>> import nn
        >>> nn.Linear(1, 1).cuda()
        Traceback (most recent call last):
        tensor.InvalidArgumentError: device 'cuda' does not exist: all tensors are on the CPU. Omit
        .cuda() and device=, or write 'cpu'
        """
        return self.to(device=Device("cuda", device) if isinstance(device, int) else device or "cuda")

    def half(self) -> Self:
        """Convert all floating parameters and buffers to float16, not complex ones. Return this module."""
        return self._with_floats(float16)

    def float(self) -> Self:
        """Convert all floating parameters and buffers to float32, not complex ones. Return this module."""
        return self._with_floats(float32)

    def double(self) -> Self:
        """Convert all floating parameters and buffers to float64, not complex ones. Return this module.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.Linear(2, 2).double().bias.dtype)
        'float64'
        """
        return self._with_floats(float64)

    def bfloat16(self) -> Self:
        """Convert all floating parameters and buffers to bfloat16, not complex ones. Return this module.

        It needs ml_dtypes.

        Examples
        --------
        >>> import nn, tensor
        >>> str(nn.Linear(2, 2).bfloat16().weight.dtype)
        'bfloat16'
        """
        return self._with_floats("bfloat16")

    def _with_floats(self, dtype: DtypeLike) -> Self:
        convert(
            [x for x in (*self.parameters(), *self.buffers()) if is_floating(dtype_of(x))], as_dtype(dtype)
        )
        return self

    def type(self, dst_type: DtypeLike) -> Self:
        """Convert all floating and complex parameters and buffers to the dtype `dst_type`, as ``to`` does.

        Examples
        --------
        >>> import nn
        >>> nn.Linear(2, 2).type("float64").bias.dtype
        dtype('float64')
        """
        return self.to(dst_type)

    def to_empty(self, *, device: str | None, recurse: bool = True) -> Self:
        """Return this module unchanged: its memory is already on the only device.

        Parameters
        ----------
        device
            ``"cpu"``, or None for the current device.
        recurse
            No effect.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Linear(2, 1).to_empty(device="cpu").weight.shape
        (1, 2)
        """
        del recurse
        return self.to(device=device)

    def share_memory(self) -> Self:
        """Return this module, without moving it to shared memory: see ``nn.parallel`` for several workers.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Linear(2, 1).share_memory().weight.shape
        (1, 2)
        """
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Dispose the gradients of all parameters, or fill them with zeros.

        Examples
        --------
        >>> import nn, tensor
        >>> layer = nn.Linear(2, 1)
        >>> layer(tensor.ones((1, 2))).sum().backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        clear_gradients(self.parameters(), set_to_none)

    # --- State dicts ----------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Return the state of this module besides its tensors, for ``state_dict()``. Subclasses define it.

        If the class defines it, ``state_dict()`` stores the value as ``"_extra_state"``.
        """
        raise RuntimeError(
            f"{type(self).__name__} does not define get_extra_state(self): define it to return the extra "
            "state that set_extra_state takes"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore a `state` from ``get_extra_state()``. Subclasses define it.

        Examples
        --------
        >>> import nn
        >>> class Counter(nn.Module):
        ...     count = 3
        ...
        ...     def get_extra_state(self):
        ...         return self.count
        ...
        ...     def set_extra_state(self, state):
        ...         self.count = state
        >>> state = Counter().state_dict()
        >>> state
        {'_extra_state': 3}
        >>> counter = Counter()
        >>> counter.count = 0
        >>> counter.load_state_dict(state)
        <All keys matched successfully>
        >>> counter.count
        3
        """
        del state
        raise RuntimeError(
            f"{type(self).__name__} does not define set_extra_state(self, state): define it to restore the "
            "state that get_extra_state returns"
        )

    def _with_extra_state(self) -> Iterator[tuple[str, Module]]:
        """Yield each module whose class defines an extra state, with the name in state dicts."""
        for place, module in self.named_modules(remove_duplicate=False):
            kind = type(module)
            if (
                kind.get_extra_state is not Module.get_extra_state
                or kind.set_extra_state is not Module.set_extra_state
            ):
                yield (f"{place}._extra_state" if place else "_extra_state"), module

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Return a dict of parameters and persistent buffers by dotted name.

        The values share memory with the module, so training changes them. To keep a state, use
        ``copy.deepcopy(module.state_dict())``, which copies memory only at the next write. The values have no
        gradient history and belong to the current scope.

        Parameters
        ----------
        prefix
            A prefix for each name.
        keep_vars
            Return the parameters and buffers themselves, with their gradient history.

        Examples
        --------
        >>> import nn, tensor
        >>> {name: x.shape for name, x in nn.Linear(2, 3).state_dict().items()}
        {'weight': (3, 2), 'bias': (3,)}
        """
        found = {prefix + name: x if keep_vars else x.detach() for name, x in self._state()}
        for name, module in self._with_extra_state():
            found[prefix + name] = module.get_extra_state()
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the values of `state_dict` into parameters and persistent buffers of the same names.

        If a value does not fit, the error names it, and no value changes.

        Parameters
        ----------
        state_dict
            Tensors or arrays by name, as ``state_dict()`` returns them. They are not changed.
        strict
            Raise if a name is missing or unexpected. If False, load the names that match.
        assign
            Share the tensors' memory and dtype instead of copying; the first write on either side copies.
            Arrays are copied. Parameters and buffers stay the same objects, so tied weights and optimizers
            stay valid. Earlier aliases and views of them keep the old memory.

        Returns
        -------
        A named tuple of the missing and the unexpected names.

        Raises
        ------
        ValueError
            If a shape does not match, or a name with ``strict=True``.
        TypeError
            If a value is not a tensor or an array, or its dtype can't be converted: float64 to float32 is
            allowed, float32 to int64 or complex to real is not.
        TensorDisposedError
            If a tensor on either side is invalid.

        Examples
        --------
        >>> import nn
        >>> first, second = nn.Linear(2, 2), nn.Linear(2, 2)
        >>> second.load_state_dict(first.state_dict())
        <All keys matched successfully>
        >>> second.weight.tolist() == first.weight.tolist()
        True
        """
        if isinstance(state_dict, (str, PathLike)):
            raise TypeError(
                f"{type(self).__name__}.load_state_dict requires a dict, not the path of a file: write "
                f"load_state_dict(tensor.load({shown(state_dict)}))"
            )
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"{type(self).__name__}.load_state_dict requires a dict from names to tensors, not "
                f"{type(state_dict).__name__}"
            )
        own, extra = dict(self._state()), dict(self._with_extra_state())
        missing = [name for name in (*own, *extra) if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own and name not in extra]
        label = type(self).__name__
        if strict and (missing or unexpected):
            raise InvalidArgumentError(
                f"{label}.load_state_dict: the names do not match, and nothing was loaded. Missing: "
                f"{_listed(missing)}. Unexpected: {_listed(unexpected)}. Rename the keys, or pass "
                "strict=False to load the names that match"
            )
        pairs = [(name, own[name], state_dict[name]) for name in own if name in state_dict]
        for name, target, value in pairs:
            if isinstance(target, Uninitialized):
                if not isinstance(value, Uninitialized):
                    require_array(f"{label}.load_state_dict: {name!r}", value)
                continue
            require_fit(f"{label}.load_state_dict: {name!r}", target, value, assign=assign)
        # Parameters without a shape get the shape from the state, if it has one.
        pairs = [pair for pair in pairs if not isinstance(pair[2], Uninitialized)]
        for _, target, value in pairs:
            if isinstance(target, (UninitializedParameter, UninitializedBuffer)):
                target.materialize(value.shape)
        targets, values = [target for _, target, _ in pairs], [value for _, _, value in pairs]
        if assign:
            assign_values(targets, values)
        else:
            copy_values(targets, values)
        for name, module in extra.items():
            if name in state_dict:
                module.set_extra_state(state_dict[name])
        return IncompatibleKeys(missing, unexpected)

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for place, module in self.named_modules(remove_duplicate=False):
            for name, kind, value in module._registered():
                if kind != "module" and name not in module._transient:
                    yield (f"{place}.{name}" if place else name), value

    # --- Inference ------------------------------------------------------------------------------------------

    def valid(self) -> Self:
        """Return a copy for inference that shares memory with this module and requires no gradients.

        Parameters and buffers are copy-on-write clones: they use no memory until one side writes a tensor,
        which copies that tensor. So you can train this module further while the copy keeps the current
        values. The copy is in evaluation mode (``training`` is False), and has no gradients. ``train()`` on
        the copy makes the same parameters trainable as here.

        Examples
        --------
        >>> import nn, tensor
        >>> model = nn.Linear(2, 1)
        >>> before = tensor.memory.statistics().bytes_live
        >>> frozen = model.valid()
        >>> tensor.memory.statistics().bytes_live - before
        0
        >>> frozen(tensor.ones((1, 2))).requires_grad
        False
        >>> frozen.train().weight.requires_grad
        True
        """
        copied = deepcopy(self)
        trainable = [x for x in copied.parameters() if x.requires_grad]
        for parameter in trainable:
            parameter.requires_grad_(False)
        copied.__dict__["_trainable"] = trainable
        return copied.eval()

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` in this module and all submodules, and return this module.

        On a copy made by `valid`, ``train()`` also makes its parameters trainable again.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Dropout().eval().training
        False
        """
        if not isinstance(mode, bool):
            raise TypeError(f"train() requires True or False, not {type(mode).__name__}")
        for module in self._tree():
            module.training = mode
        if mode:
            for parameter in self.__dict__.pop("_trainable", ()):
                parameter.requires_grad_()
        return self

    # --- Hooks and calls ------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple[Any, ...]], Any]) -> RemovableHandle:
        """Register ``hook(module, args)`` to run before each forward. A result replaces `args`.

        A result of None keeps `args`; a result that is not a tuple is a single argument. Hooks run in the
        order of registration.
        """
        return self._table("before").register(hook)

    def register_forward_hook(self, hook: Callable[[Module, tuple[Any, ...], Any], Any]) -> RemovableHandle:
        """Register ``hook(module, args, output)`` to run after each forward. A result replaces the output.

        A result of None keeps the output. Hooks run in the order of registration. A tensor that a hook stores
        is disposed when its scope ends: move it out, or detach it from the scope.
        """
        return self._table("after").register(hook)

    def register_full_backward_hook(
        self, hook: Callable[[Module, tuple[Any, ...], tuple[Any, ...]], Any]
    ) -> RemovableHandle:
        """Register ``hook(module, grad_input, grad_output)`` to run after the module's backward.

        `grad_input` and `grad_output` are tuples: gradients of the positional tensor arguments, and of the
        tensor outputs. An element is None if there is no gradient. A result that is not None replaces
        `grad_input`. If no input requires grad, the hook runs before the module's backward.

        Examples
        --------
        >>> import nn, tensor
        >>> layer, seen = nn.Linear(2, 1), []
        >>> handle = layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
        >>> layer(tensor.ones((1, 2), requires_grad=True)).sum().backward()
        >>> seen
        [[[1.0]]]
        """
        return self._table("backward").register(hook)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call ``forward`` between the hooks. Backward hooks get gradients of its arguments and output."""
        for hook in list(self._table("before").values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        hooks = self._table("backward")
        backward = backward_hooks.BackwardPass(self, hooks) if hooks and is_recording() else None
        if backward is not None:
            args = backward.mark_inputs(args)
        output = self.forward(*args, **kwargs)
        for hook in list(self._table("after").values()):
            changed = hook(self, args, output)
            if changed is not None:
                output = changed
        return output if backward is None else backward.mark_outputs(output)

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

    # --- Text -----------------------------------------------------------------------------------------------

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


def _listed(names: list[str]) -> str:
    return f"[{', '.join(map(shown, names))}]"


def unscope(value: object) -> None:
    """Detach a tensor, or a module and its tensors, from their scopes."""
    held: list[object] = [value] if isinstance(value, TensorCore) else []
    if isinstance(value, Module):
        for module in value._tree():
            held += [module, *(x for _, kind, x in module._registered() if kind != "module")]
    for x in held:
        scope = owner_of(x)
        if scope is not None:
            scope.detach(x)


def _dispose_replaced(x: Any, owner: Module) -> None:
    """Dispose `x`, which the module `owner` has replaced, except for values that other modules own."""
    remove_owner(x, owner)
    if owners_of(x):
        return
    if not isinstance(x, Module):
        x.dispose()
        return
    inside = list(x._tree())
    within = {id(module) for module in inside}
    kept = frozenset(
        id(value)
        for module in inside
        for _, _, value in module._registered()
        if any(id(other) not in within for other in owners_of(value))
    )
    if kept:
        x._dispose_but(kept)
    else:
        x.dispose()


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _members_of(module: Module) -> list[tuple[str, object]]:
    # Not `_registered`: a module whose constructor has failed may have no attributes.
    attributes = vars(module)
    return [(name, attributes.get(name)) for name in attributes.get("_kinds", ())]


show_members(Module, _members_of)
note_role(Module, "module")
