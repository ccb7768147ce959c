"""A ResourceWarning names an open scope that no variable holds, also while PyTorch's tensors are tracked."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import scopes
import scopes.torch
from scopes import current_dispose_scope, new_dispose_scope


def lose(count: int) -> list[Any]:
    new_dispose_scope("lost")
    return [torch.ones(2) for _ in range(count)]


@pytest.mark.parametrize("is_tracking", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("is_kept", [False, True])
def test_the_next_scope_warns_of_a_dropped_one(is_tracking: bool, exact: bool, is_kept: bool) -> None:
    with scopes.track() if is_tracking else nullcontext(), scopes.torch.owning(exact=exact):
        kept = lose(3)
        if not is_kept:
            kept.clear()
        try:
            with pytest.warns(ResourceWarning, match="'lost': open, .* was never ended"), new_dispose_scope():
                pass
        finally:
            lost = current_dispose_scope()
            assert lost is not None
            lost.dispose()


@pytest.mark.parametrize("exact", [False, True])
def test_a_scope_in_a_with_block_gives_no_warning_while_tensors_are_tracked(exact: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with scopes.track(), scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
            del scope
            kept = [torch.ones(2) for _ in range(3)]
            with new_dispose_scope():
                del kept[0]
                torch.ones(2)
            with new_dispose_scope():
                pass
