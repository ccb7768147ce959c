"""Note the allocations of PyTorch's tensors; see `scopes.adapters.foreign`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scopes.adapters import foreign
from scopes.adapters.torch.disposal import DisposedTensor
from scopes.adapters.torch.library import torch, tried
from scopes.core.scope import new_dispose_scope, set_observer
from scopes.tracking import tracking


@contextmanager
def paused() -> Iterator[None]:
    """No scope owns what this thread allocates inside the block."""
    foreign.pause_births(1)
    try:
        yield
    finally:
        foreign.pause_births(-1)


def compiling(compile: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `compile`, because its first call loads the module that reports compilations."""

    def called(*args: Any, **kwargs: Any) -> Any:
        result = compile(*args, **kwargs)
        _register_compile_callbacks()
        return result

    return called


# Called with True when torch.compile begins to compile, and with False when it ends.
compilation_callbacks: list[Callable[[bool], None]] = []


def _begin_compilation(_: object) -> None:
    foreign.suspend_births(True)
    for callback in compilation_callbacks:
        callback(True)


def _end_compilation(_: object) -> None:
    foreign.suspend_births(False)
    for callback in compilation_callbacks:
        callback(False)


def _register_compile_callbacks() -> None:
    """Do not note allocations while torch.compile compiles: its tensors belong to the compiled code."""
    compiler = sys.modules.get("torch._dynamo.callback")
    if compiler is not None and _begin_compilation not in compiler.callback_handler.start_callbacks:
        compiler.on_compile_start(_begin_compilation)
        compiler.on_compile_end(_end_compilation)


def forget_compile_callbacks() -> None:
    """Undo the registration for compilations, until the next watch begins."""
    compiler = sys.modules.get("torch._dynamo.callback")
    if compiler is not None and _begin_compilation in compiler.callback_handler.start_callbacks:
        compiler.callback_handler.remove_start_callback(_begin_compilation)
        compiler.callback_handler.remove_end_callback(_end_compilation)


class Watch:
    """Watches the allocations of tensors until it is removed."""

    def __init__(self) -> None:
        kinds: list[type] = [torch.Tensor]
        found: list[type] = []
        others: list[type] = []
        while kinds:
            kind = kinds.pop()
            (others if _has_no_births(kind) else found).append(kind)
            kinds += kind.__subclasses__()
        unowned = {kind for kind in found if issubclass(kind, torch.nn.Parameter)}
        foreign.begin_recording(found, unowned, others)
        _register_compile_callbacks()

    def remove(self) -> None:
        foreign.read_births()
        foreign.end_recording()


def _has_no_births(kind: type) -> bool:
    return issubclass(kind, DisposedTensor) or str(kind.__module__).startswith("torch._subclasses.")


def _watch_class(kind: type) -> None:
    """Watch the new class `kind`, while a `Watch` is active."""
    if not issubclass(kind, torch.Tensor):
        return
    if _has_no_births(kind):
        foreign.watch_frees(kind)
    else:
        foreign.record_kind(kind, issubclass(kind, torch.nn.Parameter))


def _births_are_noted() -> bool:
    """Return whether the installed versions support notes of allocations, and the user allows them.

    With the environment variable ``DISPOSESCOPE_TORCH_NOTES=0``, a mode intercepts each call instead.
    """
    if os.environ.get("DISPOSESCOPE_TORCH_NOTES") == "0":
        return False
    weight = torch.ones(1, requires_grad=True)
    (weight * 2).sum().backward()
    attributes = {torch.Tensor.grad: True, torch.Tensor._grad: True, torch.Tensor._base: False}
    watch = Watch()
    foreign.count_recording(1)
    tracker = tracking.current.tracker
    set_observer(None)  # the scope below is no scope of the program
    try:
        with new_dispose_scope() as scope:
            x, y, gradient = torch.ones(1), weight * 2, None
            if not foreign.watch_classes(torch._C._TensorMeta, _watch_class):
                return False
            if all(foreign.exclude_attribute(*each) for each in attributes.items()):
                gradient = weight.grad
            are_noted = (
                foreign.is_noted_in(x, scope)
                and foreign.is_noted_in(y, scope)
                and foreign.is_noted_in(gradient, None)
            )
            foreign.discard_births()  # the program's statistics begin at 0
            return are_noted
    finally:
        set_observer(tracker)
        foreign.discard_births()
        foreign.count_recording(-1)
        watch.remove()


can_note = tried(_births_are_noted)
