"""A program that is killed, that crashes or that calls ``os._exit()`` has a report too."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import scopes
import tensor
from scopes.reports.recording import RecordingHistory
from scopes.reports.run_record import RunRecord
from scopes.reports.spool import Spool, read_record

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals, and no watcher")

ROOT = Path(__file__).parents[2]
# Seconds after which a program hangs, on however slow a machine.
LIMIT = 500
# How many random moments a program is killed at: 60 for a thorough run.
MOMENTS = int(os.environ.get("KILL_MOMENTS", "2"))
LEAKING_LINE = 9
# `LIBRARY` makes arrays. The program leaks at line 9, and ends at line 14.
PROGRAM = """
import LIBRARY as lib
class Trainer:
    pass
trainer = Trainer()
trainer.outputs = []
def step():
    hidden = lib.ones((1000,)) * 2
    trainer.outputs.append(hidden * 3)
def train(steps):
    for _ in range(steps):
        step()
train(400)
END
"""
ENDS = {
    "exit": ("import os; os._exit(3)", 3),
    "segmentation fault": ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    "abort": ("import os; os.abort()", -signal.SIGABRT),
    "fatal error": ("import ctypes; ctypes.pythonapi.Py_FatalError(b'planted')", -signal.SIGABRT),
    "kill": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "alarm": ("import os, signal; os.kill(os.getpid(), signal.SIGALRM)", -signal.SIGALRM),
}


class Run:
    """A program under ``disposescope run``, with a folder of its own for temporary files."""

    def __init__(self, folder: Path, library: str = "tensor", end: str = "") -> None:
        self.folder = folder
        self.program = folder / "train.py"
        text = PROGRAM.replace("LIBRARY", library).replace("END", end)
        self.program.write_text(text, encoding="utf-8")
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)

    def start(self, *options: object, before: tuple[str, ...] = (), **changes: str) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), **changes}
        environment.pop("GITHUB_ACTIONS", None)
        words = [sys.executable, "-m", "scopes", "run", *map(str, options), "train.py"]
        return subprocess.Popen(
            [*before, *words],
            cwd=self.folder,
            env=environment | changes,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *options: object, before: tuple[str, ...] = (), **changes: str) -> tuple[int, str]:
        """Return the status and the standard error stream."""
        process = self.start(*options, before=before, **changes)
        _, err = process.communicate(timeout=LIMIT)
        return process.returncode, err

    def left(self) -> list[str]:
        """What is left behind: files, and processes that work in the folder."""
        deadline = time.monotonic() + 20
        while (found := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [*found, *[str(file) for file in self.temporary.iterdir()]]

    def _processes(self) -> list[str]:
        found = []
        for each in Path("/proc").glob("[0-9]*") if Path("/proc/self/cwd").exists() else ():
            try:
                if (each / "cwd").readlink() == self.folder and int(each.name) != os.getpid():
                    found.append((each / "cmdline").read_text(encoding="utf-8"))
            except OSError:  # it has ended
                continue
        return [each for each in found if each]


@pytest.fixture(params=["tensor", "torch"])
def library(request: pytest.FixtureRequest) -> str:
    if request.param == "torch":
        pytest.importorskip("torch")
    return str(request.param)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    assert made.left() == []


def first_line(report: str) -> int:
    """The number of the first line of the program that a report names."""
    found = re.search(r"train\.py:(\d+)", report)
    assert found is not None, report
    return int(found[1])


@pytest.mark.parametrize("end", ENDS)
def test_the_report_of_a_program_that_ends_without_one_names_the_leaking_line_first(
    end: str, library: str, tmp_path: Path
) -> None:
    code, status = ENDS[end]
    run = Run(tmp_path, library, code)
    found, err = run.run()
    assert found == status
    assert first_line(err) == LEAKING_LINE
    assert "held by trainer.outputs" in err
    known = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    assert known in err or "no report of its own" in err  # Linux tells it from version 6.15 on
    *_, verdict = err.strip().splitlines()
    assert f"keeps more and more: train.py:{LEAKING_LINE} in " in verdict
    assert run.left() == []


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_the_report_of_a_program_killed_at_a_random_moment_names_the_leaking_line_first(
    moment: int, library: str, tmp_path: Path
) -> None:
    run = Run(tmp_path, library, "print('go', flush=True)\nwhile True:\n    train(1)\n")
    process = run.start()
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(random.Random(moment).uniform(0, 2))
    process.kill()
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGKILL
    assert first_line(err) == LEAKING_LINE, err
    assert run.left() == []


def test_the_last_record_near_a_limit_is_not_older_than_five_percent_of_growth(tmp_path: Path) -> None:
    end = (
        "kept = []\nwhile True:\n    kept.append(lib.ones((250_000,)))\n    print(len(kept), flush=True)\n"
        "    if len(kept) == 300: import os; os.kill(os.getpid(), 9)"
    )
    run = Run(tmp_path, end=end)
    # The address space of the interpreter and of 300 MB is most of it.
    process = run.start("--json", "run.json", before=("sh", "-c", 'ulimit -v 600000; exec "$@"', "sh"))
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGKILL, err
    record = read_record(tmp_path / "run.json")
    assert record.limit_bytes == 600_000 * 1024, err
    kept = next(row.count for row in record.latest.rows if row.site.line == 16)
    assert kept >= int(out.split()[-1]) / 1.05, err
    assert run.left() == []


def test_a_run_with_a_report_of_its_own_prints_it_once_and_leaves_no_watcher(run: Run) -> None:
    status, err = run.run()
    assert status == 0
    assert err.count("created by 1 line") == 1
    assert "killed" not in err


def test_the_program_has_the_process_id_that_was_started(tmp_path: Path) -> None:
    run = Run(tmp_path, end="import os; print(os.getpid(), os.getppid(), flush=True); os.wait()")
    process = run.start()
    out, err = process.communicate(timeout=LIMIT)
    assert out.split() == [str(process.pid), str(os.getpid())]
    assert "ChildProcessError" in err  # the watcher is not its child
    assert run.left() == []


def test_the_watcher_takes_a_few_megabytes(tmp_path: Path) -> None:
    run = Run(tmp_path, end="print('go', flush=True)\nimport time; time.sleep(1000)")
    process = run.start()
    assert process.stdout is not None
    process.stdout.readline()
    (watcher,) = watchers(run)
    status = (watcher / "smaps_rollup").read_text(encoding="utf-8")
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB", status, re.MULTILINE))
    process.kill()
    process.communicate(timeout=LIMIT)
    assert int(sizes["Rss"]) < 16 * 1024
    assert int(sizes["Private_Dirty"]) < 8 * 1024
    assert run.left() == []


def watchers(run: Run) -> list[Path]:
    """The folders in /proc of the watchers that work in the folder of the run."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            is_here = (each / "cwd").readlink() == run.folder
            if is_here and b"watcher.py" in (each / "cmdline").read_bytes():
                found.append(each)
        except OSError:
            continue
    return found


def test_a_run_whose_watcher_was_killed_goes_on_and_says_so(tmp_path: Path) -> None:
    run = Run(tmp_path, end="print('go', flush=True); input()")
    process = subprocess.Popen(
        [sys.executable, "-m", "scopes", "run", "train.py"],
        cwd=run.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(run.temporary)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    (watcher,) = watchers(run)
    os.kill(int(watcher.name), signal.SIGTERM)  # of a service manager: ignored
    time.sleep(0.2)
    assert watchers(run) == [watcher]
    os.kill(int(watcher.name), signal.SIGKILL)
    while watchers(run):
        time.sleep(0.02)
    _, err = process.communicate("\n", timeout=LIMIT)
    assert process.returncode == 0
    assert first_line(err) == LEAKING_LINE
    assert "has ended before it" in err
    assert run.left() == []


def is_possible(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, check=False).returncode == 0


UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc")


@pytest.mark.parametrize("shell", [(), ("sh", "-c", '"$@"; exit $?', "sh")], ids=["process 1", "child of 1"])
@pytest.mark.skipif(not is_possible(*UNSHARE, "true"), reason="no namespace of processes can be made")
def test_process_1_of_a_container_that_is_killed_has_a_report(shell: tuple[str, ...], tmp_path: Path) -> None:
    run = Run(tmp_path, end=ENDS["kill"][0])
    status, err = run.run(before=(*UNSHARE, *shell))
    assert status in (137, -signal.SIGKILL)
    assert "killed by SIGKILL" in err
    assert first_line(err) == LEAKING_LINE
    assert run.left() == []


@pytest.mark.parametrize(("end", "status"), [("", 0), ("raise SystemExit(7)", 7), ("1 / 0", 1)])
@pytest.mark.skipif(not is_possible(*UNSHARE, "true"), reason="no namespace of processes can be made")
def test_process_1_of_a_container_ends_as_its_program(end: str, status: int, tmp_path: Path) -> None:
    run = Run(tmp_path, end=end)
    found, err = run.run(before=UNSHARE)
    assert found == status
    assert err.count("train.py has ended") == 1
    assert run.left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.skipif(not is_possible(*UNSHARE, "true"), reason="no namespace of processes can be made")
def test_process_1_of_a_container_passes_signals_on(number: signal.Signals, tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        end="import os, signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: os._exit(9))\n"
        "os.kill(os.getppid(), signal.SIG)\n"
        "time.sleep(1000)".replace("SIG)", f"{number.name})"),
    )
    status, err = run.run(before=UNSHARE)
    assert status in {signal.SIGTERM: (143,), signal.SIGINT: (130,), signal.SIGUSR1: (9,)}[number]
    assert first_line(err.partition("train.py ")[2] if number == signal.SIGINT else err) == LEAKING_LINE
    assert run.left() == []


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A group of processes with a limit of 300 MiB."""
    root = Path("/sys/fs/cgroup")
    is_second = (root / "cgroup.controllers").exists()
    folder = (root if is_second else root / "memory") / f"disposescope-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.max" if is_second else "memory.limit_in_bytes")).write_text(
            str(300 * 2**20), encoding="ascii"
        )
        swap = folder / ("memory.swap.max" if is_second else "memory.memsw.limit_in_bytes")
        if swap.exists():
            swap.write_text("0" if is_second else str(300 * 2**20), encoding="ascii")
    except OSError as error:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"no cgroup can be made: {error}")
    yield folder
    for _ in range(200):
        try:
            folder.rmdir()
            return
        except OSError:  # its last process has not gone yet
            time.sleep(0.05)


def test_a_program_killed_by_the_limit_of_its_container_says_so(
    library: str, cgroup: Path, tmp_path: Path
) -> None:
    end = "while True:\n    trainer.outputs.append(lib.ones((100_000,)))\n"
    run = Run(tmp_path, library, end)
    enter = ("sh", "-c", f'echo $$ > {cgroup}/cgroup.procs; exec "$@"', "sh")
    status, err = run.run("--json", tmp_path / "run.json", before=enter)
    assert status == -signal.SIGKILL
    assert first_line(err) == 15, err  # and not line 9, which grew before
    headline = err.strip().splitlines()[0]
    assert "the container's limit" in headline
    assert "is 300 MiB" in headline
    assert "by the kernel for memory" in headline or "no report of its own" in headline
    record = read_record(tmp_path / "run.json")
    assert record.resident_bytes is not None
    assert record.resident_bytes > 300 * 2**20 * 0.9
    assert run.left() == []


def test_memory_that_no_tensor_explains_is_in_the_record(run: Run) -> None:
    end = (
        "import time\nother = [bytearray(2**20) for _ in range(400)]\ntime.sleep(0.4)\n"
        "kept = [lib.ones((10,)) for _ in range(3000)]\n"
    )
    run.program.write_text(
        PROGRAM.replace("LIBRARY", "tensor").replace("END", end + ENDS["kill"][0]), "utf-8"
    )
    _, err = run.run("--json", run.folder / "run.json")
    record = read_record(run.folder / "run.json")
    assert record.unexplained_bytes is not None
    assert 400 * 2**20 < record.unexplained_bytes < 480 * 2**20
    assert "are not memory of the lines" in err


def test_a_kept_record_says_how_the_run_ended(tmp_path: Path) -> None:
    for end, words in (("exit", "exit status 3"), ("kill", "killed by SIGKILL"), (None, "exit status 0")):
        run = Run(tmp_path, end="" if end is None else ENDS[end][0])
        run.run("--record", "run.dspool")
        record = read_record(tmp_path / "run.dspool")
        assert record.program == "train.py"
        assert record.ended is not None
        assert record.ended.startswith(words) or record.ended.startswith("no report of its own")
        assert record.latest.rows[0].site.line == LEAKING_LINE
        assert run.left() == []


def scopes_report(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scopes", "report", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )


def test_the_record_is_read_on_any_machine_as_text_page_and_json(tmp_path: Path) -> None:
    run = Run(tmp_path, end=ENDS["kill"][0])
    _, err = run.run("--record", "run.dspool", "--json", "run.json", "--html", "run.html")
    shutil.move(run.program, tmp_path / "gone.txt")  # the source of the run is elsewhere
    for file in ("run.dspool", "run.json"):
        done = scopes_report(file, "--html", "page.html", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "trainer.outputs.append(hidden * 3)" in done.stdout
        assert done.stdout.splitlines()[0] in err
        assert "trainer.outputs.append(hidden * 3)" in (tmp_path / "page.html").read_text(encoding="utf-8")
        as_json = scopes_report(file, "--json", cwd=tmp_path)
        record = RunRecord.from_dict(json.loads(as_json.stdout))
        assert record.latest.rows[0].site.line == LEAKING_LINE
    assert "killed by SIGKILL" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_file_that_is_no_record_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    done = scopes_report("notes.txt", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert "--json are for the record of a run" in done.stderr
    run = Run(tmp_path)
    status, err = run.run("--record", "notes.txt")
    assert status == 2
    assert "exists, and is not a record of a run" in err
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_two_runs_into_one_record_are_refused_in_words_and_go_on(run: Run) -> None:
    with Spool(run.folder / "run.dspool"):
        status, err = run.run("--record", "run.dspool")
    assert status == 0
    assert "another run writes its record to" in err
    assert first_line(err.partition("has ended")[2]) == LEAKING_LINE


def test_a_run_that_is_killed_has_a_report_though_its_record_cannot_be_kept(tmp_path: Path) -> None:
    run = Run(tmp_path, end=ENDS["kill"][0])
    with Spool(run.folder / "run.dspool"):
        status, err = run.run("--record", "run.dspool")
    assert status == -signal.SIGKILL
    assert "the record of the run can't be written: another run writes" in err
    assert first_line(err.partition("train.py was")[2]) == LEAKING_LINE
    assert run.left() == []


def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    if not is_possible("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "full", "size=64k")


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "fixed", "ro")


def test_a_full_disk_is_named_and_the_run_goes_on(full_disk: Path, run: Run) -> None:
    status, err = run.run("--record", full_disk / "run.dspool")
    assert status == 0
    assert "the record of the run can't be written: [Errno 28]" in err
    assert list(full_disk.iterdir()) == []
    assert first_line(err.partition("has ended")[2]) == LEAKING_LINE


def test_a_read_only_folder_is_named_and_the_run_goes_on(read_only: Path, run: Run) -> None:
    status, err = run.run("--record", read_only / "run.dspool")
    assert status == 0
    assert "the record of the run can't be written: [Errno 30]" in err
    assert first_line(err.partition("has ended")[2]) == LEAKING_LINE


def test_a_limit_of_the_size_of_files_is_named_and_the_run_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path, end=ENDS["kill"][0])
    status, err = run.run(before=("sh", "-c", 'ulimit -f 4; exec "$@"', "sh"))
    assert status == -signal.SIGKILL
    assert "the record of the run can't be written: [Errno 27]" in err
    assert run.left() == []


def test_a_run_without_any_folder_for_temporary_files_has_its_record_in_memory(tmp_path: Path) -> None:
    unshare = ("unshare", "--mount")
    if not is_possible(*unshare, "true"):
        pytest.skip("no namespace of mounts can be made")
    run = Run(tmp_path, end=ENDS["kill"][0])
    places = ["/tmp", "/var/tmp", "/usr/tmp", "/dev/shm", str(tmp_path)]
    mounts = "; ".join([f"test -d {each} && mount --bind -o ro {each} {each}; mount -o remount,bind,ro {each}"
                        for each in places])  # fmt: skip
    before = (*unshare, "sh", "-c", f'{{ {mounts}; }} 2>/dev/null; cd {tmp_path}; exec "$@"', "sh")
    status, err = run.run(before=before, TMPDIR=str(run.temporary))
    assert status == -signal.SIGKILL
    assert first_line(err.partition("train.py was")[2]) == LEAKING_LINE, err
    assert run.left() == []


@pytest.mark.parametrize("stream", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_closed_streams_change_nothing(stream: str, tmp_path: Path) -> None:
    run = Run(tmp_path, end=ENDS["kill"][0])
    before = ("sh", "-c", f'"$@" {stream}; exit $?', "sh")
    status, err = run.run("--json", "run.json", before=before)
    assert status == 137
    if stream == ">&-":
        assert first_line(err.partition("train.py was")[2]) == LEAKING_LINE
    deadline = time.monotonic() + 60
    while not (tmp_path / "run.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert run.left() == []
    assert read_record(tmp_path / "run.json").latest.rows[0].site.line == LEAKING_LINE


def test_a_program_that_closes_all_files_keeps_its_own(tmp_path: Path) -> None:
    end = (
        "import os\nos.closerange(3, 1000)\nfiles = [open(f'{n}.txt', 'w+') for n in range(50)]\n"
        "train(3000)\nprint([file.read() for file in files], [os.fstat(f.fileno()).st_size for f in files])"
    )
    run = Run(tmp_path, end=end)
    process = run.start()
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert eval(out.partition("] [")[2].join("[]")[:-1]) == [0] * 50, out
    assert "the record of the run is no longer written" in err
    assert run.left() == []


def test_forked_children_leave_the_record_and_the_watcher_to_their_parent(tmp_path: Path) -> None:
    end = (
        "import os\nif os.fork() == 0:\n    train(3000)\n    os._exit(0)\nos.wait()\n"
        "print('go', flush=True)\n" + ENDS["kill"][0]
    )
    run = Run(tmp_path, end=end)
    status, err = run.run()
    assert status == -signal.SIGKILL
    assert err.count("was killed by SIGKILL") == 1
    record_of_parent = err.partition("train.py was")[2]
    assert first_line(record_of_parent) == LEAKING_LINE
    alive = re.search(r"^ *([\d,]+) .*train\.py:9", err, re.MULTILINE)
    assert alive is not None
    assert int(alive[1].replace(",", "")) <= 400
    assert run.left() == []


SURVIVING = """
import os, signal, scopes, tensor
with scopes.track(survive="run.dspool"):
    kept = []
    for _ in range(400):
        kept.append(tensor.ones((1000,)))
    END
"""


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (ENDS["kill"][0], "was running"),
        ("pass", "left its block of track()"),
        ("1 / 0", "left its block of track()"),
    ],
)
def test_a_program_that_tracks_itself_can_keep_a_record(end: str, words: str, run: Run) -> None:
    run.program.write_text(SURVIVING.replace("END", end), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "train.py", "--epochs", "3"], cwd=run.folder, env=environment, check=False
    )
    record = read_record(run.folder / "run.dspool")
    assert (record.program, record.arguments) == ("train.py", ("--epochs", "3"))
    assert record.latest.rows[0].site.line == 6
    shown = scopes_report("run.dspool", cwd=run.folder).stdout
    assert words in shown.splitlines()[0]
    assert "train.py:6" in shown.splitlines()[0]


def test_a_record_that_cannot_be_written_is_an_error_of_the_block(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with (
        pytest.raises(FileExistsError, match="is not a record of a run"),
        scopes.track(survive=tmp_path / "notes.txt"),
    ):
        pass
    assert not scopes.is_tracking()
    with scopes.track(survive=tmp_path / "run.dspool"):
        with (
            pytest.raises(FileExistsError, match="another run writes"),
            scopes.track(survive=tmp_path / "run.dspool"),
        ):
            pass
        assert scopes.is_tracking()


def test_a_record_that_does_not_fit_has_the_first_lines(tmp_path: Path) -> None:
    kept: list[tensor.Tensor] = []
    with scopes.track():
        history = RecordingHistory(Spool(tmp_path / "run.dspool", size=16 * 1024), "train.py")
        history.begin()
        for number in range(1, 2001):
            code = compile("\n" * number + "kept.append(tensor.ones((number,)))", "many.py", "exec")
            exec(code, {"kept": kept, "tensor": tensor, "number": number})
        history.end()
    record = read_record(tmp_path / "run.dspool")
    lines = [row.site.line for row in record.latest.rows]
    assert lines == [*range(2001, 1901, -1)]


def test_growing_lines_are_annotated_for_github(tmp_path: Path) -> None:
    run = Run(tmp_path, end="")
    _, err = run.run("--annotate", GITHUB_WORKSPACE=str(tmp_path))
    assert "::warning file=train.py,line=9::The memory of this line keeps growing: by " in err
    _, err = run.run()
    assert "::warning" not in err
    _, err = run.run(GITHUB_ACTIONS="true", GITHUB_WORKSPACE="/elsewhere")
    assert f"::warning file={tmp_path}/train.py,line=9::" in err
    run = Run(tmp_path, end=ENDS["kill"][0])
    _, err = run.run("--annotate", GITHUB_WORKSPACE=str(tmp_path))
    assert "::error file=train.py,line=9::train.py was killed" in err


def test_the_documented_schema_has_each_key(tmp_path: Path) -> None:
    Run(tmp_path).run("--json", "run.json")
    data = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "killed.md").read_text(encoding="utf-8").partition("### The schema")[2]
    columns = [re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE) for table in text.split("has these keys")]
    tables = [set(re.findall(r"`(\w+)`", "".join(column))) for column in columns]
    (part,) = data.pop("parts")
    row = part.pop("rows")[0]
    assert tables == [{*data, "parts"}, {*part, "rows"}, {*row}]
