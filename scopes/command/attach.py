"""``disposescope attach PID``: make a process that runs already send a report of its tensors.

The process runs a short text of Python on its main thread: by ``sys.remote_exec`` from Python 3.14 on, and by
a debugger before. The debugger stops the process for a moment, maps a page of memory, writes the text there,
and asks Python to run it at its next safe point, by ``Py_AddPendingCall``. All of that is safe wherever the
process was stopped: it takes no lock of the allocator and runs no Python code. The text starts a thread
(`injected`), which connects to a socket of this command in a private folder and does the rest (`attached`).

A main thread that waits, such as that of an idle notebook, reaches no safe point. If it waits in a system
call, it has released Python's lock. Then the debugger takes the lock and runs the text from there.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import mmap
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scopes._shared.stderr import write_to_stderr
from scopes._version import __version__

if TYPE_CHECKING:
    import argparse

# The exit statuses, besides those of `injected` and `attached`; docs/attach.md lists all of them.
_FAILED, _NO_PROCESS, _NOT_PERMITTED, _NOT_PYTHON = 1, 3, 4, 5
_NO_ANSWER, _BUSY, _NO_DEBUGGER = 7, 8, 9
METHODS = ("remote_exec", "gdb", "lldb")
_INTERRUPTED = 130
# Seconds to wait for the debugger.
_DEBUGGER_PATIENCE = 120.0
# Seconds after which the main thread seems to wait.
_FIRST_PATIENCE = 3.0
_PAGE = 4096
_PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
# Runs `text` at its path. It binds no name, because the debugger's way runs it in the module `__main__`.
_LAUNCH = """\
try:
    __import__("builtins").exec(
        __import__("pathlib").Path({path!r}).read_text("utf-8"), {{"__name__": "scopes.command.injected"}}
    )
except KeyboardInterrupt:
    __import__("_thread").interrupt_main()
except BaseException:
    pass
"""
_GDB = """\
set pagination off
set confirm off
set unwindonsignal on
sharedlibrary libc[.-]
sharedlibrary musl
sharedlibrary libpython
printf "disposescope: stopped\\n"
set $run = (long)&PyRun_SimpleString
set $ask = (long)&Py_AddPendingCall
printf "disposescope: python\\n"
set $page = ((long (*)(long, long, int, int, int, long))mmap)(0, {size}, {access}, {flags}, -1, 0)
restore {launch} binary $page
set $answer = ((int (*)(long, long))$ask)($run, $page)
printf "disposescope: page %ld answer %d\\n", $page, $answer
"""
# Functions in which a thread waits without Python's lock, and without one of the allocator.
_WAITS = (
    *("accept", "accept4", "clock_nanosleep", "do_futex_wait", "epoll_pwait", "epoll_wait"),
    *("futex_abstimed_wait_cancelable", "futex_abstimed_wait_common", "nanosleep", "pause", "poll", "ppoll"),
    *(
        "pselect",
        "pthread_cond_clockwait",
        "pthread_cond_timedwait",
        "pthread_cond_wait",
        "read",
        "recv",
        "recvfrom",
    ),
    *("recvmsg", "select", "sem_clockwait", "sem_timedwait", "sem_wait", "sigtimedwait", "wait4", "waitid"),
    "waitpid",
    # Those of Python around them, for a C library without symbols.
    *("PySemaphore_Wait", "PyThread_acquire_lock_timed"),
)
# Runs the text if the main thread waits in such a function, in one of the innermost frames.
_GDB_IN_WAIT = """\
set pagination off
set confirm off
set unwindonsignal on
sharedlibrary libc[.-]
sharedlibrary musl
sharedlibrary libpython
python
import re
main = next(each for each in gdb.selected_inferior().threads() if each.ptid[1] == {pid})
main.switch()
frame, names = gdb.newest_frame(), []
while frame is not None and len(names) < 10:
    names.append(re.sub(r"^_*(?:GI_)?_*(?:libc_|new_)?|(?:64)?(?:_time64)?$", "", str(frame.name())))
    frame = frame.older() if frame.type() != gdb.SIGTRAMP_FRAME else None
has_lock = int(gdb.parse_and_eval("((int (*)(void))PyGILState_Check)()"))
if has_lock or not set(names) & set({waits!r}):
    print("disposescope: the main thread is in", ", ".join(names))
else:
    state = int(gdb.parse_and_eval("((int (*)(void))PyGILState_Ensure)()"))
    gdb.parse_and_eval("((int (*)(long))PyRun_SimpleString)({page})")
    gdb.parse_and_eval("((void (*)(int))PyGILState_Release)(%d)" % state)
    print("disposescope: the text ran")
end
"""
_LLDB = (
    "expression -- long $page = ((long (*)(long, long, int, int, int, long))mmap)"
    "(0, {size}, {access}, {flags}, -1, 0)\n"
    "memory write --infile {launch} $page\n"
    "expression -- int $answer = ((int (*)(long, long))Py_AddPendingCall)((long)&PyRun_SimpleString, $page)\n"
    "print $page\n"
    "print $answer\n"
    "process detach"
)


class RefusedError(Exception):
    """The process can't be attached to. `status` is the exit status of the command."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Page(NamedTuple):
    """Memory that the debugger has mapped in the process; 0 for none."""

    address: int = 0
    nbytes: int = 0


def attach(options: argparse.Namespace, program: str) -> int:
    """Print the report of the process ``options.pid``, and return the exit status of the command."""
    try:
        return _attach(options)
    except RefusedError as refused:
        write_to_stderr(f"{program}: {refused}")
        return refused.status
    except KeyboardInterrupt:
        return _INTERRUPTED


def _attach(options: argparse.Namespace) -> int:
    pid: int = options.pid
    if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
        raise RefusedError(_FAILED, "attach needs Linux or macOS")
    _check(pid)
    inject = _way(pid, options.method)
    folder = Path(tempfile.mkdtemp(prefix="disposescope-attach-"))
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            text, launch = _prepare(folder, server, options)
            page = inject(pid, launch)
            patience: float = options.wait
            first_patience = min(_FIRST_PATIENCE, patience) if inject is _by_gdb else patience
            connection = _answer(server, pid, first_patience)
            if connection is None and inject is _by_gdb:
                _run_in_wait(pid, page, folder)
                connection = _answer(server, pid, patience)
            if connection is None:
                if inject is _by_remote_exec:
                    _let_remove_itself(launch)
                raise _no_answer(pid, patience)
            with connection:
                text.unlink()
                return _converse(connection, pid, page)
    finally:
        if not (folder / "remains").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _prepare(folder: Path, server: socket.socket, options: argparse.Namespace) -> tuple[Path, Path]:
    """Write the files for the process, make `server` listen, and return the text and what launches it."""
    address = folder / "socket"
    try:
        server.bind(str(address))
    except OSError as error:
        raise RefusedError(
            _FAILED, f"can't make a socket at {address}: {error}. Set TMPDIR to another folder"
        ) from None
    server.listen(1)
    found = find_spec("scopes")
    locations = (found and found.submodule_search_locations) or []
    parent = Path(next(iter(locations))).parent if locations else None
    # An editable installation has its compiled modules elsewhere.
    is_whole = parent is not None and any((parent / "scopes" / "core").glob("scope.*.so"))
    arguments = {
        "address": str(address),
        "seconds": options.seconds,
        "threshold": options.leak_threshold,
        "depth": options.depth,
        "suffix": importlib.machinery.EXTENSION_SUFFIXES[0],
        "folder": str(parent) if is_whole else None,
        "version": __version__,
    }
    source = Path(__file__).with_name("injected.py").read_text(encoding="utf-8")
    text, launch = folder / "text.py", folder / "launch.py"
    text.write_text(f"{source}\n\nbegin({arguments!r})\n", encoding="utf-8")
    launch.write_text(_LAUNCH.format(path=str(text)), encoding="utf-8")
    owner = _owner_of(options.pid)
    if owner is not None and owner != os.geteuid():  # we are root, and the process must read them
        for path in (folder, address, text, launch):
            os.chown(path, owner, -1)
    return text, launch


# --- Is there such a process, and may it be stopped? ---


def _check(pid: int) -> None:
    """Raise an error if the process can't be attached to, as far as the system tells without stopping it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        raise RefusedError(_NO_PROCESS, f"there is no process {pid}") from None
    except OverflowError:
        raise RefusedError(_NO_PROCESS, f"there is no process {pid}") from None
    except PermissionError:
        raise RefusedError(
            _NOT_PERMITTED,
            f"process {pid} belongs to another user{_name_of_owner(pid)}: attach as that user, or as root",
        ) from None
    if pid == os.getpid():
        raise RefusedError(_NOT_PERMITTED, "this is the process of the command itself")
    proc = Path("/proc", str(pid))
    if not proc.exists():
        return  # macOS: the debugger tells
    state = _status_of(pid)
    if state.get("State", "").startswith(("Z", "X")):
        raise RefusedError(
            _NO_PROCESS, f"process {pid} has ended, and its parent has not taken notice of that yet"
        )
    if state.get("TracerPid", "0") != "0":
        raise RefusedError(
            _BUSY,
            f"process {pid} is under a debugger, or another attach, already: process {state['TracerPid']}",
        )
    if state.get("State", "").startswith("T"):
        raise RefusedError(_NO_ANSWER, f"process {pid} is stopped: let it go on with `kill -CONT {pid}`")
    try:
        is_elsewhere = (proc / "ns" / "mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
        is_elsewhere = is_elsewhere or (proc / "root").readlink() != Path("/proc/self/root").readlink()
        is_python = _is_python(pid)
    except PermissionError:
        raise _not_permitted(pid) from None
    except FileNotFoundError:
        raise RefusedError(
            _NO_PROCESS, f"process {pid} has just ended, or is a thread of the kernel"
        ) from None
    if is_elsewhere:
        raise RefusedError(
            _NOT_PERMITTED,
            f"process {pid} runs in a container, or sees other files than this command: run `disposescope "
            "attach` in the container",
        )
    if not is_python:
        raise RefusedError(_NOT_PYTHON, f"process {pid} is not a Python process: {_program_of(pid)}")


def _not_permitted(pid: int) -> RefusedError:
    why = "attaching needs the same permissions as a debugger"
    with contextlib.suppress(OSError, ValueError):
        scope = int(Path(_PTRACE_SCOPE).read_text())
        why = {
            1: f"{_PTRACE_SCOPE} is 1, so only root and a parent of the process may: use sudo",
            2: f"{_PTRACE_SCOPE} is 2, so only root may: use sudo",
            3: f"{_PTRACE_SCOPE} is 3, so nobody may until the next start of the system",
        }.get(scope, why)
    return RefusedError(
        _NOT_PERMITTED,
        f"the system does not let you attach to {pid}{_name_of_owner(pid)}: {why}. A container needs "
        "the capability SYS_PTRACE",
    )


def _status_of(pid: int) -> dict[str, str]:
    try:
        lines = Path("/proc", str(pid), "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _owner_of(pid: int) -> int | None:
    uids = _status_of(pid).get("Uid", "").split()
    return int(uids[1]) if uids else None


def _name_of_owner(pid: int) -> str:
    owner = _owner_of(pid)
    if owner is None or owner == os.geteuid():
        return ""
    import pwd

    try:
        return f" ({pwd.getpwuid(owner).pw_name})"
    except KeyError:
        return f" ({owner})"


def _program_of(pid: int) -> str:
    try:
        return str(Path("/proc", str(pid), "exe").readlink())
    except OSError:
        return "unknown"


def _mapped_by(pid: int) -> set[str]:
    """Return the files that the process has mapped."""
    lines = Path("/proc", str(pid), "maps").read_text(encoding="utf-8", errors="replace").splitlines()
    return {parts[5] for line in lines if len(parts := line.split(None, 5)) == 6 and parts[5].startswith("/")}


def _is_python(pid: int) -> bool:
    """Return whether the program, or a library with the name of Python's that it has loaded, is CPython."""
    files = [Path("/proc", str(pid), "exe")]
    files += [Path(each) for each in _mapped_by(pid) if "libpython" in Path(each).name]
    return any(_has_name(file, b"Py_AddPendingCall") for file in files)


def _has_name(file: Path, name: bytes) -> bool:
    with (
        contextlib.suppress(FileNotFoundError, ValueError),  # ValueError: the file is empty
        file.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(name + b"\0") >= 0
    return False


def _minor_of(pid: int) -> int | None:
    """Return the minor version of the process's Python, from the names of the files that it has loaded."""
    try:
        names = [_program_of(pid), *sorted(_mapped_by(pid))]
    except OSError:
        return None
    for pattern in (r"/(?:lib)?python3\.(\d+)[^/]*$", r"/python3\.(\d+)/", r"\.cpython-3(\d+)-"):
        for name in names:
            found = re.search(pattern, name)
            if found:
                return int(found[1])
    return None


# --- The ways to make the process run the text ---

_Inject = Callable[[int, Path], _Page]


def _way(pid: int, method: str | None) -> _Inject:
    """Return the function that makes the process run a file: the `method`, or the first that is possible."""
    minor = _minor_of(pid)
    if method == "remote_exec" or (method is None and minor is not None and minor >= 14):
        if minor is not None and minor < 14:
            raise RefusedError(
                _NO_DEBUGGER, f"the process runs Python 3.{minor}, and sys.remote_exec needs 3.14"
            )
        return _by_remote_exec
    debuggers = {"gdb": _by_gdb, "lldb": _by_lldb}
    names = [method] if method else ["lldb", "gdb"] if sys.platform == "darwin" else ["gdb", "lldb"]
    for name in names:
        if shutil.which(name):
            return debuggers[name]
    raise RefusedError(
        _NO_DEBUGGER,
        f"there is no {' and no '.join(names)} here. Before Python 3.14 a process needs one: install "
        "gdb or lldb",
    )


def _by_remote_exec(pid: int, launch: Path) -> _Page:
    minor = _minor_of(pid)
    # The interpreter must be of the version of the process, so the process's own one calls it if ours is not.
    python = sys.executable if minor in (None, sys.version_info.minor) else _program_of(pid)
    call = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", call, str(pid), str(launch)],
            capture_output=True,
            text=True,
            timeout=_DEBUGGER_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(_FAILED, f"sys.remote_exec failed: {error}") from None
    if done.returncode == 0:
        return _Page()
    reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"
    if "PermissionError" in reason or "not permitted" in reason:
        raise _not_permitted(pid)
    if "remote debugging is not enabled" in done.stderr.lower() or "disabled" in done.stderr.lower():
        raise RefusedError(
            _NO_DEBUGGER,
            f"process {pid} was started with remote debugging disabled (PYTHON_DISABLE_REMOTE_DEBUG or -X "
            "disable-remote-debug). `--method gdb` does not need it",
        )
    if "ProcessLookupError" in reason:
        raise RefusedError(_NO_PROCESS, f"process {pid} has ended")
    raise RefusedError(_FAILED, f"sys.remote_exec failed: {reason}")


def _by_gdb(pid: int, launch: Path) -> _Page:
    script = launch.with_name("gdb.txt")
    access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    script.write_text(_GDB.format(size=_PAGE, access=access, flags=flags, launch=launch), encoding="utf-8")
    # Symbols of all libraries take seconds and gigabytes with PyTorch.
    command = ["gdb", "-nx", "-batch", "-iex", "set auto-solib-add off", "-p", str(pid), "-x", str(script)]
    return _page_in(_output_of(command), r"disposescope: page (-?\d+) answer (-?\d+)", "gdb", pid)


def _run_in_wait(pid: int, page: _Page, folder: Path) -> None:
    """Run the text in `page` on the main thread, if that waits without Python's lock."""
    script = folder / "wait.txt"
    script.write_text(_GDB_IN_WAIT.format(pid=pid, waits=_WAITS, page=page.address), encoding="utf-8")
    _output_of(["gdb", "-nx", "-batch", "-iex", "set auto-solib-add off", "-p", str(pid), "-x", str(script)])


def _by_lldb(pid: int, launch: Path) -> _Page:
    access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    command = ["lldb", "--batch", "--no-lldbinit", "-p", str(pid)]
    for each in _LLDB.format(size=_PAGE, access=access, flags=flags, launch=launch).splitlines():
        command += ["-o", each]
    return _page_in(
        _output_of(command), r"\(long\) \$page = (-?\d+)[\s\S]*\(int\) \$answer = (-?\d+)", "lldb", pid
    )


def _output_of(command: list[str]) -> str:
    """Run a debugger to its end, and return what it printed."""
    environment = os.environ | {"LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    debugger = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=environment,
        start_new_session=True,  # Ctrl-C is for this command
    )
    try:
        return debugger.communicate(timeout=_DEBUGGER_PATIENCE)[0]
    except subprocess.TimeoutExpired:
        # It may be in a call of a function of the process, which must return.
        raise RefusedError(
            _NO_ANSWER,
            f"the debugger, process {debugger.pid}, is not back after {_DEBUGGER_PATIENCE:.0f} s. It ends "
            "by itself when the process goes on. To kill it may damage the process",
        ) from None


def _page_in(output: str, pattern: str, debugger: str, pid: int) -> _Page:
    """Return the page of memory that a debugger has mapped, from its output."""
    found = re.search(pattern, output)
    if found is None:
        raise _reason_in(output, debugger, pid)
    address, answer = int(found[1]), int(found[2])
    if address == -1:
        raise RefusedError(_FAILED, f"process {pid} could not map a page of memory")
    if answer != 0:
        raise RefusedError(
            _NO_ANSWER, f"Python takes no further calls in process {pid}: try again in a moment"
        )
    return _Page(address, _PAGE)


def _reason_in(output: str, debugger: str, pid: int) -> RefusedError:
    lowered = output.lower()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return RefusedError(_NO_PROCESS, f"process {pid} has ended")
    except PermissionError:
        return _not_permitted(pid)
    if "not permitted" in lowered or "attach failed" in lowered or "not allowed" in lowered:
        tracer = _status_of(pid).get("TracerPid", "0")
        if tracer != "0":
            return RefusedError(
                _BUSY, f"process {pid} is under a debugger, or another attach, already: process {tracer}"
            )
        return _not_permitted(pid)
    if "pyrun_simplestring" in lowered and "disposescope: python" not in lowered:
        return RefusedError(_NOT_PYTHON, f"{debugger} finds no Python in process {pid}: {_program_of(pid)}")
    last = "; ".join([line for line in output.strip().splitlines() if line.strip()][-3:])
    return RefusedError(_FAILED, f"{debugger} failed: {last or 'it printed nothing'}")


# --- The conversation ---


def _answer(server: socket.socket, pid: int, patience: float) -> socket.socket | None:
    """Return the connection of the process, or None if it does not answer."""
    until = time.monotonic() + patience
    server.settimeout(0.2)
    while time.monotonic() < until:
        try:
            connection = server.accept()[0]
        except TimeoutError:
            _raise_if_ended(pid)
            continue
        connection.settimeout(None)
        return connection
    return None


def _no_answer(pid: int, patience: float) -> RefusedError:
    return RefusedError(
        _NO_ANSWER,
        f"the main thread of process {pid} ran no Python code for {patience:.3g} s: it is in C code, or it "
        "waits (then `--method gdb` may help). Attach again when it goes on. The request that is left there "
        "finds its file gone, and does nothing",
    )


def _raise_if_ended(pid: int) -> None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        raise RefusedError(_NO_PROCESS, f"process {pid} ended before it answered") from None
    if _status_of(pid).get("State", "").startswith(("Z", "X")):
        raise RefusedError(_NO_PROCESS, f"process {pid} ended before it answered")


def _let_remove_itself(launch: Path) -> None:
    """Make the file that the process will still run remove its folder. Python would report a missing file."""
    folder = launch.parent
    for each in folder.iterdir():
        if each != launch:
            each.unlink()
    (folder / "remains").touch()
    launch.write_text(f"__import__('shutil').rmtree({str(folder)!r}, True)\n", encoding="utf-8")


def _converse(connection: socket.socket, pid: int, page: _Page) -> int:
    """Print what the process sends, and return the exit status. Ctrl-C asks for the report at once."""
    messages = _messages(connection, page)
    for message in messages:
        if "text" in message:
            _write(f"{message['text']}\n\n")
        if "error" in message:
            raise RefusedError(message["status"], message["error"])
        if message.get("left"):
            for fault in message["faults"]:
                write_to_stderr(f"a step of leaving process {pid} failed: {fault}")
            return _FAILED if message["faults"] else 0
    raise RefusedError(_FAILED, f"process {pid} ended, or was killed, before its report was complete")


def _messages(connection: socket.socket, page: _Page) -> Iterator[dict[str, Any]]:
    """Yield the messages of the process until it closes the connection."""
    received = b""
    has_asked = False
    with contextlib.suppress(ConnectionError):
        connection.sendall(f"{json.dumps({'page': page})}\n".encode())
        while True:
            try:
                data = connection.recv(65536)
            except KeyboardInterrupt:
                if has_asked:
                    raise
                has_asked = True
                connection.shutdown(socket.SHUT_WR)
                continue
            if not data:
                return
            *lines, received = (received + data).split(b"\n")
            yield from [json.loads(line) for line in lines]


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except UnicodeError:
        sys.stdout.write(text.encode("ascii", "backslashreplace").decode())
        sys.stdout.flush()
    except (OSError, AttributeError) as error:  # None is a closed standard output
        raise RefusedError(_FAILED, f"can't write the report: {error}") from None
