"""scikit-learn on tensors: estimators and metrics that follow the standard, and what they fit in a scope."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor

pytest.importorskip("array_api_compat")
if os.environ.get("SCIPY_ARRAY_API") != "1":
    pytest.skip("needs scipy with its switch on: SCIPY_ARRAY_API=1", allow_module_level=True)

from sklearn import config_context, metrics
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

X, Y = make_classification(n_samples=60, n_features=6, random_state=0)
ESTIMATORS = [
    LogisticRegression(),
    Ridge(solver="svd"),
    RidgeClassifier(solver="svd"),
    GaussianNB(),
    PCA(n_components=2, svd_solver="full"),
    PCA(n_components=2, svd_solver="covariance_eigh"),
    StandardScaler(),
    MinMaxScaler(),
    MaxAbsScaler(),
    Normalizer(),
]


@pytest.fixture(autouse=True)
def dispatching() -> Iterator[None]:
    with config_context(array_api_dispatch=True):
        yield


def results_of(estimator: Any) -> Iterator[str]:
    return (name for name in ("predict", "predict_proba", "transform") if hasattr(estimator, name))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_estimator_fitted_on_tensors_equals_one_fitted_on_arrays(estimator: Any) -> None:
    expected = type(estimator)(**estimator.get_params()).fit(X, Y)
    before = statistics.live_count
    with new_dispose_scope():
        x, y = tensor.tensor(X), tensor.tensor(Y)
        estimator.fit(x, y)
        for name in results_of(estimator):
            found = getattr(estimator, name)(x)
            assert isinstance(found, Tensor)
            np.testing.assert_allclose(found.numpy(), getattr(expected, name)(X), rtol=1e-5, atol=1e-7)
        del found
    assert statistics.live_count == before


METRICS: dict[str, Callable[..., Any]] = {
    name: getattr(metrics, name)
    for name in (
        "accuracy_score", "zero_one_loss", "f1_score", "precision_score", "recall_score", "log_loss",
        "mean_squared_error", "mean_absolute_error", "r2_score", "max_error", "mean_tweedie_deviance",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_of_tensors_is_that_of_arrays(name: str) -> None:
    truth, guess = Y[:20], np.roll(Y, 3)[:20]
    if name == "log_loss":
        guess = np.linspace(0.1, 0.9, 20)
    expected = METRICS[name](truth, guess)
    with new_dispose_scope():
        found = METRICS[name](tensor.tensor(truth), tensor.tensor(guess))
        assert float(found) == pytest.approx(expected, rel=1e-6)


def test_labels_stand_in_a_report_as_numbers() -> None:
    with new_dispose_scope():
        report = metrics.classification_report(tensor.tensor(Y), tensor.tensor(Y))
    assert report == metrics.classification_report(Y, Y)


def test_tensors_of_an_estimator_fitted_in_a_scope_end_with_it_and_the_error_says_how_to_keep_them() -> None:
    with new_dispose_scope("fitting"):
        model = LogisticRegression().fit(tensor.tensor(X), tensor.tensor(Y))
    with pytest.raises(tensor.TensorDisposedError, match=r"'fitting'.*detach\(x\).*an estimator"):
        model.coef_.sum()


def test_a_detached_estimator_outlives_the_scope_that_it_was_fitted_in() -> None:
    with new_dispose_scope() as scope:
        x = tensor.tensor(X)
        model = scope.detach(make_pipeline(StandardScaler(), Ridge(solver="svd")).fit(x, tensor.tensor(Y)))
    assert x.is_invalid
    expected = make_pipeline(StandardScaler(), Ridge(solver="svd")).fit(X, Y).predict(X)
    np.testing.assert_allclose(model.predict(tensor.tensor(X)).numpy(), expected, rtol=1e-6)
