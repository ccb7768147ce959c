"""Cells of a notebook in scopes, in a shell of IPython and in a notebook that runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import scopes
from scopes import DisposeStatistics, TensorDisposedError
from tensor import memory

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

Window = Callable[[], DisposeStatistics]


class Notebook:
    """Runs cells, and raises what they raise."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        self.shell: Any = InteractiveShell(config=config)
        self.names: dict[str, Any] = self.shell.user_ns

    def __call__(self, cell: str) -> None:
        self.shell.run_cell(cell, store_history=True).raise_error()


@pytest.fixture(autouse=True)
def _folder_of_ipython(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))  # the user's home may be read-only


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    # Doctests leave it behind, and IPython has no `_` of its own where it is.
    monkeypatch.delattr("builtins._", raising=False)
    notebook = Notebook()
    notebook("%load_ext disposescope")
    notebook("import tensor")
    yield notebook
    notebook.shell.reset(new_session=False)


def test_tensors_that_a_cell_did_not_name_are_disposed(run: Notebook, window: Window) -> None:
    run("%%scope\nx = tensor.ones((3,))\ny = (x * 2 + 1).sum()\nfor i in range(3):\n    step = y + i")
    assert window().live_count == 3
    assert run.names["x"].tolist() == [1.0, 1.0, 1.0]
    assert run.names["y"].item() == 9.0
    assert run.names["step"].item() == 11.0


def test_a_shown_tensor_in_out_is_disposed(run: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    before = memory.statistics().bytes_live
    run("%%scope\ntensor.full((1000,), 7.0)")
    assert "7., 7., 7." in capsys.readouterr().out
    (shown,) = run.names["Out"].values()
    assert shown is run.names["_"]
    with pytest.raises(TensorDisposedError, match=r"its dispose scope 'In\[3\]' ended"):
        shown + 1
    assert memory.statistics().bytes_live == before


def test_a_last_expression_that_is_named_lives(run: Notebook) -> None:
    run("%%scope\nx = tensor.ones((2,))\nx")
    assert run.names["_"] is run.names["x"]
    assert run.names["x"].tolist() == [1.0, 1.0]


def test_semicolon_hides_the_output_of_a_cell(run: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run("%%scope\ntensor.ones((2,));")
    assert capsys.readouterr().out == ""


def test_tensors_that_a_failed_cell_left_in_sys_last_value_are_disposed(
    run: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    before = memory.statistics().bytes_live
    with pytest.raises(ValueError, match="not finite"):
        run(
            "%%scope\n"
            "def step(x):\n"
            "    y = x * 2\n"
            "    raise ValueError('not finite')\n"
            "step(tensor.ones((1000,)))"
        )
    assert str(sys.last_value) == "not finite"
    told = capsys.readouterr().out
    assert "step(tensor.ones((1000,)))" in told
    assert "scopes/notebook.py" not in told
    gc.collect()
    assert memory.statistics().bytes_live == before


def test_tensors_that_a_failed_cell_named_stay_alive(run: Notebook) -> None:
    with pytest.raises(ZeroDivisionError):
        run("%%scope\nx = tensor.ones((2,))\n1 / 0")
    assert run.names["x"].tolist() == [1.0, 1.0]


def test_containers_modules_and_optimizers_that_are_named_live_with_all_they_hold(run: Notebook) -> None:
    run("import nn\nlosses = []")
    run(
        "%%scope\n"
        "model = nn.Linear(2, 1)\n"
        "optimizer = nn.optim.Adam(model.parameters())\n"
        "loss = model(tensor.ones((4, 2))).sum()\n"
        "loss.backward()\n"
        "optimizer.step()\n"
        "losses.append(loss.detach())\n"
        "table = {'x': (tensor.ones((2,)),)}"
    )
    run("%%scope\noptimizer.step()\nresult = model(tensor.ones((1, 2)))")
    assert len(run.names["losses"]) == 1
    assert run.names["losses"][0].isfinite().item()
    assert run.names["table"]["x"][0].tolist() == [1.0, 1.0]
    assert run.names["result"].isfinite().item()


def test_a_cell_may_give_its_scope_a_name(run: Notebook) -> None:
    run("%%scope training\ntensor.ones((2,))")
    with pytest.raises(TensorDisposedError, match="its dispose scope 'training' ended"):
        run("_ + 1")


def test_a_cell_with_magics_and_tracking_names_its_lines(run: Notebook) -> None:
    with scopes.track():
        run("%%scope\n%time x = tensor.ones((2,))\ny = x + 1")
        texts = {row.site.text for row in scopes.leaks().rows}
    assert "y = x + 1" in texts


def test_an_empty_cell_and_one_that_does_not_parse_are_as_without_it(run: Notebook) -> None:
    run("%%scope\n# nothing")
    with pytest.raises(SyntaxError):
        run("%%scope\nx = = 1")


def test_unload_ext_removes_the_magics(run: Notebook) -> None:
    run("%unload_ext disposescope")
    assert run.shell.find_cell_magic("scope") is None
    assert run.shell.find_cell_magic("leaks") is None


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_a_cell_owns_tensors_of_a_library_that_is_imported(run: Notebook) -> None:
    run("import torch\nlosses = []")
    run("%%scope\nx = torch.ones(4)\nstate = {'half': x / 2}\nx.sum()\nx * 3")
    assert run.names["x"].sum().item() == 4.0
    assert run.names["state"]["half"].sum().item() == 2.0
    with pytest.raises(TensorDisposedError, match=r"its dispose scope 'In\[4\]' ended"):
        run("_ + 1")


@pytest.mark.skipif(find_spec("jax") is None, reason="needs jax")
def test_a_cell_owns_arrays_of_jax(run: Notebook) -> None:
    run("import jax.numpy as jnp")
    run("%%scope\nx = jnp.ones(3)\nx * 2")
    assert run.names["x"].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(TensorDisposedError):
        run("_ + 1")


def test_a_library_that_is_not_supported_is_left_alone_with_a_warning(
    run: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "scopes.jax", raising=False)
    monkeypatch.delitem(sys.modules, "scopes.adapters.jax", raising=False)
    expected = r"%%scope does not own tensors of jax: scopes\.jax requires JAX"
    with pytest.warns(UserWarning, match=expected) as caught:
        run("%%scope\nx = tensor.ones((2,))")
    assert "IPython" in caught[0].filename  # the caller of the magic
    assert run.names["x"].tolist() == [1.0, 1.0]


def execute(book: Any) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    # How long the kernel may take to start, and each cell; else a minute, which a busy machine may need.
    limits = {"startup_timeout": 600, "timeout": 600}
    nbclient.NotebookClient(book, kernel_name="python3", allow_errors=True, **limits).execute()


def test_a_report_in_a_notebook_names_cells_by_number_and_tensors_in_out() -> None:
    nbformat = pytest.importorskip("nbformat")
    cells = [
        "import scopes, tensor\nscopes.track().__enter__()\nhistory = []",
        "for step in range(200):\n    history.append(tensor.ones((1000,)) * step)",
        "tensor.zeros((5000,))",
        "def fail():\n    inner = tensor.ones((50_000,))\n    raise ValueError\nfail()",
        "scopes.leaks()",
        "%load_ext disposescope",
        "%%leaks\nlosses = [tensor.ones((1000,)) * step for step in range(200)]",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    execute(book)
    *_, listed, _, magic = book.cells
    shown = listed.outputs[0]["data"]["text/html"]
    assert shown.index("In[2]:2 in &lt;module&gt;") < shown.index("In[3]:1 in &lt;module&gt;")
    assert "held by history[...], a global" in shown
    assert "held by Out[3], a global" in shown
    assert "In[4]:2 in fail" in shown
    assert (
        "held by sys.last_value.__traceback__ (local &#x27;inner&#x27; of fail() in the traceback)" in shown
    )
    of_cell = magic.outputs[0]["data"]["text/html"]
    assert "<h4>In[7] has ended.</h4>" in of_cell
    assert "<p>1 line keeps more and more: In[7]:2 in" in of_cell


def test_a_notebook_runs_with_it() -> None:
    nbformat = pytest.importorskip("nbformat")
    cells = [
        "%load_ext disposescope\nimport tensor",
        "from tensor import memory\nbefore = memory.statistics().bytes_live",
        "%%scope\nx = tensor.ones((1000,))\nkept = x.sum()\nx * 2",
        "memory.statistics().bytes_live - before",
        "%%scope\nx = tensor.ones((10,))\n[1, 2][5]",
        "(x.tolist()[0], kept.item(), Out[3].is_invalid)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    execute(book)
    outputs = [[dict(output) for output in cell.outputs] for cell in book.cells]
    assert "tensor([2., 2." in outputs[2][0]["data"]["text/plain"]
    assert outputs[3][0]["data"]["text/plain"] == "4004"
    assert outputs[4][0]["ename"] == "IndexError"
    assert outputs[5][0]["data"]["text/plain"] == "(1.0, 1000.0, True)"
