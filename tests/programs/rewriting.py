"""Copies of programs: as they are, or with ``import torch`` changed to ``import tensor.torch as torch``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tests.programs.table import EXAMPLES, MINGPT, PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

_IMPORT = re.compile(r"(\s*)(?:import torch((?:\.\w+)*)(?: as (\w+))?|from torch((?:\.\w+)*) import (.*))")


def with_our_imports(text: str) -> str:
    """Return a program with its imports of torch changed, and nothing else."""
    return "\n".join([_changed(line) for line in text.split("\n")])


def _changed(line: str) -> str:
    found = _IMPORT.fullmatch(line.partition("#")[0].rstrip())
    if found is None:
        return line
    indent, module, alias, source, names = found.groups()
    if names is not None:
        return f"{indent}from tensor.torch{source} import {names}"
    if alias or not module:
        return f"{indent}import tensor.torch{module} as {alias or 'torch'}"
    # `import torch.nn` binds the name `torch`.
    return f"{indent}import tensor.torch{module}; import tensor.torch as torch"


def copy_programs(to: Path, examples: Path, mingpt: Path, stand_ins: Path, *, is_ours: bool) -> None:
    """Put the programs, with their data replaced, and what stands in for other libraries into `to`."""
    for source, name in ((examples, EXAMPLES), (mingpt, MINGPT), (stand_ins, "stand_ins")):
        for path in source.rglob("*.py"):
            place = to / name / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    for program in PROGRAMS.values():
        folder = to / program.source / program.folder
        for name, old, new in program.replaced:
            text = (folder / name).read_text(encoding="utf-8") if old else ""
            if old not in text:
                # Done for another run of the same program, unless the program has changed.
                if new not in text:
                    raise SystemExit(f"{folder / name}: {old!r} is not there: this is another version of it")
                continue
            if new not in text or not old:
                (folder / name).write_text(text.replace(old, new) if old else new, encoding="utf-8")
    if is_ours:
        for path in to.rglob("*.py"):
            path.write_text(with_our_imports(path.read_text(encoding="utf-8")), encoding="utf-8")
    _write_data(to)


def _write_data(to: Path) -> None:
    (to / EXAMPLES / "vae" / "results").mkdir(exist_ok=True)
    (to / MINGPT / "input.txt").write_text(
        "O hello world, this is a text of characters, God! " * 60, encoding="utf-8"
    )
    words = to / EXAMPLES / "word_language_model" / "data" / "wikitext-2"
    words.mkdir(parents=True, exist_ok=True)
    drawn = np.random.RandomState(3)
    for name, count in (("train", 100), ("valid", 30), ("test", 30)):
        lines = [
            " ".join([f"w{drawn.randint(40)}" for _ in range(drawn.randint(3, 12))]) for _ in range(count)
        ]
        (words / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
