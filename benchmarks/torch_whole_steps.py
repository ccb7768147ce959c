"""Training steps of PyTorch in budgets of their plain peak, beside ``checkpoint`` and ``save_on_cpu``.

``python -m benchmarks.torch_whole_steps FOLDER [NETWORK]`` prints a table; the file is in FOLDER. Each row is
a process of its own with one thread. *Peak* is the most bytes of tensors, which a budget without a limit
counts. *Resident* is the high-water mark of the process (``VmHWM``, Linux only) above the state before the
first step. The time is processor time, the least of some steps, without the counting for rows that have no
budget. Every row must have the losses and the parameters of the plain row, to the bit.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from scopes.lowlevel import format_bytes

STEPS = 4
PARTS = (0.7, 0.5, 0.35)
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _mlp(nn: Any) -> Any:
    sizes = (784, 2048, 2048, 10)
    layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes[:-1])]
    return [*layers, nn.Linear(*sizes[-2:])]


def _resnet(nn: Any) -> Any:
    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            stride = 1 if inputs == outputs else 2
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Identity()
            if stride != 1:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
            return (y + self.shortcut(x)).relu()

    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [Block(*pair) for pair in pairwise(widths)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return [nn.Sequential(*stem), *blocks, head]


WIDTH, HEADS, LENGTH, CHARACTERS = 384, 6, 128, 65


def _gpt(nn: Any) -> Any:
    import torch

    class Embedding(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)

        def forward(self, x: Any) -> Any:
            return self.tokens(x) + self.places(torch.arange(x.shape[1]))

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)
            )
            self.dropout = nn.Dropout(0.1)
            self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)) == 0)

        def attention(self, x: Any) -> Any:
            batch, length, width = x.shape
            parts = self.qkv(x).split(width, dim=2)
            q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
            weights = (q @ k.transpose(-2, -1)) * (width // HEADS) ** -0.5
            weights = weights.masked_fill(self.mask, float("-inf")).softmax(-1)
            y = self.dropout(weights) @ v
            return self.dropout(self.out(y.transpose(1, 2).reshape(x.shape)))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS, bias=False))
    return [Embedding(), *(Block() for _ in range(6)), head]


def _lstm(nn: Any) -> Any:
    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.dropout = nn.LSTM(256, 256, batch_first=True), nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            return self.dropout(self.lstm(x)[0])

    return [nn.Embedding(CHARACTERS, 256), *(Layer() for _ in range(4)), nn.Linear(256, CHARACTERS)]


# The blocks, the optimizer, and the shapes of the batch and of the targets.
NETWORKS: dict[str, tuple[Callable[[Any], Any], str, tuple[int, ...], tuple[int, ...], int]] = {
    "784-2048-2048-10, batch 4096, SGD": (_mlp, "SGD", (4096, 784), (4096,), 10),
    "ResNet-18, 32 images of 128 x 128, SGD": (_resnet, "SGD", (32, 3, 128, 128), (32,), 1000),
    "GPT of 6 layers of 384, 16 x 128, Adam": (_gpt, "Adam", (16, LENGTH), (16, LENGTH), CHARACTERS),
    "LSTM of 4 layers of 256, 64 x 128, Adam": (_lstm, "Adam", (64, LENGTH), (64, LENGTH), CHARACTERS),
}


def step_of(name: str, way: str) -> tuple[Callable[[], float], Any]:
    """Return a training step and its model. `way` may be "checkpoint" or "save_on_cpu"."""
    import torch
    from torch.utils.checkpoint import checkpoint

    nn = torch.nn
    blocks, optimizer_name, shape, target_shape, classes = NETWORKS[name]
    torch.manual_seed(0)
    model = nn.Sequential(*blocks(nn))
    optimizer = getattr(torch.optim, optimizer_name)(model.parameters(), lr=1e-4)
    is_text = len(shape) == 2 and classes == CHARACTERS
    x = torch.randint(0, CHARACTERS, shape) if is_text else torch.randn(shape)
    targets = torch.randint(0, classes, target_shape)

    def output() -> Any:
        y = x
        for block in model:
            y = checkpoint(block, y, use_reentrant=False) if way == "checkpoint" else block(y)
        return y

    def step() -> float:
        optimizer.zero_grad()
        with torch.autograd.graph.save_on_cpu() if way == "save_on_cpu" else nullcontext():
            loss = nn.functional.cross_entropy(output().flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step, model


def _status(name: str) -> int:
    """Return a figure of this process in bytes: ``VmRSS`` or ``VmHWM``."""
    (line,) = (
        line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith(f"{name}:")
    )
    return int(line.split()[1]) * 1024


def print_run(name: str, way: str, folder: str, size: int | None) -> None:
    """Train a network, and print its figures. It runs in a separate process."""
    import torch

    import scopes.torch

    torch.set_num_threads(1)
    step, model = step_of(name, way)
    held = None
    if size is not None:
        held = scopes.torch.budget(size, spill=folder, recompute=True, spill_parameters=True)
    block: AbstractContextManager[Any] = nullcontext() if held is None else held
    if held is not None:
        (torch.ones(1) * 1).sum()
        with scopes.torch.budget(2**50, recompute=True):  # what PyTorch loads at the first use of a mode
            torch.ones(1) * 1
    seconds, losses = [], []
    before = _status("VmRSS")
    start_bytes = 0 if held is None else _started(held)
    CLEAR.write_text("5", encoding="utf-8")  # reset the high-water mark
    for _ in range(STEPS):
        start = time.process_time()
        with block:
            losses.append(step())
        seconds.append(time.process_time() - start)
    resident = _status("VmHWM") - before
    bits = hashlib.sha256()
    for parameter in model.parameters():
        bits.update(parameter.detach().numpy().tobytes())
    figures = None if held is None else held.statistics()
    found = {"resident": resident, "seconds": min(seconds), "same": [losses, bits.hexdigest()]}
    if figures is not None:
        found |= {
            "peak": figures.peak_bytes,
            "start": start_bytes,
            "recomputed": figures.recompute_count // STEPS,
            "spilled": figures.spilled_bytes // STEPS,
        }
    print(json.dumps(found))


def _started(held: Any) -> int:
    """Return the bytes of the tensors that the budget finds at its start."""
    with held:
        pass
    found: int = held.statistics().held_bytes
    return found


def _run(name: str, way: str, folder: str, size: int | None) -> dict[str, Any] | str:
    program = (
        "from benchmarks import torch_whole_steps as steps; "
        f"steps.print_run({name!r}, {way!r}, {folder!r}, {size!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the table."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit("python -m benchmarks.torch_whole_steps FOLDER [NETWORK]; FOLDER is on a disk")
    folder = str(Path(sys.argv[1]).resolve())
    print("| step | way | peak | of plain | resident | s | time / plain | again, a step | written, a step |")
    print("|---|---|" + "---:|" * 7)
    for name in NETWORKS:
        if not name.startswith(sys.argv[2] if len(sys.argv) == 3 else ""):
            continue
        plain = _run(name, "plain", folder, None)
        assert not isinstance(plain, str), plain
        counted = _run(name, "plain", folder, 2**50)
        assert not isinstance(counted, str), counted
        peak = counted["peak"]
        ways: list[tuple[str, str, int | None]] = [("plain", "plain", None), ("counted only", "plain", 2**50)]
        ways += [(f"budget of {part:.0%}", "plain", int(part * peak)) for part in PARTS]
        ways += [("checkpoint of each block", "checkpoint", None), ("save_on_cpu", "save_on_cpu", None)]
        for label, way, size in ways:
            found = {"plain": plain, "counted only": counted}.get(label) or _run(name, way, folder, size)
            if isinstance(found, str):
                print(f"| {name} | {label} | {found} | | | | | | |", flush=True)
                continue
            if size is None:
                counts = _run(name, way, folder, 2**50)
                assert not isinstance(counts, str), counts
                found["peak"] = counts["peak"]
            assert found["same"] == plain["same"], (name, label)
            row = (
                name,
                label,
                format_bytes(found["peak"]),
                f"{found['peak'] / peak:.2f}",
                format_bytes(found["resident"]),
                f"{found['seconds']:.2f}",
                f"{found['seconds'] / plain['seconds']:.2f}",
                str(found.get("recomputed", "")),
                format_bytes(found["spilled"]) if "spilled" in found else "",
            )
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
