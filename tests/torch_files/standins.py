"""What test files import from ``torch.testing._internal``: PyTorch's own, for our tensors and dtypes.

A test case compares with PyTorch's own ``assertEqual``: our tensors become PyTorch's, with their dtype,
shape, strides and values. Texts of errors and warnings are not compared.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch.testing._internal import common_device_type, common_utils
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import tensor.torch as ours
from tests.opinfo.samples import converted, function_of
from tests.torch_files import default_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Absent(type):
    """The type of what `tensor.torch` lacks: it can be imported, and any use of it is an AttributeError."""

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"tensor.torch has no {cls.__name__}", name=cls.__name__.rpartition(".")[2])

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise AttributeError(f"tensor.torch has no {cls.__name__}", name=cls.__name__.rpartition(".")[2])


def absent(name: str) -> Any:
    """Return a stand-in for what `tensor.torch` lacks."""
    return _Absent(name, (), {})


def to_torch(x: Any) -> Any:
    """Return the tensors and dtypes in `x` as PyTorch's."""
    if isinstance(x, ours.Tensor):
        return _tensor(x)
    if isinstance(x, np.dtype):
        found = getattr(torch, str(x), None)
        return found if isinstance(found, torch.dtype) else x
    return _mapped(to_torch, x)


def to_ours(x: Any) -> Any:
    """Return the tensors, dtypes and entries of data bases in `x` as ours; a dtype that we lack as it is."""
    if isinstance(x, (torch.Tensor, torch.device, torch.Size)):
        return converted(x)
    if isinstance(x, torch.dtype):
        return getattr(ours, str(x).removeprefix("torch."), x)
    if isinstance(x, OpInfo):
        return Entry(x)
    return _mapped(to_ours, x)


def _mapped(function: Callable[[Any], Any], x: Any) -> Any:
    if isinstance(x, dict):
        return {function(key): function(value) for key, value in x.items()}
    if isinstance(x, (list, set, frozenset)):
        return type(x)(function(item) for item in x)
    if isinstance(x, tuple):
        items = [function(item) for item in x]
        return type(x)(*items) if type(x) is not tuple and hasattr(x, "_fields") else tuple(items)
    if isinstance(x, types.GeneratorType):
        return (function(item) for item in x)
    if isinstance(x, SampleInput):
        sample = copy.copy(x)
        for name in SampleInput.__slots__:
            setattr(sample, name, function(getattr(x, name)))
        return sample
    return x


def _tensor(x: Any) -> torch.Tensor:
    array = x.detach().numpy()
    if array.dtype == ours.bfloat16:
        array = array.view(np.int16)
    if any(stride < 0 for stride in array.strides) or not array.flags.writeable:
        array = array.copy(order="K")
    y = torch.from_numpy(array)
    return (y.view(torch.bfloat16) if x.dtype == ours.bfloat16 else y).requires_grad_(x.requires_grad)


class Entry:
    """An entry of ``op_db`` whose function is that of `tensor.torch`, and whose samples are ours."""

    def __init__(self, entry: Any) -> None:
        self._entry = entry
        self.op: Any = function_of(entry) or absent(entry.name)
        method = entry.method_variant and getattr(entry.method_variant, "__name__", entry.name)
        self.method_variant: Any = method and getattr(ours.Tensor, method, absent(method))
        place = entry.inplace_variant and getattr(entry.inplace_variant, "__name__", entry.name)
        self.inplace_variant: Any = place and getattr(ours.Tensor, place, absent(place))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def get_op(self) -> Any:
        return self.op

    def get_method(self) -> Any:
        return self.method_variant

    def get_inplace(self) -> Any:
        return self.inplace_variant

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._entry, name)
        if callable(value):
            return _on_arrays(value) if name == "ref" else bridged(value)
        return to_ours(value)


def bridged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of PyTorch's that takes and returns our tensors and dtypes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = to_torch(args), to_torch(kwargs)
        return to_ours(function(*args, **kwargs))

    return call


def _on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reference of PyTorch's, a function of NumPy's arrays, that takes our tensors too."""

    def arrays(x: Any) -> Any:
        if isinstance(x, ours.Tensor):
            return (x.float() if x.dtype == ours.bfloat16 else x).detach().numpy()
        return _mapped(arrays, x)

    return lambda *args, **kwargs: function(*arrays(args), **arrays(kwargs))


def _reference(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function on our tensors as one on PyTorch's, for what calls it with its own."""
    return lambda *args, **kwargs: to_torch(function(*to_ours(args), **to_ours(kwargs)))


# Our errors where PyTorch has a RuntimeError. No AttributeError: it can say that a function is absent.
_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, ArithmeticError)


class TestCase(common_utils.TestCase):
    """PyTorch's test case, for tests whose tensors are ours."""

    __test__ = False

    def setUp(self) -> None:
        super().setUp()
        ours.manual_seed(1234)

    def assertEqual(self, x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        super().assertEqual(_compared(x), _compared(y), *args, **kwargs)

    def assertRaises(self, expected: Any, *args: Any, **kwargs: Any) -> Any:
        return super().assertRaises(_errors(expected), *args, **kwargs)

    def assertRaisesRegex(self, expected: Any, regex: Any, *args: Any, **kwargs: Any) -> Any:
        return super().assertRaises(_errors(expected), *args, **kwargs)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: Any, regex: Any = "") -> Iterator[None]:  # type: ignore[override]
        yield

    def assertWarnsRegex(self, category: Any, regex: Any, *args: Any, **kwargs: Any) -> Any:
        return args[0](*args[1:], **kwargs) if args else contextlib.nullcontext()

    def assertWarns(self, category: Any, *args: Any, **kwargs: Any) -> Any:
        return args[0](*args[1:], **kwargs) if args else contextlib.nullcontext()

    def compare_with_numpy(self, torch_fn: Any, np_fn: Any, given: Any, *args: Any, **kwargs: Any) -> None:
        args, kwargs = to_torch(args), to_torch(kwargs)
        super().compare_with_numpy(_reference(torch_fn), np_fn, to_torch(given), *args, **kwargs)

    def compare_with_reference(self, torch_fn: Any, ref_fn: Any, sample: Any, **kwargs: Any) -> None:
        super().compare_with_reference(_reference(torch_fn), ref_fn, to_torch(sample), **kwargs)


def _compared(x: Any) -> Any:
    """Return `x` for a comparison: dtypes stay NumPy's, which equal ours alone."""
    if isinstance(x, ours.Tensor):
        return _tensor(x)
    # PyTorch's test case compares its own containers of modules and parameters by their items.
    if isinstance(x, (ours.nn.Sequential, ours.nn.ModuleList, ours.nn.ParameterList)):
        return [_compared(each) for each in x]
    if isinstance(x, (ours.nn.ModuleDict, ours.nn.ParameterDict)):
        return {name: _compared(each) for name, each in x.items()}
    return x if isinstance(x, types.GeneratorType) else _mapped(_compared, x)


def _errors(expected: Any) -> Any:
    return _ERRORS if expected in (RuntimeError, NotImplementedError) else expected


def _converting(test: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that gets our dtypes, tensors and entries where PyTorch's decorators pass its own."""

    @functools.wraps(test)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return test(self, *to_ours(args), **to_ours(kwargs))

    return call


def _convert_tests(cls: type) -> None:
    for name, test in list(vars(cls).items()):
        if name.startswith("test") and callable(test):
            setattr(cls, name, _converting(test))


def is_view_of(self: Any, base: Any, other: Any) -> bool:
    """Tell whether a write to `base` shows in `other`: memory that a clone shares does not make it a view."""
    if base is other or not base.numel():
        return base is not other
    before, written = base.detach().clone(), base.detach()
    seen = []
    for value in (0, 1 + 1j if base.is_complex() else 1):
        written.fill_(value)
        seen.append(other.detach().clone())
    written.copy_(before)
    return not ours.equal(*seen)


def instantiate_device_type_tests(cls: type, scope: dict[str, Any], **kwargs: Any) -> None:
    _convert_tests(cls)
    for name in ("is_view_of", "is_view_of_same_base"):
        if name in vars(cls):
            setattr(cls, name, is_view_of)
    common_device_type.instantiate_device_type_tests(cls, scope, **kwargs)
    for made in list(scope.values()):
        if isinstance(made, type) and issubclass(made, cls):
            made.__test__ = True  # type: ignore[attr-defined]


def instantiate_parametrized_tests(cls: type) -> type:
    _convert_tests(cls)
    return common_utils.instantiate_parametrized_tests(cls)  # type: ignore[no-any-return]


@contextlib.contextmanager
def set_default_dtype(dtype: Any) -> Iterator[None]:
    if dtype != default_dtype.of_file():
        ours.set_default_dtype(dtype)
    yield


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    state = ours.get_rng_state()
    try:
        yield
    finally:
        ours.set_rng_state(state)


def _checking(check: Callable[..., bool]) -> Callable[..., bool]:
    """Return a check of gradients that takes PyTorch's options, and passes on those that we have."""

    def call(function: Any, inputs: Any, *args: Any, **kwargs: Any) -> bool:
        given = {name: kwargs[name] for name in ("eps", "atol", "rtol", "raise_exception") if name in kwargs}
        return check(function, inputs, **given)

    return call


def _check_twice(test: Any, function: Any, inputs: Any, **options: Any) -> None:
    """Check derivatives and second derivatives, as PyTorch's ``_assertGradAndGradgradChecks``."""
    test.assertTrue(OWN["gradcheck"](function, inputs, **options))
    test.assertTrue(OWN["gradgradcheck"](function, inputs, **options))


# Instead of what PyTorch's helpers do with PyTorch itself.
OWN: dict[str, Any] = {
    "TestCase": TestCase,
    "instantiate_device_type_tests": instantiate_device_type_tests,
    "instantiate_parametrized_tests": instantiate_parametrized_tests,
    "set_default_dtype": set_default_dtype,
    "freeze_rng_state": freeze_rng_state,
    "_assertGradAndGradgradChecks": _check_twice,
    "gradcheck": _checking(ours.autograd.gradcheck),
    "gradgradcheck": _checking(ours.autograd.gradgradcheck),
    "make_tensor": ours.testing.make_tensor,
    "tf32_is_not_fp32": lambda: False,
    "run_tests": lambda: None,
    "load_tests": None,
}


def _nothing(*_: Any, **__: Any) -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


def _as_it_is(function: Any = None, **_: Any) -> Any:
    return (lambda decorated: decorated) if function is None else function


# Settings of libraries and of a compiler that `tensor.torch` does not use: tests compute as without them.
SETTINGS = {
    "torch._dynamo.disable": _as_it_is,
    "torch._dynamo.graph_break": _nothing,
    "torch.backends.cuda.preferred_linalg_library": _nothing,
    "torch.backends.mkldnn.flags": _nothing,
    "torch.backends.mkldnn.is_available": lambda: False,
    "torch.backends.opt_einsum.flags": _nothing,
    "torch.backends.quantized.supported_engines": (),
    "torch.profiler.itt.is_available": lambda: False,
}


def add_settings() -> None:
    """Add the settings to the modules that `tensor.torch` has, and to new ones for those that it lacks."""
    for name, value in SETTINGS.items():
        *path, setting = name.split(".")[1:]
        if path[0] == "_dynamo":
            continue  # which is imported, not read from its module
        module: Any = ours
        for part in path:
            if not hasattr(module, part):
                setattr(module, part, types.ModuleType(f"{module.__name__}.{part}"))
            module = getattr(module, part)
        setattr(module, setting, value)
    for name, value in vars(torch.nn).items():
        # Files read modules by name as they load.
        if isinstance(value, type) and not hasattr(ours.nn, name):
            setattr(ours.nn, name, absent(name))


def internal(name: str) -> types.ModuleType:
    """Return the module `name` of ``torch.testing._internal`` for our tensors."""
    module = types.ModuleType(name)

    def get(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if attribute in OWN:
            return OWN[attribute]
        try:
            value = getattr(import_module(name), attribute)
        except (ImportError, AttributeError):
            if attribute.endswith("_and_refs"):
                return get(attribute.removesuffix("_and_refs"))  # without the compiler's own forms
            if attribute.startswith(("skip", "expectedFailure")):
                return _as_it_is  # a decorator that PyTorch's own helpers no longer have
            return False if attribute.isupper() else absent(attribute)
        if isinstance(value, types.FunctionType):
            return bridged(value)
        if isinstance(value, type):
            decorates = any("__call__" in vars(base) for base in value.__mro__[:-1])
            return bridged(value) if decorates and not issubclass(value, OpInfo) else value
        return value if isinstance(value, list) else to_ours(value)

    module.__getattr__ = get  # type: ignore[method-assign]
    return module
