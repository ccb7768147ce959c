"""The memory of this process, and the limits that end it: of its container, of the shell, of the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# A limit of cgroup v1 that is as large as this is none.
_NO_LIMIT = 2**60
# More bytes than any of the files has.
_MOST = 2**16


MACHINE = "the machine's memory"


@dataclass(frozen=True)
class Limit:
    """A limit of memory."""

    nbytes: int
    #: Whose limit it is, in words that a sentence goes on with: "is 8 GiB".
    kind: str
    #: Return the bytes that count for it now; None if unknown.
    used: Callable[[], int | None]

    def left(self) -> int | None:
        """Return the bytes that are left; None if unknown."""
        used = self.used()
        return None if used is None else max(self.nbytes - used, 0)


def resident_bytes() -> int | None:
    """Return the resident size of this process in bytes; None outside of Linux."""
    return _pages(1)


_SELF = Path("/proc/self")


def find_limits(process: Path = _SELF) -> list[Limit]:
    """Return the limits of this process, whose folder in ``/proc`` is `process`. Only Linux tells them."""
    if not sys.platform.startswith("linux"):
        return []
    found = [*_limits_of_cgroups(process)]
    import resource

    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        found.append(Limit(soft, "the limit of its address space (ulimit -v)", lambda: _pages(0)))
    total = _number_in("/proc/meminfo", b"MemTotal:")
    if total is not None:
        found.append(Limit(total * 1024, MACHINE, lambda: _used_of_machine(total)))
    return found


def nearest_limit(limits: list[Limit]) -> tuple[Limit, int] | None:
    """Return the limit with the fewest bytes left, and these."""
    found = [(limit, left) for limit in limits if (left := limit.left()) is not None]
    return min(found, key=lambda pair: pair[1], default=None)


def killer_counter(process: Path = _SELF) -> Path | None:
    """Return the file that counts the processes of this container that the kernel killed for memory."""
    for folder, is_second in _cgroups(process):
        file = folder / ("memory.events" if is_second else "memory.oom_control")
        if kills_in(file) is not None:
            return file
    return None


def kills_in(counter: Path) -> int | None:
    """Return the number of killed processes in the file of ``killer_counter()``; None if it can't be read."""
    return _number_in(os.fspath(counter), b"oom_kill")


def _pages(field: int) -> int | None:
    try:
        return int(_content("/proc/self/statm").split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _used_of_machine(total: int) -> int | None:
    available = _number_in("/proc/meminfo", b"MemAvailable:")
    return None if available is None else (total - available) * 1024


def _cgroups(process: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of this process in each hierarchy with memory, and whether it is of version 2."""
    try:
        lines = (process / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (process / "mountinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        is_second = not controllers
        if not is_second and "memory" not in controllers.split(","):
            continue
        for mount in mounts:
            before, _, after = mount.partition(" - ")
            kind, _, options = after.split(" ", 2)
            is_it = kind == "cgroup2" if is_second else kind == "cgroup" and "memory" in options.split(",")
            if is_it:
                root, point = before.split()[3:5]
                # In a container without its own namespace of cgroups, the path is that of the host.
                inner = path.removeprefix(root) if root != "/" else path
                folder = Path(point) / inner.lstrip("/")
                yield (folder if folder.is_dir() else Path(point)), is_second


def _limits_of_cgroups(process: Path) -> Iterator[Limit]:
    for folder, is_second in _cgroups(process):
        names = ("memory.max", "memory.high") if is_second else ("memory.limit_in_bytes",)
        # A limit of an outer group holds too. The folder above the mount point has no such files.
        for group in (folder, *folder.parents):
            if not (group / "cgroup.procs").exists():
                break
            for name in names:
                nbytes = _whole(str(group / name))
                if nbytes is not None and nbytes < _NO_LIMIT:
                    yield Limit(nbytes, f"the container's limit ({name})", _Usage(str(group), is_second))


@dataclass(frozen=True)
class _Usage:
    """Reads the memory of a cgroup, without the cache of files that the kernel drops first."""

    group: str
    is_second: bool

    def __call__(self) -> int | None:
        current = _whole(f"{self.group}/{'memory.current' if self.is_second else 'memory.usage_in_bytes'}")
        if current is None:
            return None
        name = b"inactive_file" if self.is_second else b"total_inactive_file"
        return current - (_number_in(f"{self.group}/memory.stat", name) or 0)


def _whole(file: str) -> int | None:
    try:
        return int(_content(file))
    except (OSError, ValueError):  # "max"
        return None


def _number_in(file: str, name: bytes) -> int | None:
    """Return the number after `name` at the beginning of a line."""
    try:
        content = b"\n" + _content(file)
    except OSError:
        return None
    after = content.partition(b"\n" + name + (b"" if name.endswith(b":") else b" "))[2].split(None, 1)
    return int(after[0]) if after and after[0].isdigit() else None


def _content(file: str) -> bytes:
    # A running program reads these files often: `Path.read_text()` takes four times as long.
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.read(descriptor, _MOST)
    finally:
        os.close(descriptor)
