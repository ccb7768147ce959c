"""Tracking follows PyTorch and JAX as soon as a program imports them, and gives their tensors no owner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import scopes
from scopes import new_dispose_scope

pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]

LEAK = """
import torch
kept = []
def step():
    kept.append(torch.ones(1000))
for _ in range(100):
    step()
"""


def run(folder: Path, source: str, *options: str, status: int = 0) -> str:
    (folder / "program.py").write_text(source)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *options, "program.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_tracking_follows_an_import_inside_the_block(tmp_path: Path) -> None:
    source = """
import scopes
with scopes.track():
    import torch
    kept = [torch.ones(1000) for _ in range(3)]
    row, = scopes.leaks().rows
assert row.count == 3
assert row.site.line == 5
assert type(torch.__spec__.loader).__module__ == torch.__loader__.__class__.__module__ != "scopes.tracking"
"""
    run(tmp_path, source)


def test_tracking_follows_an_import_by_the_adapter(tmp_path: Path) -> None:
    source = """
import scopes
with scopes.track():
    import scopes.torch, torch
    kept = torch.ones(1000)
    assert len(scopes.leaks().rows) == 1
"""
    run(tmp_path, "import warnings\nwarnings.simplefilter('error')\n" + source)


def test_tracking_follows_an_import_after_one_of_the_adapter_that_failed(tmp_path: Path) -> None:
    source = """
import sys
import scopes
with scopes.track():
    sys.modules["torch"] = None  # as if it were not installed
    try:
        import scopes.torch
    except ModuleNotFoundError:
        del sys.modules["torch"]
    import torch
    kept = [torch.ones(1000)]
    row, = scopes.leaks().rows
assert row.site.line == 11
"""
    run(tmp_path, source)


def test_tracking_gives_no_owner() -> None:
    import torch

    with scopes.track(), new_dispose_scope() as scope:
        x = torch.ones(3)
        y = torch.nn.Parameter(x * 2)
        assert x not in scope
        assert len(scope) == 0
        assert sum(row.count for row in scopes.leaks().rows) == 2
    assert (x + y).tolist() == [3, 3, 3]


def test_owning_inside_tracking_gives_an_owner() -> None:
    import torch

    import scopes.torch

    with scopes.track(), new_dispose_scope() as scope:
        with scopes.torch.owning():
            x = torch.ones(3)
        y = torch.ones(3)
        assert x in scope
        assert y not in scope
    assert y.tolist() == [1, 1, 1]


def test_the_command_follows_without_an_option(tmp_path: Path) -> None:
    report = run(tmp_path, LEAK, "-m", "scopes", "run", "--fail-on-leak", status=1)
    assert "program.py:5 in step" in report


def test_no_torch_turns_it_off(tmp_path: Path) -> None:
    report = run(tmp_path, LEAK, "-m", "scopes", "run", "--fail-on-leak", "--no-torch")
    assert "nothing is alive" in report


def test_the_command_follows_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    source = LEAK.replace("torch.ones(1000)", "jnp.ones(1000)").replace(
        "import torch", "import jax.numpy as jnp"
    )
    report = run(tmp_path, source, "-m", "scopes", "run")
    assert "program.py:5 in step" in report


def test_markers_follow_without_an_option(tmp_path: Path) -> None:
    source = """
import pytest, torch
kept = []
@pytest.mark.no_tensor_leaks
def test_it():
    kept.append(torch.ones(1000))
"""
    options = ("-m", "pytest", "-p", "disposescope.pytest_plugin", "-p", "no:cacheprovider")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        assert "test_it left 1 disposable" in run(tmp_path, source, *options, status=1)
        run(tmp_path, source, *options, "--no-torch")
    finally:
        del os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]


def test_a_module_with_the_name_of_a_library_is_imported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("x = 3\n")
    source = """
import scopes, warnings
with scopes.track(), warnings.catch_warnings(record=True) as found:
    import torch
assert torch.x == 3
assert "tensors of torch are not tracked" in str(found[0].message)
"""
    run(tmp_path, source)


def test_a_cell_with_leaks_follows() -> None:
    pytest.importorskip("IPython")
    shell = ROOT / "tests" / "scopes" / "notebook_shell.py"
    cells = ["%load_ext disposescope", f"%%leaks\n{LEAK}"]
    done = subprocess.run(
        [sys.executable, str(shell)],
        input=json.dumps(cells),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "torch.Tensor" in done.stdout, done.stderr
    assert "in step" in done.stdout
