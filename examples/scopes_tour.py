"""Show what dispose scopes do, step by step.

python examples/scopes_tour.py
"""

from __future__ import annotations

import nn
import tensor
from scopes import disposing, new_dispose_scope, statistics


def a_scope_ends() -> None:
    """End a scope: it disposes the tensors that the block created, even if a name still refers to them."""
    with new_dispose_scope("step") as scope:
        x = tensor.ones((2, 3))
        doubled = x * 2
        print("  inside:", scope)
    print("  after:  x.is_invalid =", x.is_invalid, " doubled.is_invalid =", doubled.is_invalid)
    try:
        x + 1
    except tensor.TensorDisposedError as error:
        print("  x + 1:", error)


def a_result_survives() -> None:
    """Move a result to the outer scope, so that it outlives its own."""
    with new_dispose_scope("outer") as outer:
        with new_dispose_scope("inner") as inner:
            total = inner.move_to_outer(tensor.ones((4,)).sum())
        print("  after the inner scope:", total.item(), " owned by the outer:", total in outer)


@disposing
def standardized(x: tensor.Tensor) -> tensor.Tensor:
    """Return `x` with mean 0 and deviation 1. The end of the call disposes the intermediate results."""
    centered = x - x.mean()
    return centered / (centered * centered).mean().sqrt()


def a_function_has_a_scope() -> None:
    """Run each call of a function in a scope. The result belongs to the caller's scope."""
    with new_dispose_scope() as scope:
        result = standardized(tensor.tensor([1.0, 2.0, 3.0]))
        print("  result:", [round(v, 3) for v in result.tolist()], " owned here:", result in scope)


def a_scope_prolongs_nothing() -> None:
    """Delete tensors in a long scope: each is freed with its last reference."""
    with new_dispose_scope("long") as scope:
        x = tensor.zeros((100,))
        for _ in range(1_000):
            x = x + 1
        print("  after 1,000 additions the scope owns", len(scope), "tensor:", x[0].item())


def an_exception_keeps_no_memory() -> None:
    """Keep an exception: its frames refer to tensors, which the scope has disposed."""
    before = statistics.snapshot()
    kept = None
    try:
        with new_dispose_scope("failing"):
            big = tensor.zeros((1_000, 1_000))
            big @ tensor.ones((3, 3))
    except ValueError as error:
        kept = error
    print("  kept:", str(kept)[:60], "...")
    print("  tensors left:", (statistics.snapshot() - before).live_count)


def a_model_is_trained() -> None:
    """Train a model: parameters outlive the scopes of steps, which dispose everything else."""
    tensor.manual_seed(0)
    before = statistics.snapshot()
    inputs = tensor.randn(64, 4)
    targets = (inputs.sum(dim=1) > 0).long()
    with new_dispose_scope("building"):
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        optimizer = nn.optim.Adam(model.parameters(), lr=0.05)
    for step in range(30):
        with new_dispose_scope("step"):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            value = loss.item()
        if step % 10 == 9:
            live = (statistics.snapshot() - before).live_count
            print(f"  step {step + 1}: loss {value:.4f}, {live} live tensors")
    for held in (optimizer, model, inputs, targets):
        held.dispose()
    print("  in the end:", statistics.snapshot() - before)


TOUR = {
    "A scope ends": a_scope_ends,
    "A result survives": a_result_survives,
    "A function has a scope": a_function_has_a_scope,
    "A scope prolongs nothing": a_scope_prolongs_nothing,
    "An exception keeps no memory": an_exception_keeps_no_memory,
    "A model is trained": a_model_is_trained,
}


def main() -> None:
    """Run all steps."""
    for title, stop in TOUR.items():
        print(title)
        stop()
        print()


if __name__ == "__main__":
    main()
