"""Which suites are run, how, and which of their tests may differ under scopes."""

from __future__ import annotations

from typing import NamedTuple


class Suite(NamedTuple):
    """Tests of another project, in a checkout of it.

    `package`: the checkout should have its installed version. `folder`: where pytest starts in the checkout.
    `tests`: files and folders from there. `plugins`: from tests/suites/plugins. `options`: those of pytest.
    """

    source: str
    package: str
    tests: tuple[str, ...]
    folder: str = "."
    plugins: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


SUITES: dict[str, Suite] = {
    "torchmetrics, regression": Suite(
        "github.com/Lightning-AI/torchmetrics", "torchmetrics", ("regression",), "tests/unittests"
    ),
    "torchmetrics, classification": Suite(
        "github.com/Lightning-AI/torchmetrics", "torchmetrics", ("classification",), "tests/unittests"
    ),
    "timm, optimizers": Suite(
        "github.com/huggingface/pytorch-image-models",
        "timm",
        ("test_optim.py",),
        "tests",
        plugins=("suite_torchvision",),
        environment=(("TORCH_DEVICE", "cpu"),),
    ),
    "transformers, GPT-2 and generation": Suite(
        "github.com/huggingface/transformers",
        "transformers",
        (
            "tests/models/gpt2",
            "tests/generation/test_logits_process.py",
            "tests/generation/test_stopping_criteria.py",
            "tests/optimization",
        ),
    ),
    "einops": Suite(
        "github.com/arogozhnikov/einops",
        "einops",
        ("einops/tests",),
        environment=(("EINOPS_TEST_BACKENDS", "numpy,torch"),),
    ),
    "torch.distributions": Suite("github.com/pytorch/pytorch", "torch", ("test/distributions",)),
}

#: By suite and mode: which tests pass plain and not in a scope, by a pattern of their names, and why. A run
#: of all tests reports a pattern that no failing test matches.
EXCEPTIONS: dict[tuple[str, str], dict[str, str]] = {}
