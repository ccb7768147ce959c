"""Processes of PyTorch below ``disposescope run``: ranks of a job, workers of data loaders, subprocesses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from tests.scopes.test_processes import headings_of, methods, run, table_of, write  # noqa: E402

TRAIN = """
import os, sys
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
cache = []
model = torch.nn.Linear(100, 100)
for step in range(60):
    loss = model(torch.ones(64, 100)).sum()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    if rank == 1:
        cache.append(torch.ones(10_000))
dist.destroy_process_group()
sys.exit(0)
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_the_rank_that_leaks_is_named_with_its_line(tmp_path: Path) -> None:
    write(tmp_path / "train.py", TRAIN)
    job = ("torch.distributed.run", "--standalone", "--nproc-per-node", "3", "train.py")
    done = run("--fail-on-leak", "-m", *job, cwd=tmp_path, OMP_NUM_THREADS="1")
    assert headings_of(done.stderr) == ["rank 1", "rank 0", "rank 2"], done.stderr
    assert re.search(
        r"\nrank 1 holds 2\.\d+ MiB more than the median at train\.py:17 in <module>, and this line keeps "
        r"more and more there \(\+[12]\.\d+ MiB\), held by cache",
        done.stderr,
    ), done.stderr
    assert done.stderr.count("holds") == 1
    assert done.returncode == 1


LOADER = """
import sys, torch
from torch.utils.data import DataLoader, Dataset

class Cached(Dataset):
    def __init__(self):
        self.cache = {}
    def __len__(self):
        return 80
    def __getitem__(self, i):
        self.cache[i] = torch.ones(10_000)
        return self.cache[i][:2].clone()

if __name__ == "__main__":
    total = 0
    for batch in DataLoader(Cached(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1]):
        total += len(batch)
    print(total)
"""


@methods
def test_workers_of_a_data_loader_that_cache_are_named(method: str, tmp_path: Path) -> None:
    done = run(write(tmp_path / "program.py", LOADER), method, cwd=tmp_path)
    assert done.stdout == "80\n", done.stderr
    assert set(headings_of(done.stderr)) - {"main"} == {"DataLoader worker 0", "DataLoader worker 1"}
    line = next(line for line in table_of(done.stderr).splitlines() if "program.py:11 in" in line)
    sizes = [float(size) for size in re.findall(r"([\d.]+) MiB", line)]
    assert sizes[:2] == pytest.approx([1.526, 1.526], abs=0.01)
    assert re.search(
        r"program\.py:11 in Cached\.__getitem__ keeps more and more in DataLoader worker ", done.stderr
    )


@methods
def test_processes_that_import_pytorch_alone_are_followed(method: str, tmp_path: Path) -> None:
    program = write(
        tmp_path / "program.py",
        "import multiprocessing, sys\n"
        "def work():\n"
        "    import torch\n"
        "    kept = []\n"
        "    for _ in range(100):\n"
        "        kept.append(torch.ones(1000))\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context(sys.argv[1]).Process(target=work, name='worker')\n"
        "    process.start()\n"
        "    process.join()\n"
        "    print(process.exitcode)\n",
    )
    done = run(program, method, cwd=tmp_path)
    assert done.stdout == "0\n"
    assert headings_of(done.stderr) == ["worker"]
    assert "program.py:6 in work keeps more and more in worker (+" in done.stderr
    assert "from before the end of" not in done.stderr


def test_subprocesses_and_their_forks_are_followed(tmp_path: Path) -> None:
    write(
        tmp_path / "child.py",
        "import os, sys\n"
        "child = os.fork()\n"  # before the import
        "import torch\n"
        "kept = [torch.ones(1000) for _ in range(100)]\n"
        "if not child:\n"
        "    os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sys.argv, torch.ones(1).item())\n",
    )
    program = write(
        tmp_path / "program.py",
        "import subprocess, sys\n"
        "done = subprocess.run([sys.executable, 'child.py', 'x'], capture_output=True, text=True)\n"
        "print(done.returncode, done.stdout, repr(done.stderr))\n",
    )
    done = run(program, cwd=tmp_path)
    assert done.stdout == "0 3 ['child.py', 'x'] 1.0\n ''\n"
    names = headings_of(done.stderr)
    assert len(names) == 2
    assert all(re.fullmatch(r"child\.py \(\d+\)", name) for name in names), names
    assert re.search(r"\n(The table has a record from before the end of child\.py \(\d+\): )", done.stderr)


def test_no_torch_holds_for_children_too(tmp_path: Path) -> None:
    write(tmp_path / "child.py", "import torch\nkept = [torch.ones(1000) for _ in range(100)]\n")
    program = write(
        tmp_path / "program.py", "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'])\n"
    )
    assert "By process" not in run("--no-torch", program, cwd=tmp_path).stderr
