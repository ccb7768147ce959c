"""Scopes end while other threads create and free objects, and the garbage collector runs often."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
import faulthandler, gc, sys, threading, weakref
from torch.utils.data import SequentialSampler, TensorDataset
import torch
import scopes.torch
from scopes import new_dispose_scope

class Thing:
    pass

def work():
    things = [Thing() for _ in range(5)]
    known = weakref.WeakSet(things)
    while not ended.is_set():
        list(known), [i for i in (j for j in range(3))]
        SequentialSampler([1])

faulthandler.enable()
ended = threading.Event()
gc.set_threshold(50, 3, 3)
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=work) for _ in range(3)]
model, data = torch.nn.Linear(4, 4), TensorDataset(torch.ones(3))
with scopes.torch.owning():
    for thread in threads:
        thread.start()
    for step in range(1500):
        with new_dispose_scope():
            iterators = [iter(SequentialSampler(range(3))) for _ in range(100)]
            for each in iterators:
                next(each)
            out = model(torch.ones(2, 4)).sum()
            data.extra = torch.ones(2)
            modules = [torch.nn.Identity() for _ in range(20)]
            thing = Thing()
            thing.x = torch.ones(1)
        assert type(out).__name__ == "DisposedTensor", step
        assert data.extra.tolist() == [1.0, 1.0], step
        del iterators, modules
ended.set()
for thread in threads:
    thread.join()
print("ended")
"""


def test_scopes_end_beside_threads_and_frequent_garbage_collections() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
