"""A pytest plugin for ``tests.suites``: it opens a scope around each call of a library's functions.

A test runs without a scope, as a user's program does. Each call that the patterns name runs in a scope of its
own, and its result is moved out, as by ``scopes.disposing``. Calls within such a call belong to its scope.
Without ``--call-scopes`` the functions are wrapped too, so that both runs have the same functions.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch

import scopes.torch
from scopes import disposing


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("suites")
    group.addoption(
        "--call",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="open a scope around calls of this function or Class.method; both parts may be patterns",
    )
    group.addoption("--call-scopes", choices=["owning", "exact"], help="how its scopes own tensors")


def pytest_configure(config: pytest.Config) -> None:
    """Wrap the functions before a test module imports them."""
    calls = _Calls(config.getoption("--call-scopes"))
    for pattern in config.getoption("--call"):
        module, _, name = pattern.partition(":")
        if not sum(calls.wrap(each, name) for each in _modules(module)):
            raise pytest.UsageError(f"--call {pattern}: no function has such a name")
    config.pluginmanager.register(calls, "suite-calls")


def _modules(pattern: str) -> Iterator[ModuleType]:
    """Import the modules whose names match, but for those that need what is not installed."""
    root = importlib.import_module(pattern.partition("*")[0].rstrip("."))
    yield root
    if "*" in pattern:
        for info in pkgutil.walk_packages(root.__path__, root.__name__ + ".", onerror=lambda _: None):
            if fnmatchcase(info.name, pattern):
                with suppress(Exception):
                    yield importlib.import_module(info.name)


class _Calls:
    """Wraps functions, and counts the calls that have a scope."""

    def __init__(self, mode: str | None) -> None:
        self.mode = mode
        self.count = 0
        self.thread = threading.local()  # has the attribute `is_inside` while such a call runs
        self.wrappers: dict[FunctionType, FunctionType] = {}

    def wrap(self, module: ModuleType, pattern: str) -> int:
        """Wrap the functions and methods of `module` that match, and return their number."""
        count = 0
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and _matches(name, pattern):
                self._replace(value, module)
                count += 1
            elif isinstance(value, type) and value.__module__ == module.__name__:
                for key, method in list(vars(value).items()):
                    function = method.__func__ if isinstance(method, (staticmethod, classmethod)) else method
                    if isinstance(function, FunctionType) and _matches(f"{name}.{key}", pattern):
                        wrapper = self._wrapper(function)
                        setattr(value, key, wrapper if function is method else type(method)(wrapper))
                        count += 1
        return count

    def _replace(self, function: FunctionType, module: ModuleType) -> None:
        """Put the wrapper wherever a module of the package has the function."""
        package = module.__name__.partition(".")[0]
        if function.__module__.partition(".")[0] != package:
            return
        wrapper = self._wrapper(function)
        for name, each in list(sys.modules.items()):
            if name.partition(".")[0] == package and isinstance(each, ModuleType):
                for key, value in list(vars(each).items()):
                    if value is function:
                        setattr(each, key, wrapper)

    def _wrapper(self, function: FunctionType) -> FunctionType:
        is_plain = not (inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function))
        if not is_plain or function in self.wrappers.values():
            return function
        if function not in self.wrappers:
            self.wrappers[function] = self._wrapped(function)
        return self.wrappers[function]

    def _wrapped(self, function: FunctionType) -> Any:
        run: Callable[..., Any] = function if self.mode is None else disposing(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            # A scope inside a compiled function is another subject.
            if torch.compiler.is_compiling() or getattr(self.thread, "is_inside", False):
                return function(*args, **kwargs)
            self.thread.is_inside = True
            self.count += 1
            try:
                if self.mode is None:
                    return run(*args, **kwargs)
                with scopes.torch.owning(exact=self.mode == "exact"):
                    return run(*args, **kwargs)
            finally:
                self.thread.is_inside = False

        return call

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Note how many calls of the test had a scope."""
        before = self.count
        try:
            return (yield)
        finally:
            item.user_properties.append(("calls", self.count - before))


def _matches(name: str, pattern: str) -> bool:
    """Match each part, but ``*`` no private name and no special method."""
    names, patterns = name.split("."), pattern.split(".")
    return len(names) == len(patterns) and all(
        fnmatchcase(name, each) and (each.startswith("_") or not name.startswith("_"))
        for name, each in zip(names, patterns, strict=True)
    )
