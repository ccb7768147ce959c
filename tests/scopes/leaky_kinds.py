"""Kinds of leaks that programs have with any library of tensors: programs for this one and for PyTorch.

Each is in the shape of public reports, and our own text. ``tests.scopes.leaky_programs`` has the form.
"""

from __future__ import annotations

# The body and the holder of each; LIBRARY is the module of the tensors.
KINDS: dict[str, tuple[str, str]] = {
    "losses in a global list": (
        """
losses = []
model = new_model()
for x, y in batches():
    loss = F.cross_entropy(model(x), y)  # leaks
    # cured: loss = F.cross_entropy(model(x), y).item()
    losses.append(loss)
""",
        r"losses\[\.\.\.\](?: \(its graph\))?, a global of program\.py",
    ),
    "a meter that adds up losses": (
        """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value):
        self.sum = self.sum + value  # leaks
        # cured: self.sum = self.sum + value.item()
        self.count += 1


def main():
    model, meter = new_model(), Meter()
    for x, y in batches():
        meter.update(F.cross_entropy(model(x), y))
    print(float(meter.sum) / meter.count)


main()
""",
        r"meter\.sum(?: \(its graph\))?, a local of main\(\)",
    ),
    "logits of a metric": (
        """
class Accuracy:
    def __init__(self):
        self.scores, self.labels = [], []

    def update(self, logits, y):
        self.scores.append(logits.detach().softmax(dim=-1))  # leaks
        # cured: self.scores.append(int((logits.argmax(dim=-1) == y).sum()))


def main():
    model, metric = new_model(), Accuracy()
    for x, y in batches():
        metric.update(model(x), y)


main()
""",
        r"metric\.scores\[\.\.\.\], a local of main\(\)",
    ),
    "a callback that collects outputs": (
        """
class History:
    def __init__(self):
        self.outputs = {}

    def on_step_end(self, step, output):
        self.outputs[f"step {step}"] = output


def fit(model, callbacks):
    for step, (x, y) in enumerate(batches()):
        output = model(x).detach() * 1.0  # leaks
        # cured: output = (model(x).detach() * 1.0).mean().item()
        for callback in callbacks:
            callback.on_step_end(step, output)


callback = History()
fit(new_model(), [callback])
""",
        r"callback\.outputs\[\.\.\.\], a global of program\.py",
    ),
    "a slice of each output": (
        """
def main():
    model, first = new_model(), []
    for x, _ in batches():
        hidden = model[:2](x).detach()
        first.append(hidden[:1])  # leaks
        # cured: first.append(hidden[0, 0].item())


main()
""",
        r"first\[\.\.\.\], a local of main\(\)",
    ),
    "one column of each batch": (
        """
column = {}
for step, (x, _) in enumerate(batches()):
    scaled = x * 2
    column[step] = scaled[:, 0]  # leaks
    # cured: column[step] = scaled[:, 0].sum().item()
""",
        r"column\[\.\.\.\], a global of program\.py",
    ),
    "generators that wait": (
        """
def windows(x):
    scaled = x * 2  # leaks
    # cured: scaled = (x * 2).mean().item()
    yield 1
    yield scaled


def main():
    waiting = []
    for x, _ in batches():
        generator = windows(x)
        next(generator)
        waiting.append(generator)


main()
""",
        r"waiting\[\.\.\.\] \(local 'scaled' of windows\(\)\), a local of main\(\)",
    ),
    "iterators of loaders": (
        """
class Loader:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        rows = self.x.tanh()  # leaks
        # cured: rows = self.x.tanh().mean(dim=-1).tolist()
        for row in range(4):
            yield rows[row]


iterators = []
for x, _ in batches():
    iterator = iter(Loader(x))
    next(iterator)
    iterators.append(iterator)
""",
        r"iterators\[\.\.\.\] \(local 'rows' of __iter__\(\)\), a global of program\.py",
    ),
    "lambdas with a default": (
        """
def main():
    model, later = new_model(), []
    for x, _ in batches():
        hidden = model[:2](x).detach() * 1.0  # leaks
        # cured: hidden = (model[:2](x).detach() * 1.0).mean().item()
        later.append(lambda h=hidden: h)


main()
""",
        r"later\[\.\.\.\] \(default of 'h'\), a local of main\(\)",
    ),
    "closures in a list": (
        """
def deferred(x):
    scaled = x * 3  # leaks
    # cured: scaled = float((x * 3).sum())

    def compute():
        return scaled

    return compute


pending = []
for x, _ in batches():
    pending.append(deferred(x))
""",
        r"pending\[\.\.\.\] \(closure variable 'scaled'\), a global of program\.py",
    ),
    "partials of a schedule": (
        """
import functools


def main():
    schedule = []
    for x, _ in batches():
        target = x.tanh()  # leaks
        # cured: target = x.tanh().mean().item()
        schedule.append(functools.partial(print, target))


main()
""",
        r"schedule\[\.\.\.\]\.args\[0\], a local of main\(\)",
    ),
    "bound methods of samples": (
        """
class Sample:
    def __init__(self, x):
        self.x = x + 1  # leaks
        # cured: self.x = float((x + 1).sum())

    def show(self):
        return self.x


def main():
    commands = []
    for x, _ in batches():
        commands.append(Sample(x).show)


main()
""",
        r"commands\[\.\.\.\]\.__self__\.x, a local of main\(\)",
    ),
    "a replay buffer without a limit": (
        """
from collections import deque

buffer = deque()
for x, y in batches():
    state = x - x.mean()  # leaks
    # cured: state = float((x - x.mean()).sum())
    buffer.append((state, y, 1.0))
""",
        r"buffer\[\.\.\.\]\[0\], a global of program\.py",
    ),
    "records of dataclasses": (
        """
from dataclasses import dataclass


@dataclass
class Step:
    number: int
    logits: object


def main():
    model, log = new_model(), []
    for step, (x, _) in enumerate(batches()):
        logits = model[:2](x).detach() + 0  # leaks
        # cured: logits = (model[:2](x).detach() + 0).tolist()[0][0]
        log.append(Step(step, logits))


main()
""",
        r"log\[\.\.\.\]\.logits, a local of main\(\)",
    ),
    "named tuples of results": (
        """
from typing import NamedTuple


class Result(NamedTuple):
    loss: object
    step: int


def main():
    model, results = new_model(), []
    for step, (x, y) in enumerate(batches()):
        results.append(Result(F.cross_entropy(model(x), y), step))  # leaks
        # cured: results.append(Result(F.cross_entropy(model(x), y).item(), step))


main()
""",
        r"results\[\.\.\.\]\[0\](?: \(its graph\))?, a local of main\(\)",
    ),
    "objects with slots in a set": (
        """
class Row:
    __slots__ = ("values",)

    def __init__(self, values):
        self.values = values


rows = set()
for x, _ in batches():
    rows.add(Row(x * 0.5))  # leaks
    # cured: rows.add(Row(float((x * 0.5).sum())))
""",
        r"rows\{\.\.\.\}\.values, a global of program\.py",
    ),
    "a registry in a class": (
        """
class Registry:
    entries = {}

    @classmethod
    def add(cls, name, value):
        cls.entries.setdefault(name, []).append(value)


def main():
    model = new_model()
    for x, _ in batches():
        Registry.add("features", model[:2](x).detach() * 2)  # leaks
        # cured: Registry.add("features", float((model[:2](x).detach() * 2).sum()))


main()
""",
        r"Registry\.entries\['features'\]\[\.\.\.\], a global of program\.py",
    ),
    "an attribute of a function": (
        """
def normalize(x):
    scaled = (x - x.mean()) / 2  # leaks
    # cured: scaled = float(((x - x.mean()) / 2).sum())
    normalize.seen.append(scaled)


normalize.seen = []
for x, _ in batches():
    normalize(x)
""",
        r"normalize\.seen\[\.\.\.\], a global of program\.py",
    ),
    "a mutable default": (
        """
def remember(x, memory={}):
    memory[len(memory)] = x.exp()  # leaks
    # cured: memory[len(memory)] = float(x.exp().sum())


for x, _ in batches():
    remember(x)
""",
        r"remember \(default of 'memory'\)\[\.\.\.\], a global of program\.py",
    ),
    "a cache by shape that never matches": (
        """
cache = {}


def positions(x, step):
    key = (x.shape[0], step)
    if key not in cache:
        cache[key] = x.cumsum(dim=0)  # leaks
        # cured: cache[key] = float(x.cumsum(dim=0).sum())
    return cache[key]


for step, (x, _) in enumerate(batches()):
    positions(x, step)
""",
        r"cache\[\.\.\.\], a global of program\.py",
    ),
    "lines of a log": (
        """
import logging


class Memory(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


handler = Memory()
logging.getLogger("training").addHandler(handler)
logging.getLogger("training").propagate = False


def main():
    model = new_model()
    for x, _ in batches():
        hidden = model[:2](x).detach() * 1.0  # leaks
        # cured: hidden = float((model[:2](x).detach() * 1.0).sum())
        logging.getLogger("training").warning("hidden %s", hidden)


main()
""",
        r"handler\.records\[\.\.\.\]\.args\[0\], a global of program\.py",
    ),
    "a linked list of states": (
        """
class State:
    def __init__(self, hidden, before):
        self.hidden, self.before = hidden, before


def main():
    state = None
    for x, _ in batches():
        state = State(x * 2, state)  # leaks
        # cured: state = State(float((x * 2).sum()), state)


main()
""",
        r"state\..*hidden, a local of main\(\)",
    ),
    "cycles that are never collected": (
        """
import gc

gc.disable()


class Node:
    def __init__(self, value):
        self.value = value
        self.me = self


def step(x):
    Node(x * 2)  # leaks
    # cured: Node(float((x * 2).sum()))


for x, _ in batches():
    step(x)
""",
        r"a reference cycle: Node\.me",
    ),
    "trees whose children know their parent": (
        """
import gc

gc.disable()


class Tree:
    def __init__(self, value, parent=None):
        self.value, self.parent, self.children = value, parent, []
        if parent is not None:
            parent.children.append(self)


def main():
    for x, _ in batches():
        Tree(x.tanh(), Tree(0))  # leaks
        # cured: Tree(float(x.tanh().sum()), Tree(0))


main()
""",
        r"a reference cycle: Tree\.(parent\.children\[\.\.\.\]|children\[\.\.\.\]\.parent)",
    ),
    "frames of exceptions in a cycle": (
        """
import gc

gc.disable()


def step(x):
    scaled = x * 2  # leaks
    # cured: scaled = float((x * 2).sum())
    try:
        raise ValueError(len(str(scaled)))
    except ValueError as error:
        kept = error
    return kept is None


for x, _ in batches():
    step(x)
""",
        r"a reference cycle: ValueError\.__traceback__.*",
    ),
    "chained exceptions": (
        """
def check(x):
    scaled = x.exp()  # leaks
    # cured: scaled = float(x.exp().sum())
    raise ValueError("not finite")


last = None
for x, _ in batches():
    try:
        check(x)
    except ValueError as error:
        error.__context__ = last
        last = error
""",
        r"last\..*\(local 'scaled' of check\(\) in the traceback\), a global of program\.py",
    ),
    "results of asyncio tasks": (
        """
import asyncio


async def score(x):
    return x.softmax(dim=-1)  # leaks
    # cured: return float(x.softmax(dim=-1).sum())


async def main():
    tasks = []
    for x, _ in batches():
        tasks.append(asyncio.ensure_future(score(x)))
        await asyncio.sleep(0)


asyncio.run(main())
""",
        r"tasks\[\.\.\.\], a local of main\(\)(?: in task 'Task-1')?",
    ),
    "the best state of each epoch": (
        """
def main():
    model, best = new_model(), []
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        best.append({name: value * 1.0 for name, value in model.state_dict().items()})  # leaks
        # cured: best[:] = [{name: value * 1.0 for name, value in model.state_dict().items()}]


main()
""",
        r"best\[\.\.\.\]\[\.\.\.\], a local of main\(\)",
    ),
    "gradients of each step": (
        """
def main():
    model, norms = new_model(), []
    for x, y in batches():
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        norms.append([p.grad * 1.0 for p in model.parameters()])  # leaks
        # cured: norms.append([float((p.grad * 1.0).sum()) for p in model.parameters()])


main()
""",
        r"norms\[\.\.\.\]\[\.\.\.\], a local of main\(\)",
    ),
    "activations that a hook stores": (
        """
features = []
model = new_model()
model[1].register_forward_hook(lambda module, args, output: features.append(output.detach() * 1.0))  # leaks
# cured: model[1].register_forward_hook(lambda module, args, output: features.append(float(output.sum())))
for x, _ in batches():
    model(x)
""",
        r"features\[\.\.\.\], a global of program\.py",
    ),
    "outputs on the module": (
        """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.maps = nn.Linear(256, 64), []

    def forward(self, x):
        scores = self.project(x).detach().softmax(dim=-1)  # leaks
        # cured: scores = float(self.project(x).detach().softmax(dim=-1).sum())
        self.maps.append(scores)
        return scores


def main():
    attention = Attention()
    for x, _ in batches():
        attention(x)


main()
""",
        r"attention\.maps\[\.\.\.\], a local of main\(\)",
    ),
    "a list of lists of tokens": (
        """
def main():
    beams = [[], []]
    for step, (x, _) in enumerate(batches()):
        beams[step % 2].append({"scores": x.log_softmax(dim=-1), "step": step})  # leaks
        # cured: beams[step % 2].append({"scores": float(x.sum()), "step": step})


main()
""",
        r"beams\[\.\.\.\]\[\.\.\.\]\['scores'\], a local of main\(\)",
    ),
    "values by an object": (
        """
class Key:
    pass


values = {}
for x, _ in batches():
    values[Key()] = x.abs()  # leaks
    # cured: values[Key()] = float(x.abs().sum())
""",
        r"values\[\.\.\.\], a global of program\.py",
    ),
    "a copy of the model's input in a thread-local": (
        """
import threading

local = threading.local()
local.seen = []
for x, _ in batches():
    local.seen.append(x.square())  # leaks
    # cured: local.seen.append(float(x.square().sum()))
""",
        r"local\.seen\[\.\.\.\], a global of program\.py",
    ),
}
