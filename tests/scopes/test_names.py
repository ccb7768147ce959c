"""Projects with modules of the same names as ours: pytest starts, and the command says what it found."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("scopes", "tensor", "nn", "disposescope")
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our packages, as site-packages has them: found after what is in the project."""
    folder = tmp_path_factory.mktemp("installed")
    sources = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py*")]
    for source in [*sources, ROOT / "scopes/core/main_interpreter.cpp"]:
        if source.suffix not in {".py", ".pyx", ".cpp"}:
            continue
        place = folder / source.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py":
            place.symlink_to(source)
        else:
            module = importlib.util.find_spec(".".join(source.relative_to(ROOT).with_suffix("").parts))
            assert module is not None
            compiled = Path(str(module.origin))
            (place.parent / compiled.name).symlink_to(compiled)
    return folder


def python(installed: Path, project: Path, *arguments: str, alone: bool = True) -> Done:
    """Run a module, with the project on Python's path if `alone`, and without an editable installation."""
    start = (
        "import runpy, sys; "
        "sys.meta_path[:] = [x for x in sys.meta_path if 'Redirecting' not in type(x).__name__]; "
        f"sys.path[:1] = {[str(project)] if alone else []!r}; "
        f"sys.path[:] = [x for x in sys.path if x != {str(ROOT)!r}] + [{str(installed)!r}]; "
        "sys.argv[:] = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", start, *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=500)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "test_it.py").write_text(
        "import pytest\ndef test_plain(): pass\n@pytest.mark.no_tensor_leaks\ndef test_marked(): pass\n",
        encoding="utf-8",
    )
    (folder / "program.py").write_text("print('ran')\n", encoding="utf-8")
    return folder


PYTEST = ("pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--strict-markers")
PLUGIN = ("-p", "no:disposescope", "-p", "disposescope.pytest_plugin")


def test_pytest_starts_in_a_project_with_its_own_scopes(installed: Path, project: Path) -> None:
    (project / "scopes.py").write_text("MINE = True\n", encoding="utf-8")
    (project / "test_own.py").write_text(
        "import scopes\ndef test_own(): assert scopes.MINE\n", encoding="utf-8"
    )
    done = python(installed, project, *PYTEST, *PLUGIN)
    assert re.search(r"2 passed.* 1 error", done.stdout), done.stdout + done.stderr
    assert f"{project / 'scopes.py'} has the name of the package `scopes` of disposescope" in done.stdout
    refused = python(installed, project, *PYTEST, *PLUGIN, "--tensor-leaks")
    assert refused.returncode == 4
    assert "has the name of the package `scopes`" in refused.stderr


@pytest.mark.parametrize("name", ["nn", "tensor"])
def test_pytest_plugin_works_in_a_project_with_its_own_nn_or_tensor(
    installed: Path, project: Path, name: str
) -> None:
    (project / name).mkdir()
    (project / name / "__init__.py").write_text("MINE = True\n", encoding="utf-8")
    (project / "test_own.py").write_text(
        f"import {name}\ndef test_own(): assert {name}.MINE\n", encoding="utf-8"
    )
    done = python(installed, project, *PYTEST, *PLUGIN)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert f"has the name of the package `{name}`" in done.stdout


def disposescope(installed: Path, project: Path, *arguments: str) -> Done:
    """Run the command as its script does: the folder of the project is not on the path."""
    return python(installed, project, "disposescope", *arguments, alone=False)


def test_the_command_runs_a_program(installed: Path, project: Path) -> None:
    done = disposescope(installed, project, "run", "program.py")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "program.py has ended." in done.stderr


def test_the_command_runs_a_module_of_the_folder_as_python_does(installed: Path, project: Path) -> None:
    done = disposescope(installed, project, "run", "-m", "program")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_the_command_says_that_a_program_has_its_own_scopes(installed: Path, project: Path) -> None:
    (project / "scopes.py").write_text("", encoding="utf-8")
    done = disposescope(installed, project, "run", "program.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{project / 'scopes.py'} has the name of the package `scopes`" in done.stderr


def test_the_command_runs_a_program_with_its_own_nn_and_says_so(installed: Path, project: Path) -> None:
    (project / "nn").mkdir()
    (project / "nn" / "__init__.py").write_text("MINE = True\n", encoding="utf-8")
    (project / "program.py").write_text("import nn\nprint(nn.MINE)\n", encoding="utf-8")
    done = disposescope(installed, project, "run", "program.py")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert f"`import nn` in the program finds its own {project / 'nn'}" in done.stderr


def test_the_module_started_from_a_project_with_its_own_scopes_says_so(
    installed: Path, project: Path
) -> None:
    (project / "scopes.py").write_text("", encoding="utf-8")
    done = python(installed, project, "disposescope", "run", "program.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "start this where it is not found" in done.stderr


@pytest.mark.parametrize(
    ("own", "imported"),
    [("scopes", "tensor"), ("scopes", "nn"), ("tensor", "nn"), ("nn", "tensor.torch")],
)
def test_an_import_names_the_file_that_hides_a_package(
    installed: Path, project: Path, own: str, imported: str
) -> None:
    (project / f"{own}.py").write_text("answer = 42\n", encoding="utf-8")
    (project / "program.py").write_text(f"import {imported}\n", encoding="utf-8")
    done = python(installed, project, "program")
    error = done.stderr.splitlines()[-1]
    assert error.startswith(
        f"ImportError: {project / own}.py has the name of the package `{own}` of disposescope"
    )
    assert error.endswith("rename it, or move it into a package")


@pytest.mark.parametrize(("own", "imported"), [("tensor", "nn"), ("nn", "tensor.torch")])
def test_the_command_names_the_file_that_hides_a_package(
    installed: Path, project: Path, own: str, imported: str
) -> None:
    (project / f"{own}.py").write_text("answer = 42\n", encoding="utf-8")
    (project / "program.py").write_text(f"import {imported}\n", encoding="utf-8")
    done = disposescope(installed, project, "run", "program.py")
    assert done.returncode == 1
    assert (
        f"ImportError: {project / own}.py has the name of the package `{own}` of disposescope" in done.stderr
    )


def test_the_version_is_printed(installed: Path, project: Path) -> None:
    done = disposescope(installed, project, "--version")
    assert done.stdout.startswith("disposescope ")
