"""Losses of margins, distributions and labels in time: values, gradients and layers are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor.autograd import gradcheck, gradgradcheck

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)


class Case(NamedTuple):
    """A layer, its options, and what it compares: arrays, of which the first `wanted` have gradients."""

    name: str
    options: dict[str, Any]
    arrays: tuple[Any, ...]
    wanted: int = 1


def normal(*shape: int) -> Any:
    return np.asarray(RANDOM.standard_normal(shape))


def positive(*shape: int) -> Any:
    return np.asarray(RANDOM.uniform(0.1, 3.0, shape))


def signs(*shape: int) -> Any:
    return np.asarray(RANDOM.choice([-1.0, 1.0], shape))


def classes(count: int, *shape: int) -> Any:
    return np.asarray(RANDOM.integers(0, count, shape))


def log_chances(*shape: int) -> Any:
    x = normal(*shape)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def chances(*shape: int) -> Any:
    x = np.exp(log_chances(*shape))
    x.reshape(-1)[::3] = 0
    return x


SHAPES: list[tuple[int, ...]] = [(5, 7), (3,), (2, 3, 4), (0, 3), ()]
VECTORS: list[tuple[int, ...]] = [(5, 7), (3,), (0, 3), (1, 1)]
# Of an empty batch PyTorch leaves these losses unwritten: see `test_margins`.
MARGINS: list[tuple[int, ...]] = [(5, 7), (3,), (1, 1)]
ENDED = np.array([[2, 0, -1, 1], [-1, 0, 1, 2], [3, 2, 1, 0], [1, 1, -1, -1]])


def labelled(
    time: int, lengths: tuple[int, ...], labels: tuple[int, ...], one: bool = False
) -> tuple[Any, ...]:
    """Return what CTC compares: log-probabilities of five classes, targets and lengths."""
    batch, most = len(lengths), max(labels)
    targets = RANDOM.integers(1, 5, (batch, most))
    if one:
        return log_chances(time, 5), targets[0], np.asarray(lengths[0]), np.asarray(labels[0])
    return log_chances(time, batch, 5), targets, np.asarray(lengths), np.asarray(labels)


CASES = [
    *(Case("KLDivLoss", {}, (log_chances(*s), chances(*s))) for s in SHAPES if s),
    Case("KLDivLoss", {}, (log_chances(4, 3), np.exp(log_chances(4, 3))), 2),
    Case("KLDivLoss", {"log_target": True}, (log_chances(4, 3), log_chances(4, 3)), 2),
    *(Case("PoissonNLLLoss", {}, (normal(*s), positive(*s)), 2) for s in SHAPES),
    Case("PoissonNLLLoss", {"log_input": False, "eps": 0.01}, (positive(5, 3), positive(5, 3)), 2),
    Case("PoissonNLLLoss", {"full": True}, (normal(5, 3), positive(5, 3))),
    *(Case("GaussianNLLLoss", {}, (normal(*s), normal(*s), positive(*s)), 3) for s in SHAPES),
    Case("GaussianNLLLoss", {"full": True, "eps": 1.0}, (normal(4, 3), normal(4, 3), positive(4, 1)), 3),
    Case("GaussianNLLLoss", {}, (normal(4, 3), normal(4, 3), positive(4)), 3),
    Case("GaussianNLLLoss", {}, (normal(4, 3), normal(4, 3), 0.5), 2),
    *(Case("MarginRankingLoss", {}, (normal(*s), normal(*s), signs(*s)), 2) for s in SHAPES),
    Case("MarginRankingLoss", {"margin": 0.7}, (normal(9), normal(9), signs(9)), 2),
    *(Case("HingeEmbeddingLoss", {}, (normal(*s), signs(*s))) for s in SHAPES),
    Case("HingeEmbeddingLoss", {"margin": 0.3}, (positive(9), signs(9))),
    *(Case("SoftMarginLoss", {}, (normal(*s), signs(*s))) for s in SHAPES),
    *(Case("CosineEmbeddingLoss", {}, (normal(*s), normal(*s), signs(*s[:-1])), 2) for s in VECTORS),
    Case("CosineEmbeddingLoss", {"margin": 0.2}, (normal(6, 2), normal(6, 2), signs(6)), 2),
    *(Case("TripletMarginLoss", {}, (normal(*s), normal(*s), normal(*s)), 3) for s in VECTORS),
    Case("TripletMarginLoss", {"swap": True, "p": 1.0}, (normal(6, 4), normal(6, 4), normal(6, 4)), 3),
    Case("TripletMarginLoss", {"p": 3.0, "margin": 2.0}, (normal(6, 4), normal(6, 4), normal(6, 4)), 3),
    Case("TripletMarginWithDistanceLoss", {"swap": True}, (normal(6, 4), normal(6, 4), normal(6, 4)), 3),
    *(Case("MultiMarginLoss", {}, (normal(*s), classes(s[-1], *s[:-1]))) for s in MARGINS),
    Case("MultiMarginLoss", {"p": 2, "margin": 0.5}, (normal(6, 4), classes(4, 6))),
    *(Case("MultiLabelMarginLoss", {}, (normal(*s), classes(s[-1], *s))) for s in MARGINS),
    Case("MultiLabelMarginLoss", {}, (normal(4, 4), ENDED)),
    *(Case("MultiLabelSoftMarginLoss", {}, (normal(*s), classes(2, *s))) for s in SHAPES if s),
    Case("CTCLoss", {}, labelled(9, (9, 7, 8), (3, 2, 4))),
    Case("CTCLoss", {"blank": 0, "zero_infinity": True}, labelled(4, (4, 2, 3), (2, 4, 1))),
    Case("CTCLoss", {}, labelled(5, (5, 3), (2, 0))),
    Case("CTCLoss", {}, labelled(6, (6,), (3,), one=True)),
    Case("CosineSimilarity", {}, (normal(5, 7), normal(5, 7)), 2),
    Case("CosineSimilarity", {"dim": 0, "eps": 0.5}, (normal(3, 4), normal(3, 1)), 2),
    Case("CosineSimilarity", {"dim": -1}, (np.zeros((2, 3)), normal(2, 3)), 2),
    Case("CosineSimilarity", {}, (normal(0, 3), normal(0, 3)), 2),
    Case("PairwiseDistance", {}, (normal(5, 7), normal(5, 7)), 2),
    Case("PairwiseDistance", {"p": 1.0, "keepdim": True}, (normal(5, 7), normal(7)), 2),
    Case("PairwiseDistance", {"p": float("inf")}, (normal(5, 7), normal(5, 7)), 2),
]
WEIGHED = [
    Case("MultiMarginLoss", {}, (normal(6, 4), classes(4, 6))),
    Case("MultiMarginLoss", {"p": 2}, (normal(4), classes(4))),
    Case("MultiLabelSoftMarginLoss", {}, (normal(6, 4), classes(2, 6, 4))),
]

DISTANCES = ("CosineSimilarity", "PairwiseDistance")


def named(case: Case) -> str:
    return f"{case.name}{case.options or ''}{getattr(case.arrays[0], 'shape', '')}"


def result(library: Any, make: Any, layer: Any, case: Case) -> tuple[Any, list[Any]]:
    """Return the loss, and gradients of a weighted sum of it."""
    given = [make(x) if isinstance(x, np.ndarray) else x for x in case.arrays]
    for x in given[: case.wanted]:
        x.requires_grad_()
    loss = layer(*given)
    weights = np.arange(1.0, 1 + loss.numel()).reshape(tuple(loss.shape))
    (loss * make(weights)).sum().backward()
    found = [np.zeros(tuple(x.shape)) if x.grad is None else x.grad.numpy() for x in given[: case.wanted]]
    return loss.detach().numpy(), found


def assert_pytorchs(case: Case, options: dict[str, Any], weight: Any = None) -> None:
    both = []
    for library, make in ((nn, tensor.tensor), (torch.nn, torch.tensor)):
        more = {} if weight is None else {"weight": make(weight)}
        both.append(result(library, make, getattr(library, case.name)(**options, **more), case))
    (found, gradients), (expected, slopes) = both
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    for gradient, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES, ids=named)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_values_and_gradients_are_pytorchs(case, reduction):
    if case.name in DISTANCES:
        assert_pytorchs(case, case.options)
    else:
        assert_pytorchs(case, {**case.options, "reduction": reduction})


@pytest.mark.parametrize("case", WEIGHED, ids=named)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_classes_may_count_differently(case, reduction):
    assert_pytorchs(case, {**case.options, "reduction": reduction}, positive(4))


def test_the_divergence_itself_is_the_sum_over_the_batch():
    assert_pytorchs(Case("KLDivLoss", {}, (log_chances(4, 3), chances(4, 3))), {"reduction": "batchmean"})


def test_single_precision_stays():
    for case in CASES:
        given = [
            x if isinstance(x, float) else tensor.tensor(x.astype("float32") if x.dtype.kind == "f" else x)
            for x in case.arrays
        ]
        if "Margin" in case.name and "Triplet" not in case.name:
            given[-1] = given[-1].long()
        assert str(getattr(nn, case.name)(**case.options)(*given).dtype) == "float32", case.name


@pytest.mark.parametrize("case", [*CASES, *WEIGHED], ids=named)
def test_layers_describe_themselves_and_are_saved_as_pytorchs(case):
    weight = {"weight": np.ones(4)} if any(case is other for other in WEIGHED) else {}
    here = getattr(nn, case.name)(**case.options, **{k: tensor.tensor(x) for k, x in weight.items()})
    there = getattr(torch.nn, case.name)(**case.options, **{k: torch.tensor(x) for k, x in weight.items()})
    assert repr(here) == repr(there)
    assert list(here.state_dict()) == list(there.state_dict())


SMOOTH: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "kl_div": (nn.functional.kl_div, (log_chances(4, 3), np.exp(log_chances(4, 3)))),
    "poisson": (nn.functional.poisson_nll_loss, (normal(4, 3), positive(4, 3))),
    "gaussian": (nn.functional.gaussian_nll_loss, (normal(4, 3), normal(4, 3), positive(4, 3))),
    "soft margin": (lambda x: nn.functional.soft_margin_loss(x, tensor.tensor(signs(5))), (normal(5),)),
    "multilabel soft margin": (
        lambda x: nn.functional.multilabel_soft_margin_loss(x, tensor.tensor(classes(2, 4, 3))),
        (normal(4, 3),),
    ),
    "cosine embedding": (
        lambda x, y: nn.functional.cosine_embedding_loss(x, y, tensor.ones((4,))),
        (normal(4, 3), normal(4, 3)),
    ),
    "cosine similarity": (nn.functional.cosine_similarity, (normal(4, 3), normal(4, 3))),
    "distance": (nn.functional.pairwise_distance, (normal(4, 3), normal(4, 3))),
    "squared multi margin": (
        lambda x: nn.functional.multi_margin_loss(x, tensor.tensor([1, 0]), p=2, margin=9.0),
        (normal(2, 3),),
    ),
    "triplet": (
        lambda a, b, c: nn.functional.triplet_margin_loss(a, b, c, margin=9.0),
        (normal(4, 3), normal(4, 3), normal(4, 3)),
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_can_be_derived_twice(name):
    function, arrays = SMOOTH[name]
    given = tuple(tensor.tensor(x, requires_grad=True) for x in arrays)
    RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state

    def repeatable(*args: Any) -> Any:
        RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state
        return function(*args)

    assert gradcheck(repeatable, given)
    assert gradgradcheck(repeatable, given)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_only_the_loss_is_left_and_its_graph_is_freed_with_it(case, window):
    given = [tensor.tensor(x) if isinstance(x, np.ndarray) else x for x in case.arrays]
    for x in given[: case.wanted]:
        x.requires_grad_()
    layer = getattr(nn, case.name)(**case.options)
    live, held = window().live_count, tensor.memory.statistics().bytes_live
    with new_dispose_scope() as scope:
        loss = layer(*given)
        assert len(scope) == 1
        assert window().live_count == live + 1
    assert loss.is_invalid
    del loss
    assert window().live_count == live
    assert tensor.memory.statistics().bytes_live == held


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_multi_margin_loss_takes_one_index_for_a_vector(reduction: str) -> None:
    theirs = pytest.importorskip("torch")
    x = [0.1, 0.5, 0.2]
    expected = theirs.nn.functional.multi_margin_loss(
        theirs.tensor(x), theirs.tensor([1]), reduction=reduction
    )
    found = nn.functional.multi_margin_loss(tensor.tensor(x), tensor.tensor([1]), reduction=reduction)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert found.shape == tuple(expected.shape)
