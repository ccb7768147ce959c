"""What the library promises as a whole, run at the size at which it is promised."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import subprocess
import sys
import threading
import tracemalloc
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import nn
import tensor
from scopes import current_dispose_scope, disposing, new_dispose_scope

ROOT = Path(__file__).parents[1]


def traced_bytes() -> int:
    """Memory that Python and NumPy hold, in bytes."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def forward(x: tensor.Tensor, rng: random.Random, depth: int = 4) -> tensor.Tensor:
    with new_dispose_scope(f"depth {depth}") as scope:
        y = (x * 2 + 1).exp()
        if rng.random() < 0.3:
            y @ tensor.ones((rng.randint(2, 7), 3))  # shapes that don't fit: raises inside the library
        if depth:
            y = forward(y * 0.01, rng, depth - 1)
        if rng.random() < 0.3:
            raise RuntimeError("at a random place")
        return scope.move_to_outer(y)


def test_a_hundred_stored_exceptions_hold_no_tensor_and_no_memory(window):
    tracemalloc.start()
    try:
        rng = random.Random(0)
        kept: list[Exception] = []
        before = traced_bytes()
        live = window().live_count
        while len(kept) < 100:
            with new_dispose_scope("step"):
                x = tensor.ones((100, 100), requires_grad=True)
                try:
                    forward(x, rng)
                except (RuntimeError, ValueError) as error:
                    kept.append(error)
            del x
        assert window().live_count == live
        tensor.memory.trim()
        # One 100 x 100 float32 tensor has 40,000 bytes; a traceback itself holds less than 5,000.
        assert traced_bytes() - before < 100 * 5_000
        assert all(error.__traceback__ is not None for error in kept)
    finally:
        tracemalloc.stop()


def test_many_operations_in_one_scope_run_in_constant_memory(window):
    with new_dispose_scope() as scope:
        x = tensor.ones((64,))
        for _ in range(1_000):
            x = x * 0.5 + 0.5
        tracemalloc.start()
        try:
            before = traced_bytes()
            for _ in range(10_000):
                x = x * 0.5 + 0.5
            # A scope keeps up to 256 entries of tensors that went.
            assert traced_bytes() - before < 32_768
        finally:
            tracemalloc.stop()
        assert len(scope) == 1
        assert window().live_count == 1
    assert window().created_in_scope_count == 1 + 2 * 11_000


def work(seed: int, rounds: int) -> int:
    """Make tensors in nested scopes; return how many were made. Raises if one is in a foreign scope."""
    made = 0
    for i in range(rounds):
        with new_dispose_scope(f"outer {seed}") as outer:
            x = tensor.ones((3,))
            with new_dispose_scope(f"inner {seed}") as inner:
                y = x * seed
                z = y.clone()
                kept = inner.move_to_outer(z + i)
                if y.owning_dispose_scope is not inner or kept.owning_dispose_scope is not outer:
                    raise AssertionError("a tensor in a foreign scope")
            if not y.is_invalid or kept.tolist() != [float(seed + i)] * 3:
                raise AssertionError("a wrong life or a wrong value")
            made += 4
    return made


async def work_in_a_task(seed: int) -> int:
    with new_dispose_scope(f"task {seed}") as scope:
        x = tensor.ones((2,))
        await asyncio.sleep(0)
        with new_dispose_scope() as inner:
            y = x + seed
            await asyncio.sleep(0)
            if current_dispose_scope() is not inner or y.owning_dispose_scope is not inner:
                raise AssertionError("a tensor in a foreign scope")
        await asyncio.sleep(0)
        if not y.is_invalid or x.owning_dispose_scope is not scope:
            raise AssertionError("a wrong life")
    return 2


def test_a_thousand_tasks_and_sixteen_threads_at_once_count_exactly(window):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    made: list[int] = []
    failures: list[Exception] = []

    def run(job) -> None:
        try:
            made.append(job())
        except Exception as error:  # noqa: BLE001  # whatever it is, the test shall show it
            failures.append(error)

    async def tasks() -> int:
        return sum(await asyncio.gather(*(work_in_a_task(seed) for seed in range(1_000))))

    threads = [threading.Thread(target=run, args=(lambda s=seed: work(s, 60),)) for seed in range(16)]
    try:
        for thread in threads:
            thread.start()
        run(lambda: asyncio.run(tasks()))
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert sum(made) == 16 * 60 * 4 + 2_000
    figures = window()
    assert figures.created_in_scope_count == figures.disposed_in_scope_count == sum(made)
    assert figures.created_outside_scope_count == 0
    assert figures.live_count == 0


def test_a_training_loop_ends_each_step_with_the_same_live_count_and_memory(window):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = nn.optim.Adam(model.parameters(), lr=0.01)
    x, y = tensor.randn(32, 8), tensor.randint(0, 3, (32,))
    live: list[int] = []
    held: list[int] = []
    tracemalloc.start()
    try:
        for _ in range(20):
            with new_dispose_scope("step"):
                loss = nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            live.append(window().live_count)
            held.append(traced_bytes())
    finally:
        tracemalloc.stop()
    assert len(set(live[1:])) == 1
    # Python may take memory for itself in a step, but not in most steps.
    growth = sorted(after - before for before, after in pairwise(held[5:]))
    assert sum(growth[:-2]) < 1_024
    del loss, x, y
    model.dispose()
    optimizer.dispose()
    del model, optimizer
    assert window().live_count == 0


def test_a_disposing_generator_feeds_a_training_loop_without_growth(window):
    @disposing
    def batches(n: int):
        for i in range(n):
            noise = tensor.randn(4, 2)
            yield noise * 0 + i

    total = 0.0
    with new_dispose_scope() as scope:
        for batch in batches(10):
            assert batch in scope
            total += batch.sum().item()
            batch.dispose()
        assert len(scope) == 0
    assert total == sum(range(10)) * 8
    assert window().live_count == 0


def test_the_interpreter_ends_silently_with_tensors_alive_everywhere():
    program = """
import threading, tensor, nn
from scopes import new_dispose_scope
scope = new_dispose_scope()
kept = tensor.ones((3,), requires_grad=True)
loss = (kept * 2).sum()
loss.backward()
class Loop: pass
loop = Loop(); loop.me = loop; loop.x = tensor.ones((2,)); loop.view = loop.x[0:1]
model = nn.Linear(2, 2)
local = threading.local(); local.x = tensor.ones((1,))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def promises() -> list[str]:
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## Promises")[2]
    reliability = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    table = reliability.partition("| promise | tests |")[2].partition("\n## ")[0]
    of_security = re.split(r"\n- ", security.partition("\n## ")[0])[1:]
    of_reliability = table.strip().splitlines()[1:]
    assert of_security
    assert of_reliability
    return of_security + of_reliability


def test_each_promise_names_files_whose_tests_run():
    named = {promise: re.findall(r"`(tests/[^`]+)`", promise) for promise in promises()}
    assert [promise for promise, files in named.items() if not files] == []
    files = sorted({file for files in named.values() for file in files})
    options = ["--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    # Files that need a library which is not installed run elsewhere.
    missing = {file for file in files if not all(map(find_spec, libraries_of(ROOT / file)))}
    assert [file for file in files if file not in found | missing] == [], done.stdout[-2000:]


def libraries_of(path: Path) -> list[str]:
    return re.findall(r'^.*importorskip\("(\w+)"', path.read_text(encoding="utf-8"), re.MULTILINE)


def test_each_action_of_the_release_is_pinned_by_its_hash():
    used = re.findall(r"uses: (.+)", (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert any(line.startswith("actions/checkout@") for line in used)
    assert [line for line in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line)] == []
