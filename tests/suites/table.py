"""Which suites are run, how, and which of their tests may differ under scopes."""

from __future__ import annotations

from typing import NamedTuple


class Suite(NamedTuple):
    """Tests of another project, in a checkout of it.

    `package`: the checkout should have its installed version. `folder`: where pytest starts in the checkout.
    `tests`: files and folders from there. `plugins`: from tests/suites/plugins. `options`: those of pytest.
    `calls`: functions of the library whose calls have a scope each, as "module:function" or
    "module:Class.method" with patterns; see ``plugins/suite_calls.py``.
    """

    source: str
    package: str
    tests: tuple[str, ...]
    folder: str = "."
    plugins: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


_LIGHTNING = ("callbacks", "core", "loops", "trainer/logging_", "trainer/optimization", "tuner")

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
    "captum": Suite(
        "github.com/pytorch/captum",
        "captum",
        ("tests/attr", "tests/concept", "tests/influence", "tests/metrics", "tests/module", "tests/robust"),
        # Only the checkout has `captum.testing`.
        environment=(("PYTHONSAFEPATH", ""), ("DISPOSESCOPE_TORCH_LIBRARIES", "captum")),
        calls=(
            "captum.attr*:*.attribute",
            "captum.attr*:*.compute_convergence_delta",
            "captum.concept*:*.interpret",
            "captum.influence*:*.influence",
            "captum.influence*:*.self_influence",
            "captum.metrics*:*",
            "captum.module*:*.forward",
            "captum.robust*:*.perturb",
            "captum.robust*:*.evaluate",
        ),
    ),
    "kornia": Suite(
        "github.com/kornia/kornia",
        "kornia",
        tuple(
            f"tests/{name}"
            for name in ("color", "core", "enhance", "feature", "filters", "geometry", "losses", "morphology")
        ),
        calls=("kornia*:*", "kornia*:*.*", "kornia*:*.__call__"),
    ),
    "gpytorch": Suite(
        "github.com/cornellius-gp/gpytorch",
        "gpytorch",
        ("test",),
        calls=(
            "gpytorch.module:Module.__call__",
            "gpytorch.models*:*.__call__",
            "gpytorch.models*:*.get_fantasy_model",
            "gpytorch.likelihoods*:*.__call__",
            "gpytorch.likelihoods*:*.log_marginal",
            "gpytorch.likelihoods*:*.expected_log_prob",
            "gpytorch.variational*:*.__call__",
            "gpytorch.variational*:*.kl_divergence",
            "gpytorch.distributions*:*.rsample",
            "gpytorch.distributions*:*.log_prob",
        ),
    ),
    "botorch": Suite(
        "github.com/pytorch/botorch",
        "botorch",
        ("test",),
        calls=(
            "botorch.optim*:*",
            "botorch.fit:*",
            "botorch.acquisition*:*.forward",
            "botorch.models*:*.posterior",
            "botorch.models*:*.fantasize",
            "botorch.models*:*.condition_on_observations",
            "botorch.posteriors*:*.rsample*",
            "botorch.sampling*:*.forward",
            "botorch.generation*:*",
        ),
    ),
    "skorch, calls": Suite(
        "github.com/skorch-dev/skorch",
        "skorch",
        ("skorch/tests",),
        calls=tuple(
            f"skorch*:*.{name}"
            for name in ("fit", "partial_fit", "predict", "predict_proba", "forward", "score", "sample")
        ),
    ),
    "skorch, steps": Suite(
        "github.com/skorch-dev/skorch",
        "skorch",
        ("skorch/tests",),
        calls=tuple(
            f"skorch*:*.{name}" for name in ("train_step", "validation_step", "evaluation_step", "infer")
        ),
    ),
    "lightning, hooks": Suite(
        "github.com/Lightning-AI/pytorch-lightning",
        "lightning",
        _LIGHTNING,
        "tests/tests_pytorch",
        calls=(
            "lightning.pytorch.trainer.call:_call_lightning_module_hook",
            "lightning.pytorch.trainer.call:_call_strategy_hook",
        ),
    ),
    "lightning, steps": Suite(
        "github.com/Lightning-AI/pytorch-lightning",
        "lightning",
        _LIGHTNING,
        "tests/tests_pytorch",
        calls=(
            "lightning.pytorch.loops.training_epoch_loop:_TrainingEpochLoop.advance",
            "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop._evaluation_step",
            "lightning.pytorch.loops.prediction_loop:_PredictionLoop._predict_step",
        ),
    ),
    "diffusers, schedulers": Suite(
        "github.com/huggingface/diffusers",
        "diffusers",
        ("tests/schedulers",),
        calls=tuple(
            f"diffusers.schedulers*:*.{name}"
            for name in ("step", "step_*", "set_timesteps", "scale_model_input", "add_noise", "get_velocity")
        ),
    ),
    "diffusers, pipelines": Suite(
        "github.com/huggingface/diffusers",
        "diffusers",
        ("tests/pipelines/ddim", "tests/pipelines/ddpm", "tests/pipelines/stable_diffusion"),
        calls=tuple(
            f"diffusers.pipelines.{name}*:*Pipeline.__call__" for name in ("ddim", "ddpm", "stable_diffusion")
        ),
    ),
    "transformers, generation": Suite(
        "github.com/huggingface/transformers",
        "transformers",
        (
            "tests/models/gpt2",
            "tests/models/llama",
            "tests/models/t5",
            "tests/generation",
        ),
        # Its conftest.py reads a flag of cuDNN that PyTorch 2.13 refuses to read there.
        options=("--noconftest",),
        calls=(
            "transformers.generation*:*.generate",
            *(f"transformers.models.{name}*:*.forward" for name in ("gpt2", "llama", "t5")),
        ),
    ),
}

#: By suite and mode: which tests pass plain and not in a scope, by a pattern of their names, and why. A run
#: of all tests reports a pattern that no failing test matches.
EXCEPTIONS: dict[tuple[str, str], dict[str, str]] = {}
