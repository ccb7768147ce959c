"""What owns the memory, and errors for a lack of memory that name it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nn
import scopes
import tensor
from scopes import OwnerReport, OwnerRow
from scopes.reports.owners import HEADING
from scopes.tracking.shortage import is_out_of_memory
from tensor import memory

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_else_is_seen() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64, bias=False)
        self.register_buffer("mean", tensor.ones((1000,)))

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return self.linear(x).tanh()


def rows_of(report: OwnerReport, kind: str) -> list[OwnerRow]:
    return [row for row in report.rows if row.kind == kind]


def sizes(report: OwnerReport, kind: str) -> list[tuple[str, int]]:
    return [(row.owner, row.nbytes) for row in rows_of(report, kind)]


def test_parameters_gradients_and_the_state_of_optimizers_have_their_owners() -> None:
    with scopes.track():
        model = nn.Sequential(Block(), Block())
        optimizer = nn.optim.Adam(model.parameters())
        model(tensor.ones((8, 64))).sum().backward()
        optimizer.step()
        report = scopes.owners()
    assert sizes(report, "parameters") == [("Sequential", 2 * 64 * 64 * 4)]
    assert sizes(report, "gradients") == [("Sequential", 2 * 64 * 64 * 4)]
    assert sizes(report, "buffers") == [("Sequential", 2 * 1000 * 4)]
    ((owner, nbytes),) = sizes(report, "optimizer")
    assert owner == "Adam"
    assert nbytes >= 2 * 2 * 64 * 64 * 4


def test_values_that_a_graph_saved_have_the_line_and_the_module_that_made_them() -> None:
    with scopes.track():
        model = nn.Sequential(Block(), Block())
        out = model(tensor.ones((512, 64)))
        report = scopes.owners()
    assert out.shape == (512, 64)
    (block,) = [row for row in rows_of(report, "activations") if row.owner == "Block"]
    assert "self.linear(x).tanh()" in block.site.text
    assert block.nbytes >= 2 * 512 * 64 * 4
    (data,) = [row for row in rows_of(report, "activations") if not row.owner]
    assert "model(tensor.ones((512, 64)))" in data.site.text


def test_data_sets_own_their_tensors() -> None:
    with scopes.track():
        data = nn.data.TensorDataset(tensor.ones((100, 64)))
        report = scopes.owners()
    assert len(data) == 100
    assert sizes(report, "data") == [("TensorDataset", 100 * 64 * 4)]


def test_other_tensors_have_their_line_and_holder() -> None:
    with scopes.track():
        cache = {"a": tensor.ones((50_000,))}
        report = scopes.owners()
    assert len(cache) == 1
    (row,) = rows_of(report, "tensors")
    assert "cache = " in row.site.text
    assert "cache" in row.holder
    assert row.nbytes == 200_000


def test_parameters_from_before_tracking_are_found_and_shared_memory_counts_once() -> None:
    model = Block()
    view = model.linear.weight.detach()
    with scopes.track():
        also = model.linear.weight.detach()
        report = scopes.owners()
    assert view.shape == also.shape
    assert sizes(report, "parameters") == [("Block", 64 * 64 * 4)]
    assert rows_of(report, "tensors") == []


def test_all_memory_has_an_owner_and_what_is_from_before_tracking_is_unknown() -> None:
    before = [tensor.ones((20_000,)), tensor.ones((30_000,)).view(3, -1)]
    live = memory.statistics().bytes_live
    with scopes.track():
        model = nn.Sequential(Block(), Block())
        optimizer = nn.optim.Adam(model.parameters())
        for _ in range(2):
            model(tensor.ones((8, 64))).sum().backward()
            optimizer.step()
        kept = [tensor.ones((5_000,)), tensor.ones((6_000,))]
        out = model(kept[0][:640].view(10, 64))
        report = scopes.owners()
        now = memory.statistics()
    assert out.shape == (10, 64)
    (unknown,) = rows_of(report, "unknown")
    assert unknown.nbytes == live >= sum(x.nbytes for x in before)
    assert unknown.count == 0
    assert sum(row.nbytes for row in report.rows if row.kind != "cache") == now.bytes_live
    assert sum(row.nbytes for row in report.rows if row.kind == "cache") == now.bytes_cached


def test_free_blocks_of_the_pool_are_a_cache() -> None:
    memory.trim()
    tensor.ones((100_000,)).dispose()
    with scopes.track():
        (row,) = rows_of(scopes.owners(), "cache")
    assert row.nbytes == memory.statistics().bytes_cached >= 400_000
    memory.trim()


def test_all_shares_are_one_and_the_report_is_plain_data() -> None:
    with scopes.track():
        kept = [tensor.ones((1000,)), tensor.ones((5000,))]
        report = scopes.owners()
    assert len(kept) == 2
    assert sum(row.share for row in report.rows) == pytest.approx(1)
    assert report.to_dict()["bytes"] == report.nbytes == sum(report.by_kind().values())
    assert "tensors" in str(report)
    assert "tensors" in report.to_html()


def test_without_tracking_the_owners_are_unknown() -> None:
    with pytest.raises(RuntimeError, match="tracking is off"):
        scopes.owners()


def test_hidden_objects_are_said_to_be_hidden() -> None:
    model = Block()
    gc.freeze()
    with scopes.track():
        report = scopes.owners()
    assert model is not None
    assert sizes(report, "parameters") == []
    assert "gc.freeze() hides" in str(report)


def test_the_search_runs_no_code_of_the_user() -> None:
    def fail(*_: object) -> object:
        raise AssertionError("ran code of the user")

    class Hostile:
        __class__ = property(fail)  # type: ignore[assignment]
        __getattr__ = __len__ = __iter__ = __bool__ = __repr__ = fail  # type: ignore[assignment]

    class Data(nn.data.Dataset[object]):
        def __init__(self) -> None:
            self.hostile = [Hostile()]
            self.rows = tensor.ones((100,))

        __iter__ = __len__ = __getattr__ = __getitem__ = fail  # type: ignore[assignment]

    data = Data()
    with scopes.track():
        report = scopes.owners()
    assert type(data) is Data
    assert sizes(report, "data") == [("Data", 400)]


# Errors


def error_with_a_cause() -> RuntimeError:
    error = RuntimeError("failed")
    error.__cause__ = MemoryError()
    return error


# Each test makes its own error, because an error holds the locals of the functions that it has left.
CAUSES: dict[str, Callable[[], Exception] | None] = {
    "MemoryError": MemoryError,
    "the limit": None,
    "PyTorch's": lambda: RuntimeError(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"
    ),
    "a cause": error_with_a_cause,
}


@pytest.mark.parametrize("name", CAUSES)
def test_an_error_that_leaves_the_block_gets_the_owners_as_a_note(name: str) -> None:
    live = memory.statistics().bytes_live
    with pytest.raises((MemoryError, RuntimeError)) as caught, scopes.track():
        kept = tensor.ones((100_000,))
        make_error = CAUSES[name]
        if make_error is not None:
            raise make_error()
        with memory.limit(live + 500_000):
            tensor.ones((200_000,))
    (note,) = caught.value.__notes__
    assert kept.shape == (100_000,)
    assert note.startswith(HEADING)
    assert "kept = tensor.ones((100_000,))" in note
    assert HEADING in "".join(traceback.format_exception(caught.value))


def test_locals_of_functions_that_failed_are_held_by_the_error() -> None:
    def fail() -> None:
        large = tensor.ones((100_000,))
        raise MemoryError(large.shape)

    with pytest.raises(MemoryError) as caught, scopes.track():
        fail()
    assert "held by the error (local 'large' of fail() in the traceback)" in caught.value.__notes__[0]


def test_an_error_in_nested_blocks_gets_one_note() -> None:
    with pytest.raises(MemoryError) as caught, scopes.track(), scopes.track():
        raise MemoryError
    assert len(caught.value.__notes__) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads a file of Linux")
def test_address_space_for_a_report_is_reserved_once() -> None:
    def address_space() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    with scopes.track():
        before = address_space()
    for _ in range(50):
        with scopes.track():
            pass
    assert address_space() < before + 10 * 2**20


@pytest.mark.parametrize("error", [ValueError("can't allocate memory"), RuntimeError("other"), KeyError(3)])
def test_other_errors_get_no_note(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, scopes.track():
        raise error
    assert not hasattr(caught.value, "__notes__")


def test_errors_of_other_libraries_for_a_lack_of_memory_are_known() -> None:
    of_cupy = type("OutOfMemoryError", (Exception,), {"__module__": "cupy.cuda.memory"})
    of_others = type("OutOfMemoryError", (Exception,), {"__module__": "shop.orders"})
    assert is_out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 4 bytes."))
    assert is_out_of_memory(of_cupy())
    assert not is_out_of_memory(of_others())


def test_an_error_that_was_handled_before_is_no_cause() -> None:
    error = RuntimeError("later")
    error.__context__ = MemoryError()
    assert is_out_of_memory(error)
    error.__suppress_context__ = True
    assert not is_out_of_memory(error)


# Programs

OWN = """
import tensor, nn
from tensor import memory

def train():
    model = nn.Linear(256, 256)
    out = model(tensor.ones((4096, 256)))
    return out, tensor.ones((10_000_000,))

with memory.limit("32 MiB"):
    train()
"""
PLAIN = """
import tensor
kept = tensor.ones((100_000,))
bytearray(2**62)
"""
# Python's own small objects use up the address space.
EXHAUSTED = """
import resource, tensor
kept = tensor.ones((100_000,))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 30 * 2**20,) * 2)
def fill():
    global chain
    chain, size = None, 2**20
    while size > 1:
        try:
            chain = chain, bytes(size)
        except MemoryError:
            size //= 2
    while True:
        chain = chain, None
fill()
"""
needs_limits = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")


def run(source: str, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(source, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "scopes", "run", *options, str(program)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=500,
    )


@pytest.mark.parametrize(
    ("source", "error", "line"),
    [
        (OWN, "tensor.OutOfMemoryError: the limit of memory is 32 MiB", "model(tensor.ones((4096, 256)))"),
        (PLAIN, "MemoryError", "kept = tensor.ones((100_000,))"),
        pytest.param(EXHAUSTED, "MemoryError", "kept = tensor.ones((100_000,))", marks=needs_limits),
    ],
    ids=["limit", "plain", "exhausted"],
)
def test_the_command_prints_what_owned_the_memory(source: str, error: str, line: str, tmp_path: Path) -> None:
    ran = run(source, tmp_path, "--html", "page.html")
    assert ran.returncode == 1
    assert error in ran.stderr
    table = ran.stderr.partition("The program ran out of memory. What owned it:")[2].partition("has ended.")[
        0
    ]
    assert line in table
    assert ran.stderr.count("Traceback") <= 1  # none if there is no memory for one
    assert line.split("(")[0] in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_program_that_fails_otherwise_has_no_table(tmp_path: Path) -> None:
    ran = run("import tensor\nkept = tensor.ones((1000,))\nraise ValueError(3)\n", tmp_path)
    assert "ran out of memory" not in ran.stderr
