"""Train an LSTM to spell numbers, character by character, on packed sequences inside dispose scopes.

    python examples/characters.py
    python examples/characters.py --below 1000 --epochs 20 --seed 7 --quiet

The text is generated: the numbers from 0 to 9,999 in words. Their lengths go from 3 to 42 characters, so
batches are packed sequences, without padding. At the end the model generates texts, and the program prints
which share of them are numbers.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import nn
import tensor
from nn.utils.rnn import PackedSequence, pack_sequence
from scopes import DisposeStatistics, new_dispose_scope, statistics
from tensor import memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
END = "."


def spelled(number: int) -> str:
    """Return a number below 10,000 in words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, ones = TENS[number // 10 - 2], number % 10
        return f"{tens}-{ONES[ones]}" if ones else tens
    for size, word in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = number % size
            return f"{ONES[number // size]} {word}" + (f" {spelled(rest)}" if rest else "")
    raise AssertionError(number)


CHARACTERS = sorted({*"".join([*ONES, *TENS, " -hundred thousand"]), END})
PLACE = {character: i for i, character in enumerate(CHARACTERS)}


class Speller(nn.Module):
    """Predict the next character at each position of a text, as logits."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(CHARACTERS), 16)
        self.lstm = nn.LSTM(16, hidden)
        self.out = nn.Linear(hidden, len(CHARACTERS))

    def forward(self, texts: PackedSequence) -> tensor.Tensor:
        """Return logits ``(characters of all texts, kinds of characters)``."""
        data = self.characters(texts.data)
        read = PackedSequence(data, texts.batch_sizes, texts.sorted_indices, texts.unsorted_indices)
        output, _ = self.lstm(read)
        logits: tensor.Tensor = self.out(output.data)
        return logits


@dataclass(frozen=True)
class Epoch:
    """The figures that are printed for an epoch."""

    number: int
    loss: float
    live_tensors: int
    live_sequences: int
    bytes_live: int

    def __str__(self) -> str:
        return (
            f"epoch {self.number}: loss {self.loss:.4f} a character, {self.live_tensors} live tensors, "
            f"{self.live_sequences} live packed sequences, {self.bytes_live:,} bytes"
        )


@dataclass
class Result:
    """Figures of each epoch, the generated texts, and the statistics after everything was disposed."""

    epochs: list[Epoch] = field(default_factory=list)
    spelled: list[str] = field(default_factory=list)
    left: DisposeStatistics = field(default_factory=DisposeStatistics)

    @property
    def share_of_numbers(self) -> float:
        """The share of the generated texts that are numbers."""
        known = {spelled(number) for number in range(10_000)}
        return sum(text in known for text in self.spelled) / len(self.spelled)


def batches(
    words: Sequence[str], size: int, numbers: np.random.Generator
) -> Iterator[tuple[PackedSequence, PackedSequence]]:
    """Yield packed texts, and the characters that come next. The caller's current scope owns both."""
    order = numbers.permutation(len(words))
    for start in range(0, len(order), size):
        texts = [[PLACE[c] for c in f"{END}{words[i]}{END}"] for i in order[start : start + size]]
        before = [tensor.tensor(text[:-1]) for text in texts]
        after = [tensor.tensor(text[1:]) for text in texts]
        yield pack_sequence(before, enforce_sorted=False), pack_sequence(after, enforce_sorted=False)


def train(
    model: Speller, words: Sequence[str], epochs: int, numbers: np.random.Generator, *, quiet: bool
) -> list[Epoch]:
    """Train the model. Each step runs in a scope, which disposes all tensors of the step."""
    optimizer = nn.optim.Adam(model.parameters(), lr=5e-3)
    told: list[Epoch] = []
    for number in range(1, epochs + 1):
        losses = []
        source = batches(words, 100, numbers)
        while True:
            with new_dispose_scope("step"):
                batch = next(source, None)
                if batch is None:
                    break
                before, after = batch
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(before), after.data)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        optimizer.zero_grad()
        told.append(
            Epoch(
                number,
                sum(losses) / len(losses),
                statistics.of(tensor.Tensor).live_count + statistics.of(nn.Parameter).live_count,
                statistics.of(PackedSequence).live_count,
                memory.statistics().bytes_live,
            )
        )
        if not quiet:
            print(told[-1])
    return told


def spell(model: Speller, count: int, numbers: np.random.Generator) -> list[str]:
    """Generate `count` texts. Each character is drawn with the probability that the model predicts."""
    texts = [""] * count
    going = np.ones(count, bool)
    with new_dispose_scope("spelling") as scope, tensor.no_grad():
        last, state = tensor.tensor([PLACE[END]] * count), None
        for _ in range(40):
            output, state = model.lstm(model.characters(last).unsqueeze(0), state)
            chances = nn.functional.softmax(model.out(output[0]), dim=1).numpy().cumsum(1)
            drawn = (numbers.random((count, 1)) * chances[:, -1:] > chances).sum(1)
            going &= drawn != PLACE[END]
            if not going.any():
                break
            texts = [t + CHARACTERS[i] if goes else t for t, i, goes in zip(texts, drawn, going, strict=True)]
            last = tensor.tensor(drawn)
            scope.dispose_everything_but(last, state)
    return texts


def main(arguments: Sequence[str] | None = None) -> Result:
    """Train, spell and print; return what was printed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--below", type=int, default=10_000, help="train on the numbers from 0 up to this one"
    )
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    options = parser.parse_args(arguments)
    start, before = time.perf_counter(), statistics.snapshot()
    numbers = np.random.default_rng(options.seed)
    tensor.manual_seed(options.seed)
    result = Result()
    with Speller(options.hidden) as model:
        words = [spelled(number) for number in range(options.below)]
        result.epochs = train(model, words, options.epochs, numbers, quiet=options.quiet)
        result.spelled = spell(model, 200, numbers)
    result.left = statistics.snapshot() - before
    print(f"the model spells: {', '.join(result.spelled[:6])}")
    print(f"{result.share_of_numbers:.0%} of 200 are numbers; {time.perf_counter() - start:.0f} s")
    print(f"in the end: {result.left}")
    return result


if __name__ == "__main__":
    main()
