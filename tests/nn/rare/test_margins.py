"""What losses of margins, distributions and labels in time refuse, and where they are at their limits."""

from __future__ import annotations

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F

ONES = tensor.ones((4, 3))
FOUR = tensor.ones((4,))
LABELS = tensor.tensor([2, 0, 1, 2])
LOGS = tensor.full((5, 2, 3), -1.0)
TARGETS = tensor.tensor([[1, 2], [2, 1]])


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (
            lambda: F.kl_div(ONES, FOUR),
            ValueError,
            r"kl_div: input and target must have the same shape, not \(4, 3\) and \(4,\)",
        ),
        (lambda: F.kl_div(ONES, ONES, "batchsum"), ValueError, "'batchmean'.*'batchsum'"),
        (lambda: nn.KLDivLoss("batchsum"), ValueError, "KLDivLoss.*'batchsum'"),
        (lambda: nn.MSELoss("batchmean"), ValueError, "MSELoss.*'batchmean'"),
        (lambda: F.poisson_nll_loss(ONES, FOUR), ValueError, "poisson_nll_loss"),
        (lambda: F.gaussian_nll_loss(ONES, ONES, -ONES), ValueError, "at least 0.*-1"),
        (
            lambda: F.gaussian_nll_loss(ONES, ONES, tensor.ones((3,))),
            ValueError,
            r"var must have the input's shape, \(4, 3\), not \(3,\)",
        ),
        (lambda: F.gaussian_nll_loss(ONES, ONES, "1"), TypeError, "var.*str"),
        (
            lambda: F.margin_ranking_loss(ONES, FOUR, ONES),
            ValueError,
            r"input1 and input2 .*, not \(4, 3\) and \(4,\)",
        ),
        (lambda: F.margin_ranking_loss(ONES, ONES, FOUR), ValueError, r"target .* and \(4,\)"),
        (lambda: F.hinge_embedding_loss(ONES, FOUR), ValueError, "hinge_embedding_loss"),
        (lambda: F.hinge_embedding_loss(LABELS, LABELS), TypeError, "must be floating"),
        (lambda: F.soft_margin_loss(ONES, FOUR), ValueError, "soft_margin_loss"),
        (lambda: F.cosine_embedding_loss(ONES, ONES, ONES), ValueError, r"\(batch,\).*\(4, 3\)"),
        (lambda: F.cosine_embedding_loss(ONES, FOUR, FOUR), ValueError, "input2"),
        (lambda: F.triplet_margin_loss(ONES, ONES, FOUR), ValueError, r"negative .* and \(4,\)"),
        (lambda: F.triplet_margin_loss(ONES, ONES, ONES, margin=0), ValueError, "margin.*0"),
        (lambda: F.multi_margin_loss(ONES, FOUR), TypeError, "class indices \\(integers\\), not float32"),
        (lambda: F.multi_margin_loss(ONES, LABELS, p=3), ValueError, "p must be 1 or 2, not 3"),
        (lambda: F.multi_margin_loss(ONES, LABELS + 1), IndexError, "holds 3.*0 to 2"),
        (lambda: F.multi_margin_loss(ONES, LABELS[:2]), ValueError, r"\(4,\), not \(2,\)"),
        (lambda: F.multi_margin_loss(ONES, LABELS, weight=FOUR), ValueError, r"weight.*\(3,\), not \(4,\)"),
        (lambda: F.multi_margin_loss(ONES[None], LABELS), ValueError, r"\(batch, classes\).*\(1, 4, 3\)"),
        (lambda: F.multilabel_margin_loss(ONES, LABELS), ValueError, "multilabel_margin_loss"),
        (lambda: F.multilabel_margin_loss(ONES, ONES.long() * 3), IndexError, "holds 3"),
        (lambda: F.multilabel_soft_margin_loss(ONES, ONES, FOUR), ValueError, "weight"),
        (lambda: F.multilabel_soft_margin_loss(ONES[0, 0], ONES[0, 0]), ValueError, "classes"),
        (lambda: F.cosine_similarity(LABELS, LABELS), TypeError, "x1 and x2 must be floating, not int64"),
        (lambda: F.pairwise_distance([1.0], ONES), TypeError, "x1 must be a tensor"),
        (lambda: F.ctc_loss(ONES[0], TARGETS, [5], [2]), ValueError, r"\(time, batch, classes\).*\(3,\)"),
        (
            lambda: F.ctc_loss(LOGS, TARGETS, [5, 5], [2, 2], blank=3),
            IndexError,
            "blank must be .*0 to 2, not 3",
        ),
        (lambda: F.ctc_loss(LOGS, TARGETS + 1, [5, 5], [2, 2]), IndexError, "0 to 2, not 3"),
        (
            lambda: F.ctc_loss(LOGS, TARGETS, [6, 5], [2, 2]),
            ValueError,
            "input_lengths must be at most 5.*not 6",
        ),
        (
            lambda: F.ctc_loss(LOGS, TARGETS, [5], [2, 2]),
            ValueError,
            "input_lengths must hold .* for each of 2 samples",
        ),
        (lambda: F.ctc_loss(LOGS, TARGETS, [5, 5], [2, -1]), ValueError, "target_lengths.*at least 0"),
        (
            lambda: F.ctc_loss(LOGS, TARGETS, [5, 5], [2.0, 1.0]),
            TypeError,
            "target_lengths must hold integers",
        ),
        (
            lambda: F.ctc_loss(LOGS, TARGETS, [5, 5], [3, 2]),
            ValueError,
            r"2 rows of at least 3 labels.*\(2, 2\)",
        ),
        (lambda: F.ctc_loss(LOGS, TARGETS[0], [5, 5], [2, 2]), ValueError, r"\(4,\).*\(2,\)"),
        (lambda: F.ctc_loss(LOGS, LOGS, [5, 5], [2, 2]), TypeError, r"\(integers\), not float32"),
    ],
)
def test_wrong_use_names_the_culprit(call, error, named):
    with pytest.raises(error, match=named):
        call()


@pytest.mark.parametrize("loss", [F.multi_margin_loss, F.multilabel_margin_loss])
def test_an_empty_batch_has_the_sum_0_and_no_mean(loss):
    x = tensor.zeros((0, 3), requires_grad=True)
    target = tensor.zeros((0,) if loss is F.multi_margin_loss else (0, 3), dtype="int64")
    assert loss(x, target, reduction="sum").item() == 0.0
    assert np.isnan(loss(x, target).item())
    assert loss(x, target, reduction="none").shape == (0,)
    loss(x, target).backward()
    assert x.grad.shape == (0, 3)


def test_large_margins_overflow_nothing():
    x = tensor.tensor([1e4, -1e4], requires_grad=True)
    loss = F.soft_margin_loss(x, tensor.tensor([-1.0, 1.0]), reduction="none")
    loss.sum().backward()
    assert loss.tolist() == [1e4, 1e4]
    assert x.grad.tolist() == [1.0, -1.0]


def test_vectors_of_zeros_have_a_cosine_and_a_gradient():
    x = tensor.zeros((2, 3), requires_grad=True)
    cosines = F.cosine_similarity(x, tensor.ones((2, 3)))
    cosines.sum().backward()
    assert cosines.tolist() == [0.0, 0.0]
    assert np.isfinite(x.grad.numpy()).all()


def test_a_target_that_is_written_over_before_backward_changes_nothing():
    x = tensor.tensor([[0.0, 2.0, 1.5]], requires_grad=True)
    target = tensor.tensor([1])
    loss = F.multi_margin_loss(x, target)
    target.fill_(0)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, -1 / 3, 1 / 3]], rtol=1e-6)


def test_targets_longer_than_the_input_are_infinite_or_count_nothing():
    logs = tensor.full((2, 1, 3), -1.0, requires_grad=True)
    arguments = tensor.tensor([[1, 1]]), [2], [2]  # between two that are the same there has to be a blank
    assert F.ctc_loss(logs, *arguments).item() == np.inf
    loss = F.ctc_loss(logs, *arguments, zero_infinity=True)
    loss.backward()
    assert loss.item() == 0.0
    assert logs.grad.tolist() == [[[0.0] * 3]] * 2


def test_classes_that_can_not_be_leave_ctc_finite():
    logs = tensor.tensor([[[0.5, 0.5, 0.0]]] * 3, requires_grad=True)
    loss = F.ctc_loss(logs.log(), tensor.tensor([[1]]), [3], [1])
    assert loss.item() == pytest.approx(-np.log(6 / 8))


def test_no_input_and_no_target_agree():
    logs = tensor.zeros((0, 2, 3), requires_grad=True)
    losses = F.ctc_loss(logs, tensor.tensor([[1], [1]]), [0, 0], [0, 1], reduction="none")
    assert losses.tolist() == [0.0, np.inf]
    F.ctc_loss(logs, tensor.tensor([[1], [1]]), [0, 0], [0, 0]).backward()
    assert logs.grad.shape == (0, 2, 3)


def test_counts_may_be_integers():
    x = tensor.tensor([0.0, 1.0])
    loss = F.poisson_nll_loss(x, tensor.tensor([3, 1]), full=True)
    assert loss.item() == F.poisson_nll_loss(x, tensor.tensor([3.0, 1.0]), full=True).item()
    assert str(loss.dtype) == "float32"
