"""``disposescope run`` follows every Python that the program starts, and puts them into one report."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scopes import LeakReport, LeakRow, Line, Site
from scopes.command.children import program_of
from scopes.reports.processes import MAIN, joined
from scopes.reports.run_record import RunRecord

ROOT = Path(__file__).parents[2]
# Seconds after which a program hangs, on however slow a machine.
LIMIT = 500
# A child that keeps 100 tensors of 3.9 KiB, as text of a program.
KEEPS = "import tensor\nkept = []\nfor _ in range(100):\n    kept.append(tensor.ones((1000,)))\n"


def run(
    *arguments: object, cwd: Path, python: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program below the command, with more variables in the environment."""
    return subprocess.run(
        [sys.executable, *python, "-m", "scopes", "run", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def plain(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with Python alone."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def table_of(told: str) -> str:
    """The table of processes in a report."""
    assert "\nBy process:\n" in told, told
    return told.partition("\nBy process:\n")[2]


def headings_of(told: str) -> list[str]:
    """The names of the processes, in the order of the columns."""
    lines = table_of(told).splitlines()
    rule = next(n for n, line in enumerate(lines) if set(line) == {"-", " "})
    places = [(match.start(), match.end()) for match in re.finditer("-+", lines[rule])]
    names = [lines[rule - 1][begin:end].strip() for begin, end in places]
    return names[: next(n for n, name in enumerate(names) if name in ("differs", "grows in", "created by"))]


MULTIPROCESSING = """
import multiprocessing, os, signal, sys, time, tensor

def work(number):
    kept = []
    for _ in range(100):
        kept.append(tensor.ones((1000,)))
    if sys.argv[2:] == ["killed"]:
        os.kill(os.getpid(), signal.SIGKILL)
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
methods = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])


@methods
def test_a_process_of_multiprocessing_is_followed(method: str, tmp_path: Path) -> None:
    done = run(write(tmp_path / "program.py", MULTIPROCESSING), method, "process", cwd=tmp_path)
    assert done.stdout == "0\n", done.stderr
    assert headings_of(done.stderr) == ["main", "worker"]
    assert "program.py:7 in work keeps more and more in worker (+" in done.stderr
    # What it inherited is the parent's.
    assert re.search(r"\n390\.6 KiB  +program\.py:14 in <module>", table_of(done.stderr)), done.stderr
    assert "from before the end of" not in done.stderr


@methods
def test_workers_of_a_pool_are_followed_though_it_terminates_them(method: str, tmp_path: Path) -> None:
    done = run(write(tmp_path / "program.py", MULTIPROCESSING), method, "pool", cwd=tmp_path)
    assert done.stdout == "400\n", done.stderr
    assert any("PoolWorker-" in name for name in headings_of(done.stderr))
    assert "program.py:7 in work" in table_of(done.stderr)


@methods
def test_a_killed_process_is_in_the_report(method: str, tmp_path: Path) -> None:
    done = run(write(tmp_path / "program.py", MULTIPROCESSING), method, "killed", cwd=tmp_path)
    assert done.stdout == f"{-signal.SIGKILL}\n"
    # The record is written after each growth by a tenth.
    found = re.search(r"\n +(\d+\.?\d*) KiB .*program\.py:7 in work", table_of(done.stderr))
    assert found is not None, done.stderr
    assert 391 / 1.1 - 4 <= float(found[1]) <= 391
    assert "The table has a record from before the end of worker: " in done.stderr


def test_subprocesses_and_theirs_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "grandchild.py", KEEPS)
    write(
        tmp_path / "child.py",
        f"import subprocess, sys\n{KEEPS}subprocess.run([sys.executable, 'grandchild.py'])\n",
    )
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\nprint(subprocess.run([sys.executable, 'child.py']).returncode)\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout == "0\n"
    assert sorted(headings_of(done.stderr)) == ["child.py", "grandchild.py"]
    assert "child.py:5 in <module>" in table_of(done.stderr)
    assert "grandchild.py:4 in <module>" in table_of(done.stderr)


def test_forks_are_followed_and_what_they_inherit_is_the_parents(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import os, tensor\n"
        "before = [tensor.ones((1000,)) for _ in range(100)]\n"
        "child = os.fork()\n"
        "kept = []\n"
        "for _ in range(50 if child else 100):\n"
        "    kept.append(tensor.ones((1000,)))\n"
        "if not child:\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout == "7\n"
    assert headings_of(done.stderr) == ["main", "program.py"]
    assert re.search(r"\n390\.6 KiB  +main .*program\.py:2 in", table_of(done.stderr)), done.stderr
    line = next(line for line in table_of(done.stderr).splitlines() if "program.py:6 in" in line)
    ours, theirs = map(float, re.findall(r"([\d.]+) KiB", line)[:2])
    assert ours == pytest.approx(195.3)
    assert 391 / 1.1 - 4 <= theirs <= 391


def test_a_fork_that_ends_by_itself_writes_its_last_record(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import os\nimport tensor\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nelse:\n"
        "    kept = [tensor.ones((1000,)) for _ in range(100)]\n",
    )
    done = run(program, cwd=tmp_path)
    assert re.search(r"\n *390\.6 KiB .*program\.py:7 in", table_of(done.stderr)), done.stderr
    assert "from before the end of" not in done.stderr


def test_a_fork_that_runs_another_program_leaves_no_record(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import os, subprocess, sys, tensor\n"
        "kept = [tensor.ones((1000,)) for _ in range(100)]\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os.execvp('true', ['true'])\n"
        "os.waitpid(child, 0)\n"
        "subprocess.run(['true'], preexec_fn=os.setsid)\n"
        "print(sorted(os.listdir(os.environ['DISPOSESCOPE_CHILDREN'].partition(':')[2])))\n",
    )
    done = run(program, cwd=tmp_path)
    assert not re.search(r"\d\.dspool", done.stdout), done.stdout
    assert "child process" not in done.stderr


def test_ranks_that_differ_come_first_with_their_line(tmp_path: Path) -> None:
    write(
        tmp_path / "train.py",
        "import os, tensor\n"
        "model = tensor.ones((100, 100))\n"
        "cache = []\n"
        "for step in range(200):\n"
        "    loss = (model * 2).sum()\n"
        "    if os.environ['RANK'] == '1':\n"
        "        cache.append(tensor.ones((1000,)))\n",
    )
    program = write(
        tmp_path / "starts.py",
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen([sys.executable, 'train.py'], env={**os.environ, 'RANK': str(rank)})\n"
        "         for rank in range(3)]\n"
        "print([rank.wait() for rank in ranks])\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout == "[0, 0, 0]\n"
    assert headings_of(done.stderr) == ["rank 1", "rank 0", "rank 2"]
    named = re.search(
        r"\nrank 1 holds 7\d\d\.\d KiB more than the median at train\.py:7 in <module>, and this line keeps "
        r"more and more there \(\+[\d.]+ KiB\), held by cache",
        done.stderr,
    )
    assert named is not None, done.stderr
    failing = run("--fail-on-leak", program, cwd=tmp_path)
    assert failing.returncode == 1
    assert "--fail-on-leak: Lines keep more and more in child processes. No line " in failing.stderr
    assert run("--fail-on-leak", "--leak-threshold", "1 MB", program, cwd=tmp_path).returncode == 0


def test_a_rank_of_the_run_itself_is_not_that_of_its_children(tmp_path: Path) -> None:
    write(tmp_path / "child.py", KEEPS)
    program = write(
        tmp_path / "program.py", "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'])\n"
    )
    assert headings_of(run(program, cwd=tmp_path, SLURM_PROCID="3").stderr) == ["child.py"]


def test_a_child_without_tensors_is_as_without_the_command(tmp_path: Path) -> None:
    mirror = (
        "import json, os, sys\n"
        "seen = [sys.path, sorted(sys.modules), sys.argv, sys.flags.utf8_mode]\n"
        "seen += [os.environ['PYTHONPATH'].split(os.pathsep)[-1], 'sitecustomize' in sys.modules]\n"
        "print(json.dumps(seen))\n"
        "sys.exit(5)\n"
    )
    write(tmp_path / "child.py", mirror)
    # The user's own, which the child runs too.
    write(tmp_path / "own" / "sitecustomize.py", "print('of the user', __name__)\n")
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\n"
        "done = subprocess.run([sys.executable, 'child.py'], capture_output=True, text=True)\n"
        "print(done.returncode, done.stdout, repr(done.stderr))\n",
    )
    environment = {"PYTHONPATH": f"{tmp_path / 'own'}{os.pathsep}{ROOT}"}
    alone = plain(program, cwd=tmp_path, **environment)
    tracked = run(program, cwd=tmp_path, **environment)
    assert "5 of the user sitecustomize\n" in alone.stdout
    assert tracked.stdout == alone.stdout


def test_an_error_in_the_users_sitecustomize_is_reported_as_without_the_command(tmp_path: Path) -> None:
    write(tmp_path / "own" / "sitecustomize.py", "raise ValueError('of the user')\n")
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True, text=True)\n"
        "print(done.returncode, done.stdout, done.stderr)\n",
    )
    environment = {"PYTHONPATH": f"{tmp_path / 'own'}{os.pathsep}{ROOT}"}
    alone = plain(program, cwd=tmp_path, **environment)
    assert "ValueError: of the user" in alone.stdout
    assert run(program, cwd=tmp_path, **environment).stdout == alone.stdout


def test_the_report_says_why_children_were_not_followed(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import os, subprocess, sys\n"
        "def start(*options, **environment):\n"
        "    env = {name: value for name, value in {**os.environ, **environment}.items() if value}\n"
        "    subprocess.run([sys.executable, *options, '-c', ''], env=env)\n"
        "start('-I')\n"
        "start('-u', '-W', 'error', '-ES')\n"
        "start('-W', '-I')\n"  # the value of -W
        "start('-c', '', '-I')\n"  # the program's own
        "start(DISPOSESCOPE_CHILDREN='')\n"
        "start(PYTHONPATH='elsewhere')\n"
        "start(PYTHONPATH='elsewhere' + os.pathsep + os.environ['PYTHONPATH'])\n"
        "subprocess.run(['true'])\n"
        "os.mkdir('two words')\n"
        "os.symlink(sys.executable, 'two words/python3')\n"
        "subprocess.run('\"two words/python3\" -S -c pass', shell=True, executable='/bin/sh')\n"
        "subprocess.run(['two words/python3', '-S', '-c', ''])\n",
    )
    done = run(program, cwd=tmp_path)
    assert (
        "\nchild processes that were not followed: 1 with -ES, 1 with -I, 1 with -S, 1 with a PYTHONPATH of "
        "its own, 1 with an environment without DISPOSESCOPE_CHILDREN\n"
    ) in done.stderr


def test_a_child_with_a_flag_that_joins_by_itself_is_not_counted_as_lost(tmp_path: Path) -> None:
    write(tmp_path / "child.py", f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{KEEPS}")
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-E', 'child.py'])\n",
    )
    done = run(program, cwd=tmp_path)
    assert headings_of(done.stderr) == ["child.py"]
    assert "not followed" not in done.stderr


def test_a_python_that_lacks_this_library_is_counted_and_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "fake" / "torch.py", "")
    child = "import sys\nsys.modules['scopes'] = None\nimport torch\nprint(torch.__file__)\n"
    write(tmp_path / "fake" / "child.py", child)
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\n"
        "done = subprocess.run([sys.executable, 'fake/child.py'], capture_output=True, text=True)\n"
        "print(done.returncode, done.stdout, repr(done.stderr))\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout.split() == ["0", str(tmp_path / "fake" / "torch.py"), "''"]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"not followed: 1 Python {version} without this disposescope ({sys.executable})\n" in done.stderr


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="no sources beside the tests")
def test_an_older_python_runs_as_without_the_command(tmp_path: Path) -> None:
    finder = ROOT / ".ci" / "find-python"
    found = subprocess.run([finder, "3.9"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("no Python 3.9 on this machine")
    write(tmp_path / "fake" / "torch.py", "")
    write(tmp_path / "fake" / "child.py", "import sys\nimport torch\nprint(sys.version_info[:2], sys.path)\n")
    program = write(
        tmp_path / "program.py",
        "import os, subprocess, sys\n"
        "environment = {**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'}\n"
        f"python = {found.stdout.strip()!r}\n"
        "done = subprocess.run([python, 'fake/child.py'], capture_output=True, text=True, env=environment)\n"
        "print(done.returncode, done.stdout, repr(done.stderr))\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout == plain(program, cwd=tmp_path).stdout
    assert done.stdout.startswith("0 ")
    assert "not followed: 1 Python 3.9\n" in done.stderr


def test_a_fork_keeps_the_listeners_of_the_program_and_drops_those_of_the_run(tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import os, scopes, tensor\n"
        "from scopes.tracking import tracking\n"
        "with scopes.Timeline() as timeline:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        kept = tensor.ones((1000,))\n"
        "        names = [type(each).__name__ for each in tracking.current.tracker.listeners]\n"
        "        print(names, timeline in tracking.current.tracker.listeners, flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n",
    )
    assert run(program, cwd=tmp_path).stdout == "['Timeline', '_ChildHistory'] True\n"


def test_a_child_that_can_write_no_file_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "child.py", f"{KEEPS}print(len(kept))\n")
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\n"
        "limited = ['sh', '-c', 'ulimit -f 0; exec \"$@\"', 'sh', sys.executable, 'child.py']\n"
        "done = subprocess.run(limited, stdin=subprocess.PIPE, capture_output=True, text=True)\n"
        "print(done.returncode, done.stdout, repr(done.stderr))\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout == "0 100\n ''\n"
    assert "By process" not in done.stderr


def test_a_temporary_folder_that_pythonpath_can_not_name_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    done = run(write(tmp_path / "program.py", ""), cwd=tmp_path, TMPDIR=str(tmp_path / "a:b"))
    assert done.returncode == 0
    assert (
        "\nchild processes were not followed, because their records need a temporary folder: " in done.stderr
    )
    assert list((tmp_path / "a:b").iterdir()) == []


def test_children_that_outlive_the_run_go_on(tmp_path: Path) -> None:
    write(
        tmp_path / "child.py",
        "import os, sys, time\n"
        "while os.path.isdir(os.environ['DISPOSESCOPE_CHILDREN'].partition(':')[2]): time.sleep(0.01)\n"
        f"{KEEPS}"
        "open('result', 'w').write('done')\n"
        "sys.exit(0)\n",
    )
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, 'child.py'], start_new_session=True,\n"
        "    stdin=subprocess.DEVNULL, stdout=open('out', 'w'), stderr=subprocess.STDOUT)\n",
    )
    assert run(program, cwd=tmp_path).returncode == 0
    until = time.monotonic() + LIMIT
    while not (tmp_path / "result").exists() or not (tmp_path / "result").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert (tmp_path / "out").read_text() == ""


def test_a_run_below_a_run_reports_its_own_children(tmp_path: Path) -> None:
    write(tmp_path / "inner.py", KEEPS)
    write(tmp_path / "middle.py", "import subprocess, sys\nsubprocess.run([sys.executable, 'inner.py'])\n")
    program = write(
        tmp_path / "outer.py",
        "import subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-m', 'scopes', 'run', 'middle.py'],\n"
        "    stderr=subprocess.PIPE, text=True)\n"
        "print(done.returncode, done.stderr)\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout.startswith("0 ")
    assert headings_of(done.stdout) == ["inner.py"]
    assert "inner.py" not in done.stderr


def test_a_graph_that_grows_in_a_child_has_a_size(tmp_path: Path) -> None:
    write(
        tmp_path / "child.py",
        "import tensor\n"
        "weight = tensor.ones((2,), requires_grad=True)\n"
        "total = tensor.zeros((2,))\n"
        "for _ in range(500):\n"
        "    total = total + weight\n",
    )
    program = write(
        tmp_path / "program.py", "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'])\n"
    )
    line = next(line for line in run(program, cwd=tmp_path).stderr.splitlines() if "child.py:5 in" in line)
    found = re.match(r" *([\d.]+) KiB +child\.py \(\+([\d.]+) KiB\)", line)
    assert found is not None, line
    assert 100 < float(found[2]) <= float(found[1]) < 150


def test_children_that_hold_little_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "child.py", "import sys, tensor\nkept = tensor.ones((int(sys.argv[1]),))\n")
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\n"
        "for size in (20_000, 10, 20):\n"
        "    subprocess.run([sys.executable, 'child.py', str(size)])\n",
    )
    done = run(program, cwd=tmp_path)
    assert headings_of(done.stderr) == ["child.py"]
    assert "\n2 more child processes held less than 64 KiB each.\n" in done.stderr


def test_a_page_has_the_table_of_processes(tmp_path: Path) -> None:
    write(tmp_path / "child.py", KEEPS)
    program = write(
        tmp_path / "program.py", "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'])\n"
    )
    run("--html", "page.html", program, cwd=tmp_path)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h2>By process:</h2>" in text
    assert "child.py:4 in &lt;module&gt;" in text


def test_an_installed_script_is_found_if_there_is_no_file_of_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    # A path with a space can't be the program of a first line: see the long form below.
    python = "/usr/bin/env python3" if " " in sys.executable else sys.executable
    script = write(folder / "starter", f"#!{python}\nimport sys\nprint(sys.argv, sys.path[0])\n")
    script.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = run("starter", "--option", "1", cwd=tmp_path, PATH=path)
    assert done.stdout == f"{[str(script), '--option', '1']} {folder}\n", done.stderr
    write(folder / "starter", "#!/usr/bin/env python3\nprint('env')\n")
    assert run("starter", cwd=tmp_path, PATH=path).stdout == "env\n"
    long = f"#!/bin/sh\n'''exec' {sys.executable!r} \"$0\" \"$@\"\n' '''\nprint('long')\n"
    write(folder / "starter", long)
    assert run("starter", cwd=tmp_path, PATH=path).stdout == "long\n"
    write(tmp_path / "starter", "print('the file')\n")
    assert run("starter", cwd=tmp_path, PATH=path).stdout == "the file\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#!/elsewhere/bin/python3\n", "is a script for /elsewhere/bin/python3, and this is"),
        ("#!/bin/sh\necho no\n", "can't open file"),
        ("no words\n", "can't open file"),
        ("", "can't open file"),
    ],
)
def test_an_installed_program_that_this_python_can_not_run_is_an_error(
    text: str, told: str, tmp_path: Path
) -> None:
    write(tmp_path / "programs" / "starter", text).chmod(0o755)
    (tmp_path / "here").mkdir()
    done = run(
        "starter", cwd=tmp_path / "here", PATH=f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}"
    )
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("executable", "command", "name"),
    [
        ("/two words/python3", ["python3", "-c", ""], "python3"),
        ("/usr/bin/true", ["true"], "true"),
        (None, "python -c ''", "python"),
        (None, '"/two words/python.exe" -c ""', "python.exe"),
        (None, '"/two words/python.exe', "python.exe"),
        (None, "python -c '", "python"),
        (None, ["/two words/python3"], "python3"),
        (None, "", ""),
    ],
)
def test_the_program_of_a_subprocess_is_found(
    executable: str | None, command: str | list[str], name: str
) -> None:
    assert program_of(executable, command).name == name


def record(
    pid: int,
    lines: dict[int, int],
    *,
    parent: int = 1,
    name: str = "train.py",
    rank: int | None = None,
    risen: dict[int, int] | None = None,
    ended: str | None = "by itself",
) -> RunRecord:
    """The record of a process that held `lines`: bytes by the number of the line."""
    sites = {number: Site((Line("/train.py", number, "step", f"x{number} = make()"),)) for number in lines}
    rows = [
        LeakRow(sites[n], ("Tensor",), 1, nbytes, 0.0, 0.0, (), holder=f"of {pid}")
        for n, nbytes in lines.items()
    ]
    return RunRecord(
        program="train.py",
        arguments=(),
        parts=(("train.py has ended.", LeakReport(tuple(rows), 1)),),
        verdict="",
        growing=tuple([(sites[n], amount) for n, amount in (risen or {}).items()]),
        moments=(),
        pid=pid,
        parent_pid=parent,
        name=name,
        rank=rank,
        ended=ended,
    )


MIB = 2**20


def test_the_line_and_the_process_that_differ_most_come_first() -> None:
    ranks = [record(10 + n, {4: 50 * MIB, 7: 10 * MIB, 9: MIB}, rank=n) for n in range(4)]
    ranks[2] = record(12, {4: 50 * MIB, 7: 90 * MIB, 9: MIB}, rank=2, risen={7: 70 * MIB})
    ranks[3] = record(13, {4: 20 * MIB, 7: 10 * MIB, 9: MIB}, rank=3)
    report = joined([record(1, {4: MIB}, parent=0, name=MAIN), *reversed(ranks)])
    assert [row.site.line for row in report.rows] == [7, 4, 9]
    assert report.verdict == (
        "rank 2 holds 80 MiB more than the median at /train.py:7 in step, and this line keeps more and more "
        "there (+70 MiB), held by of 12.\n"
        "rank 3 holds 30 MiB less than the median at /train.py:4 in step, held by of 13."
    )
    assert [process.label for process in report.processes] == ["main", "rank 0", "rank 1", "rank 2", "rank 3"]
    assert re.search(r"\nrank 2 +rank 3 +main +rank 0 +rank 1  differs", str(report)), str(report)
    assert report.is_leaking


def test_processes_that_hold_about_as_much_do_not_differ() -> None:
    report = joined([record(n, {4: 50 * MIB + n * MIB, 7: 1000 + 1000 * n}, rank=n) for n in range(3)])
    assert [row.difference for row in report.rows] == [None, None]
    assert (report.verdict, report.is_leaking) == ("", False)
    assert "differs" not in str(report)
    assert "grows in" not in str(report)


def test_of_two_processes_one_is_compared_with_the_other() -> None:
    report = joined([record(10, {4: MIB}, rank=0), record(11, {4: 3 * MIB}, rank=1)])
    assert report.verdict == "rank 1 holds 2 MiB more than rank 0 at /train.py:4 in step, held by of 11."


def test_children_of_a_rank_are_not_compared_with_the_ranks() -> None:
    ranks = [record(10 + n, {4: MIB}, rank=n) for n in range(3)]
    worker = record(20, {8: 9 * MIB}, parent=11, rank=1, name="DataLoader worker 0")
    report = joined([*ranks, worker])
    labels = [process.label for process in report.processes]
    assert labels == ["rank 0", "rank 1", "rank 1: DataLoader worker 0", "rank 2"]
    assert all(row.difference is None for row in report.rows)


def test_a_line_that_grows_in_several_processes_has_one_sentence() -> None:
    ranks = [record(10 + n, {4: 9 * MIB}, rank=n, risen={4: (n + 1) * MIB}) for n in range(5)]
    assert joined(ranks).verdict == (
        "/train.py:4 in step keeps more and more in rank 4 (+5 MiB), rank 3 (+4 MiB), rank 2 (+3 MiB) and "
        "2 more processes, held by of 14."
    )
    assert joined(ranks).is_leaking
    assert not joined(ranks, threshold=6 * MIB).is_leaking
    main = record(1, {4: MIB}, name=MAIN, risen={4: MIB})
    assert not joined([main, *ranks], threshold=6 * MIB).is_leaking


def test_of_many_processes_the_median_and_the_extremes_are_shown() -> None:
    ranks = [record(10 + n, {4: (10 + n) * MIB}, rank=n) for n in range(64)]
    ranks[40] = record(50, {4: MIB, 7: 500 * MIB}, rank=40)
    report = joined(ranks)
    heading = next(line for line in str(report).splitlines() if "median" in line)
    assert re.findall(r"rank \d+|median", heading) == [
        "rank 40",
        "rank 63",
        "rank 62",
        "rank 2",
        "rank 1",
        "rank 0",
        "median",
    ]
    assert "64 processes held" in str(report)
    assert "; those that held most and least have columns" in str(report)
    assert report.verdict.startswith("rank 40 holds 500 MiB more than the median at /train.py:7 in step")
    assert len(report.to_dict()["rows"][0]["bytes"]) == 64


def test_of_many_processes_the_ranks_that_hold_least_are_shown_before_their_workers() -> None:
    ranks = [record(10 + n, {4: 10 * MIB}, rank=n) for n in range(4)]
    workers = [record(20 + n, {8: MIB}, parent=10 + n % 4, rank=n % 4, name=f"Process-{n}") for n in range(9)]
    heading = next(line for line in str(joined([*ranks, *workers])).splitlines() if "median" in line)
    assert re.findall(r"rank \d:?|median", heading) == ["rank 0", "rank 1", "rank 2", "rank 3", "median"]


def test_processes_with_one_name_get_their_number() -> None:
    report = joined([record(10, {4: MIB}), record(11, {4: MIB}), record(12, {4: MIB}, name="worker")])
    assert [process.label for process in report.processes] == ["train.py (10)", "train.py (11)", "worker"]
