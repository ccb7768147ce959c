"""Random PyTorch programs with random scopes and disposals, compared with the same programs without them.

``python -m tests.fuzz_torch --programs 10000 --seed 1`` prints each program where a use of a disposed tensor
is no clear error, where a live one is an error, or where a value or a gradient differs in a bit. A crash of
the interpreter ends it.
"""

from __future__ import annotations

import argparse
import copy
import pickle
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch

import scopes.torch
from scopes import DisposeScope, TensorDisposedError, dispose

Slots = dict[int, Any]

MAKERS: dict[str, Callable[[], Any]] = {
    "randn": lambda: torch.randn(3, 4),
    "randn, square": lambda: torch.randn(4, 4),
    "leaf": lambda: torch.randn(3, 4, requires_grad=True),
    "vector": lambda: torch.randn(4),
    "arange": lambda: torch.arange(12.0).view(3, 4),
    "double": lambda: torch.randn(3, 4, dtype=torch.float64),
    "complex": lambda: torch.randn(3, 4, dtype=torch.complex64),
    "int": lambda: torch.randint(0, 5, (3, 4)),
    "bool": lambda: torch.rand(3, 4) > 0.5,
    "from_numpy": lambda: torch.from_numpy(torch.randn(3, 4).numpy().copy()),
    "constructor": lambda: torch.Tensor([[1.0, 2.0, 3.0, 4.0]]),
    "sparse": lambda: torch.eye(4).to_sparse(),
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "tanh": torch.tanh,
    "relu": lambda x: torch.nn.functional.relu(x),
    "neg": lambda x: -x,
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(dim=0),
    "softmax": lambda x: torch.softmax(x, -1),
    "transpose": lambda x: x.T,
    "flatten": lambda x: x.reshape(-1),
    "row": lambda x: x[0],
    "slice": lambda x: x[..., 1:3],
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "contiguous": lambda x: x.contiguous(),
    "to double": lambda x: x.to(torch.float64),
    "to itself": lambda x: x.to(x.dtype),
    "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape),
    "unbind": lambda x: x.unbind(0)[-1],
    "chunk": lambda x: x.chunk(2, dim=-1)[0],
    "max": lambda x: x.max(dim=-1).values,
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "no dropout": lambda x: torch.nn.functional.dropout(x, 0.5, training=False),
    "cumsum": lambda x: x.cumsum(-1),
    "norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "vmap": lambda x: torch.func.vmap(lambda row: row * 2)(x),
    "dense": lambda x: x.to_dense(),
    # A copy: an array of NumPy over `x` itself would see freed memory, in PyTorch alone too.
    "share": lambda x: x.clone().share_memory_(),
    "autocast": lambda x: _autocast(x),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=False),
    "subclass": lambda x: x.as_subclass(Tagged),
    "dlpack": lambda x: torch.from_dlpack(x),
    "custom": lambda x: Cube.apply(x),
    "gradient": lambda x: torch.autograd.grad(x.sum(), x, allow_unused=True)[0],
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "matmul": lambda x, y: x @ y.T,
    "cat": lambda x, y: torch.cat([x, y]),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "stack": lambda x, y: torch.stack((x, y), dim=-1),
    "index": lambda x, y: x[y > 0],
}
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y),
    "mul_": lambda x, y: x.mul_(2),
    "relu_": lambda x, y: x.relu_(),
    "copy_": lambda x, y: x.copy_(y),
    "set item": lambda x, y: x.__setitem__(0, 1.0),
    "set row": lambda x, y: x.__setitem__(0, y[0]),
    "out": lambda x, y: torch.mul(y, 2, out=x),
    "data =": lambda x, y: _set_data(x, y.detach().clone()),
    "grad =": lambda x, y: setattr(x, "grad", y.detach().clone()),
    "requires_grad_": lambda x, y: x.requires_grad_(),
    "retain_grad": lambda x, y: x.retain_grad(),
    "hook": lambda x, y: x.register_hook(lambda gradient: gradient * 2),
    "backward": lambda x, y: x.sum().backward(),
    "backward, retained": lambda x, y: x.sum().backward(retain_graph=True),
    "zero grad": lambda x, y: setattr(x, "grad", None),
}


# A tensor of `from_dlpack` over memory that is exchanged by `data =` sees freed memory, in PyTorch alone too.
_exchanged: list[Any] = []


def _set_data(x: Any, y: Any) -> None:
    if x.layout is torch.strided:
        _exchanged.append(x.untyped_storage())
    x.data = y


class Tagged(torch.Tensor):
    """A user's own."""


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        square = x * x
        ctx.save_for_backward(x, square)
        return square * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, square = ctx.saved_tensors
        assert not isinstance(x, scopes.adapters.torch.disposal.DisposedTensor)
        return 3 * (x * x + square) / 2 * gradient


def _autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.T


Instruction = tuple[Any, ...]


def programs(count: int, seed: int) -> Iterator[tuple[bool, list[Instruction]]]:
    """Yield random programs, and whether operators are noticed exactly."""
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        program: list[Instruction] = []
        made = 0
        for _ in range(draw.randint(8, 40)):
            kind = draw.choices(
                [
                    "make",
                    "unary",
                    "binary",
                    "in place",
                    "module",
                    "open",
                    "close",
                    "end",
                    "move",
                    "detach",
                    "drop",
                    "numpy",
                ],
                [4, 8, 6, 6, 3, 3, 3, 3, 2, 1, 2, 1],
            )[0]
            one, two = draw.randrange(made + 1), draw.randrange(made + 1)
            if kind == "make":
                program.append((kind, draw.choice([*MAKERS]), made))
            elif kind == "unary":
                program.append((kind, draw.choice([*UNARY]), made, one))
            elif kind == "binary":
                program.append((kind, draw.choice([*BINARY]), made, one, two))
            elif kind == "in place":
                program.append((kind, draw.choice([*IN_PLACE]), None, one, two))
            elif kind == "module":
                program.append(
                    (kind, draw.choice(["linear", "norm", "gru", "step", "to", "zero"]), made, one)
                )
            else:
                program.append((kind, None, None, one))
            made += program[-1][2] is not None
        yield draw.random() < 0.3, program


class Run:
    """One run of a program."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.slots: Slots = {}
        self.arrays: list[Any] = []
        # The bits of what is alive at the end, while its scopes are open.
        self.values: dict[int, tuple[Value, Value | None]] = {}
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.gru = torch.nn.GRUCell(4, 4)
        self.modules = torch.nn.ModuleList([self.linear, self.norm, self.gru])
        self.optimizer = torch.optim.Adam(self.modules.parameters(), lr=0.1)

    def compute(self, instruction: Instruction, operands: list[Any]) -> Any:
        kind, name = instruction[:2]
        if kind == "make":
            return MAKERS[name]()
        if kind == "unary":
            return UNARY[name](*operands)
        if kind == "binary":
            return BINARY[name](*operands)
        if kind == "in place":
            IN_PLACE[name](*operands)
        elif kind == "numpy":
            self.arrays.append(operands[0].numpy())
        elif name == "step":
            self.optimizer.step()
        elif name == "zero":
            self.optimizer.zero_grad()
        elif name == "to":
            self.modules.to(torch.float64).to(torch.float32)
        elif name == "gru":
            return self.gru(operands[0])
        else:
            return getattr(self, name)(operands[0])
        return None

    def do(self, index: int, instruction: Instruction) -> str | None:
        """Compute, and return the name of what was raised."""
        operands = [self.slots.get(slot) for slot in instruction[3:]]
        needs_none = instruction[1] in ("step", "zero", "to")
        if not needs_none and any(x is None for x in operands):
            return "missing"
        torch.manual_seed(index)
        try:
            result = self.compute(instruction, operands)
        except TensorDisposedError:
            raise
        except Exception as error:
            return type(error).__name__
        if instruction[2] is not None and result is not None:
            self.slots[instruction[2]] = result
        return None


def _is_disposed(x: Any) -> bool:
    return isinstance(x, scopes.adapters.torch.disposal.DisposedTensor)


def run_owned(
    exact: bool, program: list[Instruction], counts: Counter[str]
) -> tuple[Run, dict[int, str | None]]:
    """Run it with its scopes and disposals; return what was computed, by instruction."""
    run = Run()
    done: dict[int, str | None] = {}
    with ExitStack() as stack:
        stack.enter_context(scopes.torch.owning(exact=exact))
        opened: list[DisposeScope] = []
        stack.callback(lambda: [scope.dispose() for scope in reversed(opened)])
        for index, instruction in enumerate(program):
            kind = instruction[0]
            x = run.slots.get(instruction[3]) if len(instruction) > 3 else None
            if kind == "open":
                opened.append(DisposeScope(f"scope {index}"))
            elif kind == "close" and opened:
                opened.pop().dispose()
            elif kind == "end" and x is not None:
                counts["disposals"] += not _is_disposed(x)
                dispose(x)
            elif kind == "move" and opened:
                opened[-1].move_to_outer([x])
            elif kind == "detach" and opened:
                opened[-1].detach(x)
            elif kind == "drop":
                run.slots.pop(instruction[3], None)
                done[index] = None
            elif kind in ("make", "unary", "binary", "in place", "module", "numpy"):
                operands = [run.slots.get(slot) for slot in instruction[3:]]
                if instruction[1] in UNUSED_SECOND:
                    operands = operands[:1]
                if instruction[1] in ("step", "zero", "to"):
                    operands = []
                is_dead = any(_is_disposed(operand) for operand in operands)
                is_whole = all(operand is not None for operand in operands)
                try:
                    raised = run.do(index, instruction)
                except TensorDisposedError as error:
                    counts["clear errors"] += 1
                    if not is_dead:
                        raise AssertionError(
                            f"{index} {instruction}: a live tensor raised {error}"
                        ) from error
                    continue
                if is_dead and is_whole:
                    # Torch's own error, of what asks no class: an assignment to `data` or `grad`.
                    if raised is None:
                        raise AssertionError(f"{index} {instruction}: a disposed tensor was used")
                    counts["torch's own errors"] += 1
                    continue
                done[index] = raised
        run.values = {slot: snapshot(x) for slot, x in run.slots.items() if not _is_disposed(x)}
    return run, done


# In-place instructions that use their first operand alone.
UNUSED_SECOND = {
    *("mul_", "relu_", "set item", "requires_grad_", "retain_grad", "hook"),
    *("backward", "backward, retained", "zero grad"),
}


Value = tuple[str, tuple[int, ...], bytes]


def snapshot(x: Any) -> tuple[Value, Value | None]:
    """Return the bits of `x`, and those of its gradient if it has one."""
    x = x.as_subclass(torch.Tensor) if type(x) is Tagged else x
    return bits(x), bits(x.grad) if x.is_leaf and x.grad is not None else None


def bits(x: Any) -> Value:
    whole = x.detach().to_dense().resolve_conj().resolve_neg()
    return (
        str(whole.dtype),
        tuple(whole.shape),
        whole.contiguous().view(-1).view(torch.uint8).numpy().tobytes(),
    )


def compare(count: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Run programs both ways; return what differs, and how much there was of what."""
    found: list[str] = []
    counts: Counter[str] = Counter()
    for exact, program in programs(count, seed):
        counts["programs"] += 1
        try:
            owned, done = run_owned(exact, program, counts)
        except AssertionError as error:
            found.append(f"{error}\n{program}")
            continue
        plain = Run()
        for index, raised in done.items():
            if program[index][0] == "drop":
                plain.slots.pop(program[index][3], None)
                continue
            again = plain.do(index, program[index])
            if again != raised:
                found.append(f"{index} {program[index]}: raised {raised}, without scopes {again}\n{program}")
                break
        else:
            for slot, values in owned.values.items():
                counts["survivors"] += 1
                if values != snapshot(plain.slots[slot]):
                    found.append(f"slot {slot} differs (exact: {exact})\n{program}")
            for one, two in zip(owned.arrays, plain.arrays, strict=True):
                if one.tobytes() != two.tobytes():
                    found.append(f"an array differs\n{program}")
            for p, q in zip(
                owned.modules.state_dict().values(), plain.modules.state_dict().values(), strict=True
            ):
                if bits(p) != bits(q):
                    found.append(f"a parameter differs (exact: {exact})\n{program}")
                    break
    return found, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found, counts = compare(options.programs, options.seed)
    for text in found[:10]:
        print(text, end="\n\n")
    print(dict(counts), f"{len(found)} differences")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
