"""``disposescope run``: a program runs as Python alone would run it, and its end brings the report."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.traces import Trace

ROOT = Path(__file__).parents[2]
# Seconds after which a program hangs, on however slow a machine.
LIMIT = 500
LEAK = "import tensor\nkept = [tensor.ones((1000,)) for _ in range(500)]\n"
# What a program sees of itself.
MIRROR = """
import json, sys
names = ("__name__", "__file__", "__package__", "__doc__", "__cached__")
seen = {name: globals().get(name) for name in names}
seen["spec"] = None if __spec__ is None else [__spec__.name, __spec__.origin]
seen["loader"] = type(__loader__).__name__
seen["builtins"] = type(__builtins__).__name__
seen["argv"], seen["path"] = sys.argv, sys.path
seen["is main"] = sys.modules["__main__"].__dict__ is globals()
print(json.dumps(seen))
"""


def start(*arguments: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    # The program must find the packages wherever it is run.
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def python(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=LIMIT)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def scopes_run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return python("-m", "scopes", "run", *arguments, cwd=cwd)


def redirected(
    redirection: str, *command: object, cwd: Path, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run Python with a redirection of the shell, such as ``>&-``. Its streams are UTF-8 in each locale."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, *map(str, command)],
        cwd=cwd,
        env=environment,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=LIMIT,
        check=False,
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lines_named(text: str, file: str) -> list[int]:
    """The numbers of the lines of `file` that a report names, in its order."""
    return [int(number) for number in re.findall(rf"{re.escape(file)}:(\d+)", text)]


@pytest.mark.parametrize(
    "command",
    [
        ["program.py"],
        ["program.py", "--html", "x", "-h", "--", "-m", "run"],
        ["package/inner/__main__.py", "1"],
        ["../here/program.py"],
        ["link.py"],
        ["package/inner", "1"],
        ["archive.zip", "--depth=3"],
        ["-m", "program", "-m", "--fail-on-leak"],
        ["-m", "package.inner", "a b"],
        ["-m", "package.module"],
        ["compiled.pyc", "1"],
    ],
    ids=" ".join,
)
def test_a_program_sees_the_same_environment_as_without_the_command(
    command: list[str], tmp_path: Path
) -> None:
    here = tmp_path / "here"
    write(here / "program.py", MIRROR)
    write(here / "package" / "__init__.py", "")
    write(here / "package" / "module.py", MIRROR)
    write(here / "package" / "inner" / "__init__.py", "import sys\nassert sys.argv[0] == '-m', sys.argv\n")
    write(here / "package" / "inner" / "__main__.py", MIRROR)
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere" / "real.py", MIRROR)
    (here / "link.py").symlink_to(tmp_path / "elsewhere" / "real.py")
    with zipfile.ZipFile(here / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", MIRROR)
    made = f"import py_compile; py_compile.compile({str(here / 'program.py')!r}, 'compiled.pyc')"
    python("-c", made, cwd=here)

    alone = python(*command, cwd=here)
    assert alone.returncode == 0, alone.stderr
    tracked = scopes_run(*command, cwd=here)
    assert json.loads(tracked.stdout) == json.loads(alone.stdout)
    assert tracked.returncode == 0


ENDS = {
    "the last line": "",
    "exit": "sys.exit()",
    "exit 0": "sys.exit(0)",
    "exit 7": "sys.exit(7)",
    "exit with words": "sys.exit('no data')",
    "exit deep inside": "def main(): inner = tensor.ones((2,)); sys.exit(3)\nmain()",
    "an exception": "def main(): raise ValueError('no data')\nmain()",
    "a chain of exceptions": "try: 1 / 0\nexcept ZeroDivisionError as e: raise KeyError('x') from e",
    "an interrupt": "raise KeyboardInterrupt",
    "a group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "a hook that fails": "sys.excepthook = lambda *_: 1 / 0\nraise ValueError('no data')",
    "a hook that exits": "sys.excepthook = lambda *_: sys.exit(4)\nraise ValueError('no data')",
    "a hook of its own": "sys.excepthook = lambda *x: print('hook', x[0], file=sys.stderr)\nraise ValueError",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time; time.sleep(60)",
    "an interrupt from outside": "import signal\nsignal.raise_signal(signal.SIGINT)",
    "a signal of its own handling": (
        "import signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "signal.raise_signal(signal.SIGTERM)"
    ),
}


# Two programs each; what ends alike but for its words is for long runs.
ALIKE = {
    "a hook that exits",
    "exit",
    "exit 0",
    "exit deep inside",
    "a chain of exceptions",
    "a group",
    "an interrupt",
}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(end, marks=[pytest.mark.soak] if name in ALIKE else [], id=name)
        for name, end in ENDS.items()
    ],
)
def test_exit_status_and_output_are_the_programs_followed_by_the_report(end: str, tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", f"{LEAK}import sys\nprint('mine', flush=True)\n{end}\n")
    alone, tracked = python(program), scopes_run(program)
    assert tracked.returncode == alone.returncode
    assert tracked.stdout == alone.stdout == "mine\n"
    # Python's own message comes first, and its traceback has no line of this library.
    assert tracked.stderr.startswith(alone.stderr)
    report = tracked.stderr.removeprefix(alone.stderr)
    assert lines_named(report, "program.py")[0] == 2
    assert re.search(r"^ +500 .*program.py:2 ", report, re.MULTILINE)


def test_a_program_that_is_interrupted_reports_what_its_functions_hold(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import tensor, time\n"
        "def main():\n"
        "    kept = []\n"
        "    for _ in range(50):\n"
        "        kept.append(tensor.ones((1000,)))\n"
        "    print('ready', flush=True)\n"
        # In naps: an interrupt just before a sleep begins is heeded after it.
        "    for _ in range(1200):\n"
        "        time.sleep(0.05)\n"
        "main()\n",
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start("-m", "scopes", "run", program)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == -number
        assert lines_named(err.rpartition("has ended")[2], "program.py")[0] == 5


def test_interrupt_inside_of_tracking_code_is_raised_in_the_program(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        f"{LEAK}"
        "import signal, time\n"
        "from scopes.tracking.tracking import current as tracking\n"
        "class Interrupting:\n"
        "    def created(self, record): pass\n"
        "    def ended(self, record, how):\n"
        "        tracking.tracker.listeners = tracking.tracker.listeners[:-1]\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "tracking.tracker.listeners += (Interrupting(),)\n"
        "tensor.ones((2,))\n"  # ends at once, in a callback that can't raise
        # In naps: an interrupt just before a sleep begins is heeded after it.
        "for _ in range(1200):\n"
        "    time.sleep(0.05)\n",
    )
    done = scopes_run(program)
    assert done.returncode == -signal.SIGINT
    assert "Exception ignored" not in done.stderr
    assert lines_named(done.stderr.partition("has ended")[2], "program.py")[0] == 2


def test_errors_in_finalizers_of_the_program_are_shown_as_python_shows_them(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "class Last:\n"
        "    def __init__(self, error): self.error = error\n"
        "    def __del__(self): raise self.error\n"
        "Last(KeyboardInterrupt())\n"
        "Last(ValueError('no'))\n"
        # Longer than an interrupt that is sent again would take.
        "import time\n"
        "for _ in range(20):\n"
        "    time.sleep(0.01)\n"
        "print('done')\n",
    )
    alone, tracked = python(program), scopes_run(program)
    assert (alone.returncode, alone.stdout) == (tracked.returncode, tracked.stdout) == (0, "done\n")
    assert tracked.stderr.count("Exception ignored") == 2
    assert tracked.stderr.startswith(alone.stderr.partition(" at 0x")[0])


@pytest.mark.soak
@pytest.mark.parametrize("options", [[], ["--trace", "trace.json"]], ids=["plain", "trace"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_at_any_moment_ends_the_program_with_its_report(
    number: signal.Signals, options: list[str], tmp_path: Path
) -> None:
    program = write(
        tmp_path / "program.py",
        f"{LEAK}"
        "from scopes import new_dispose_scope\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    with new_dispose_scope('step'):\n"
        "        x = tensor.ones((4,)) * 2\n",
    )
    for round in range(20):
        process = start("-m", "scopes", "run", *options, program, cwd=tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1 + round * 0.003)
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == -number
        assert lines_named(err.partition("has ended")[2], "program.py")[0] == 2


def test_a_syntax_error_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", "x =\n")
    alone, tracked = python(program), scopes_run(program)
    assert tracked.returncode == alone.returncode == 1
    assert tracked.stderr.startswith(alone.stderr)


@pytest.mark.parametrize("command", [["nowhere.py"], ["-m", "nowhere"], ["-m", "os.nowhere"], ["empty"]])
def test_command_names_a_missing_program(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    alone, tracked = python(*command, cwd=tmp_path), scopes_run(*command, cwd=tmp_path)
    assert tracked.returncode == alone.returncode
    assert tracked.stderr.startswith("disposescope: ")
    assert command[-1] in tracked.stderr
    assert "Traceback" not in tracked.stderr


@pytest.mark.parametrize("command", ["scopes", "disposescope"])
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-m", "program"], 0, "program.py:2"),
        (["{away}/program.py"], 0, "program.py:2"),
        (["program.py"], 2, "disposescope: can't open file 'program.py': [Errno 2] No such file"),
        (["-m", "nowhere"], 1, "disposescope: No module named nowhere"),
        (
            ["--html", "x.html", "-m", "program"],
            2,
            "the working directory was deleted. Write an absolute path",
        ),
        (["--html", "{away}/x.html", "-m", "program"], 0, "program.py:2"),
    ],
    ids=str,
)
def test_command_works_in_a_working_directory_that_was_deleted(
    command: str, arguments: list[str], status: int, message: str, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    write(away / "program.py", LEAK)
    (tmp_path / "here").mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir ../here; exec "$@"', "sh", sys.executable, "-m", command, "run"]
        + [argument.format(away=away) for argument in arguments],
        cwd=tmp_path / "here",
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(away)])},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_in_a_parent_package_of_a_module_is_shown_unchanged(tmp_path: Path) -> None:
    write(tmp_path / "package" / "__init__.py", "import not_there_at_all\n")
    write(tmp_path / "package" / "module.py", "")
    tracked = scopes_run("-m", "package.module", cwd=tmp_path)
    assert tracked.returncode == 1
    assert "ModuleNotFoundError: No module named 'not_there_at_all'" in tracked.stderr
    assert "program.py" not in tracked.stderr


def test_the_report_waits_for_threads_and_lists_the_tensors_that_they_keep(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import tensor, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "kept = []\n"
        "def work():\n"
        "    time.sleep(0.3)\n"
        "    for _ in range(50):\n"
        "        kept.append(tensor.ones((1000,)))\n"
        "threading.Thread(target=work).start()\n"
        "ThreadPoolExecutor(1).submit(work)\n",
    )
    tracked = scopes_run(program)
    assert tracked.returncode == 0
    assert lines_named(tracked.stderr, "program.py")[0] == 7
    assert "100" in tracked.stderr


def test_a_forked_child_ends_without_a_report(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        f"{LEAK}import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint(bool(child))\n",
    )
    tracked = scopes_run(program)
    assert sorted(tracked.stdout.split()) == ["False", "True"]
    assert tracked.stderr.count("has ended") == 1


def test_objects_of_the_programs_classes_are_pickled_and_found_again(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import pickle, multiprocessing\n"
        "class Own: pass\n"
        "def double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    assert type(pickle.loads(pickle.dumps(Own()))) is Own\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [1, 2]))\n",
    )
    tracked = scopes_run(program)
    assert tracked.stdout == "[2, 4]\n"
    assert tracked.stderr.count("has ended") == 1


CHILDREN = """
import multiprocessing, sys, tensor

def work(number):
    kept = []
    for _ in range(100):
        kept.append(tensor.ones((1000,)))
    return len(kept)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    before = [tensor.ones((100_000,))]
    if sys.argv[2] == "pool":
        with context.Pool(2) as pool:
            print(sum(pool.map(work, range(4), chunksize=2)))
    else:
        process = context.Process(target=work, args=(1,), name="worker")
        process.start()
        process.join()
        print(process.exitcode)
"""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["nofile.py"], 2),
        (["-m", "nowhere"], 1),
        (["program.py"], 0),
        (["forks.py"], 0),
        (["clears.py"], 0),
        (["terminates.py"], -signal.SIGTERM),
    ],
    ids=str,
)
def test_no_temporary_folder_is_left(arguments: list[str], status: int, tmp_path: Path) -> None:
    write(tmp_path / "program.py", "")
    write(tmp_path / "forks.py", "import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\n")
    write(tmp_path / "clears.py", "import os\nos.environ.clear()\n")
    write(tmp_path / "terminates.py", "import signal\nsignal.raise_signal(signal.SIGTERM)\n")
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "scopes", "run", *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == status
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_forked_child_that_ends_leaves_the_reports_of_other_children(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import multiprocessing, os, tensor\n"
        "def work(): kept = [tensor.ones((1000,)) for _ in range(100)]\n"
        "process = multiprocessing.get_context('fork').Process(target=work, name='worker')\n"
        "process.start()\n"
        "process.join()\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0)\n",
    )
    assert "program.py:2 in work" in scopes_run(program).stderr.partition("By process:")[2]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_program_runs_where_no_file_can_be_written(method: str, tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", CHILDREN)
    command = [sys.executable, "-m", "scopes", "run", program, method, "process"]
    # Python finds no folder for temporary files, as on a read-only file system.
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command],
        # Of another run, which has started this one.
        env=os.environ | {"PYTHONPATH": str(ROOT), "DISPOSESCOPE_CHILDREN": f"1:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert "1 alive, 390.6 KiB" in done.stderr
    why = "because their records need a temporary folder: [Errno 2] No usable temporary directory found"
    assert f"\nchild processes were not followed, {why}" in done.stderr
    assert program.exists()


def test_sigterm_ends_a_forked_child_whose_main_thread_waits_for_a_lock(tmp_path: Path) -> None:
    # The signal arrives on another thread, so it does not wake the main thread. Python would call a handler
    # on the main thread alone, after the wait.
    program = write(
        tmp_path / "program.py",
        "import multiprocessing, os, signal, threading, time\n"
        "context = multiprocessing.get_context('fork')\n"
        "lock = context.Lock()\n"
        "ready = context.Event()\n"
        "def work():\n"
        "    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "    ready.set()\n"
        "    lock.acquire()\n"
        "lock.acquire()\n"
        "process = context.Process(target=work)\n"
        "process.start()\n"
        "ready.wait()\n"
        "time.sleep(0.1)\n"
        "process.terminate()\n"
        "process.join(20)\n"
        "print(process.exitcode)\n"
        "process.kill()\n",
    )
    assert scopes_run(program).stdout == f"{-signal.SIGTERM}\n"


def test_tensors_that_an_ended_function_held_are_reported_too(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import tensor\n"
        "def main():\n"
        "    kept = []\n"
        "    for _ in range(500):\n"
        "        x = tensor.ones((1000,))\n"
        "        kept.append(x * 2)\n"
        "main()\n",
    )
    _, _, report = scopes_run(program).stderr.partition("has ended")
    highest, _, at_the_end = report.partition("At the end:")
    table, _, verdict = at_the_end.partition("1 line keeps more and more:")
    assert lines_named(table, "program.py") == []
    assert lines_named(verdict, "program.py") == [6]
    assert lines_named(highest, "program.py")[0] == 6
    alive = int(re.findall(r"\b(4[5-9]\d|500)\b", highest)[0])
    # The run is looked at after each growth by 10%, and the round's `x` and product count too.
    assert (alive + 2) * 1.1 >= 500


def test_tensors_that_garbage_collection_frees_are_no_leak(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import gc, tensor\n"
        "gc.disable()\n"
        "for _ in range(50):\n"
        "    x = [tensor.ones((1000,))]\n"
        "    x.append(x)\n"
        "del x\n",
    )
    _, _, at_the_end = scopes_run(program).stderr.partition("At the end:")
    table, _, _ = at_the_end.partition("1 line keeps more and more:")  # it did, before the collection
    assert "nothing is alive" in table
    assert lines_named(table, "program.py") == []


def test_fail_on_leak_exits_with_1_where_lines_keep_more_and_more(tmp_path: Path) -> None:
    leaking = write(tmp_path / "leaking.py", LEAK)
    tidy = write(
        tmp_path / "tidy.py",
        "import nn, tensor\n"
        "from scopes import new_dispose_scope\n"
        "model = nn.Linear(8, 8)\n"
        "optimizer = nn.optim.Adam(model.parameters())\n"
        "for _ in range(20):\n"
        "    with new_dispose_scope('step'):\n"
        "        optimizer.zero_grad()\n"
        "        model(tensor.ones((2, 8))).sum().backward()\n"
        "        optimizer.step()\n",
    )
    assert scopes_run(leaking).returncode == 0
    failed = scopes_run("--fail-on-leak", leaking)
    assert failed.returncode == 1
    assert "--fail-on-leak" in failed.stderr
    assert scopes_run("--fail-on-leak", tidy).returncode == 0
    # The program's own status says more.
    assert scopes_run("--fail-on-leak", write(tmp_path / "other.py", f"{LEAK}exit(7)")).returncode == 7


def test_callers_in_a_report_include_no_line_of_the_command(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import tensor\ndef make(): return tensor.ones((2,))\ndef f(): return make()\nx = f()\n",
    )
    report = scopes_run("--depth", 9, program).stderr
    assert lines_named(report, "program.py")[:3] == [2, 3, 4]
    assert "runpy" not in report
    assert "__main__.py" not in report


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "write the program: disposescope run train.py, or disposescope run -m package.module"),
        (["--depht=3", "x.py"], "there is no option --depht=3: did you mean --depth?"),
        (["--fail-on-leaks", "x.py"], "there is no option --fail-on-leaks: did you mean --fail-on-leak?"),
        (["--qqqq", "x.py"], "`disposescope run --help` lists the options"),
        (["--depth", "0", "x.py"], "'0' is not a number of lines: write 1 or more"),
        (["--depth", "1.5", "x.py"], "'1.5' is not a number of lines"),
        (["--every", "0", "x.py"], "'0' is not a time: write a number of seconds above 0"),
        (["--every", "-1", "x.py"], "'-1' is not a time"),
        (["--every", "nan", "x.py"], "'nan' is not a time"),
        (["--every", "soon", "x.py"], "'soon' is not a time"),
        (["--leak-threshold", "many", "x.py"], "'many'"),
        (["--leak-threshold", "10", "x.py"], "'10' has no unit: write 10B or 10MiB"),
        (["--html", "nowhere/x.html", "x.py"], "there is no folder"),
        (["--trace", ".", "x.py"], "can't be written"),
        (["--htm", "x.html", "x.py"], "there is no option --htm: did you mean --html?"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named_before_anything_runs(
    options: list[str], message: str, tmp_path: Path
) -> None:
    write(tmp_path / "x.py", "print('ran')")
    tracked = scopes_run(*options, cwd=tmp_path)
    assert tracked.returncode == 2
    assert tracked.stdout == ""
    assert message in tracked.stderr


def test_the_verdict_repeats_the_threshold_as_it_was_written(tmp_path: Path) -> None:
    program = write(tmp_path / "x.py", "pass")
    done = scopes_run("--fail-on-leak", "--leak-threshold", "1MB", program)
    assert "for half of the run before it was freed, by 1MB or more." in done.stderr
    assert "by 64 KiB or more." in scopes_run("--fail-on-leak", program).stderr


def test_the_last_line_of_each_report_is_the_verdict(tmp_path: Path) -> None:
    leak = write(tmp_path / "leak.py", LEAK)
    page, record = tmp_path / "page.html", tmp_path / "run.dspool"
    done = scopes_run("--html", page, "--record", record, leak)
    *_, verdict = done.stderr.strip().splitlines()
    assert done.returncode == 0
    assert re.match(r"1 line keeps more and more: .*leak\.py:\d+ in ", verdict)
    assert re.search(r" at \d+ moments of the run and at its end\. ", verdict)
    assert verdict.split(" A line leaks")[0] in html.unescape(page.read_text(encoding="utf-8"))
    shown = subprocess.run(
        [sys.executable, "-m", "scopes", "report", str(record)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip().splitlines()[-1] == verdict


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        ("pass", "No line keeps more and more: the run created nothing that is tracked. "),
        (
            "import tensor; x = tensor.ones(9)",
            "No line is known to keep more and more: the run was too short ",
        ),
        (
            "import tensor\nfor _ in range(500):\n    x = tensor.ones(9)",
            "No line keeps more and more. The check covers the memory of each line, with graphs, at ",
        ),
    ],
)
def test_a_run_without_a_leak_has_a_verdict_too(program: str, verdict: str, tmp_path: Path) -> None:
    last = scopes_run(write(tmp_path / "x.py", program)).stderr.strip().splitlines()[-1]
    assert last.startswith(verdict)
    assert (" at the end of the run. " in last) == (program == "pass")


def test_the_counts_are_printed_on_request(tmp_path: Path) -> None:
    program = write(tmp_path / "x.py", LEAK)
    assert "live_count" not in scopes_run(program).stderr
    counts, _, verdict = scopes_run("--counts", program).stderr.strip().splitlines()[-3:]
    assert verdict.startswith("1 line keeps more and more:")
    assert counts.startswith("live_count: 500; created_outside_scope_count: 500;")


def test_help_shows_examples() -> None:
    shown = scopes_run("--help").stdout
    assert "examples:\n  disposescope run train.py" in shown
    assert "[tool.disposescope]" in shown


def test_settings_are_read_from_the_nearest_pyproject(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True)
    write(inner / "leaking.py", LEAK)
    write(
        tmp_path / "project" / "pyproject.toml",
        "[tool.disposescope]\nfail-on-leak = true\nleak-threshold = '100 kB'\nhtml = 'page.html'\n",
    )
    write(tmp_path / "pyproject.toml", "[tool.disposescope]\ncounts = true\n")
    done = scopes_run("leaking.py", cwd=inner)
    assert done.returncode == 1
    assert "by 100 kB or more" in done.stderr
    assert "live_count" not in done.stderr
    assert (tmp_path / "project" / "page.html").exists()
    # The command line has the last word.
    done = scopes_run("--no-fail-on-leak", "--counts", "leaking.py", cwd=inner)
    assert done.returncode == 0
    assert "live_count" in done.stderr


def test_a_number_is_bytes_in_the_settings(tmp_path: Path) -> None:
    program = write(tmp_path / "x.py", "pass")
    write(tmp_path / "pyproject.toml", "[tool.disposescope]\nleak-threshold = 1000\n")
    assert "by 1000 B or more" in scopes_run(program, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("fail-on-leeks = true", "there is no such setting: did you mean fail-on-leak?"),
        ("fail-on-leak = 'yes'", "'yes' is not true or false"),
        ("depth = 0", "'0' is not a number of lines"),
        ("depth = [1]", "[1] is neither a text nor a number"),
        ("html = 'nowhere/x.html'", "there is no folder"),
        ("depth = ", "can't read the settings in"),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(setting: str, message: str, tmp_path: Path) -> None:
    write(tmp_path / "x.py", "print('ran')")
    settings = write(tmp_path / "pyproject.toml", f"[tool.disposescope]\n{setting}\n")
    done = scopes_run("x.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert str(settings) in done.stderr


def test_command_does_not_overwrite_files_of_the_user(tmp_path: Path) -> None:
    write(tmp_path / "ops.py", "print('ran')")
    mine = write(tmp_path / "mytrain.py", "import tensor\n")
    for option in ("--trace", "--html"):
        # The trace was to have a name, and got the program's.
        done = scopes_run(option, "mytrain.py", "ops.py", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "exists and is not a report of disposescope" in done.stderr
        assert mine.read_text(encoding="utf-8") == "import tensor\n"


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "page.html"])
def test_our_own_report_is_overwritten(name: str, tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", LEAK)
    option = "--html" if name == "page.html" else "--trace"
    for _ in range(2):
        done = scopes_run(option, name, program, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


# Validation losses with their graphs, activations without, and schedules that keep their optimizers: what
# is kept lies in separate memory. The rest of the program is small beside it.
PLANTED = """
import sys

import nn
import tensor
from tensor import memory

tensor.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 10))
criterion = nn.CrossEntropyLoss()
inputs, targets = tensor.randn(64, 32), tensor.randint(0, 10, (64,))
losses, cache, schedules = [], {}, []


def train_epoch(epoch):
    optimizer = nn.optim.Adam(model.parameters(), lr=0.01)  # planted
    schedules.append(nn.optim.lr_scheduler.StepLR(optimizer, step_size=2))
    for step in range(3):
        optimizer.zero_grad()
        hidden = model[:2](inputs)
        criterion(model[2](hidden), targets).backward()
        optimizer.step()
        cache[epoch, step] = hidden.detach()  # planted
        losses.append(criterion(model(inputs), targets))  # planted


for epoch in range(160):
    train_epoch(epoch)
if sys.argv[1:] == ["measure"]:
    for kept in (losses, cache, schedules):
        before, count = memory.statistics().bytes_live, len(kept)
        kept.clear()
        print(before - memory.statistics().bytes_live)
elif sys.argv[1:] == ["rows"]:
    import json, scopes
    print(json.dumps(scopes.leaks().to_dict()))
"""


def test_three_planted_leaks_are_the_three_lines_at_the_top(tmp_path: Path) -> None:
    program = write(tmp_path / "train.py", PLANTED)
    text = PLANTED.splitlines()
    adams = 160 * (1 + 2 * 4)  # each with two moments for each of the four parameters
    optimizer, activation, loss = (number for number, line in enumerate(text, 1) if "# planted" in line)
    # What comes back when each list is cleared, without any tracking.
    freed = dict(
        zip((loss, activation, optimizer), map(int, python(program, "measure").stdout.split()), strict=True)
    )

    done = scopes_run(program, "rows")
    rows = json.loads(done.stdout)["rows"]
    found = {row["lines"][0]["line"]: (row["count"], row["bytes"]) for row in rows[:3]}
    assert found == {
        loss: (480, freed[loss]),
        activation: (480, freed[activation]),
        optimizer: (adams, freed[optimizer]),
    }
    assert sum(row["bytes"] for row in rows[3:]) < 0.01 * min(freed.values())
    assert [row["is_growing"] for row in rows] == [True] * 3 + [False] * len(rows[3:])
    # The report says the same, in the same order.
    named = lines_named(done.stderr, "train.py")
    assert named[:3] == sorted(freed, key=lambda line: -freed[line])
    for number in (480, adams):
        assert re.search(rf"\b{number:,}\b", done.stderr)


def test_the_page_and_the_trace_hold_what_the_report_says(tmp_path: Path) -> None:
    # They are written where they were asked for, wherever the program goes.
    program = write(
        tmp_path / "program.py",
        "import os, tensor\n"
        "from scopes import new_dispose_scope\n"
        "os.mkdir('away'); os.chdir('away')\n"
        "kept = []\n"
        "for _ in range(50):\n"
        "    with new_dispose_scope('<step>') as step:\n"
        "        kept.append(step.detach(tensor.ones((1000,)) * 2))\n",
    )
    done = scopes_run("--html", "page.html", "--trace", "trace.json.gz", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert html.rstrip().endswith("</html>")
    assert "program.py:7" in html
    assert "&lt;step&gt;" in html
    assert "<step>" not in html

    told = python("-m", "scopes", "report", "trace.json.gz", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    assert re.search(r"^ +50 +100 .*program\.py:7", told.stdout, re.MULTILINE)
    assert re.search(r"^ +50 .* <step>$", told.stdout, re.MULTILINE)


def test_the_report_of_a_trace_says_how_much_was_alive_at_once_and_at_the_end(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import tensor\n"
        "from scopes import new_dispose_scope\n"
        "for _ in range(3):\n"
        "    with new_dispose_scope('step'):\n"
        "        kept = [tensor.ones((256 * 1024,)) for _ in range(5)]\n"
        "last = tensor.ones((256 * 1024,))\n",
    )
    assert scopes_run("--trace", "trace.json", program, cwd=tmp_path).returncode == 0
    told = python("-m", "scopes", "report", "trace.json", cwd=tmp_path).stdout
    assert re.search(
        r" s, at most 5 MiB in 5 disposables at once, 1 MiB in 1 at the end$", told, re.MULTILINE
    )
    (alive,) = [part for part in told.split("\n\n") if part.startswith("Alive at the end")]
    assert "program.py:6" in alive
    assert "program.py:5" not in alive  # which a scope has disposed


def test_the_trace_ends_with_what_is_alive_at_the_end(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py", "import tensor\nkept = [tensor.ones((1000,)) for _ in range(100)]\n"
    )
    assert scopes_run("--trace", "trace.json", program, cwd=tmp_path).returncode == 0
    trace = Trace(tmp_path / "trace.json")
    assert trace.counter("bytes", "live")[-1] == 400_000
    assert trace.counter("disposables", "live")[-1] == 100


def test_a_program_that_is_killed_leaves_page_and_trace_too(tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", f"{LEAK}import signal\nsignal.raise_signal(signal.SIGTERM)\n")
    done = scopes_run("--html", "page.html", "--trace", "trace.json", program, cwd=tmp_path)
    assert done.returncode == -signal.SIGTERM
    assert "program.py:2" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "program.py:2" in python("-m", "scopes", "report", "trace.json", cwd=tmp_path).stdout


def test_the_page_has_the_tensors_that_ended_functions_held(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import tensor\ndef main():\n    kept = [tensor.ones((1000,)) for _ in range(500)]\nmain()\n",
    )
    scopes_run("--html", "page.html", program, cwd=tmp_path)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.index("program.py:3") < html.index("nothing is alive")


def test_a_report_that_can_not_be_written_is_an_error_of_a_program_without_one(tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", "import os\nos.rmdir('pages')\n")
    (tmp_path / "pages").mkdir()
    done = scopes_run("--html", "pages/page.html", "--trace", "trace.json", program, cwd=tmp_path)
    assert done.returncode == 1
    assert "disposescope: can't write the report" in done.stderr
    assert "Traceback" not in done.stderr
    # What can be written is.
    assert python("-m", "scopes", "report", "trace.json", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("redirection", "end"),
    [
        (">&-", ""),
        ("", "sys.stdout = None"),
        ("", "del sys.stdout"),
        ("", "sys.stdout = type('Log', (), {'write': len})()"),
    ],
)
def test_report_is_whole_without_a_standard_output(redirection: str, end: str, tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", f"import sys\n{LEAK}{end}\n")
    options = ("--html", "page.html", "--counts")
    done = redirected(redirection, "-m", "scopes", "run", *options, program, cwd=tmp_path)
    assert done.returncode == redirected(redirection, program, cwd=tmp_path).returncode
    assert "program.py:3" in done.stderr
    assert "live_count: 500" in done.stderr
    assert "program.py:3" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_report_of_a_trace_names_a_closed_standard_output(tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", LEAK)
    assert scopes_run("--trace", "trace.json", program, cwd=tmp_path).returncode == 0
    done = redirected(">&-", "-m", "scopes", "report", "trace.json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "disposescope: can't write the summary: the standard output is closed\n"


@pytest.mark.parametrize("stream", ["closed", "a full disk", "a closed pipe"])
@pytest.mark.parametrize(("options", "end"), [((), ""), ((), "exit(7)"), (("--fail-on-leak",), "")], ids=str)
def test_page_and_status_are_right_if_the_standard_error_stream_can_not_be_written(
    stream: str, options: tuple[str, ...], end: str, tmp_path: Path
) -> None:
    program = write(tmp_path / "program.py", f"{LEAK}print('mine')\n{end}\n")
    command = ("-m", "scopes", "run", *options, "--html", "page.html", program)
    reading, writing = os.pipe()
    os.close(reading)
    redirection = {"closed": "2>&-", "a full disk": "2>/dev/full", "a closed pipe": ""}[stream]
    done = redirected(redirection, *command, cwd=tmp_path, stderr=writing)
    os.close(writing)
    assert done.returncode == (7 if end else 1 if options else 0)
    assert done.stdout == "mine\n"
    assert "program.py:2" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("beginning", "written"),
    [
        ("sys.stderr = open('log', 'w', encoding='ascii')", "gr\\xf6\\xdfe"),
        ("import codecs; sys.stderr = codecs.open('log', 'w', encoding='ascii')", "gr\\xf6\\xdfe"),
        ("sys.stderr.close()", ""),
        ("sys.stderr = open('log', 'w'); sys.stderr.close()", "größe"),
        ("sys.stderr = None", ""),
        ("del sys.stderr", ""),
        ("sys.stderr = type('Log', (), {'flush': lambda self: None})()", "größe"),
        ("import os; os.close(2)", ""),
    ],
)
def test_report_and_page_are_whole_with_a_standard_error_stream_of_the_program(
    beginning: str, written: str, tmp_path: Path
) -> None:
    source = "import sys, tensor\ndef größe():\n    kept.append(tensor.ones((1000,)))\nkept = []\n"
    program = write(tmp_path / "program.py", f"{source}{beginning}\nfor _ in range(50): größe()\n")
    options = ("--html", "page.html", "--counts")
    done = redirected("", "-m", "scopes", "run", *options, program, cwd=tmp_path)
    log = tmp_path / "log"
    report = done.stderr or (log.read_text(encoding="utf-8") if log.exists() else "")
    assert done.returncode == 0
    assert written in report
    assert ("live_count: 50" in report) == bool(written)
    assert "größe" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("signal.signal(signal.SIGPIPE, signal.SIG_DFL)", 0),
        ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
        ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_signals_and_a_closed_pipe_leave_page_and_status(end: str, status: int, tmp_path: Path) -> None:
    program = write(tmp_path / "program.py", f"{LEAK}import signal\n{end}\n")
    reading, writing = os.pipe()
    os.close(reading)
    command = ("-m", "scopes", "run", "--html", "page.html", program)
    done = redirected("", *command, cwd=tmp_path, stderr=writing)
    os.close(writing)
    assert done.returncode == status
    assert "program.py:2" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_notice_of_a_program_s_own_module_is_not_needed_to_run_it(tmp_path: Path) -> None:
    write(tmp_path / "nn.py", "")
    write(tmp_path / "program.py", "print(1)\n")
    for redirection in ("2>&-", "2>/dev/full"):
        done = redirected(redirection, "-m", "disposescope", "run", "program.py", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "1\n")
    assert redirected(">&-", "-m", "disposescope", "--version", cwd=tmp_path).returncode == 0


def test_reports_at_an_interval_do_not_fail_the_program(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import tensor, time\n"
        "for _ in range(5):\n"
        "    time.sleep(0.01)\n"
        "    tensor.ones((2,))\n"
        "print('done')\n",
    )
    done = redirected("2>/dev/full", "-m", "scopes", "run", "--every", "0.001", program, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_page_names_a_program_whose_name_is_no_text(tmp_path: Path) -> None:
    program = os.fsencode(tmp_path) + b"/program\xff.py"
    with open(program, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(LEAK)
    done = redirected("", "-m", "scopes", "run", "--html", "page.html", os.fsdecode(program), cwd=tmp_path)
    assert done.returncode == 0
    assert "program\\udcff.py:2" in done.stderr
    assert "program\\udcff.py:2" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_live_view_ends_with_its_terminal(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    ours, theirs = os.openpty()
    program = write(
        tmp_path / "program.py", f"{LEAK}print('ready', flush=True)\ninput()\nimport time\ntime.sleep(1)"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "scopes", "run", "--live", "--html", "page.html", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.close(ours)
    process.communicate("\n", timeout=LIMIT)
    assert process.returncode == 0
    assert "program.py:2" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_live_view_is_not_drawn_to_a_file(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    program = write(tmp_path / "program.py", f"{LEAK}import time\ntime.sleep(1)\n")
    done = subprocess.run(
        [sys.executable, "-m", "scopes", "run", "--live", program],
        env=os.environ | {"PYTHONPATH": str(ROOT), "FORCE_COLOR": "1"},
        text=True,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr.startswith(
        "--live shows nothing, because the standard error stream is not a terminal\n"
    )
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b"[1]", b"\x1f\x8b broken", b"\xff\xfe", b'{"traceEvents": []}'], ids=str
)
def test_a_file_that_is_not_a_trace_is_named(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "trace.json").write_bytes(content)
    done = python("-m", "scopes", "report", "trace.json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("disposescope: ")
    assert "trace.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_advice_for_a_program_is_not_to_write_the_trace_over_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("pass", encoding="utf-8")
    done = python("-m", "scopes", "report", "program.py", cwd=tmp_path)
    assert "write one with `disposescope run --trace trace.json script.py`" in done.stderr
