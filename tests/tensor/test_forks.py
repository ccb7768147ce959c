"""Forks while other threads draw, run backward and large ops, count and track: no child hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent

import pytest

# Threads work on without a pause; the program forks so often, and each child must do the same work at once.
# No matrix products, nor gradients of one dimension that are sums of rows, which are products too: NumPy's
# OpenBLAS keeps its lock in the child where one thread forks while another multiplies.
PROGRAM = """
import faulthandler, os, sys, threading, time, warnings
import scopes
import tensor

warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of forks while threads run
mine = tensor.Generator()
x = tensor.ones((200, 1), requires_grad=True)
y = tensor.ones((1, 1000), requires_grad=True)

def draw():
    tensor.randn(20_000)
    tensor.rand(20_000, generator=mine)
    tensor.randperm(1000)

def go_back():
    (x * y.exp()).sum().backward()

def look():
    tensor.memory.statistics()
    scopes.statistics.snapshot()
    (tensor.ones((2_000_000,)) * 2).exp()

def track():
    with scopes.track(), scopes.new_dispose_scope("step"):
        y * 2
        repr(timeline), scopes.leaks()

def work(function):
    while not over:
        function()

over = False
timeline = scopes.Timeline(max_events=1000)
timeline.__enter__()
parts = [draw, go_back, look, track]
for part in parts:
    part()
threads = [threading.Thread(target=work, args=(part,), daemon=True) for part in parts]
for thread in threads:
    thread.start()
for i in range(COUNT):
    time.sleep(0.001 * (i % 5))
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(200, exit=True)  # where it hangs
        for part in parts:
            part()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print("child", i, "ended by", status)
        over = True
        sys.exit(1)
over = True
for thread in threads:
    thread.join()
print("all", COUNT, "well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_children_forked_during_work_of_other_threads_do_the_same_work(count):
    program = dedent(PROGRAM).replace("COUNT", str(count))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=2000)
    assert done.stdout == f"all {count} well\n", done.stdout + done.stderr
