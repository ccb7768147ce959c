"""What pip calls to build: scikit-build-core, with Zig's C++ compiler where the machine has none.

pip installs the wheel `ziglang` for the build alone. The Makefile does the same without this module, because
it keeps its build tree.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403

_COMPILERS = ("c++", "g++", "clang++")
# Those of the Makefile. Zig makes its C++ library once for each set of them, in some minutes.
_FLAGS = "-fPIC -mcpu=baseline -O2 -s"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what pip installs to build a wheel."""
    return _build.get_requires_for_build_wheel(config_settings) + _zig()


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return what pip installs for an editable installation."""
    return _build.get_requires_for_build_editable(config_settings) + _zig()


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel, and return the name of its file."""
    with _compiler():
        return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel of an editable installation, and return the name of its file."""
    with _compiler():
        return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def _zig() -> list[str]:
    return [] if _has_compiler() else ["ziglang"]


def _has_compiler() -> bool:
    # On Windows, CMake finds Visual Studio, which is not on the path.
    return os.name == "nt" or bool(os.environ.get("CXX")) or any(map(shutil.which, _COMPILERS))


@contextmanager
def _compiler() -> Iterator[None]:
    """Let CMake find Zig's compiler, if there is no other."""
    if _has_compiler():
        yield
        return
    if find_spec("ziglang") is None:
        sys.exit(
            f"*** No C++ compiler was found ({', '.join(_COMPILERS)}): install one, set CXX, or run "
            "`pip install ziglang`"
        )
    sys.stdout.write(
        "*** No C++ compiler was found: compiling with that of the wheel ziglang. It first makes its C++\n"
        "*** library, which takes one to four minutes.\n"
    )
    sys.stdout.flush()
    with TemporaryDirectory() as folder:
        compiler = Path(folder, "zig-c++")
        compiler.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ziglang c++ "$@"\n')
        compiler.chmod(0o755)
        os.environ["CXX"] = str(compiler)
        os.environ.setdefault("CXXFLAGS", _FLAGS)
        yield
