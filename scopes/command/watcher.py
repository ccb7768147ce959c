"""The process that waits for the end of a program, and prints the last record if there was no report.

It runs as ``python -I -S watcher.py``, not as a part of the package: so it loads neither the package nor
NumPy, and stays small. `scopes.command.watching` starts it, and says why there are two ways:

- "beside": the program has the process id that the user started. The watcher is in a session of its own, and
  waits on a descriptor of the program's process.
- "around": the watcher has the process id that the user started, and the program is its child. The watcher
  passes signals on, and ends as the program did.

The program writes lines to a pipe. ``settings {...}`` is for the report; ``end`` says that the program has
written its report itself.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False  # that of `typing`, which takes long to load
if TYPE_CHECKING:
    from typing import NoReturn


class Messages:
    """What the program has written to the pipe."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.text = b""
        self.is_open = True

    def read(self) -> None:
        """Read what there is. Wait, if there is nothing yet."""
        data = os.read(self.descriptor, 65536)
        self.text += data
        self.is_open = bool(data)

    def read_rest(self) -> None:
        """Read what there is, without waiting."""
        while self.is_open and select.select([self.descriptor], [], [], 0)[0]:
            self.read()

    @property
    def has_ended(self) -> bool:
        """Whether the program has written its report."""
        return b"end" in self.text.split(b"\n")[:-1]

    @property
    def settings(self) -> str:
        """The latest settings; "" before the first ones."""
        lines = [line for line in self.text.split(b"\n")[:-1] if line.startswith(b"settings ")]
        return os.fsdecode(lines[-1][len(b"settings ") :]) if lines else ""


def command(root: str, settings: str, status: int) -> list[str]:
    """Return the command that prints the report: the full library in a new interpreter."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from scopes.command.last_report import main; main()"
    return [sys.executable, "-I", "-c", code, root, settings, str(status), str(time.time())]


def beside(pid: int, process: int, messages: Messages, root: str) -> NoReturn:
    """Wait until the program has written its report, or its process has ended."""
    waiting = select.poll() if process >= 0 else None
    if waiting is None:
        while messages.is_open and not messages.has_ended:
            messages.read()
    else:
        waiting.register(process, select.POLLIN)
        waiting.register(messages.descriptor, select.POLLIN)
        while not messages.has_ended:
            ready = [descriptor for descriptor, _ in waiting.poll()]
            if messages.descriptor in ready:
                messages.read()
                if not messages.is_open:  # the program runs another one instead, or closes all files
                    waiting.unregister(messages.descriptor)
            if process in ready:
                messages.read_rest()
                break
    if messages.has_ended or not messages.settings:
        os._exit(0)
    status = -1 if process < 0 else status_of(pid, process)
    words = command(root, messages.settings, status)
    os.execv(words[0], words)


def status_of(pid: int, process: int) -> int:
    """Return the wait status of the ended process, which is no child of this one; -1 if unknown."""
    for _ in range(2):
        status = _status_of_zombie(pid)
        if status < 0:
            status = _status_of_reaped(process)
        if status >= 0:
            return status
    return -1


def _status_of_zombie(pid: int) -> int:
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return -1
    try:
        fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:  # it was reaped meanwhile
        return -1
    finally:
        os.close(descriptor)
    return int(fields[49]) if fields[0] in (b"Z", b"X") else -1


def _status_of_reaped(process: int) -> int:
    """Ask Linux, which remembers it from version 6.15 on."""
    import fcntl
    import struct

    get_info, info_exit, size = 0xC040FF0B, 1 << 3, 64  # PIDFD_GET_INFO for 64 bytes, PIDFD_INFO_EXIT
    asked = struct.pack("=Q", info_exit).ljust(size, b"\0")
    try:
        found = fcntl.ioctl(process, get_info, asked)
    except OSError:
        return -1
    (mask,) = struct.unpack_from("=Q", found)
    return struct.unpack_from("=i", found, size - 4)[0] if mask & info_exit else -1


def around(pid: int, messages: Messages, root: str) -> NoReturn:
    """Pass signals on to the child `pid` until it ends. Then end as it did."""
    import signal

    every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    of_terminal = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH, signal.SIGHUP}
    from_kernel = 0x80  # SI_KERNEL: the terminal sends these to the program too
    while True:
        status = None
        # Process 1 of a container is the parent of all orphans.
        while True:
            try:
                ended, how = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if ended == 0:
                break
            if ended == pid and os.WIFSTOPPED(how):
                os.kill(os.getpid(), signal.SIGSTOP)
            elif ended == pid:
                status = how
        if status is not None:
            break
        signal.pthread_sigmask(signal.SIG_BLOCK, every)
        found = signal.sigwaitinfo(every)
        is_for_all = found.si_code == from_kernel and found.si_signo in of_terminal
        if found.si_signo != signal.SIGCHLD and not is_for_all:
            os.kill(pid, found.si_signo)
    messages.read_rest()
    if not messages.has_ended and messages.settings:
        words = command(root, messages.settings, status)
        printing = os.fork()
        if printing == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.execv(words[0], words)
        os.waitpid(printing, 0)
    end_like(status)


def end_like(status: int) -> NoReturn:
    """End with the exit status or by the signal of `status`."""
    import resource
    import signal

    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        limit = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, limit[1]))  # the program has written its core
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # process 1 of a container cannot end by a signal
    os._exit(os.WEXITSTATUS(status))


def main() -> None:
    """Wait as the arguments say: the way, the process, two descriptors, and the folder of the package."""
    way, pid, process, pipe, root = sys.argv[1:]
    messages = Messages(int(pipe))
    if way == "around":
        around(int(pid), messages, root)
    beside(int(pid), int(process), messages, root)


if __name__ == "__main__":
    main()
