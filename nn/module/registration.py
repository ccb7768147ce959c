"""Register parameters, buffers and submodules by name, and manage their lifetimes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pickle import UnpicklingError
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from nn.module.calling import Callable
from nn.module.docstrings import example
from nn.module.owners import add_owner, owners_of, remove_owner
from nn.module.parameter import Parameter
from scopes import dispose
from scopes.lowlevel import add_keeper, forget_keeper, note_held, owner_of
from tensor import Tensor, TensorDisposedError
from tensor.lowlevel import HookTable, TensorCore

Kind = Literal["parameter", "buffer", "module"]
When = Literal["before", "after", "backward"]

# Attributes of every module.
_OWN_ATTRIBUTES = frozenset({"_kinds", "_transient", "_hooks", "_trainable"})

BEFORE_INIT = "{kind} is not initialized: call super().__init__() at the start of its __init__"


class ModuleCore(Callable):
    """Base class of `Module`: registers parameters, buffers and submodules.

    A registered value is in the instance's ``__dict__`` like any attribute, so reading it needs no call.
    ``_kinds`` maps the registered names, in order, to their kinds.
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
        if isinstance(value, (Parameter, ModuleCore)):
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
            from difflib import get_close_matches

            close = get_close_matches(name, self.__dict__, n=1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")

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

    @example(
        'module = nn.Module(); module.register_buffer("mean", tensor.zeros((2,))); module.mean.tolist()',
        [0.0, 0.0],
    )
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

    def register_module(self, name: str, module: ModuleCore | None) -> None:
        """Register `module` under `name`, as an assignment does.

        Examples
        --------
        >>> import nn
        >>> module = nn.Module()
        >>> module.register_module("head", nn.Linear(2, 1))
        >>> module.head
        Linear(in_features=2, out_features=1, bias=True)
        """
        if module is not None and not isinstance(module, ModuleCore):
            raise TypeError(
                f"module {name!r} of {type(self).__name__} must be an nn.Module or None, not "
                f"{type(module).__name__}"
            )
        self._register(name, "module", module)

    def add_module(self, name: str, module: ModuleCore | None) -> None:
        """Register `module` under `name`: PyTorch's alias of ``register_module``."""
        self.register_module(name, module)

    def _register(self, name: str, kind: Kind, value: Any) -> None:
        if "_kinds" not in self.__dict__:
            raise AttributeError(BEFORE_INIT.format(kind=type(self).__name__))
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
        elif isinstance(value, ModuleCore):
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

    def _tree(self) -> Iterator[ModuleCore]:
        """Yield this module and all submodules, each once, outer ones first."""
        seen: set[int] = set()
        stack: list[ModuleCore] = [self]
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

    @property
    def is_disposed(self) -> bool:
        """Whether ``dispose`` was called."""
        return self._is_disposed

    @example("layer = nn.Linear(2, 2); layer.dispose(); layer.weight.is_invalid", True)
    def dispose(self) -> None:
        """Dispose all parameters, buffers and submodules; a second call does nothing.

        This includes values that other modules have registered too. Tensors in plain attributes are not
        disposed: register them as buffers if they should be.

        Raises
        ------
        ExceptionGroup
            The errors of single disposals, raised after all are disposed.
        """
        self._dispose_but(frozenset())

    def _dispose_but(self, kept: frozenset[int]) -> None:
        """Dispose everything in this module and its submodules, except objects with ids in `kept`."""
        inside: dict[int, ModuleCore] = {}
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
                if kind == "module" and (kept or type(value).dispose is ModuleCore.dispose):
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


def unscope(value: object) -> None:
    """Detach a tensor, or a module and its tensors, from their scopes."""
    held: list[object] = [value] if isinstance(value, TensorCore) else []
    if isinstance(value, ModuleCore):
        for module in value._tree():
            held += [module, *(x for _, kind, x in module._registered() if kind != "module")]
    for x in held:
        scope = owner_of(x)
        if scope is not None:
            scope.detach(x)


def _dispose_replaced(x: Any, owner: ModuleCore) -> None:
    """Dispose `x`, which the module `owner` has replaced, except for values that other modules own."""
    remove_owner(x, owner)
    if owners_of(x):
        return
    if not isinstance(x, ModuleCore):
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
