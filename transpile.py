"""Compile Cython modules to C++, many in one process. Loading Cython takes longer than most modules do.

    python transpile.py SOURCE... -- FLAG...

writes ``tensor/core/tensor.cxx`` below the working directory for ``tensor/core/tensor.pyx`` in this file's
folder. CMakeLists.txt calls it. A module is compiled again if a file that it depends on has changed. A result
that stays the same keeps its time, so that the C++ compiler does not run.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent
# Both say how a module is compiled.
HOW = [ROOT / "transpile.py", ROOT / "CMakeLists.txt"]


def main(*arguments: str) -> None:
    """Compile the modules that `arguments` name before ``--``, with the flags after it."""
    end = arguments.index("--")
    for source in arguments[:end]:
        result = Path(source).with_suffix(".cxx")
        if not is_current(result):
            compile_module(source, result, arguments[end + 1 :])


def is_current(result: Path) -> bool:
    """Return whether `result` exists, and no file has changed since its dependencies were written."""
    dependencies = dependencies_of(result)
    if not (result.exists() and dependencies.exists()):
        return False
    written = dependencies.stat().st_mtime_ns
    # As in a makefile: "result: file file", with a backslash before each line's end.
    names = dependencies.read_text(encoding="utf-8").replace("\\\n", " ").partition(": ")[2].split()
    files = [*HOW, *map(Path, names)]
    return all(file.exists() and file.stat().st_mtime_ns < written for file in files)


def compile_module(source: str, result: Path, flags: tuple[str, ...]) -> None:
    """Compile `source` to `result`, and write the dependencies beside it."""
    from Cython.Compiler.Main import setuptools_main

    new = result.with_suffix(".new.cxx")
    new.parent.mkdir(parents=True, exist_ok=True)
    name = source.removesuffix(".pyx").replace("/", ".")
    files = ["-I", str(ROOT), "-M", str(ROOT / source), "--output-file", str(new)]
    sys.argv = ["cython", *flags, "--cplus", "--module-name", name, *files]
    failed = setuptools_main()  # type: ignore[no-untyped-call]
    if failed:
        sys.exit(failed)
    if result.exists() and result.read_bytes() == new.read_bytes():
        new.unlink()
    else:
        new.replace(result)
    dependencies_of(new).replace(dependencies_of(result))


def dependencies_of(result: Path) -> Path:
    """Return the file that Cython writes beside `result`."""
    return result.with_name(f"{result.name}.dep")


if __name__ == "__main__":
    main(*sys.argv[1:])
