"""What the import of an adapter says where its library is missing, too old, or not what it was."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from scopes.adapters.adapter import NotSupportedError, check_version, import_library, raise_unsupported

TITLES = {"torch": "PyTorch", "jax": "JAX", "cupy": "CuPy"}


def imported(library: str, before: str) -> str:
    """Return what the import of ``scopes.<library>`` writes to stderr, after `before` in the same process."""
    run = subprocess.run(
        [sys.executable, "-c", f"{before}\nimport scopes.{library}"],
        check=False,
        capture_output=True,
        text=True,
    )
    return run.stderr


@pytest.mark.parametrize("library", TITLES)
def test_a_missing_library_is_named_with_the_command_that_installs_it(library: str) -> None:
    said = imported(library, f"import sys; sys.modules[{library!r}] = None")
    assert (
        f"ModuleNotFoundError: scopes.{library} requires {TITLES[library]}, which is not installed: "
        f"run pip install '.[{library}]' in a clone of disposescope" in said
    )


@pytest.mark.parametrize("library", TITLES)
def test_a_users_file_with_the_name_of_a_library_is_named(library: str, tmp_path: Path) -> None:
    file = tmp_path / f"{library}.py"
    file.write_text("")
    said = imported(library, f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert f"NotSupportedError: scopes.{library} requires {TITLES[library]}, but " in said
    assert f"'import {library}' loads another module, {file}. Rename that" in said


def test_a_users_folder_with_the_name_of_a_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_library").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotSupportedError, match=r"requires A Library, but .*a_library\. Rename that"):
        import_library("a_library", "A Library", "library")
    del sys.modules["a_library"]


def test_a_library_that_lacks_one_of_its_own_needs_says_which() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tests\.scopes\.nothing'"):
        import_library("tests.scopes.nothing.at_all", "Nothing", "nothing")


@pytest.mark.parametrize("library", TITLES)
def test_importing_scopes_imports_none(library: str) -> None:
    code = f"import scopes, sys; raise SystemExit({library!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unsupported_version_is_an_import_error_that_says_why_and_what_to_install() -> None:
    with pytest.raises(
        ImportError,
        match=r"scopes\.torch does not support torch 9\.9: it flies\. "
        r"Install a tested version: run pip install '\.\[torch\]' in a clone of disposescope",
    ) as caught:
        raise_unsupported("torch", "9.9", "it flies")
    assert isinstance(caught.value, NotSupportedError)
    assert caught.value.name == "torch"


@pytest.mark.parametrize("version", ["2.6", "2.6.0+cpu", "2.10.0a0+git1234", "3.0"])
def test_a_version_that_is_new_enough_passes(version: str) -> None:
    check_version("torch", version, (2, 6))


@pytest.mark.parametrize("version", ["2.5.1", "1.13.1+cu117", "2.5.0.dev20240901"])
def test_an_older_version_is_refused(version: str) -> None:
    with pytest.raises(NotSupportedError, match=r"it requires 2\.6 or later"):
        check_version("torch", version, (2, 6))


SPOILED = {
    "an old torch": ("torch", "torch.__version__ = '2.5.1'", "torch 2.5.1: it requires 2.6 or later"),
    "torch without exchange": ("torch", "del torch._C._swap_tensor_impl", "no attribute '_swap_tensor_impl'"),
    "torch whose exchange does nothing": (
        "torch",
        "torch._C._swap_tensor_impl = lambda x, y: None",
        "its self-test failed: disposing a tensor does not free its memory",
    ),
    "an old cupy": ("cupy", "cupy.__version__ = '12.3.0'", "cupy 12.3.0: it requires 13.0 or later"),
    "cupy whose arrays can't be set up again": (
        "cupy",
        "cupy.ndarray = type('ndarray', (cupy.ndarray,), {'_init': property(lambda x: x.no_init)})",
        "no_init",
    ),
    "an old jax": ("jax", "jax.__version__ = '0.8.3'", "jax 0.8.3: it requires 0.9 or later"),
    "jax that shows no arrays": (
        "jax",
        "jax.live_arrays = lambda platform=None: []",
        "jax.live_arrays() does not return all live arrays",
    ),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.cupy if library == "cupy" else pytest.mark.foreign)
        for case, (library, *_) in SPOILED.items()
    ],
)
def test_changed_internals_of_a_library_are_refused_at_import(case: str) -> None:
    library, change, why = SPOILED[case]
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    said = imported(library, f"import {library}\n{change}")
    assert "NotSupportedError: scopes." in said
    assert why in said
