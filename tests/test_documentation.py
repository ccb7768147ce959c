"""Runs each Python block of the README and the guides: a file's blocks in order, in one namespace."""

from __future__ import annotations

import contextvars
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nn
from scopes import current_dispose_scope

ROOT = Path(__file__).parents[1]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
# Guides to libraries that may not be installed.
NEEDS = {
    "frameworks.md": ("accelerate", "ignite", "lightning", "skorch", "stable_baselines3", "transformers"),
    "jax.md": ("jax",),
    "pytorch.md": ("torch",),
}
GUIDES_TO_OTHERS = [path for path in FILES if path.name in NEEDS]
OWN_GUIDES = [path for path in FILES if path.name not in NEEDS]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_blocks(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        # Blank lines in front, so that a traceback names the line of the file.
        source = "\n" * text[: block.start(1)].count("\n") + block[1]
        exec(compile(source, path, "exec"), namespace)
    assert current_dispose_scope() is None, f"the blocks of {path.name} leave a scope open"


@pytest.mark.parametrize("path", OWN_GUIDES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_blocks_of_the_documentation_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    contextvars.Context().run(run_blocks, path)


@pytest.mark.foreign
@pytest.mark.parametrize("path", GUIDES_TO_OTHERS, ids=lambda path: path.name)
def test_the_blocks_of_guides_to_other_libraries_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in NEEDS[path.name]:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    contextvars.Context().run(run_blocks, path)


def test_the_guide_to_training_names_all_that_there_is() -> None:
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "training.md").read_text(encoding="utf-8")))
    losses = {name for name in nn.__all__ if name.endswith("Loss")}
    helpers = set(nn.utils.__all__) - {"rnn", "parametrizations", "parametrize"}
    schedulers = set(nn.optim.lr_scheduler.__all__)
    optimizers = set(nn.optim.__all__) - {"lr_scheduler", "swa_utils"}
    averages = set(nn.optim.swa_utils.__all__)
    assert losses | helpers | schedulers | optimizers | averages <= named


def test_the_readme_has_no_links_that_a_package_index_could_not_follow() -> None:
    links = re.findall(
        r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert [link for pair in links for link in pair if link and not link.startswith("https://")] == []


def test_the_readme_names_each_guide() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    of_the_site = {"changelog", "contributing", "guides", "index", "project", "security"}
    guides = {path.stem for path in (ROOT / "docs").glob("*.md")} - of_the_site
    assert [guide for guide in sorted(guides) if f"`{guide}.md`" not in text] == []


def test_the_readme_has_blocks() -> None:
    assert BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_tests_in_the_guide_to_leaks_end_as_it_says(tmp_path: Path) -> None:
    block = re.search(
        r"^```py\n(.*?)^```$",
        (ROOT / "docs" / "leaks.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert block is not None
    (tmp_path / "test_guide.py").write_text(block[1], encoding="utf-8")
    run = subprocess.run(
        # By name, for the package need not be installed.
        [
            sys.executable,
            "-m",
            "pytest",
            "--strict-markers",
            "-p",
            "disposescope.pytest_plugin",
            "--color=no",
            "test_guide.py",
        ],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed, 1 error" in run.stdout
    assert "test_a_step_that_leaks left 1 disposable" in run.stdout
    assert "cache.append(tensor.ones((100,)))" in run.stdout


def test_the_report_in_the_guide_to_leaks_is_what_the_command_prints() -> None:
    (shown,) = re.findall(
        r"^```text\n(.*?)^```$", (ROOT / "docs" / "leaks.md").read_text(encoding="utf-8"), re.M | re.S
    )
    command = [sys.executable, "-m", "disposescope", "run", "examples/find_a_leak.py", "--leaky"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    report, _, _ = done.stderr.strip().partition("\n\nlive_count")
    assert report.splitlines() == shown.rstrip("\n").splitlines()
