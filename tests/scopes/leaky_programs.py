"""Programs that leak in the ways that programs do, and the same ones cured.

Each text is two programs. A line that ends in ``# leaks`` is the leaking program's. The cured program has the
line below it instead, which begins with ``# cured:``. In some, a leak keeps less than the program needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tests.scopes.forked import Ended
from tests.scopes.leaky_kinds import KINDS

# The moments of a peak of memory, which is higher than all that leaks.
PEAKS = ("early", "middle", "late")
# The share of the tensors that the holder holds.
SHARE = r"(?: \([\d,]+ of (?:the )?[\d,]+(?: looked for)?\))?"


class Leaky(NamedTuple):
    """A program with one leak."""

    source: str
    #: What the report says of who holds it; a regular expression.
    holder: str

    @property
    def leaking(self) -> str:
        """The program that leaks."""
        return re.sub(r"\n *# cured:.*", "", self.source)

    @property
    def cured(self) -> str:
        """The same without the leak."""
        return re.sub(r"\n( *)[^\n]*# leaks\n *# cured: ?(.*)", r"\n\1\2", self.source)

    def check(self, done: Ended) -> None:
        """Check the report: the leaking line is first, with its holder, and the command has failed."""
        _, _, report = done.stderr.partition("has ended")
        first, *_ = re.findall(r"program\.py:(\d+) in ", report)
        assert int(first) == self.line, done.stderr
        _, _, after = report.partition(f"program.py:{self.line} ")
        assert re.match(rf"[^\n]*\n[^\n]*\n *held by {self.holder}{SHARE}\n", after), done.stderr
        assert done.status == 1
        assert re.search(rf"--fail-on-leak: .*program\.py:{self.line} ", done.stderr), done.stderr

    def at(self, peaks: str) -> Leaky:
        """Return the program with a peak of memory "early", "middle" or "late", or all of them."""
        source = self.source.replace('PEAKS = ""', f'PEAKS = "{peaks}"')
        return Leaky(f"{source}peak('late')\n", self.holder)

    @property
    def line(self) -> int:
        """The number of the line that leaks."""
        return next(n for n, text in enumerate(self.leaking.splitlines(), 1) if text.endswith("# leaks"))


_BEGINNING = """\
PEAKS = ""
LIBRARY.manual_seed(0)
data = LIBRARY.randn(4000, 256)
labels = LIBRARY.randint(0, 10, (4000,))


def new_model():
    return nn.Sequential(nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 10))


def peak(when):
    if when in PEAKS:
        alive = [LIBRARY.randn(500, 500) * 2 for _ in range(12)]
        assert len(alive) == 12


def batches(count=COUNT, size=64):
    for step in range(count):
        if step == count // 2:
            peak("middle")
        begin = step * 40 % 3900
        yield data[begin : begin + size], labels[begin : begin + size]


peak("early")


"""


def leaky_with(imports: str, library: str, count: int) -> Callable[[str, str], Leaky]:
    """Return what makes a `Leaky` of a body and a holder: it begins with a model and `count` batches."""
    beginning = imports + _BEGINNING.replace("LIBRARY", library).replace("COUNT", str(count))

    def leaky(body: str, holder: str) -> Leaky:
        return Leaky(beginning + body.lstrip("\n"), holder)

    return leaky


_leaky = leaky_with("import nn, tensor\nfrom nn import functional as F\n\n", "tensor", 80)


PROGRAMS: dict[str, Leaky] = {
    "a running sum inside main": _leaky(
        """
def main():
    model, total = new_model(), 0.0
    for x, y in batches():
        loss = F.cross_entropy(model(x), y)
        total = total + loss  # leaks
        # cured: total = total + loss.item()
    print(float(total) / 80)


main()
""",
        r"total, a local of main\(\)",
    ),
    "a running sum in place": _leaky(
        """
def evaluate(model):
    total = tensor.zeros(())
    for x, y in batches():
        loss = F.cross_entropy(model(x), y)
        total += loss  # leaks
        # cured: total += loss.detach()
    return total.item()


print(evaluate(new_model()))
""",
        r"total, a local of evaluate\(\)",
    ),
    "a sum of losses that were derived": _leaky(
        """
def main():
    model = new_model()
    optimizer = nn.optim.SGD(model.parameters(), lr=0.01)
    running = 0.0
    for x, y in batches(400, 8):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss  # leaks
        # cured: running += loss.item()
    print(float(running))


main()
""",
        r"running, a local of main\(\)",
    ),
    "a hidden state that is never detached": _leaky(
        """
def main():
    cell, head = nn.GRUCell(256, 64), nn.Linear(64, 10)
    hidden = tensor.zeros((64, 64))
    for x, y in batches():
        hidden = cell(x, hidden)  # leaks
        # cured: hidden = cell(x, hidden.detach())
        loss = F.cross_entropy(head(hidden), y)
    print(loss.item())


main()
""",
        r"hidden, a local of main\(\)",
    ),
    "a list of losses": _leaky(
        """
def main():
    model, history = new_model(), []
    for x, y in batches():
        loss = F.cross_entropy(model(x), y)  # leaks
        # cured: loss = F.cross_entropy(model(x), y).item()
        history.append(loss)
    print(len(history))


main()
""",
        r"history\[\.\.\.\], a local of main\(\)",
    ),
    "a cache on self": _leaky(
        """
class Trainer:
    def __init__(self):
        self.model, self.cache = new_model(), {}

    def step(self, number, x, y):
        hidden = self.model[:2](x)
        self.cache[number] = hidden.detach() * 1.0  # leaks
        # cured: self.cache = {number: hidden.detach() * 1.0}
        return F.cross_entropy(self.model[2](hidden), y).item()


trainer = Trainer()
for number, (x, y) in enumerate(batches()):
    trainer.step(number, x, y)
""",
        r"trainer\.cache\[\.\.\.\], a global of program\.py",
    ),
    "a list of the class": _leaky(
        """
class Probe:
    seen = []

    def look(self, x):
        self.seen.append(x * 2)  # leaks
        # cured: self.seen.append((x * 2).mean().item())


def main():
    model = new_model()
    for x, _ in batches(60, 128):
        with tensor.no_grad():
            Probe().look(model[0](x))


main()
""",
        r"Probe\.seen\[\.\.\.\], a global of program\.py",
    ),
    "a closure over a list": _leaky(
        """
def watch(model):
    outputs = []

    def hook(module, args, output):
        outputs.append(output.detach().exp())  # leaks
        # cured: outputs[:] = [output.detach().exp()]

    model[0].register_forward_hook(hook)


def main():
    model = new_model()
    watch(model)
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()


main()
""",
        r".* \(closure variable 'outputs'\)\[\.\.\.\], a local of main\(\)",
    ),
    "exceptions that are kept": _leaky(
        """
def step(model, x, y):
    out = model[:2](x)  # leaks
    # cured: out = model[:2](x).mean().item()
    raise ValueError("not finite")


errors = []
model = new_model()
for x, y in batches():
    try:
        step(model, x, y)
    except ValueError as error:
        errors.append(error)
""",
        r"errors\[\.\.\.\]\.__traceback__ \(local 'out' of step\(\) in the traceback\), a global of .*",
    ),
    "a cache of a function's results": _leaky(
        """
import functools


@functools.lru_cache(maxsize=None)
# one entry for each step
def features(number):
    with tensor.no_grad():
        return data[number * 10 : number * 10 + 200].tanh()  # leaks
        # cured: return data[number * 10 : number * 10 + 200].tanh().sum().item()


for number in range(80):
    features(number)
""",
        r"features.*a global of program\.py",
    ),
    "a queue that nobody empties": _leaky(
        """
import queue, threading


def produce(batches_of, out):
    for x, y in batches_of:
        out.put(x.clone() + 1)  # leaks
        # cured: out.put(float((x.clone() + 1).mean()))


waiting = queue.Queue()
thread = threading.Thread(target=produce, args=(batches(), waiting))
thread.start()
thread.join()
""",
        r"waiting\.queue\[\.\.\.\], a global of program\.py",
    ),
    "outputs of validation": _leaky(
        """
def validate(model, seen=[]):
    for x, y in batches(40):
        seen.append(model(x).softmax(dim=-1))  # leaks
        # cured: seen.append(int((model(x).argmax(dim=-1) == y).sum()))


def main():
    model = new_model()
    optimizer = nn.optim.Adam(model.parameters())
    for epoch in range(3):
        for x, y in batches(20):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        validate(model)


main()
""",
        r"validate \(default of 'seen'\)\[\.\.\.\], a global of program\.py",
    ),
}
# With those that are the same for PyTorch.
ALL = PROGRAMS | {name: _leaky(body, holder) for name, (body, holder) in KINDS.items()}
