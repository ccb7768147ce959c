"""Attention, forward and with backward; training steps of GPTs, as in minGPT and with attention in blocks."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import OURS, TORCH, Library
from benchmarks.harness import Case, Timer, in_scope, repeated, timed
from benchmarks.networks import CHECKING_RATE, TIMING_RATE, Step

# Batch, heads, length, features of a head, and whether it is causal.
ATTENTIONS = (
    (16, 4, 128, 32, True),
    (8, 8, 256, 64, True),
    (2, 8, 1024, 64, False),
    (2, 8, 1024, 64, True),
)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a GPT and of its batches."""

    layers: int
    heads: int
    width: int
    length: int
    batch: int
    characters: int = 65

    def __str__(self) -> str:
        return f"{self.layers} x {self.width}, {self.batch} x {self.length}"


# "gpt-nano", "gpt-micro" and "gpt-mini" of minGPT, on characters.
SIZES = (Sizes(3, 3, 48, 64, 32), Sizes(4, 4, 128, 128, 32), Sizes(6, 6, 192, 128, 16))
DROPOUT = 0.1


def cases() -> Iterator[Case]:
    """Yield a case for each attention and each GPT."""
    both = partial(Case, contenders=(OURS, TORCH))
    for sizes in ATTENTIONS:
        *numbers, is_causal = sizes
        name = " x ".join(map(str, numbers)) + ", causal" * is_causal
        for what in ("forward", "with backward"):
            yield both(
                f"attention/{name}, {what}",
                partial(_attention_timer, sizes, what),
                check=partial(_attention_figures, sizes, what),
                round_seconds=0.1,
                rounds=20,
            )
    for size in SIZES:
        for in_blocks in (False, True):
            yield both(
                f"attention/{'GPT in blocks' if in_blocks else 'minGPT'} {size}",
                partial(_training_timer, size, in_blocks),
                check=partial(_losses, size, in_blocks),
                round_seconds=0.4,
                rounds=20,
            )


# --- Attention alone ----------------------------------------------------------------------------------------


def _attention(library: Library, sizes: tuple[int, ...], what: str) -> Callable[[], Any]:
    *shape, is_causal = sizes
    random = np.random.default_rng(0)
    is_recorded = what != "forward"
    query, key, value, gradient = (
        library.array(random.standard_normal(shape, dtype=np.float32), requires_grad=is_recorded)
        for _ in range(4)
    )
    run = library.nn.functional.scaled_dot_product_attention

    def forward() -> Any:
        return run(query, key, value, is_causal=bool(is_causal))

    def with_backward() -> Any:
        for x in (query, key, value):
            x.grad = None
        forward().backward(gradient.detach())
        return query.grad

    return with_backward if is_recorded else forward


def _attention_timer(sizes: tuple[int, ...], what: str, library: Library) -> Timer:
    return in_scope(library, repeated(_attention(library, sizes, what)))


def _attention_figures(sizes: tuple[int, ...], what: str, library: Library) -> Sequence[float]:
    found = _attention(library, sizes, what)()
    return [float(x) for x in found.detach().numpy()[0, 0, -1, :4]]


# --- A GPT as minGPT writes it ------------------------------------------------------------------------------


def _checkpoint_of(library: Library) -> Any:
    if library.name == OURS:
        return library.xp.autograd.checkpoint
    from torch.utils.checkpoint import checkpoint

    return partial(checkpoint, use_reentrant=False)


def _gpt(library: Library, sizes: Sizes, in_blocks: bool, dropout: float, checkpointed: int = 0) -> Any:
    nn = library.nn
    functional = nn.functional
    checkpoint: Any = _checkpoint_of(library) if checkpointed else None

    class NewGELU(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return 0.5 * x * (1.0 + (math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3.0))).tanh())

    class CausalSelfAttention(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.c_attn = nn.Linear(sizes.width, 3 * sizes.width)
            self.c_proj = nn.Linear(sizes.width, sizes.width)
            self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)
            lower = np.tri(sizes.length, dtype=np.float32)[None, None]
            self.register_buffer("bias", library.array(lower))

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            heads = (batch, length, sizes.heads, width // sizes.heads)
            q, k, v = (part.view(heads).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
            if in_blocks:
                p = dropout if self.training else 0.0
                y = functional.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
            else:
                att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
                att = att.masked_fill(self.bias[:, :, :length, :length] == 0, -math.inf)
                y = self.attn_dropout(functional.softmax(att, dim=-1)) @ v
            y = y.transpose(1, 2).contiguous().view(batch, length, width)
            return self.resid_dropout(self.c_proj(y))

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(sizes.width), nn.LayerNorm(sizes.width)
            self.attn = CausalSelfAttention()
            self.c_fc = nn.Linear(sizes.width, 4 * sizes.width)
            self.c_proj = nn.Linear(4 * sizes.width, sizes.width)
            self.act, self.dropout = NewGELU(), nn.Dropout(dropout)

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln_1(x))
            return x + self.dropout(self.c_proj(self.act(self.c_fc(self.ln_2(x)))))

    class GPT(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wte = nn.Embedding(sizes.characters, sizes.width)
            self.wpe = nn.Embedding(sizes.length, sizes.width)
            self.drop = nn.Dropout(dropout)
            self.h = nn.ModuleList([Block() for _ in range(sizes.layers)])
            self.ln_f = nn.LayerNorm(sizes.width)
            self.lm_head = nn.Linear(sizes.width, sizes.characters, bias=False)

        def forward(self, tokens: Any, targets: Any) -> Any:
            places = library.array(np.arange(tokens.shape[1])[None])
            x = self.drop(self.wte(tokens) + self.wpe(places))
            for i, block in enumerate(self.h):
                x = checkpoint(block, x) if i < checkpointed else block(x)
            logits = self.lm_head(self.ln_f(x))
            return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    return GPT()


def training_step(
    library: Library, sizes: Sizes, in_blocks: bool, rate: float, *, checkpointed: int = 0
) -> Step:
    """Create model and data, and return the step of minGPT's trainer, without dropout, to compare losses.

    Checkpoint the first `checkpointed` blocks.
    """
    random = np.random.default_rng(0)
    model = _gpt(library, sizes, in_blocks, DROPOUT if rate == TIMING_RATE else 0.0, checkpointed)
    state = model.state_dict()
    for name, x in state.items():
        if not name.endswith("attn.bias"):
            state[name] = library.array(random.normal(0, 0.1, tuple(x.shape)).astype(np.float32))
    model.load_state_dict(state)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = library.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))
    text = random.integers(0, sizes.characters, (sizes.batch, sizes.length + 1))
    tokens, targets = (library.array(np.ascontiguousarray(x)) for x in (text[:, :-1], text[:, 1:]))

    def step() -> float:
        with library.scope():
            loss = model(tokens, targets)
            model.zero_grad(set_to_none=True)
            loss.backward()
            library.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return float(loss.item())

    return step


def _training_timer(sizes: Sizes, in_blocks: bool, library: Library) -> Timer:
    return timed(repeated(training_step(library, sizes, in_blocks, TIMING_RATE)))


def _losses(sizes: Sizes, in_blocks: bool, library: Library) -> Sequence[float]:
    step = training_step(library, sizes, in_blocks, CHECKING_RATE / 10)
    return [step() for _ in range(3)]
