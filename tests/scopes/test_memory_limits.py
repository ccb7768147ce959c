"""The limits of memory that a process has, from the files that Linux has about them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scopes._shared.memory_limits import MACHINE, find_limits, killer_counter, kills_in, nearest_limit

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone tells limits")


def process(folder: Path, cgroup: str, mount: str) -> Path:
    """Make the folder in ``/proc`` of a process."""
    made = folder / "proc"
    made.mkdir()
    (made / "cgroup").write_text(f"{cgroup}\n", encoding="ascii")
    (made / "mountinfo").write_text(f"21 1 0:19 / /proc rw - proc proc rw\n{mount}\n", encoding="ascii")
    return made


def group(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").touch()
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{content}\n", encoding="ascii")
    return folder


def test_the_limits_of_all_outer_groups_hold(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    group(root)
    outer = group(root / "outer", memory_max=8000, memory_current=7000, memory_stat="inactive_file 0")
    group(
        outer / "inner",
        memory_max="max",
        memory_high=3000,
        memory_current=2500,
        memory_stat="anon 500\ninactive_file 1500",
    )
    made = process(tmp_path, "0::/outer/inner", f"30 21 0:26 / {root} rw - cgroup2 cgroup2 rw")
    found = [limit for limit in find_limits(made) if limit.nbytes in (3000, 8000)]
    assert [(limit.kind, limit.left()) for limit in found] == [
        ("the container's limit (memory.high)", 2000),  # the cache of files is dropped first
        ("the container's limit (memory.max)", 1000),
    ]
    nearest = nearest_limit(found)
    assert nearest is not None
    assert nearest == (found[1], 1000)


def test_a_container_that_sees_the_path_of_its_host_finds_its_group(tmp_path: Path) -> None:
    root = group(
        tmp_path / "memory",
        memory_limit_in_bytes=5000,
        memory_usage_in_bytes=4500,
        memory_stat="total_inactive_file 500",
    )
    mount = f"30 21 0:26 /docker/1a2b {root} rw - cgroup cgroup rw,memory"
    made = process(tmp_path, "4:cpu,memory:/docker/1a2b", mount)
    (limit,) = [limit for limit in find_limits(made) if limit.nbytes == 5000]
    assert (limit.kind, limit.left()) == ("the container's limit (memory.limit_in_bytes)", 1000)


def test_no_limit_of_a_group_is_none(tmp_path: Path) -> None:
    root = group(tmp_path / "memory", memory_limit_in_bytes=2**63 - 4096, memory_usage_in_bytes=1)
    made = process(tmp_path, "4:memory:/", f"30 21 0:26 / {root} rw - cgroup cgroup rw,memory")
    assert not any("container" in limit.kind for limit in find_limits(made))


def test_the_machine_has_a_limit_without_any_group(tmp_path: Path) -> None:
    limits = find_limits(tmp_path)  # without the files
    assert limits[-1].kind == MACHINE
    left = limits[-1].left()
    assert left is not None
    assert 0 < left < limits[-1].nbytes
    assert killer_counter(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "cgroup", "kind"),
    [("memory.events", "0::/a", "cgroup2 x rw"), ("memory.oom_control", "4:memory:/a", "cgroup x rw,memory")],
)
def test_the_killed_processes_of_a_group_are_counted(
    name: str, cgroup: str, kind: str, tmp_path: Path
) -> None:
    inner = group(tmp_path / "cgroup" / "a")
    (inner / name).write_text("oom_kill_disable 0\nunder_oom 0\noom 7\noom_kill 3\n", encoding="ascii")
    made = process(tmp_path, cgroup, f"30 21 0:26 / {tmp_path / 'cgroup'} rw - {kind}")
    counter = killer_counter(made)
    assert counter == inner / name
    assert kills_in(counter) == 3


@pytest.mark.parametrize("nbytes", [1 << 45, None])
def test_the_limit_of_the_address_space_holds_if_there_is_one(nbytes: int | None) -> None:
    import resource

    kept = resource.getrlimit(resource.RLIMIT_AS)
    most = resource.RLIM_INFINITY if nbytes is None else nbytes
    if kept[1] != resource.RLIM_INFINITY:
        pytest.skip("this process may not set the limit of its address space freely")
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, kept[1]))
        found = [limit for limit in find_limits() if "ulimit -v" in limit.kind]
        left = [limit.left() for limit in found]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, kept)
    assert [limit.nbytes for limit in found] == ([] if nbytes is None else [nbytes])
    assert all(each is not None and 0 < each < 1 << 45 for each in left)
