"""Ten PyTorch programs that leak as those in issue trackers do, and the same ones cured.

Each comes from an issue of PyTorch or Lightning, which a comment above it names, and is our own text.
``tests.scopes.leaky_programs`` has the form: a line that ends in ``# leaks`` is the leaking one's. The line
below it, which begins with ``# cured:``, is the cured one's.
"""

from __future__ import annotations

from tests.scopes.leaky_kinds import KINDS
from tests.scopes.leaky_programs import Leaky, leaky_with

_leaky = leaky_with(
    "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\ntorch.set_num_threads(1)\n",
    "torch",
    60,
)


PROGRAMS: dict[str, Leaky] = {
    # pytorch/pytorch#17568 and #1840: `running_loss += loss` keeps the graph of each step.
    "a running loss": _leaky(
        """
def evaluate(model):
    running_loss = 0.0
    for x, y in batches():
        loss = F.cross_entropy(model(x), y)
        running_loss += loss  # leaks
        # cured: running_loss += loss.item()
    return float(running_loss)


print(evaluate(new_model()))
""",
        r"running_loss, a local of evaluate\(\)",
    ),
    # Lightning-AI/pytorch-lightning#5735 and #8453: the loop keeps the outputs of each validation step.
    "outputs of validation steps": _leaky(
        """
class EvaluationLoop:
    def __init__(self, model):
        self.model, self.outputs = model, []

    def step(self, x, y):
        logits = self.model(x)  # leaks
        # cured: logits = self.model(x).detach().mean()
        return {"loss": F.cross_entropy(self.model(x), y).item(), "logits": logits}

    def run(self):
        for x, y in batches():
            self.outputs.append(self.step(x, y))


loop = EvaluationLoop(new_model())
for epoch in range(2):
    loop.run()
""",
        r"loop\.outputs\[\.\.\.\]\['logits'\], a global of program\.py",
    ),
    # Lightning-AI/pytorch-lightning#4556: logging with on_epoch=True keeps each step's loss on the device.
    "logged losses": _leaky(
        """
class Logger:
    def __init__(self):
        self.values = {}

    def log(self, name, value):
        self.values.setdefault(name, []).append(value)


def fit(model, logger):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches(300, 16):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        value = loss * 1.0  # leaks
        # cured: value = loss.item()
        logger.log("train_loss", value)


logger = Logger()
fit(new_model(), logger)
""",
        r"logger\.values\['train_loss'\]\[\.\.\.\], a global of program\.py",
    ),
    # pytorch/pytorch#2198: the hidden state of an RNN holds the graph of the whole history.
    "a hidden state": _leaky(
        """
def main():
    rnn, head = nn.GRUCell(256, 64), nn.Linear(64, 10)
    hidden = torch.zeros(64, 64)
    for x, y in batches():
        hidden = rnn(x, hidden)  # leaks
        # cured: hidden = rnn(x, hidden.detach())
        loss = F.cross_entropy(head(hidden), y)
    print(loss.item())


main()
""",
        r"hidden \(its graph\), a local of main\(\)",
    ),
    # pytorch/pytorch#27600 and #10348: a stored exception holds the frames that it was raised in.
    "stored exceptions": _leaky(
        """
def forward(model, x):
    hidden = model[:2](x)  # leaks
    # cured: hidden = model[:2](x).mean().item()
    raise RuntimeError("out of memory")


failed, model = [], new_model()
for x, y in batches():
    try:
        forward(model, x)
    except RuntimeError as error:
        failed.append(error)
""",
        r"failed\[\.\.\.\]\.__traceback__ \(local 'hidden' of forward\(\) in the traceback\), a global of .*",
    ),
    # pytorch/pytorch#4661: a backward hook collects gradients, of a backward that creates a graph.
    "gradients that a hook collects": _leaky(
        """
embedding_gradients = []


def collect(module, grad_in, grad_out):
    gradient = grad_out[0] * 1.0  # leaks
    # cured: gradient = (grad_out[0] * 1.0).norm().item()
    embedding_gradients.append(gradient)


model = new_model()
model[0].register_full_backward_hook(collect)
for x, y in batches():
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
""",
        r"embedding_gradients\[\.\.\.\], a global of program\.py",
    ),
    # pytorch/pytorch#115255 and #102859: what a hook's closure refers to stays alive with the hook.
    "closures of hooks": _leaky(
        """
def watch(model, x):
    reference = model(x).detach().repeat(1, 8)  # leaks
    # cured: reference = model(x).detach().mean().item()
    model[2].register_forward_hook(lambda module, args, output: print(end=f"{reference is output}"[:0]))


def main():
    model = new_model()
    for x, _ in batches(40):
        watch(model, x)


main()
""",
        r".*reference.*a local of main\(\)",
    ),
    # pytorch/pytorch#40005: backward(retain_graph=True) over parts of a loss that stay in a list.
    "losses with retained graphs": _leaky(
        """
def main():
    model, parts = new_model(), []
    for x, y in batches():
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)  # leaks
        loss.backward(retain_graph=True)
        parts.append(loss)  # leaks
        # cured: parts.append(loss.item())
    print(len(parts))


main()
""",
        r"parts\[\.\.\.\](?: \(its graph\))?, a local of main\(\)",
    ),
    # pytorch/pytorch#20433 and #13246: a data set caches what it has loaded, and memory grows over the epoch.
    "a cache of a data set": _leaky(
        """
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 600

    def __getitem__(self, index):
        image = data[index].repeat(8)  # leaks
        # cured: index, image = 0, data[index].repeat(8)
        self.cache[index] = image
        return image


images = Images()
for epoch in range(1):
    for batch in DataLoader(images, batch_size=10):
        batch.mean()
""",
        r"images\.cache\[\.\.\.\], a global of program\.py",
    ),
    # Lightning-AI/pytorch-lightning#14270: lists of results on the trainer that nothing empties.
    "results of each evaluation": _leaky(
        """
class Trainer:
    def __init__(self):
        self.model = new_model()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.val_accuracy_results = []

    def train(self):
        for x, y in batches(10):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        for x, y in batches(20, 128):
            hits = self.model(x).softmax(dim=-1)  # leaks
            # cured: hits = (self.model(x).argmax(dim=-1) == y).float().mean().item()
            self.val_accuracy_results.append(hits)


def main():
    trainer = Trainer()
    for epoch in range(6):
        trainer.train()
        trainer.validate()


main()
""",
        r"trainer\.val_accuracy_results\[\.\.\.\], a local of main\(\)",
    ),
}
# With those that are the same for other libraries.
ALL = PROGRAMS | {name: _leaky(body, holder) for name, (body, holder) in KINDS.items()}
