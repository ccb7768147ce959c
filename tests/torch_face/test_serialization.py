"""``torch.save`` and ``torch.load``: files that PyTorch reads, whole objects, and what is not run."""

from __future__ import annotations

import io
import pickle
import random
import subprocess
import sys
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor
import tensor.torch as torch
from scopes import new_dispose_scope, statistics
from tensor import CheckpointError, TensorDisposedError, memory
from tensor.torch import nn


class Net(nn.Module):
    """A model of a user: tied weights, a buffer, a function, plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.body = nn.LSTM(4, 4, 2)
        self.head = nn.Linear(4, 5)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(1) * 2)
        self.activation = torch.nn.functional.relu
        self.names = {"a": [1, (2.5, None)]}

    def forward(self, x: Any) -> Any:
        return self.head(self.activation(self.body(self.embed(x))[0]) * self.scale)


class Touching:
    """What pickles of it run is seen: it makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __setstate__(self, state: Any) -> None:
        Path(state["path"]).touch()


class Raising:
    def __init__(self) -> None:
        self.values = torch.ones(100)

    def __setstate__(self, state: Any) -> None:
        raise KeyError("no such thing")


def saved(x: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(x, file)
    return file


ALLOWED = [Net, nn.Embedding, nn.LSTM, nn.Linear, torch.nn.functional.relu]


# --- Whole objects ------------------------------------------------------------------------------------------


def test_a_whole_module_is_loaded_with_its_weights_ties_and_attributes() -> None:
    model = Net()
    x = torch.tensor([[1], [3]])
    found = torch.load(saved(model), weights_only=False)
    assert type(found) is Net
    assert found.head.weight is found.embed.weight
    assert isinstance(found.head.weight, nn.Parameter)
    assert found.names == model.names
    assert repr(found) == repr(model)
    assert torch.equal(found(x), model(x))
    assert list(found.state_dict()) == list(model.state_dict())


def test_a_loaded_module_trains_on_with_the_optimizer_that_was_saved_with_it() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(model: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        return model.weight.detach().clone()

    step(model, optimizer)
    found = torch.load(saved({"model": model, "optimizer": optimizer}), weights_only=False)
    assert found["optimizer"].param_groups[0]["params"][0] is found["model"].weight
    for _ in range(2):
        assert torch.equal(step(found["model"], found["optimizer"]), step(model, optimizer))


def test_a_module_is_refused_unless_it_is_allowed_or_trusted() -> None:
    file = saved(Net())
    with pytest.raises(
        CheckpointError, match=r"code from the file's author.*model\.state_dict\(\).*weights_only=False"
    ):
        torch.load(file)
    with torch.serialization.safe_globals(ALLOWED):
        assert isinstance(torch.load(file), Net)
        assert Net in torch.serialization.get_safe_globals()
    with pytest.raises(CheckpointError, match=r"safe_globals\(\[Net\]\)"):
        torch.load(file)
    with (
        torch.serialization.safe_globals([Net]),
        pytest.raises(CheckpointError, match=r"call 'nn\.Embedding'"),
    ):
        torch.load(file)
    torch.serialization.add_safe_globals(ALLOWED)
    try:
        assert isinstance(torch.load(file), Net)
    finally:
        torch.serialization.clear_safe_globals()
    assert torch.serialization.get_safe_globals() == []
    with pytest.raises(TypeError, match="classes and functions, not str"):
        torch.serialization.add_safe_globals(["Net"])


def test_a_class_may_be_allowed_under_the_name_that_a_file_has_for_it() -> None:
    file = saved(Net.__mro__[1]())
    with torch.serialization.safe_globals([(nn.Module, "nn.Module")]):
        assert type(torch.load(file)) is nn.Module


def test_no_code_of_a_file_runs_unless_the_user_allows_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    file = saved({"x": torch.ones(2), "more": Touching(str(mark))})
    with pytest.raises(CheckpointError, match="Touching"):
        torch.load(file)
    with pytest.raises(CheckpointError, match="Touching"):
        tensor.load(file)
    assert not mark.exists()
    torch.load(file, weights_only=False)
    assert mark.exists()


def test_names_in_files_are_those_that_users_import() -> None:
    code = saved({"model": nn.Sequential(nn.Linear(1, 1)), "by": torch.optim.SGD([torch.ones(1)])}).getvalue()
    for name in (
        b"cnn\nSequential\n",
        b"cnn\nLinear\n",
        b"cnn.optim\nSGD\n",
        b"ctorch._utils\n_rebuild_parameter\n",
    ):
        assert name in code
    assert b"nn.layers" not in code


def test_a_class_without_a_place_in_a_module_is_an_error_that_says_so() -> None:
    class Inside(nn.Module):  # type: ignore[name-defined, misc]
        pass

    for given in (Inside(), {"f": lambda x: x}):
        with pytest.raises(pickle.PicklingError, match=r"top level of a module.*state_dict\(\)"):
            torch.save(given, io.BytesIO())
    with new_dispose_scope():
        x = torch.ones(2)
    with pytest.raises(TensorDisposedError):
        torch.save({"x": x}, io.BytesIO())


def test_a_class_that_is_gone_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(Net())
    monkeypatch.delattr(sys.modules[__name__], "Net")
    with pytest.raises(CheckpointError, match=r"test_serialization\.Net, which can't be imported"):
        torch.load(file, weights_only=False)


def test_a_module_of_another_program_is_loaded_there(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import tensor.torch as torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(2, 1)\n",
        encoding="utf-8",
    )
    save = "import model, tensor.torch as torch; torch.save(model.Net(), 'x.pt')"
    load = "import tensor.torch as torch; print(torch.load('x.pt', weights_only=False).layer.weight.shape)"
    for code in (save, load):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "(1, 2)"


# --- Scopes -------------------------------------------------------------------------------------------------


def test_loaded_tensors_belong_to_the_scope_and_those_in_modules_to_the_modules() -> None:
    file = saved({"x": torch.ones(3), "model": nn.Linear(2, 2)})
    with new_dispose_scope() as scope:
        found = torch.load(file, weights_only=False)
        assert scope.disposables_view == (found["x"],)
    assert found["x"].is_invalid
    assert not found["model"].weight.is_invalid
    found["model"].dispose()


@pytest.mark.parametrize("weights_only", [True, False])
def test_an_error_half_way_leaves_nothing(weights_only: bool) -> None:
    file = saved([torch.ones(100), nn.Linear(10, 10), Raising()])
    before, live = statistics.live_count, memory.statistics().bytes_live
    for _ in range(3):
        with (
            torch.serialization.safe_globals([nn.Linear, Raising]),
            pytest.raises(CheckpointError if weights_only else KeyError, match="no such thing"),
        ):
            torch.load(file, weights_only=weights_only)
    assert (statistics.live_count, memory.statistics().bytes_live) == (before, live)


def test_a_file_may_be_overwritten_while_its_tensors_are_in_use(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(torch.arange(100_000), path)
    found = torch.load(path)
    with path.open("wb") as file:
        torch.save(torch.ones(1), file)
    assert found[-1].item() == 99_999
    assert torch.load(path, mmap=True).tolist() == [1.0]
    with pytest.raises(pickle.PicklingError):
        torch.save(lambda: 0, path)
    assert torch.load(path).tolist() == [1.0]
    with pytest.raises(TypeError, match="a path or a file in binary mode"):
        torch.save(torch.ones(1), 3)  # type: ignore[arg-type]


# --- Data alone ---------------------------------------------------------------------------------------------


def test_memory_that_is_shared_is_written_once_and_shared_again() -> None:
    x = torch.zeros(1000, 10)
    file = saved({"x": x, "same": x, "alias": x.detach(), "turned": x.T, "row": x[3]})
    assert len(file.getvalue()) < 50_000
    found = torch.load(file)
    assert found["same"] is found["x"]
    found["x"][3] = 7.0
    assert found["alias"][3, 0].item() == found["turned"][0, 3].item() == found["row"][0].item() == 7.0


def test_clones_that_share_memory_until_a_write_are_their_own_in_a_file() -> None:
    x = torch.zeros(3)
    found = torch.load(saved([x, x.clone()]))
    found[0].fill_(1.0)
    assert found[1].tolist() == [0.0, 0.0, 0.0]


def test_arrays_of_numpy_and_numbers_are_loaded_unchanged() -> None:
    given = {
        "array": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "empty": np.ones((0, 2)),
        "flags": np.array([True, False]),
        "number": np.float64(2.5),
        "state": np.random.RandomState(1).get_state(),
    }
    found = torch.load(saved(given))
    for name in ("array", "empty", "flags"):
        assert found[name].dtype == given[name].dtype
        np.testing.assert_array_equal(found[name], given[name])
    assert found["number"] == 2.5
    np.testing.assert_array_equal(found["state"][1], given["state"][1])


def layouts(torch: Any) -> dict[str, Any]:
    """Tensors of all dtypes and layouts, and a checkpoint of a training."""
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.GRU(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(x)[0].sum().backward()
    optimizer.step()
    scheduler.step()
    names = (
        "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128 bool"
    )
    return {
        "dtypes": [torch.ones(3, dtype=getattr(torch, name)) for name in names.split()],
        "layouts": [
            x,
            x.T,
            x[1],
            x[:, 1],
            x[:, ::2],
            x.expand(2, 2, 3),
            torch.empty(0, 3),
            torch.tensor(2.0),
        ],
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng_state": torch.get_rng_state(),
        "epoch": 3,
        "history": [[0.5, 0.25], (1, {"best": None, "name": "é"}), OrderedDict(a=1)],
    }


def as_plain(x: Any) -> Any:
    if hasattr(x, "detach"):
        return type(x).__name__, str(x.dtype).removeprefix("torch."), x.requires_grad, x.detach().tolist()
    if isinstance(x, dict):
        return {key: as_plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(as_plain(value) for value in x)
    return x


def test_a_checkpoint_is_loaded_unchanged() -> None:
    given = layouts(torch)
    assert as_plain(torch.load(saved(given))) == as_plain(given)
    assert as_plain(torch.load(saved(given), weights_only=False)) == as_plain(given)


def test_checkpoints_go_both_ways_between_pytorch_and_here(tmp_path: Path) -> None:
    theirs = pytest.importorskip("torch")
    path = tmp_path / "x.pt"
    ours = layouts(torch)
    torch.save(ours, path)
    for options in ({}, {"mmap": True}, {"weights_only": False}):
        assert as_plain(theirs.load(path, **options)) == as_plain(ours)
    given = layouts(theirs)
    theirs.save(given, path)
    found = torch.load(path)
    # A file of PyTorch has the number of the version of each module beside the items.
    assert as_plain({**found, "model": dict(found["model"])}) == as_plain(
        {**given, "model": dict(given["model"])}
    )
    file = io.BytesIO()
    theirs.save(found["model"]["0.weight"].tolist(), file)
    assert torch.load(file) == given["model"]["0.weight"].tolist()


def test_memory_shared_in_our_files_is_shared_in_pytorch() -> None:
    theirs = pytest.importorskip("torch")
    x = torch.zeros(2, 3)
    file = saved({"x": x, "turned": x.T, "row": x[1]})
    file.seek(0)
    found = theirs.load(file)
    found["x"][1] = 5.0
    assert found["row"].tolist() == [5.0] * 3
    assert found["turned"].tolist() == [[0.0, 5.0]] * 3


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_whole_module_of_pytorch_is_an_error_that_says_what_to_save(weights_only: bool) -> None:
    theirs = pytest.importorskip("torch")
    file = io.BytesIO()
    theirs.save(theirs.nn.Linear(2, 2), file)
    with pytest.raises(CheckpointError, match=r"a function or class of PyTorch.*save model\.state_dict\(\)"):
        torch.load(file, weights_only=weights_only)


def test_a_state_of_pytorch_is_no_state_of_a_module() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"PyTorch saved this Linear.*model\.state_dict\(\)"):
        nn.Module.__new__(nn.Linear).__setstate__({"_parameters": {}})


# --- Broken files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_mutated_files_of_modules_are_read_or_refused(count: int, tmp_path: Path) -> None:
    """No crash, no code that is not allowed, and no other error; and nothing is left behind."""
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    state = {"model": model, "arrays": [np.arange(3)], "u": torch.ones(2, dtype=torch.uint16), "by": None}
    mark = tmp_path / "mark"
    plain, hostile = saved(state).getvalue(), saved({**state, "by": Touching(str(mark))}).getvalue()
    drawn = random.Random(0)
    read = 0
    before = statistics.live_count
    for turn in range(count):
        data = bytearray(hostile if turn % 2 else plain)
        # Most of the pickle stands near the start.
        most = len(data) if turn % 3 else 1800
        for _ in range(drawn.randint(1, 4)):
            place = drawn.randrange(min(most, len(data)))
            match drawn.randrange(3):
                case 0:
                    data[place] = drawn.randrange(256)
                case 1:
                    del data[place : place + drawn.randint(1, 9)]
                case _:
                    data[place:place] = drawn.randbytes(drawn.randint(1, 9))
        with (
            new_dispose_scope(),
            torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.BatchNorm1d]),
            warnings.catch_warnings(),
        ):
            # Python's reader of pickles warns of broken escapes in texts.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                found = torch.load(io.BytesIO(data))
            except (CheckpointError, tensor.SafetensorsError):
                continue
            read += 1
            if isinstance(found, dict) and isinstance(found.get("model"), nn.Module):
                found["model"].dispose()
    assert 0 < read < count
    assert not mark.exists()
    assert statistics.live_count == before
