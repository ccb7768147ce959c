"""Begins an attach in another process: ``disposescope attach`` makes the process run the text of this file.

So this file needs only Python's own modules, and no name of it stays in the process. It runs in the middle of
the program, on the main thread. It starts a thread, which does everything else, and returns.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from importlib import import_module
from typing import Any

# What `attach` may find in the answer: the exit status of the command.
UNSUPPORTED, NOT_IMPORTABLE = 5, 6
# The libraries whose tensors a report can show, by the module that has them.
_LIBRARIES = ("torch", "jax", "tensor.core.tensor")
# Seconds to wait for the command.
_PATIENCE = 30.0


def begin(options: dict[str, Any]) -> None:
    """Start the thread of the attach. `options` are those of `scopes.command.attached.Attached`."""
    threading.Thread(target=_run, args=(options,), name="disposescope attach", daemon=True).start()


def _run(options: dict[str, Any]) -> None:
    import socket

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    page = None
    try:
        connection.settimeout(_PATIENCE)
        connection.connect(options["address"])
        page = _page_from(connection)
        _attend(connection, options)
    except OSError:
        pass  # the command has given up, and its folder is gone
    finally:
        connection.close()
        if page is not None:
            _unmap(*page)


def _page_from(connection: Any) -> tuple[int, int]:
    """Return the address and the size of the memory that the debugger has mapped. The command sends both."""
    import json

    data = b""
    while not data.endswith(b"\n"):
        received = connection.recv(4096)
        if not received:
            raise ConnectionError("the command has ended")
        data += received
    address, nbytes = json.loads(data)["page"]
    return address, nbytes


def _unmap(address: int, nbytes: int) -> None:
    """Return the memory with the text that the main thread has run. Without ctypes it stays."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        if address:
            ctypes.CDLL(None).munmap(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))


def _attend(connection: Any, options: dict[str, Any]) -> None:
    try:
        refusal = _refusal() or _import(options)
        if refusal is None:
            import_module("scopes.command.attached").attend(connection, options)
            return
    except Exception as error:  # noqa: BLE001  # the program must not see it
        refusal = NOT_IMPORTABLE, f"{type(error).__name__}: {error}"
    _refuse(connection, *refusal)


def _refuse(connection: Any, status: int, text: str) -> None:
    import json
    import socket

    answer = json.dumps({"status": status, "error": text}) + "\n"
    with contextlib.suppress(OSError):
        # A broken connection must raise an error, and not send SIGPIPE to a program that dies of it.
        connection.sendall(answer.encode(), getattr(socket, "MSG_NOSIGNAL", 0))


def _refusal() -> tuple[int, str] | None:
    """Return the status and the reason if nothing can be shown in this process."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):  # noqa: UP036  # the version of another process
        return UNSUPPORTED, f"the process runs Python {version}: this needs 3.11 or later"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return UNSUPPORTED, (
            "the process runs free-threaded Python, whose lock the import of disposescope would turn on"
        )
    if not any(name in sys.modules for name in _LIBRARIES):
        return (
            UNSUPPORTED,
            "the process has imported none of torch, jax and tensor, so it has no tensors to show",
        )
    return None


def _import(options: dict[str, Any]) -> tuple[int, str] | None:
    """Import `scopes` from the process's own environment, else from the command's; return why it can't be."""
    import importlib.machinery
    import importlib.util
    from pathlib import Path

    loaded = sys.modules.get("scopes")
    spec = importlib.util.find_spec("scopes") if loaded is None else getattr(loaded, "__spec__", None)
    if loaded is not None or spec is not None:
        origin = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
        folder = None if origin is None else Path(origin).parent
        if folder is None or not (folder / "core" / "disposing.py").is_file():
            return NOT_IMPORTABLE, (
                f"`import scopes` finds another module in the process, {origin}: a program with a module "
                "of that name can't be attached to"
            )
        if not (folder / "command" / "attached.py").is_file():
            return NOT_IMPORTABLE, f"the disposescope of the process, in {folder}, is older than this command"
    else:
        ours, theirs = options["suffix"], importlib.machinery.EXTENSION_SUFFIXES[0]
        if ours != theirs or options["folder"] is None:
            why = (
                f"that of the command is compiled for {ours}, and the process needs {theirs}"
                if ours != theirs
                else "that of the command is an editable installation"
            )
            return NOT_IMPORTABLE, (
                f"disposescope is not installed in the environment of the process ({sys.prefix}), and {why}. "
                "Install it there"
            )
        sys.path.append(options["folder"])
        try:
            import_module("scopes")
        finally:
            sys.path.remove(options["folder"])
    version = import_module("scopes._version").__version__
    if version != options["version"]:
        return NOT_IMPORTABLE, (
            f"the process has disposescope {version}, and this command is {options['version']}: use the "
            "command in the environment of the process"
        )
    return None
