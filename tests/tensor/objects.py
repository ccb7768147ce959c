"""Kernels compiled for a level and read back with objdump: their functions and instructions."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAMILIES = sorted(path.stem for path in (ROOT / "tensor" / "kernels").glob("*.cpp"))

AVX2 = ("-mavx2", "-mfma", "-mbmi", "-mbmi2")
AVX512 = (*AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mavx512cd")
LEVELS = {"avx2": AVX2, "avx512": AVX512, "baseline": ()}

# The compiler inlines what it must, and nothing else: no budget has a say. Loops of few rounds vanish.
PLAIN = (
    "-O1",
    "-fno-inline",
    "-fno-inline-functions-called-once",
    "-fpeel-loops",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
)
# What the build of a release passes for kernels.
OPTIMIZED = (
    "-O3",
    "-fno-split-paths",
    "-fno-thread-jumps",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
)
COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-w", f"-I{ROOT}")

FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r" +([0-9a-f]+):\t([a-z]\w*(?:\.\w+)?)\s*(.*)")
TARGET = re.compile(r"([0-9a-f]+) <([^+>]+)")


@dataclass
class Function:
    """A function of an object.

    Attributes
    ----------
    addresses
        Of its instructions, in order.
    jumps
        From the addresses of jumps within the function to their targets.
    ends
        The addresses of instructions that the next one does not follow.
    has_calls
        Whether it calls a function, also itself, or ends with a jump to one.
    instructions
        Each as text, the operands behind the name.
    """

    name: str
    addresses: list[int] = field(default_factory=list)
    jumps: dict[int, int] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)
    has_calls: bool = False
    instructions: list[str] = field(default_factory=list)

    @property
    def has_loop(self) -> bool:
        """Whether it jumps back to where it comes again to the same jump: some backward jumps only skip."""
        return any(
            self._reaches(target, address) for address, target in self.jumps.items() if target <= address
        )

    @property
    def is_leaf(self) -> bool:
        return not self.has_calls and not self.has_loop

    @property
    def inner_loops(self) -> list[list[str]]:
        """The instructions of each loop that contains no other loop."""
        index = {address: i for i, address in enumerate(self.addresses)}
        ranges = [
            (index[to], index[start]) for start, to in self.jumps.items() if to in index and to <= start
        ]
        return [
            self.instructions[first : last + 1]
            for first, last in ranges
            if not any((first, last) != (a, b) and first <= a and b <= last for a, b in ranges)
        ]

    def add(self, address: int, name: str, operands: str) -> None:
        self.addresses.append(address)
        self.instructions.append(f"{name} {operands}")
        target = TARGET.search(operands)
        if name in ("ret", "b", "br") or name.startswith("jmp"):
            self.ends.add(address)
        if name in ("call", "bl"):
            self.has_calls = True
        elif target is not None and (name == "b" or name.startswith(("j", "b.", "cb", "tb"))):
            if target[2] == self.name:
                self.jumps[address] = int(target[1], 16)
            else:
                self.has_calls = True

    def _reaches(self, start: int, end: int) -> bool:
        following = dict(itertools.pairwise(self.addresses))
        seen, left = set(), [start]
        while left:
            address = left.pop()
            if address == end:
                return True
            if address in seen:
                continue
            seen.add(address)
            if address in self.jumps:
                left.append(self.jumps[address])
            if address not in self.ends and address in following:
                left.append(following[address])
        return False


def is_gcc(compiler: str, machine: str) -> bool:
    """Whether a compiler is GCC for that machine."""
    command = [*shlex.split(compiler), "-dM", "-E", "-x", "c++", "-"]
    macros = subprocess.run(command, input="", capture_output=True, text=True, check=False).stdout
    return f"__{machine}__ 1" in macros and "__GNUC__" in macros and "__clang__" not in macros


def compile_family(
    compiler: str, family: str, level: str, folder: Path, options: Sequence[str] = PLAIN
) -> Path:
    """Compile a family of kernels for a level. By default, all inlining but the forced one is off."""
    found = folder / f"{family}.{level}.o"
    source = ROOT / "tensor" / "kernels" / f"{family}.cpp"
    macros = (f"-DDISPOSESCOPE_SIMD={level}", "-DDISPOSESCOPE_HAS_AVX2", "-DDISPOSESCOPE_HAS_AVX512")
    flags = (*COMMON, *options, *macros, *LEVELS[level])
    command = [*shlex.split(compiler), *flags, "-c", str(source), "-o", str(found)]
    subprocess.run(command, check=True, timeout=300)
    return found


def link_program(compiler: str, source: Path, families: Sequence[str], folder: Path) -> Path:
    """Compile a program with the baseline of some families, as the build does, without shared libraries."""
    program = folder / source.stem
    kernels = [str(ROOT / "tensor" / "kernels" / f"{family}.cpp") for family in families]
    flags = (*COMMON, "-O3", "-static", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
    command = [*shlex.split(compiler), *flags, "-DDISPOSESCOPE_SIMD=baseline", str(source), *kernels]
    subprocess.run([*command, "-o", str(program)], check=True, timeout=600)
    return program


def functions_of(objdump: str, compiled: Path) -> list[Function]:
    """Return the functions of an object."""
    functions: list[Function] = []
    for line in _lines(objdump, compiled):
        if match := FUNCTION.match(line):
            functions.append(Function(match[1]))
        elif match := INSTRUCTION.match(line):
            functions[-1].add(int(match[1], 16), match[2], match[3])
    return functions


def instructions_of(objdump: str, compiled: Path) -> list[str]:
    """Return all instructions of an object or a module, without symbols too."""
    return [
        f"{match[2]} {match[3]}" for line in _lines(objdump, compiled) if (match := INSTRUCTION.match(line))
    ]


def _lines(objdump: str, compiled: Path) -> list[str]:
    command = [objdump, "-d", "--no-show-raw-insn", str(compiled)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120
    ).stdout.splitlines()
