"""Train a small GPT on the characters of sums, inside dispose scopes, and generate sums with it.

    python examples/small_gpt.py
    python examples/small_gpt.py --steps 2000 --seed 7 --quiet

The text is generated: "7+5=12." and so on, in random order. Attention is computed in blocks, so memory is
linear in the length of the input. At the end the model generates sums, and the program prints which share of
them are correct.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import nn
import tensor
from scopes import DisposeStatistics, new_dispose_scope, statistics
from tensor import memory

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMS = [f"{a}+{b}={a + b}." for a in range(10) for b in range(10)]
CHARACTERS = sorted(set("".join(SUMS)))
PLACE = {character: i for i, character in enumerate(CHARACTERS)}
START = "."


class Block(nn.Module):
    """Causal attention, then two linear maps, each with a residual connection."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.maps = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Return ``(batch, length, width)``."""
        batch, length, width = x.shape
        parts = self.queries_keys_values(self.first_norm(x)).chunk(3, 2)
        q, k, v = (part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        p = self.p if self.training else 0.0
        attended = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        x = x + self.joined(attended.transpose(1, 2).reshape(batch, length, width))
        mapped: tensor.Tensor = x + self.maps(self.second_norm(x))
        return mapped


class GPT(nn.Module):
    """Predict the next character at each position of a text, as logits."""

    def __init__(self, length: int, layers: int = 2, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.length = length
        self.characters = nn.Embedding(len(CHARACTERS), width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout=0.05) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, len(CHARACTERS), bias=False)

    def forward(self, text: tensor.Tensor) -> tensor.Tensor:
        """Return logits ``(batch, length, kinds of characters)`` for ``(batch, length)`` characters."""
        places = tensor.arange(text.shape[1])
        x = self.blocks(self.characters(text) + self.places(places))
        logits: tensor.Tensor = self.out(self.norm(x))
        return logits


@dataclass(frozen=True)
class Mark:
    """The figures that are printed regularly."""

    step: int
    loss: float
    live_tensors: int
    bytes_live: int

    def __str__(self) -> str:
        return (
            f"step {self.step}: loss {self.loss:.3f} a character, {self.live_tensors} live tensors, "
            f"{self.bytes_live:,} bytes"
        )


@dataclass
class Result:
    """Figures of the training, the generated sums, and the statistics after everything was disposed."""

    marks: list[Mark] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    left: DisposeStatistics = field(default_factory=DisposeStatistics)

    @property
    def share_of_right(self) -> float:
        """The share of the generated sums that are correct."""
        return sum(text in SUMS for text in self.written) / max(len(self.written), 1)


def encoded(text: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the number of each character."""
    return np.array([PLACE[character] for character in text])


def train(model: GPT, steps: int, numbers: np.random.Generator, *, quiet: bool) -> list[Mark]:
    """Train on windows of the text. Each step runs in a scope, which disposes all tensors of the step."""
    text = encoded(START + "".join(SUMS[i] for i in numbers.integers(0, len(SUMS), 10_000)))
    optimizer = nn.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 1e-4)
    marks: list[Mark] = []
    losses: list[float] = []
    for step in range(1, steps + 1):
        starts = numbers.integers(0, len(text) - model.length - 1, 32)
        windows = text[starts[:, None] + np.arange(model.length + 1)]
        with new_dispose_scope("step"):
            before, after = tensor.tensor(windows[:, :-1]), tensor.tensor(windows[:, 1:])
            optimizer.zero_grad()
            logits = model(before)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), after.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        if step % max(steps // 6, 1) == 0:
            live = statistics.of(tensor.Tensor).live_count + statistics.of(nn.Parameter).live_count
            marks.append(Mark(step, sum(losses) / len(losses), live, memory.statistics().bytes_live))
            losses.clear()
            if not quiet:
                print(marks[-1])
    optimizer.zero_grad()
    return marks


def write(model: GPT, count: int, length: int, numbers: np.random.Generator) -> list[str]:
    """Generate `count` texts, each character drawn with the predicted probability. Return the sums."""
    texts = [START] * count
    model.eval()
    for _ in range(length):
        with new_dispose_scope("writing"), tensor.no_grad():
            read = tensor.tensor([encoded(text[-model.length :]) for text in texts])
            chances = nn.functional.softmax(model(read)[:, -1], dim=1).numpy().cumsum(1)
            drawn = (numbers.random((count, 1)) * chances[:, -1:] > chances).sum(1)
            texts = [text + CHARACTERS[i] for text, i in zip(texts, drawn, strict=True)]
    return [f"{written}." for text in texts for written in text[1:].split(".")[:-1]]


def main(arguments: Sequence[str] | None = None) -> Result:
    """Train, generate and print. Return the printed figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--length", type=int, default=32, help="the length of a window, in characters")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    options = parser.parse_args(arguments)
    start, before = time.perf_counter(), statistics.snapshot()
    numbers = np.random.default_rng(options.seed)
    tensor.manual_seed(options.seed)
    result = Result()
    with GPT(options.length) as model:
        result.marks = train(model, options.steps, numbers, quiet=options.quiet)
        result.written = write(model, 8, 100, numbers)
    result.left = statistics.snapshot() - before
    print(f"the model writes: {' '.join(result.written[:5])}")
    share, seconds = result.share_of_right, time.perf_counter() - start
    print(f"{share:.0%} of {len(result.written)} sums are right; {seconds:.0f} s")
    print(f"in the end: {result.left}")
    return result


if __name__ == "__main__":
    main()
