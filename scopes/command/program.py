"""Run a user's program in this process, as ``python`` runs it."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import io
import pkgutil
import shlex
import shutil
import sys
import sysconfig
from contextlib import suppress
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING

from scopes._shared.tracebacks import is_ours

if TYPE_CHECKING:
    from importlib.abc import Loader


class CannotRunError(Exception):
    """The program was not found. `status` is the exit status of ``python`` in this case."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run(name: str, arguments: list[str], *, is_module: bool) -> BaseException | None:
    """Run ``python name arguments`` or ``python -m name arguments``, and return the exception or None.

    ``sys.argv``, ``sys.path[0]`` and the module ``__main__`` are as Python sets them. They are not restored,
    so the program's globals stay alive until the interpreter exits. The traceback of the exception begins at
    the program's first frame. It keeps the locals of the program's functions alive.

    Raises
    ------
    CannotRunError
        If there is no such file, module or installed script.
    """
    sys.argv = [name, *arguments]
    try:
        code, module = _module(name) if is_module else _script(name)
        sys.modules["__main__"] = module
        exec(code, module.__dict__)
    except CannotRunError:
        raise
    except BaseException as error:
        return error.with_traceback(_of_program(error.__traceback__))
    return None


def _script(name: str) -> tuple[CodeType, ModuleType]:
    try:
        path = Path(name).absolute()
    except FileNotFoundError as error:  # the working directory was deleted
        raise _cannot_open(name, error) from error
    if not path.exists() and (installed := _installed_script(name)) is not None:
        path = installed
        sys.argv[0] = str(path)  # as Python sets it for a script that the system starts
    importer = pkgutil.get_importer(str(path))
    # A folder, or an archive: Python looks for `__main__` in it.
    if importer is not None and (path.is_dir() or not isinstance(importer, FileFinder)):
        spec = importer.find_spec("__main__")
        if spec is None:
            raise CannotRunError(f"can't find '__main__' module in {name!r}", 1)
        sys.path[: 0 if sys.flags.safe_path else 1] = [str(path)]
        return _code_of(spec), _main_from(spec)

    try:
        if path.suffix == ".pyc":
            loader: Loader = SourcelessFileLoader("__main__", str(path))
            code = _code_of(ModuleSpec("__main__", loader))
        else:
            loader = SourceFileLoader("__main__", str(path))
            with io.open_code(str(path)) as file:
                source = file.read()
            code = compile(source, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise _cannot_open(str(path), error) from error
    if not sys.flags.safe_path:
        sys.path[0] = str(path.resolve().parent)
    module = ModuleType("__main__")
    vars(module).update(__builtins__=builtins, __cached__=None, __file__=str(path), __loader__=loader)
    return code, module


def _installed_script(name: str) -> Path | None:
    """Return the Python script that the shell would start as `name`, such as ``torchrun``, or None.

    The scripts of this Python's environment come first, then those on PATH.
    """
    if Path(name).name != name:
        return None
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    interpreter = None if found is None else _interpreter_of(Path(found))
    if found is None or interpreter is None or not interpreter.name.startswith("python"):
        return None
    if interpreter.is_absolute() and interpreter.parent.resolve() != Path(sys.executable).parent.resolve():
        raise CannotRunError(
            f"{found} is a script for {interpreter}, and this is {sys.executable}: install disposescope for "
            "that Python, or write a script or -m and a module",
            2,
        )
    return Path(found)


def _interpreter_of(script: Path) -> Path | None:
    """Return what the first line of a script names: an absolute path, or a name for ``env`` to find."""
    try:
        with script.open("rb") as file:
            first, second = file.readline(1000).decode(), file.readline(1000).decode()
    except (OSError, UnicodeError):
        return None
    if not first.startswith("#!"):
        return None
    if second.startswith("'''exec' "):  # pip writes this where the path is long or has spaces
        words = shlex.split(second.removeprefix("'''exec' "))
        return Path(words[0])
    words = first[2:].split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return Path(words[0]) if words else None


def _cannot_open(path: str, error: OSError) -> CannotRunError:
    return CannotRunError(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2)


def _module(name: str) -> tuple[CodeType, ModuleType]:
    program, sys.argv[0] = sys.argv[0], "-m"  # as Python sets it while it imports the parent packages
    if not sys.flags.safe_path:
        # Python sets this for `python -m`. The command `disposescope` starts with its own folder here.
        with suppress(FileNotFoundError):  # the working directory was deleted: Python adds nothing then
            sys.path[0] = str(Path.cwd())
    package = name.rpartition(".")[0]
    if package:
        try:
            importlib.import_module(package)
        except ImportError as error:
            # A missing package is reported below. Other import errors come from the code of the package.
            if error.name is None or not f"{package}.".startswith(f"{error.name}."):
                raise
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        hint = f". Try {name[:-3]!r} instead of {name!r}" if name.endswith(".py") else ""
        raise CannotRunError(f"No module named {name} ({error}){hint}", 1) from error
    if spec is None:
        raise CannotRunError(f"No module named {name}", 1)
    sys.argv[0] = program if spec.origin is None else spec.origin
    return _code_of(spec), _main_from(spec)


def _code_of(spec: ModuleSpec) -> CodeType:
    get_code = getattr(spec.loader, "get_code", None)
    code: CodeType | None = None if get_code is None else get_code(spec.name)
    if code is None:
        raise CannotRunError(f"No code object available for {spec.name}", 1)
    return code


def _main_from(spec: ModuleSpec) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    vars(module).update(__builtins__=builtins, __name__="__main__")
    return module


def _of_program(traceback: TracebackType | None) -> TracebackType | None:
    """Return `traceback` without the first frames, those of this library and the import system."""
    while traceback is not None and (
        is_ours(traceback.tb_frame) or traceback.tb_frame.f_code.co_filename.startswith("<frozen importlib")
    ):
        traceback = traceback.tb_next
    return traceback
