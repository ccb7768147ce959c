"""Run a training step on fake tensors, and record when each storage is born and ends."""

from __future__ import annotations

import gc
import random
import sys
import threading
import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from scopes._shared.naming import set_module
from scopes.adapters.torch import workspaces
from scopes.adapters.torch.library import torch
from scopes.tracking.sites import Site, callers, site_at, skip_package

_FakeTensor = torch._subclasses.FakeTensor
_FakeTensorMode = torch._subclasses.FakeTensorMode
_DispatchMode: Any = torch.utils._python_dispatch.TorchDispatchMode
_FunctionMode: Any = torch.overrides.TorchFunctionMode
_aten = torch.ops.aten
# PyTorch loads these modules on demand, or hides their names.
_optimizers: Any = import_module("torch.optim.optimizer")
_flop_registry: Any = import_module("torch.utils.flop_counter").flop_registry
_graph_task = torch._C._current_graph_task_id
_NO_SITE = Site(())

skip_package("torch")


@set_module("scopes.torch")
class NotFakeError(RuntimeError):
    """A step needs the values of tensors, and fake tensors have none.

    The message names the line. `site` is the line, as of tracking.
    """

    site: Site

    def __init__(self, message: str, site: Site = _NO_SITE) -> None:
        super().__init__(message)
        self.site = site


def user_site() -> Site:
    """Return the innermost line of the user on the call stack."""
    frames = callers(1)
    return site_at(frames[0]) if frames else _NO_SITE


def _needs_values(what: str, site: Site) -> NotFakeError:
    return NotFakeError(
        f"{what} needs the values of a tensor, and a step on fake tensors has none: {site}: {site.text}", site
    )


class _Unknown(float):
    """The value of ``x.item()`` of a fake tensor: it can be added up and printed, but not compared."""

    site: Site

    def __new__(cls, site: Site) -> _Unknown:
        made = super().__new__(cls, "nan")
        made.site = site
        return made

    def _same(self, *_: object) -> _Unknown:
        return self

    def _refuse(self, *_: object) -> Any:
        raise _needs_values("a comparison or a size", user_site())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _same
    __truediv__ = __rtruediv__ = _same
    __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _same
    __neg__ = __pos__ = __abs__ = _same
    __round__ = _same  # type: ignore[assignment]
    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __int__ = __index__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __hash__ = float.__hash__

    def __str__(self) -> str:
        return "?"

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return "?"


class Block:
    """A storage: its size, the events between which it lived, and what it is."""

    __slots__ = ("birth", "end", "is_backward", "is_recomputed", "module", "nbytes", "part", "site")

    def __init__(self, nbytes: int, birth: int, part: str | None, module: str, site: Site) -> None:
        self.nbytes: int = nbytes
        # The number of the event; -1 for what lived before the step.
        self.birth: int = birth
        self.end: int | None = None
        # None until the role is known: activations and temporaries are told apart when backward begins.
        self.part: str | None = part
        self.module: str = module
        self.site: Site = site
        self.is_backward: bool = False
        self.is_recomputed: bool = False


class Recorder(_DispatchMode):  # type: ignore[misc]
    """Records the storages of all tensors that ops return, with the module and the line of each."""

    def __init__(self, *, is_of_program: bool = False) -> None:
        super().__init__()
        # Whether everything is created under this mode, and not only what one step creates.
        self._is_of_program = is_of_program
        self.blocks: list[Block] = []
        self.live: dict[int, tuple[Any, Block]] = {}
        self.event: int = 0
        self.live_bytes: int = 0
        # The bytes that lived before the step: found when an op first uses them.
        self.before_bytes: int = 0
        self.peak_bytes: int = 0
        self.peak_event: int = 0
        self.peak_extra: tuple[int, str, Site] = (0, "", _NO_SITE)
        self.flops: int = 0
        self.backward_begins: list[int] = []
        self._task = -1
        self._where: dict[int, tuple[str, Site]] = {}
        self.modules: list[str] = []
        self.names: dict[int, str] = {}
        self.is_stepping: bool = False
        self.forwards: dict[str, int] = {}
        # Modules that were called outside of others.
        self.roots: dict[int, Any] = {}
        self._step_event = 0
        self.substitution: _Substitution | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace in ("prim", "profiler"):  # asks for a device, allocates nothing
            return func(*args, **kwargs)
        if _is_composite(func):  # reaches a mode undivided where autograd is off, as in inference mode
            with self:
                return func.decompose(*args, **kwargs)
        out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        return out

    def _note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        self.event += 1
        with torch._C.DisableTorchFunction():
            module, site, is_backward = self._place()
            for x in _tensors_of(args):
                if x.untyped_storage()._cdata not in self.live:
                    self.add_before(x, None, is_new=True)
            made = _tensors_of((out,))
            for index, x in enumerate(made):
                self._add(x, _kept_bytes(func, args, index), module, site, is_backward)
            count = _flop_registry.get(func._overloadpacket)
            flops = workspaces.flops_of(func, args)
            if flops is not None:
                self.flops += flops
            elif count is not None:
                self.flops += count(*args, **kwargs, out_val=out)
            extra = workspaces.temporary_bytes(func, args)
        if self.live_bytes + extra > self.peak_bytes:
            self.peak_bytes = self.live_bytes + extra
            self.peak_event = self.event
            self.peak_extra = (extra, module, site)

    def _place(self) -> tuple[str, Site, bool]:
        """Return the module and the line of the current op, and whether backward runs."""
        task = _graph_task()
        if task == -1:
            site = user_site()
            module = self.modules[-1] if self.modules else ""
            self._where[torch._C._autograd._get_sequence_nr() - 1] = (module, site)
            return module, site, False
        if task != self._task:
            self._task = task
            self.backward_begins.append(self.event)
        if self.modules:  # checkpointing computes a forward again
            module, site = self.modules[-1], user_site()
            self._where[torch._C._autograd._get_sequence_nr() - 1] = (module, site)
            return module, site, True
        node = torch._C._current_autograd_node()
        known = None if node is None else self._where.get(node._sequence_nr())
        return (*known, True) if known is not None else ("", user_site(), True)

    def _add(self, x: Any, kept: int, module: str, site: Site, is_backward: bool) -> None:
        storage = x.untyped_storage()
        key, nbytes = storage._cdata, storage.nbytes() or kept
        known = self.live.get(key)
        if known is not None:
            grown = nbytes - known[1].nbytes
            if grown > 0 and known[1].birth >= 0:  # resized
                known[1].nbytes = nbytes
                self.live_bytes += grown
            return
        block = Block(nbytes, self.event, None, module, site)
        block.is_backward = is_backward or self.is_stepping
        block.is_recomputed = is_backward and bool(self.modules)
        self._follow(storage, key, block)
        self.live_bytes += nbytes

    def add_before(self, x: Any, part: str | None, module: str = "", *, is_new: bool = False) -> None:
        """Record the storage of `x`, which lived before the step, or with `is_new` no op has made."""
        with torch._C.DisableTorchFunction():
            storage = x.untyped_storage()
            key = storage._cdata
            if key in self.live:
                return
            is_new = is_new or self._is_of_program
            block = Block(storage.nbytes(), self.event if is_new else -1, part or "inputs", module, _NO_SITE)
            self._follow(storage, key, block)
            if is_new:
                self.live_bytes += block.nbytes
            else:
                self.before_bytes += block.nbytes

    def _follow(self, storage: Any, key: int, block: Block) -> None:
        self.blocks.append(block)
        self.live[key] = (weakref.ref(storage, partial(self._ended, key)), block)

    def _ended(self, key: int, _: Any) -> None:
        _, block = self.live.pop(key)
        block.end = self.event
        if block.birth >= 0:
            self.live_bytes -= block.nbytes

    def mark(self, x: Any, part: str, module: str | None = None) -> None:
        """Set the part of the storage of `x`."""
        with torch._C.DisableTorchFunction():
            entry = self.live.get(x.untyped_storage()._cdata)
            if entry is not None and (entry[1].birth >= 0 or entry[1].part == "inputs"):
                entry[1].part = part
                if module is not None:
                    entry[1].module = module

    def module_of(self, x: Any) -> str | None:
        """Return the module of a parameter, None if unknown."""
        x = x if self.substitution is None else self.substitution.replaced(x)
        with torch._C.DisableTorchFunction():
            entry = self.live.get(x.untyped_storage()._cdata)
        return None if entry is None else entry[1].module

    def begin_forward(self) -> None:
        """Note that a module begins outside of others. What a program made before is its data."""
        if self._is_of_program and not self._step_event:
            self._step_event = self.event

    def begin_step(self) -> None:
        """Forget the peak, because a new step begins."""
        self.peak_bytes, self.peak_event, self.peak_extra = self.live_bytes, self.event, (0, "", _NO_SITE)
        self.flops = 0
        self._step_event = self.event
        self.forwards.clear()

    def total(self) -> int:
        """Return the peak, with what lived before the step."""
        return self.peak_bytes + self.before_bytes

    def at_peak(self) -> list[Block]:
        """Return what lived at the peak, with the part of each block."""
        event = self.peak_event
        found = [
            b for b in self.blocks if b.birth <= event and (b.end is None or b.end >= event) and b.nbytes
        ]
        peak = [Block(b.nbytes, b.birth, b.part or self._part_of(b), b.module, b.site) for b in found]
        extra, module, site = self.peak_extra
        if extra:
            peak.append(Block(extra, event, "temporary", module, site))
        return peak

    def _part_of(self, block: Block) -> str:
        if block.birth < self._step_event and not block.is_backward:
            return "inputs"
        if block.is_recomputed:
            return "activations"
        if block.is_backward:
            return "temporary"
        next_backward = bisect_right(self.backward_begins, block.birth)
        if next_backward == len(self.backward_begins):
            return "temporary"
        began = self.backward_begins[next_backward]
        return "activations" if block.end is None or block.end >= began else "temporary"


def _is_composite(func: Any) -> bool:
    name = func.name()
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


def _kept_bytes(func: Any, args: tuple[Any, ...], index: int) -> int:
    """Return the bytes of an output that the fake kernel does not know."""
    if func is _aten.mkldnn_rnn_layer.default and index == 3:
        return workspaces.lstm_workspace_bytes(args[0], args[10])
    return 0


def _tensors_of(value: Any) -> list[Any]:
    found: list[Any] = []
    for each in value:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += _tensors_of(each)
    return found


class _Substitution(_FunctionMode):  # type: ignore[misc]
    """Passes fake tensors to PyTorch's functions instead of real ones, which stay as they are."""

    def __init__(self, mode: Any, recorder: Recorder) -> None:
        super().__init__()
        self._mode = mode
        self._recorder = recorder
        # The fake tensor of each real one, by its id, until the real one is freed.
        self._fakes: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self.parts: dict[int, tuple[str, str]] = {}
        # The lines where `.item()` returned no value.
        self.unknown: dict[Site, None] = {}
        self.is_paused = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.is_paused:
            return func(*args, **kwargs)
        args = tuple([self.replaced(each) for each in args])
        kwargs = {name: self.replaced(each) for name, each in kwargs.items()}
        if func is _lstm and len(args) == 9 and _uses_onednn(args):
            return _onednn_lstm(*args)
        try:
            return func(*args, **kwargs)
        except torch._subclasses.fake_tensor.DataDependentOutputException:
            site = user_site()
            if func is torch.Tensor.item:
                self.unknown[site] = None
                return _Unknown(site)
            raise _needs_values(_name_of(func), site) from None
        except (
            torch._subclasses.fake_tensor.DynamicOutputShapeException,
            torch._subclasses.fake_tensor.UnsupportedOperatorException,
        ) as error:
            raise _needs_values(str(getattr(error, "func", _name_of(func))), user_site()) from None
        except RuntimeError as error:
            if func is torch.Tensor.numpy or "numpy" in _name_of(func):
                raise _needs_values(_name_of(func), user_site()) from None
            raise error

    def replaced(self, value: Any) -> Any:
        """Return `value` with a fake tensor for each real one, in lists, tuples and dicts too."""
        if isinstance(value, torch.Tensor):
            return value if isinstance(value, _FakeTensor) else self.fake(value)
        kind = type(value)
        if kind is list or kind is tuple:
            return kind([self.replaced(each) for each in value])
        if kind is dict:
            return {name: self.replaced(each) for name, each in value.items()}
        return value

    def fake(self, x: Any) -> Any:
        """Return the fake tensor that stands for `x`."""
        known = self._fakes.get(id(x))
        if known is not None:
            return known[1]
        if torch.nn.parameter.is_lazy(x):
            raise NotFakeError("a lazy module has no shapes yet: call it once before scopes.torch.fits")
        with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
            made = self._mode.from_tensor(x)
            made.grad = None if x.grad is None else self.fake(x.grad)
            if x.numel() == 1 and x.device.type == "cpu" and not x.requires_grad:
                made.constant = x.detach().clone()  # such as Adam's counter of steps: its value is needed
        key = id(x)
        self._fakes[key] = (weakref.ref(x, lambda _: self._fakes.pop(key, None)), made)
        part, module = self.parts.get(id(x), ("inputs", ""))
        self._recorder.add_before(made, part, module)
        if made.grad is not None:
            self._recorder.add_before(made.grad, "gradients", module)
        return made

    def pairs(self) -> list[tuple[Any, Any]]:
        """Return the real tensors with their fake ones."""
        found = [(reference(), fake) for reference, fake in self._fakes.values()]
        return [(real, fake) for real, fake in found if real is not None]


_lstm = torch.lstm


def _name_of(func: Any) -> str:
    return str(getattr(func, "__qualname__", None) or getattr(func, "__name__", func))


def _uses_onednn(args: tuple[Any, ...]) -> bool:
    """Return whether PyTorch computes an LSTM with these arguments by oneDNN."""
    x, hidden, params = args[:3]
    tensors = [x, *hidden, *params]
    return (
        bool(torch.backends.mkldnn.enabled and torch.backends.mkldnn.is_available())
        and not isinstance(params, torch.Tensor)
        and isinstance(hidden, (tuple, list))
        and all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
        and hidden[0].shape[2] == hidden[1].shape[2]
        and x.numel() > 0
    )


def _onednn_lstm(
    x: Any,
    hidden: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Compute an LSTM by the ops that PyTorch calls for real tensors; fake ones take another way."""
    x = x.transpose(0, 1) if batch_first else x
    x = x.contiguous()
    first, cells = hidden[0].contiguous(), hidden[1].contiguous()
    size = first.shape[2]
    directions = 2 if bidirectional else 1
    width = 4 if has_biases else 2
    ends: list[Any] = []
    cell_ends: list[Any] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = list(params[index * width : (index + 1) * width])
            if not has_biases:
                weights += [x.new_zeros(4 * size), x.new_zeros(4 * size)]
            out, end, cell, _ = torch.ops.aten.mkldnn_rnn_layer(
                x, *weights, first[index], cells[index], direction == 1, [], 2, size, num_layers,
                has_biases, bidirectional, False, train,
            )  # fmt: skip
            outputs.append(out)
            ends.append(end)
            cell_ends.append(cell)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    return (
        x.transpose(0, 1) if batch_first else x,
        torch.stack(ends),
        torch.stack(cell_ends),
    )


class _Kept:
    """The state of Python objects that a step may change, to put it back."""

    def __init__(self) -> None:
        self.modules: dict[int, tuple[str, Any]] = {}
        self.optimizers: list[Any] = []
        self._seen: dict[int, Any] = {}
        self._undo: list[Callable[[], None]] = []

    def keep(self, value: Any, name: str = "", depth: int = 0) -> None:
        """Keep the state of `value` and of what it refers to."""
        if (
            depth > 8
            or id(value) in self._seen
            or isinstance(value, (type, ModuleType, str, bytes, int, float))
        ):
            return
        if isinstance(value, torch.Tensor) or value is None:
            return
        self._seen[id(value)] = value
        if isinstance(value, torch.nn.Module):
            self.module(value, name)
        elif isinstance(value, FunctionType):
            self._function(value, depth)
        elif isinstance(value, MethodType):
            self.keep(value.__self__, "", depth + 1)
            self.keep(value.__func__, "", depth + 1)
        elif isinstance(value, partial):
            self.keep((value.func, value.args, value.keywords), "", depth + 1)
        elif isinstance(value, (list, deque)):
            items = list(value)
            self._undo.append(partial(_put_back_list, value, items))
            self._each(enumerate(items), name, depth)
        elif isinstance(value, (tuple, frozenset)):
            self._each(enumerate(value), name, depth)
        elif isinstance(value, dict):
            self._dict(value)
            self._each(list(value.items()), name, depth)
        elif isinstance(value, set):
            self._undo.append(partial(_put_back_set, value, set(value)))
        elif _is_of_user(value) and hasattr(value, "__dict__"):
            if isinstance(value, torch.optim.Optimizer):
                self.optimizers.append(value)
            self._dict(value.__dict__)
            self._each(list(value.__dict__.items()), name, depth)

    def module(self, root: Any, name: str) -> None:
        """Keep the attributes of a module and of those below it."""
        for below, module in root.named_modules():
            if id(module) in self.modules:
                continue
            self._seen[id(module)] = module
            full = ".".join([part for part in (name, below) if part])
            self.modules[id(module)] = (full or type(module).__name__, module)
            self._dict(module.__dict__)
            for value in list(module.__dict__.values()):
                if isinstance(value, dict):
                    self._dict(value)
                elif isinstance(value, list):
                    self._undo.append(partial(_put_back_list, value, list(value)))

    def put_back(self) -> None:
        """Give every object the state that it had."""
        for undo in reversed(self._undo):
            undo()

    def _dict(self, value: dict[Any, Any]) -> None:
        self._undo.append(partial(_put_back_dict, value, dict(value)))

    def _each(self, items: Any, name: str, depth: int) -> None:
        for key, item in items:
            self.keep(key, "", depth + 1)
            self.keep(item, f"{name}.{key}" if name else str(key), depth + 1)

    def _function(self, function: FunctionType, depth: int) -> None:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                self.keep(cell.cell_contents, name, depth + 1)
            except ValueError:  # not set yet
                continue
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.keep(value, "", depth + 1)
        for name in _global_names(function.__code__):
            self.keep(function.__globals__.get(name), name, depth + 1)


def _is_of_user(value: Any) -> bool:
    """Return whether a step may change the attributes of `value`: the user's objects, and optimizers."""
    if isinstance(value, (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)):
        return True
    package = type(value).__module__.partition(".")[0]
    return package not in sys.stdlib_module_names and package not in ("torch", "numpy", "scopes")


def _global_names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names


def _put_back_list(value: Any, items: list[Any]) -> None:
    if len(value) != len(items) or any(a is not b for a, b in zip(value, items, strict=True)):
        value.clear()
        value.extend(items)


def _put_back_dict(value: dict[Any, Any], items: dict[Any, Any]) -> None:
    if list(value) != list(items) or any(value[key] is not item for key, item in items.items()):
        value.clear()
        value.update(items)


def _put_back_set(value: set[Any], items: set[Any]) -> None:
    if value != items:
        value.clear()
        value.update(items)


class Rehearsal:
    """What one run of a step on fake tensors showed."""

    def __init__(self, recorder: Recorder, unknown: list[Site]) -> None:
        self.peak_bytes: int = recorder.total()
        self.blocks: list[Block] = recorder.at_peak()
        self.flops: int = recorder.flops
        self.modules: list[str] = list(recorder.forwards)
        self.unknown: list[Site] = unknown


@contextmanager
def watching(recorder: Recorder) -> Iterator[None]:
    """Tell `recorder` which module runs, and what an optimizer does, in this thread."""
    thread = threading.get_ident()

    def enter(module: Any, _: Any) -> None:
        if threading.get_ident() != thread:
            return
        name = recorder.names.get(id(module))
        if name is None:
            recorder.roots[id(module)] = module
            outer = recorder.modules[-1] if recorder.modules else ""
            for below, each in module.named_modules():
                full = ".".join([part for part in (outer, below) if part])
                recorder.names.setdefault(id(each), full or type(each).__name__)
            name = recorder.names[id(module)]
        if not recorder.modules:
            recorder.begin_forward()
        recorder.modules.append(name)
        recorder.forwards[name] = recorder.forwards.get(name, 0) + 1

    def leave(_: Any, __: Any, ___: Any) -> None:
        if threading.get_ident() == thread and recorder.modules:
            recorder.modules.pop()

    def begin(optimizer: Any, _: Any, __: Any) -> None:
        if threading.get_ident() == thread:
            _mark_gradients(recorder, optimizer)
            recorder.is_stepping = True

    def end(optimizer: Any, _: Any, __: Any) -> None:
        if threading.get_ident() != thread:
            return
        recorder.is_stepping = False
        for parameter, value in state_of(optimizer):
            recorder.mark(value, "optimizer", recorder.module_of(parameter))

    hooks = torch.nn.modules.module
    handles = [
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
        _optimizers.register_optimizer_step_pre_hook(begin),
        _optimizers.register_optimizer_step_post_hook(end),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def state_of(optimizer: Any) -> list[tuple[Any, Any]]:
    """Return the tensors of an optimizer's state, each with its parameter."""
    return [
        (parameter, value)
        for parameter, state in optimizer.state.items()
        for value in (state.values() if isinstance(state, dict) else ())
        if isinstance(value, torch.Tensor)
    ]


def _mark_gradients(recorder: Recorder, optimizer: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                recorder.mark(parameter.grad, "gradients", recorder.module_of(parameter))


@contextmanager
def faking(recorder: Recorder) -> Iterator[_Substitution]:
    """Make this thread compute on fake tensors, and leave the random states as they are."""
    states = torch.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    of_numpy = None if numpy is None else numpy.random.get_state()
    mode = _FakeTensorMode(allow_non_fake_inputs=True)
    substitution = _Substitution(mode, recorder)
    recorder.substitution = substitution
    apply = torch.autograd.Function.__dict__["apply"]
    thread = threading.get_ident()

    def apply_replaced(cls: Any, *args: Any, **kwargs: Any) -> Any:
        # `apply` of a function that users wrote does not go through modes of functions.
        if threading.get_ident() == thread and not substitution.is_paused:
            args = tuple([substitution.replaced(each) for each in args])
        return apply.__func__(cls, *args, **kwargs)

    run_backward = torch.autograd._engine_run_backward

    def run_backward_replaced(*args: Any, **kwargs: Any) -> Any:
        # PyTorch switches the mode off while it handles `backward`. Hooks and checkpoints run user code.
        if threading.get_ident() != thread or substitution.is_paused:
            return run_backward(*args, **kwargs)
        with substitution:
            return run_backward(*args, **kwargs)

    try:
        with ExitStack() as stack:
            torch.autograd._engine_run_backward = run_backward_replaced
            stack.callback(setattr, torch.autograd, "_engine_run_backward", run_backward)
            torch.autograd.Function.apply = classmethod(apply_replaced)
            stack.callback(setattr, torch.autograd.Function, "apply", apply)
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(mode)
            stack.enter_context(recorder)
            stack.enter_context(substitution)
            yield substitution
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(of_numpy)


def rehearse(
    step: Callable[..., object],
    args: tuple[Any, ...],
    *,
    batch: tuple[int, int] | None = None,
    checkpointed: tuple[str, ...] = (),
    steps: int = 2,
) -> Rehearsal:
    """Run `step` on fake tensors, and return what the last of `steps` runs needed.

    The second step meets the optimizer's state that the first one made. `batch` is the size of the batch in
    `args`, and another size to use. `checkpointed` names modules to run under ``torch.utils.checkpoint``.
    """
    kept = _Kept()
    kept.keep(step)
    kept.keep(args)
    recorder = Recorder()
    names = _short_names(kept.modules)
    recorder.names = {key: names[key] for key in kept.modules}
    try:
        with faking(recorder) as substitution, watching(recorder):
            for key, (_, module) in kept.modules.items():
                for x in module._parameters.values():
                    if x is not None:
                        substitution.parts.setdefault(id(x), ("parameters", names[key]))
                for x in module._buffers.values():
                    if x is not None:
                        substitution.parts.setdefault(id(x), ("buffers", names[key]))
                if names[key] in checkpointed:
                    _checkpoint(module)
            for optimizer in kept.optimizers:
                for parameter, x in state_of(optimizer):
                    module = substitution.parts.get(id(parameter), ("", ""))[1]
                    substitution.parts.setdefault(id(x), ("optimizer", module))
                    substitution.fake(x)
            for _, module in kept.modules.values():
                for x in (*module._parameters.values(), *module._buffers.values()):
                    if x is not None:
                        substitution.fake(x)
            fakes = tuple([resized(substitution.replaced(each), batch) for each in args])
            for _ in range(steps):
                recorder.begin_step()
                step(*fakes)
            for real, fake in substitution.pairs():
                if fake.grad is not None:
                    recorder.mark(fake.grad, "gradients", substitution.parts.get(id(real), ("", ""))[1])
            rehearsal = Rehearsal(recorder, list(substitution.unknown))
    finally:
        kept.put_back()
    gc.collect()  # fake tensors in cycles keep the storages of the next rehearsal apart, but take time
    return rehearsal


def measure(step: Callable[..., object], args: tuple[Any, ...]) -> Rehearsal:
    """Run `step` once, and return what it needed, counted by the storages of its tensors."""
    kept = _Kept()
    kept.keep(step)
    kept.keep(args)
    recorder = Recorder()
    recorder.names = _short_names(kept.modules)
    for key, (_, module) in kept.modules.items():
        for part, tensors in (("parameters", module._parameters), ("buffers", module._buffers)):
            for x in tensors.values():
                if x is not None:
                    recorder.add_before(x, part, recorder.names[key])
                    if x.grad is not None:
                        recorder.add_before(x.grad, "gradients", recorder.names[key])
    for x in _tensors_of(torch.utils._pytree.tree_leaves(args)):
        recorder.add_before(x, "inputs")
    for optimizer in kept.optimizers:
        for parameter, x in state_of(optimizer):
            recorder.add_before(x, "optimizer", recorder.module_of(parameter) or "")
    with recorder, watching(recorder):
        recorder.begin_step()
        step(*args)
    return Rehearsal(recorder, [])


def resized(value: Any, batch: tuple[int, int] | None) -> Any:
    """Return `value` with tensors of another batch size, if `batch` names the old and the new one."""
    if batch is None or batch[0] == batch[1]:
        return value
    if isinstance(value, torch.Tensor):
        if value.dim() == 0 or value.shape[0] != batch[0]:
            return value
        return value.new_empty((batch[1], *value.shape[1:])).requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)([resized(each, batch) for each in value])
    if isinstance(value, dict):
        return {name: resized(each, batch) for name, each in value.items()}
    return value


def _short_names(modules: dict[int, tuple[str, Any]]) -> dict[int, str]:
    """Return the names of modules without that of the root, if there is one root."""
    roots = {name.partition(".")[0] for name, _ in modules.values()}
    if len(roots) != 1:
        return {key: name for key, (name, _) in modules.items()}
    return {key: name.partition(".")[2] or type(module).__name__ for key, (name, module) in modules.items()}


def _checkpoint(module: Any) -> None:
    from torch.utils.checkpoint import checkpoint  # loads much, and few programs need it

    forward = module.forward

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    module.forward = checkpointed
