"""A backward that stops half way: every gradient as it was, and no memory kept, not even by the exception."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import tensor
from tensor import Tensor, autograd, memory
from tensor.lowlevel import apply, define
from tensor.tape.rules import RULES
from tests.interrupts import Interrupt, interrupted_at
from tests.tensor.graphs import bytes_live

SIDE = 512  # a block of 1 MiB, which the pool serves


class StopHereError(Exception):
    """Raised by a rule in the middle of backward."""


@pytest.fixture(autouse=True)
def collector_is_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    with tensor.enable_grad():  # what a test leaves switched off is on again for the next
        yield
    gc.enable()


@contextmanager
def op_whose_derivative(acts: Callable[[], None]) -> Iterator[Callable[[Tensor], Tensor]]:
    """Give an op that copies its input; on the way back `acts` is called before the gradient is passed on."""

    def backward(xp, g, out):
        # Its own locals are a frame of the user's; what it is given is not to stay there.
        kept = [g, out]
        del g, out
        try:
            acts()
            return kept[0]
        finally:
            kept.clear()

    rule = define("copy_that_acts", x=backward)
    try:
        yield lambda x: apply(rule, np.copy, [x])
    finally:
        del RULES["copy_that_acts"]


def stop() -> None:
    raise StopHereError


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def run_out_of_memory() -> None:
    raise MemoryError


class Three:
    """Leaves with a gradient, with one that a clone shares, and with none; and a graph over them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.leaves = [
            tensor.tensor(rng.uniform(0.5, 1, (SIDE, SIDE)).astype("float32"), requires_grad=True)
            for _ in range(3)
        ]
        first, second, _ = self.leaves
        (first * 2 + second * 3).sum().backward()
        self.clone = second.grad.clone()
        self.grads = [x.grad for x in self.leaves]
        self.values = [None if g is None else np.array(g) for g in self.grads]

    def forward(self, op: Callable[[Tensor], Tensor] = Tensor.exp) -> Tensor:
        """Return a result whose gradients by the second and the third leaf come before that by the first."""
        first, second, third = self.leaves
        return (op(first * 2).exp() * second.exp() * third).mean()

    def are_as_before(self) -> bool:
        """Tell whether every leaf has the gradient that it had: the same tensor with the same values."""
        for x, grad, values in zip(self.leaves, self.grads, self.values, strict=True):
            if x.grad is not grad or (grad is not None and not np.array_equal(np.array(grad), values)):
                return False
        return True


# None of these has a frame of Python's own that would hold the output.
CALLS: dict[str, Callable[[list[Tensor]], Callable[[Tensor], object]]] = {
    "backward": lambda leaves: Tensor.backward,
    "backward, retaining": lambda leaves: partial(Tensor.backward, retain_graph=True),
    "autograd.backward": lambda leaves: autograd.backward,
    "autograd.grad": lambda leaves: partial(autograd.grad, inputs=leaves),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("acts", "kind"),
    [(stop, StopHereError), (interrupt, KeyboardInterrupt), (run_out_of_memory, MemoryError)],
    ids=["exception", "interrupt", "memory"],
)
def test_an_error_in_backward_leaves_gradients_unchanged_and_frees_all_memory(call, acts, kind):
    three = Three()
    run = CALLS[call](three.leaves)
    start = bytes_live()
    stored = []
    with op_whose_derivative(acts) as op:
        loss = three.forward(op)
        try:
            run(loss)
        except kind as error:
            stored.append(error)
    assert three.are_as_before()
    del loss
    assert bytes_live() == start, "with the exception stored"
    stored.pop()
    assert bytes_live() == start
    assert three.are_as_before()


WRONG = {
    "no output depends on an input": lambda x, ys: autograd.grad(ys.pop(), x * 2),
    "an input without history": lambda x, ys: autograd.grad(ys.pop(), x.detach()),
    "inputs that are no tensors": lambda x, ys: autograd.grad(ys.pop(), [x, 1.0]),
    "a gradient of the wrong shape": lambda x, ys: ys.pop().backward(x.detach()),
    "a gradient that is no tensor": lambda x, ys: autograd.backward([ys.pop()], [1.0]),
    "too many gradients": lambda x, ys: autograd.grad(ys.pop(), x, [None, None]),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_an_invalid_argument_of_backward_keeps_no_graph(call):
    stored = []
    x = tensor.ones((SIDE, SIDE), requires_grad=True)
    start = bytes_live()
    try:
        call(x, [(x * 2).exp().sum()])
    except (RuntimeError, TypeError, ValueError) as error:
        stored.append(error)
    assert len(stored) == 1
    assert bytes_live() == start


def test_a_graph_that_was_retained_may_be_walked_again_after_an_error():
    three, reference = Three(), Three()
    reference.forward().backward()
    errors = [StopHereError(), StopHereError()]

    def fail_twice() -> None:
        if errors:
            raise errors.pop()

    with op_whose_derivative(fail_twice) as op:
        loss = three.forward(lambda x: op(x).exp())
        for _ in range(2):
            with pytest.raises(StopHereError):
                loss.backward(retain_graph=True)
        loss.backward()
    for ours, theirs in zip(three.leaves, reference.leaves, strict=True):
        np.testing.assert_array_equal(ours.grad.numpy(), theirs.grad.numpy())


def test_a_part_that_is_freed_already_stops_backward_before_any_gradient_changes():
    x, w = tensor.tensor([1.0], requires_grad=True), tensor.tensor([2.0], requires_grad=True)
    used = (w * w).sum()
    used.backward()
    loss = (x * 2).sum() + used
    before = w.grad.tolist()
    with pytest.raises(RuntimeError, match="freed"):
        loss.backward()
    assert x.grad is None
    assert w.grad.tolist() == before


def test_limit_exceeded_anywhere_in_backward_changes_no_gradient_and_leaks_no_memory():
    three, reference = Three(), Three()
    reference.forward().backward()
    start = bytes_live()
    stored: list[memory.OutOfMemoryError] = []
    more = 0
    while True:
        loss = three.forward()
        try:
            with memory.limit(bytes_live() + more):
                loss.backward()
        except memory.OutOfMemoryError as error:
            stored.append(error)
        else:
            break
        del loss
        assert three.are_as_before(), f"with room for {more} bytes"
        assert bytes_live() == start, f"with room for {more} bytes"
        more += 256 * 1024
    assert len(stored) >= 4
    for ours, theirs in zip(three.leaves, reference.leaves, strict=True):
        np.testing.assert_array_equal(ours.grad.numpy(), theirs.grad.numpy())


class Many:
    """Leaves that each backward gives the same whole numbers, and what else an interrupt must not change."""

    def __init__(self, count: int) -> None:
        self.leaves = [tensor.zeros((4,), requires_grad=True) for _ in range(count)]
        self.forward().backward()
        self.live = bytes_live()

    def forward(self) -> Tensor:
        return tensor.stack([(x * 2 + 1).sum() * 0.5 for x in self.leaves]).sum()

    def check(self) -> None:
        """Hold that all gradients are of one number of steps, that memory is back, and ops are recorded."""
        assert len({tuple(x.grad.tolist()) for x in self.leaves}) == 1
        assert bytes_live() == self.live
        assert tensor.is_grad_enabled()


def test_an_interrupt_at_any_call_leaves_all_gradients_as_they_were_or_all_new():
    many = Many(3)
    event = 1
    while True:
        loss = many.forward()
        was_interrupted = interrupted_at(event, loss.backward)
        del loss
        if not was_interrupted:
            break
        many.check()
        event += 1
    assert event > 100


def test_signals_while_backward_runs_leave_all_gradients_as_they_were_or_all_new():
    many = Many(100)
    begun = time.perf_counter()
    many.forward().backward()
    needed = time.perf_counter() - begun
    stopped = 0

    def ring(number: int, frame: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for i in range(200):
            loss = many.forward()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + needed * i / 200)
                loss.backward()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                stopped += 1
            del loss
            many.check()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert stopped  # how often depends on what else the machine does
