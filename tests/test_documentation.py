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
    "compared.md": ("torch",),
    "fits.md": ("torch",),
    "frameworks.md": ("accelerate", "ignite", "lightning", "skorch", "stable_baselines3", "transformers"),
    "jax.md": ("jax",),
    "pytorch.md": ("torch",),
    "README.md": ("torch",),
}
GUIDES_TO_OTHERS = [path for path in FILES if path.name in NEEDS]
OWN_GUIDES = [path for path in FILES if path.name not in NEEDS or path.name == "README.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README_COMMAND = "disposescope run examples/leak_in_pytorch.py"
# Pages of the site that list guides.
SECTIONS = {"my_program_grows", "tensors_that_end"}


def run_blocks(path: Path, without: str | None = None) -> None:
    """Run the Python blocks of a page, except those that import the library `without`."""
    text = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        if without is not None and f"import {without}\n" in block[1]:
            continue
        # Blank lines in front, so that a traceback names the line of the file.
        source = "\n" * text[: block.start(1)].count("\n") + block[1]
        exec(compile(source, path, "exec"), namespace)
    assert current_dispose_scope() is None, f"the blocks of {path.name} leave a scope open"


@pytest.mark.parametrize("path", OWN_GUIDES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_blocks_of_the_documentation_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The README has a block for PyTorch, which need not be installed, and blocks without it.
    contextvars.Context().run(run_blocks, path, "torch" if path.name in NEEDS else None)


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


def test_the_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)]*)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    files = [link.partition("#")[0] for link in links if not link.startswith(("https://", "#"))]
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []
    headings = re.findall(r"^## (.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    places = {heading.lower().replace(" ", "-") for heading in headings}
    assert {link[1:] for link in links if link.startswith("#")} <= places


def test_the_readme_names_each_guide_and_each_example() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    of_the_site = {"changelog", "contributing", "history", "index", "project", "security", *SECTIONS}
    guides = {path.stem for path in (ROOT / "docs").glob("*.md")} - of_the_site
    assert [guide for guide in sorted(guides) if f"](docs/{guide}.md)" not in text] == []
    examples = [path.name for path in (ROOT / "examples").glob("*.py")]
    assert [name for name in sorted(examples) if f"`{name}`" not in text] == []


def test_each_command_of_the_readme_is_run_by_a_test_or_is_a_target_of_make() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for block in SHELL.findall(text) for line in block.splitlines()]
    commands = {line.partition("#")[0].strip() for line in lines}
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    # `make dist` installs the package with pip.
    assert commands - {f"make {target}" for target in targets} == {README_COMMAND, "pip install -v ."}
    assert set(re.findall(r"`make ([\w-]+)`", text)) <= set(targets)


@pytest.mark.foreign
def test_the_report_in_the_readme_is_what_the_command_prints() -> None:
    pytest.importorskip("torch")
    (shown,) = TEXT.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    report = reported(README_COMMAND)
    assert report[: len(shown.splitlines())] == shown.splitlines()


@pytest.mark.foreign
def test_the_step_in_the_readme_prints_why_a_loss_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    contextvars.Context().run(run_blocks, ROOT / "README.md")
    assert "its dispose scope 'step' ended" in capsys.readouterr().out


def test_each_block_of_the_documentation_names_its_language() -> None:
    for path in [*FILES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        fences = re.findall(r"^ *```(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert all(fences[::2]), path
        assert not any(fences[1::2]), path


def test_no_page_installs_a_package_that_has_no_release_yet() -> None:
    for path in [*FILES, ROOT / "CONTRIBUTING.md"]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"pip install ['\"]?disposescope", text), path


NAMED = re.compile(
    r"`((?:scopes|tensor|nn|tests|benchmarks|examples|docs)/[\w/.-]+\.(?:py|pyx|pxd|h|cpp|md|toml))`"
)


def test_each_file_that_the_guides_for_developers_and_the_sources_name_exists() -> None:
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]
    sources = [path for name in ("scopes", "tensor", "nn") for path in (ROOT / name).rglob("*.py*")]
    texts = {path: path.read_text(encoding="utf-8") for path in [*pages, *sources] if path.suffix != ".pyc"}
    named = {(str(path), file) for path, text in texts.items() for file in NAMED.findall(text)}
    assert len(named) > 50
    assert [each for each in sorted(named) if not (ROOT / each[1]).exists()] == []


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


def reported(command: str) -> list[str]:
    """Return the lines that ``disposescope run`` writes to stderr."""
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.strip().splitlines()


def test_the_report_in_the_guide_to_leaks_is_what_the_command_prints() -> None:
    shown, *_ = TEXT.findall((ROOT / "docs" / "leaks.md").read_text(encoding="utf-8"))
    report = reported("disposescope run examples/find_a_leak.py --leaky")
    assert report[: len(shown.splitlines())] == shown.splitlines()
