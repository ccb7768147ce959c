"""``disposescope attach``: a report of a process that runs already, which then goes on as before."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Seconds after which a program hangs, on however slow a machine.
LIMIT = 300
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no debugger that the command uses"),
    pytest.mark.skipif(
        sys.version_info < (3, 14) and not shutil.which("gdb"),
        reason="needs a debugger, and gdb is not installed",
    ),
    pytest.mark.skipif(
        os.name == "posix"
        and os.geteuid() != 0
        and (not _SCOPE.exists() or _SCOPE.read_text().strip() != "0"),
        reason="needs a permission to trace processes",
    ),
]

# The beginning of each program. `state` is what an attach must leave as it was.
_BEGINNING = """
import gc, json, linecache, os, select, sys, threading, time, warnings, weakref

def state():
    found = {
        "threads": len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0,
        "files": len(os.listdir("/dev/fd")),
        "path": sys.path[:],
        # The finder of the package's old modules belongs to the modules, which stay.
        "finders": [repr(x) for x in sys.meta_path if not type(x).__module__.endswith(".moved")],
        "callbacks": len(gc.callbacks),
        "freeze": type(gc.freeze).__name__ + gc.freeze.__module__,
        "collector": gc.isenabled(),
        "interval": sys.getswitchinterval(),
        "hooks": [repr(sys.unraisablehook), repr(sys.excepthook), repr(threading.excepthook)],
        "sources": sorted(linecache.cache),
        "filters": len(warnings.filters),
        "main": sorted(globals()),
        "main thread": [threading.main_thread() is threading.current_thread(), len(threading.enumerate())],
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = [
            repr(x)
            for x in (
                torch.from_numpy, torch.frombuffer, torch.Tensor.__new__, torch.Tensor.numpy, torch.compile,
                torch.autograd._engine_run_backward, torch.autograd.graph.saved_tensors_hooks.__enter__,
                torch.utils.data.DataLoader.__iter__, torch.utils.swap_tensors,
                torch._C._len_torch_function_stack(),
            )
        ]
        found["references"] = sum(weakref.getweakrefcount(x) for x in trainer.outputs)
    return found

def answer():
    if select.select([0], [], [], 0)[0] and os.read(0, 1):
        print(json.dumps(state()), flush=True)
"""
OWN = (
    _BEGINNING
    + """
import tensor

class Trainer:
    def __init__(self):
        self.outputs = []

trainer = Trainer()
weight = tensor.ones((16, 16), requires_grad=True)

def step(i):
    loss = ((weight * (i % 7)).tanh() ** 2).sum()
    loss.backward()
    with tensor.no_grad():
        weight.sub_(weight.grad * 0.01)
    weight.grad = None
    trainer.outputs.append(weight.detach() * 2)  # leaks
    return loss.item()

losses = []
print("ready", flush=True)
for i in range(int(sys.argv[1])):
    losses.append(step(i))
    time.sleep(0.002)
    answer()
print(losses[-1].hex(), hash(tuple(losses)), flush=True)
"""
)
TORCH = (
    _BEGINNING
    + """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.randn(512, 32)

class Trainer:
    def __init__(self):
        self.outputs = []

trainer = Trainer()

def step(i):
    x = data[i * 16 % 496 :][:16]
    output = model(x)
    loss = ((output - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    trainer.outputs.append(output.detach().repeat(1, 100))  # leaks
    return loss.item()

losses = [step(0)]
print("ready", flush=True)
for i in range(int(sys.argv[1])):
    losses.append(step(i))
    time.sleep(0.002)
    answer()
print(losses[-1].hex(), hash(tuple(losses)), flush=True)
"""
)


def line_of(program: str) -> int:
    """The number of the line that leaks."""
    return next(n for n, text in enumerate(program.splitlines(), 1) if text.endswith("# leaks"))


@contextmanager
def running(
    folder: Path, program: str, *arguments: object, flags: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A program that was started without this library, after it has printed a line."""
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, *flags, str(file), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def start(process: subprocess.Popen[str] | int, *options: str) -> subprocess.Popen[str]:
    pid = process if isinstance(process, int) else process.pid
    return subprocess.Popen(
        [sys.executable, "-m", "scopes", "attach", str(pid), *options],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def attach(process: subprocess.Popen[str] | int, *options: str) -> subprocess.CompletedProcess[str]:
    command = start(process, *options)
    out, err = command.communicate(timeout=LIMIT)
    return subprocess.CompletedProcess(command.args, command.returncode, out, err)


def state_of(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("?")
    process.stdin.flush()
    found: dict[str, object] = json.loads(process.stdout.readline())
    return found


def state_after(process: subprocess.Popen[str], before: dict[str, object]) -> dict[str, object]:
    """The state when the thread of the attach has ended, which follows its last word."""
    until = time.monotonic() + 30
    while (state := state_of(process)) != before and time.monotonic() < until:
        time.sleep(0.1)
    return state


def result_of(process: subprocess.Popen[str]) -> str:
    """What the program prints at its end."""
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, out
    return out


def folders() -> set[str]:
    return {each.name for each in Path(tempfile.gettempdir()).glob("disposescope-attach-*")}


@pytest.fixture(params=["tensor", "torch"])
def program(request: pytest.FixtureRequest) -> str:
    if request.param == "torch":
        pytest.importorskip("torch")
    return {"tensor": OWN, "torch": TORCH}[request.param]


def test_the_report_names_the_holder_and_the_line_of_a_leak(program: str, tmp_path: Path) -> None:
    with running(tmp_path, program, 10**6) as process:
        done = attach(process, "--for", "3s")
    assert done.returncode == 0, done.stderr
    living, _, growth = done.stdout.partition("What was created since")
    assert "The lines that created them are unknown" in living
    assert re.search(
        r"Tensor +\(16, \d+\) float32 +trainer\.outputs\[\.\.\.\], a global of program\.py", living
    ), living
    by_line, _, by_type = growth.partition("Change since the attach, by type")
    first, *_ = re.findall(r"program\.py:(\d+) in ", by_line)
    assert int(first) == line_of(program), growth
    assert re.search(rf"keeps more and more: program\.py:{line_of(program)} in step", by_line), growth
    assert re.search(r"\+[\d,]+, \+[\d.]+ \wiB +(?:torch\.)?Tensor", by_type), by_type
    assert "Not in the table by line: tensors that the program made before the attach" in by_type


@pytest.mark.parametrize("method", ["gdb", "lldb", "remote_exec"])
def test_each_way_reaches_the_process(method: str, tmp_path: Path) -> None:
    if method == "remote_exec" and sys.version_info < (3, 14):
        pytest.skip("Python needs a debugger before version 3.14")
    if method != "remote_exec" and not shutil.which(method):
        pytest.skip(f"needs a debugger, and {method} is not installed")
    with running(tmp_path, OWN, 10**6) as process:
        for _ in range(3):
            done = attach(process, "--for", "0", "--method", method)
            assert done.returncode == 0, done.stderr
            assert "trainer.outputs[...], a global of program.py" in done.stdout


def test_a_program_computes_the_same_with_attaches(program: str, tmp_path: Path) -> None:
    with running(tmp_path, program, 1500) as process:
        alone = result_of(process)
    with running(tmp_path, program, 1500) as process:
        for _ in range(2):
            assert attach(process, "--for", "0.5s").returncode == 0
        assert process.poll() is None
        assert result_of(process) == alone


def test_an_attach_leaves_the_process_as_it_was(program: str, tmp_path: Path) -> None:
    before_it = folders()
    with running(tmp_path, program, 10**6) as process:
        before = state_of(process)
        assert attach(process, "--for", "1s").returncode == 0
        assert state_after(process, before) == before
    assert folders() == before_it


def test_ctrl_c_brings_the_growth_so_far(tmp_path: Path) -> None:
    with running(tmp_path, OWN, 10**6) as process:
        command = start(process, "--for", "1h")
        assert command.stdout is not None
        until = next(line for line in command.stdout if "search took" in line)
        time.sleep(2)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=LIMIT)
        assert command.returncode == 0, (until, out, err)
        assert re.search(rf"program\.py:{line_of(OWN)} in step", out)
        assert attach(process, "--for", "0").returncode == 0


def test_a_killed_command_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    before_it = folders()
    with running(tmp_path, OWN, 10**6) as process:
        before = state_of(process)
        command = start(process, "--for", "1h")
        assert command.stdout is not None
        next(line for line in command.stdout if "search took" in line)
        command.kill()
        command.communicate()
        assert state_after(process, before) == before
        assert attach(process, "--for", "0").returncode == 0
        assert folders() == before_it


def test_the_end_of_the_program_brings_the_report(tmp_path: Path) -> None:
    with running(tmp_path, OWN, 1000) as process:
        done = attach(process, "--for", "1h")
        assert done.returncode == 0, done.stderr
        assert "The program ends after" in done.stdout
        assert re.search(rf"keeps more and more: program\.py:{line_of(OWN)} in step", done.stdout)
        process.communicate(timeout=LIMIT)
        assert process.returncode == 0


def test_a_killed_program_is_named(tmp_path: Path) -> None:
    with running(tmp_path, OWN, 10**6) as process:
        command = start(process, "--for", "1h")
        assert command.stdout is not None
        next(line for line in command.stdout if "search took" in line)
        process.kill()
        _, err = command.communicate(timeout=LIMIT)
    assert command.returncode == 1
    assert f"process {process.pid} ended, or was killed, before its report was complete" in err


def test_a_second_attach_at_the_same_time_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, OWN, 10**6) as process:
        first = start(process, "--for", "1h")
        assert first.stdout is not None
        next(line for line in first.stdout if "search took" in line)
        second = attach(process)
        assert second.returncode == 8
        assert "another `disposescope attach` is in progress in this process" in second.stderr
        first.send_signal(signal.SIGINT)
        _, err = first.communicate(timeout=LIMIT)
        assert first.returncode == 0, err


# A program without site-packages, with a module that looks like JAX.
ALONE = """
import sys, time, types

class Array:
    shape, dtype, nbytes = (5, 7), "float32", 140
    def is_deleted(self): return False
    def devices(self): return ["TFRT_CPU_0"]

arrays = [Array() for _ in range(3)]
jax = sys.modules["jax"] = types.ModuleType("jax")
jax.__version__, jax.live_arrays = "0.9", lambda: list(arrays)
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def test_a_process_without_the_package_takes_that_of_the_command(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    shutil.copytree(ROOT / "scopes", packages / "scopes")
    for path in [*(ROOT / "scopes").rglob("*.pyx"), ROOT / "scopes" / "core" / "main_interpreter.cpp"]:
        place = path.relative_to(ROOT).with_suffix("")
        spec = find_spec(".".join(place.parts))
        assert spec is not None
        assert spec.origin is not None
        shutil.copy(spec.origin, packages / place.parent)
    with running(tmp_path, ALONE, flags=("-I", "-S")) as process:
        command = [sys.executable, "-S", "-m", "scopes", "attach", str(process.pid), "--for", "1s"]
        environment = os.environ | {"PYTHONPATH": str(packages)}
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        row = (
            r"3 +420 bytes +jax\.Array +\(5, 7\) float32 on TFRT_CPU_0 +arrays\[\.\.\.\], a global of program"
        )
        assert re.search(row, done.stdout), done.stdout
        assert (
            "Not in the table by line: tensors that the program made before the attach; arrays of JAX"
            in done.stdout
        )


def test_a_package_that_can_not_be_imported_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "scopes.py").write_text("", encoding="utf-8")
    program = ALONE.replace("import sys,", f"import sys; sys.path.append({str(tmp_path)!r}); import")
    with running(tmp_path, program, flags=("-I", "-S")) as process:
        done = attach(process)
    assert done.returncode == 6
    assert f"`import scopes` finds another module in the process, {tmp_path / 'scopes.py'}" in done.stderr


FORKING = (
    _BEGINNING
    + """
import tensor, scopes
warnings.simplefilter("ignore")  # Python warns of a fork beside threads

print("ready", flush=True)
kept, files = [], len(os.listdir("/dev/fd"))
while not scopes.is_tracking():
    kept.append(tensor.ones((100,)))
    time.sleep(0.01)
child = os.fork()
if child == 0:
    os._exit(scopes.is_tracking() or len(gc.callbacks) > 0 or len(os.listdir("/dev/fd")) > files)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
while scopes.is_tracking():
    time.sleep(0.01)
"""
)


def test_a_forked_child_is_left_alone(tmp_path: Path) -> None:
    with running(tmp_path, FORKING) as process:
        done = attach(process, "--for", "3s")
        assert done.returncode == 0, done.stderr
        assert result_of(process).strip() == "0"


WAITING = """
import sys, threading, time, tensor
kept = [tensor.ones((10, 10)) for _ in range(20)]
print("ready", flush=True)
{how}
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python needs no debugger here")
@pytest.mark.parametrize(
    "how",
    [
        "time.sleep(600)",
        "input()",
        "threading.Event().wait(600)",
        "import asyncio; asyncio.run(asyncio.sleep(600))",
    ],
)
def test_a_main_thread_may_wait(how: str, tmp_path: Path) -> None:
    with running(tmp_path, WAITING.format(how=how)) as process:
        done = attach(process, "--for", "0")
        assert done.returncode == 0, done.stderr
        assert re.search(r"20 +7\.812 KiB +Tensor +\(10, 10\) float32 +kept\[\.\.\.\]", done.stdout), (
            done.stdout
        )
        assert process.poll() is None


def test_a_main_thread_in_c_is_no_answer_and_no_harm(tmp_path: Path) -> None:
    # A loop in C that checks for no signals, and ends some time after the command has given up.
    program = WAITING.format(how="sum(range(5 * 10**8)); print('went on', len(kept), flush=True)")
    with running(tmp_path, program) as process:
        done = attach(process, "--for", "0", "--wait", "0.5s")
        if process.poll() is not None:
            pytest.skip("this machine was too fast for the loop")
        assert done.returncode == 7
        assert f"the main thread of process {process.pid} ran no Python code for 0.5 s" in done.stderr
        assert result_of(process) == "went on 20\n"


def test_there_is_a_word_for_each_process_that_can_not_be_attached_to(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = attach(gone.pid)
    assert done.returncode == 3
    assert f"there is no process {gone.pid}" in done.stderr
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        done = attach(sleeping.pid)
        sleeping.kill()
    assert done.returncode == 5
    assert f"process {sleeping.pid} is not a Python process" in done.stderr
    with running(
        tmp_path, "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)\n"
    ) as process:
        done = attach(process)
        assert done.returncode == 5
        assert "the process has imported none of torch, jax and tensor" in done.stderr
        process.send_signal(signal.SIGSTOP)
        until = time.monotonic() + LIMIT
        while (done := attach(process)).returncode != 7:
            assert time.monotonic() < until, done
        assert (
            f"process {process.pid} is stopped: let it go on with `kill -CONT {process.pid}`" in done.stderr
        )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_of_another_user_is_not_permitted(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a root user, to become another one")
    # Both users can read a copy of the command's part that refuses; the packages may be in a private folder.
    text = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import scopes.command.attach as a, argparse\n"
        "os.setuid(65534)\n"
        "options = argparse.Namespace(pid=int(sys.argv[2]), method=None)\n"
        "sys.exit(a.attach(options, 'disposescope'))\n"
    )
    with running(tmp_path, OWN, 10**6) as process:
        done = subprocess.run(
            [sys.executable, "-c", text, str(ROOT), str(process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 4
        assert (
            f"process {process.pid} belongs to another user (root): attach as that user, or as root"
            in done.stderr
        )


@pytest.mark.skipif(not shutil.which("gdb"), reason="needs a debugger, and gdb is not installed")
def test_a_process_under_a_debugger_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, OWN, 10**6) as process:
        debugger = subprocess.Popen(
            ["gdb", "-nx", "-batch", "-p", str(process.pid), "-ex", "shell sleep 600"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status = Path("/proc", str(process.pid), "status")
            until = time.monotonic() + LIMIT
            while "TracerPid:\t0" in status.read_text():
                assert time.monotonic() < until
                time.sleep(0.05)
            done = attach(process)
        finally:
            os.killpg(debugger.pid, signal.SIGKILL)
            debugger.wait()
    assert done.returncode == 8
    assert f"process {process.pid} is under a debugger, or another attach, already" in done.stderr


def test_without_a_debugger_the_command_says_what_to_install(tmp_path: Path) -> None:
    with running(tmp_path, OWN, 10**6) as process:
        command = [sys.executable, "-m", "scopes", "attach", str(process.pid), "--method", "lldb"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 9
    assert "there is no lldb here" in done.stderr


@pytest.mark.parametrize("options", [["0"], ["x"], ["1", "--for", "soon"], ["1", "--four", "1s"], []])
def test_wrong_options_are_named(options: list[str]) -> None:
    command = [sys.executable, "-m", "scopes", "attach", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(r"is not the number of a process|is not a time|there is no option|required", done.stderr)
