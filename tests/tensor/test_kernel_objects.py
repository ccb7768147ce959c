"""Compiled kernels: leaves are inlined whatever the compiler's budget; products are fused with sums."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.tensor.objects import (
    FAMILIES,
    OPTIMIZED,
    PLAIN,
    Function,
    compile_family,
    functions_of,
    instructions_of,
    is_gcc,
    link_program,
)

# A pack is one register of AVX-512, two of AVX2: each level has leaves of its own in vectors.h.
LEAVES = [(family, "avx512") for family in FAMILIES] + [("reductions", "avx2"), ("softmax", "avx2")]

# The modules whose kernels sum products, with their families of kernels that do.
FUSED = {
    "networks": ["attention", "direct_convolution"],
    "products": ["affine", "products"],
    "reductions": ["normalization", "reductions", "softmax"],
}
# With AVX-512, one loop of convolutions, of one channel, does store its sums.
PRODUCTS = [("attention", "avx2"), ("attention", "avx512"), ("products", "avx2"), ("products", "avx512")]
PRODUCTS += [("direct_convolution", "avx2")]
VECTORS_FUSED = {
    "x86_64": re.compile(r"vfn?m(add|sub)\d+p[sd] .*%[yz]mm"),
    "aarch64": re.compile(r"fml[as] v"),
}


def tools(machine: str) -> tuple[str, str]:
    """Return GCC for a processor and the objdump beside it, or skip the test."""
    is_native = platform.machine() == machine
    prefix = "" if is_native else f"{machine}-linux-gnu-"
    compiler = os.environ.get("CXX", "g++") if is_native else f"{prefix}g++"
    if shutil.which(compiler.split()[0]) is None or not is_gcc(compiler, machine):
        pytest.skip(f"{compiler} is no GCC for {machine}")
    if shutil.which(f"{prefix}objdump") is None:
        pytest.skip(f"no {prefix}objdump: install binutils")
    return compiler, f"{prefix}objdump"


def functions(machine: str, family: str, level: str, options: Sequence[str] = PLAIN) -> list[Function]:
    compiler, objdump = tools(machine)
    with TemporaryDirectory() as folder:
        return functions_of(objdump, compile_family(compiler, family, level, Path(folder), options))


@pytest.mark.parametrize(("family", "level"), LEAVES)
def test_a_function_without_a_loop_is_inlined(family, level):
    found = functions("x86_64", family, level)
    assert any(function.has_loop for function in found)
    assert [function.name for function in found if function.is_leaf] == []


@pytest.mark.parametrize(("family", "level"), PRODUCTS)
def test_loops_over_products_keep_their_sums_in_registers(family, level):
    fused, store = VECTORS_FUSED["x86_64"], re.compile(r"vmov\w+ %[yz]mm\d+,.*\(")
    loops = [
        (function.name, sum(map(bool, map(fused.match, loop))), sum(map(bool, map(store.match, loop))))
        for function in functions("x86_64", family, level, OPTIMIZED)
        for loop in function.inner_loops
        if not any(text.startswith("vmul") for text in loop)  # functions of elements, which write results
    ]
    products = [found for found in loops if found[1] >= 8]
    assert len(products) >= 4
    # Some stores are for registers that run out.
    assert [found for found in products if found[2] > found[1] // 4] == []


@pytest.mark.parametrize("family", [family for families in FUSED.values() for family in families])
def test_arm64_fuses_products_with_sums_and_inlines_leaves(family):
    found = functions("aarch64", family, "baseline")
    pattern = VECTORS_FUSED["aarch64"]
    assert sum(pattern.match(text) is not None for function in found for text in function.instructions) >= 10
    assert [function.name for function in found if function.is_leaf] == []


def test_kernels_on_arm64_agree_with_plain_loops(tmp_path):
    compiler, _ = tools("aarch64")
    emulator = [] if platform.machine() == "aarch64" else [shutil.which("qemu-aarch64-static") or ""]
    if emulator == [""]:
        pytest.skip("no qemu-aarch64-static: install qemu-user-static")
    source = Path(__file__).with_name("kernels_driver.cpp")
    families = ("affine", "exponentials", "normalization", "products", "softmax")
    program = link_program(compiler, source, families, tmp_path)
    done = subprocess.run([*emulator, str(program)], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "0 wrong\n"


@pytest.mark.parametrize("module", FUSED)
def test_the_installed_module_fuses_products_with_sums_at_each_level(module):
    spec = importlib.util.find_spec(f"tensor.kernels.{module}")
    assert spec is not None
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in VECTORS_FUSED or shutil.which("objdump") is None:
        pytest.skip("reads modules of Linux for x86-64 or ARM64, with objdump")
    texts = instructions_of("objdump", Path(str(spec.origin)))
    fused = [text for text in texts if VECTORS_FUSED[machine].match(text)]
    for register in ("%ymm", "%zmm") if machine == "x86_64" else ("v",):
        assert sum(register in text for text in fused) >= 10 * len(FUSED[module])
