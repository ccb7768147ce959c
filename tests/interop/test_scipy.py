"""SciPy on tensors: the values of arrays, gradients, and nothing left alive.

SciPy looks at its switch when it is first imported: ``make test-interop`` sets it for the whole run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor
from tensor.autograd import gradcheck

pytest.importorskip("scipy")
if os.environ.get("SCIPY_ARRAY_API") != "1":
    pytest.skip("needs scipy with its switch on: SCIPY_ARRAY_API=1", allow_module_level=True)

from scipy import cluster, fft, linalg, ndimage, signal, special, stats

Array = np.ndarray[Any, Any]


def between(*shape: int, low: float = 0.2, high: float = 0.9) -> Array:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape)


LINE, MATRIX, IMAGE, LONG = between(5), between(6, 4), between(8, 8), between(300)
SQUARE = between(4, 4) + 4 * np.eye(4)
SYMMETRIC = SQUARE + SQUARE.T

# By module: an argument, and the names of functions of one.
OF_ONE: dict[Any, tuple[Array, str]] = {
    special: (
        LINE,
        """entr erf erfc expit gamma gammaln i0 i0e i1 i1e j0 j1 log_expit log_ndtr logit ndtr ndtri expm1
        log1p sinc exp2 exp10 erfcx erfinv digamma logsumexp softmax log_softmax""",
    ),
    stats: (
        MATRIX,
        """describe gmean hmean kurtosis skew variation moment sem zscore gzscore circmean circvar circstd
        entropy differential_entropy gstd iqr kstat kstatvar lmoment tmean tvar tmin tmax tstd tsem""",
    ),
    ndimage: (
        IMAGE,
        """sobel prewitt laplace spline_filter center_of_mass sum_labels mean variance standard_deviation
        maximum minimum median""",
    ),
    fft: (
        MATRIX,
        """fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft hfftn ihfftn dct
        idct dst idst dctn idctn dstn idstn fftshift ifftshift""",
    ),
    linalg: (SYMMETRIC, "inv det cholesky svd svdvals eigh eigvalsh eig eigvals qr lu pinv norm expm"),
}
OTHERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "special.betainc": (special.betainc, (LINE + 1, LINE + 2, LINE)),
    "special.xlogy": (special.xlogy, (LINE, LINE)),
    "special.rel_entr": (special.rel_entr, (LINE, LINE + 1)),
    "special.gammainc": (special.gammainc, (LINE + 1, LINE)),
    "stats.pearsonr": (stats.pearsonr, (LINE, LINE**2)),
    "stats.ttest_ind": (stats.ttest_ind, (LINE, LINE**2)),
    "stats.ttest_1samp": (stats.ttest_1samp, (LINE, 0.5)),
    "stats.f_oneway": (stats.f_oneway, (LINE, LINE**2)),
    "stats.rankdata": (stats.rankdata, (LINE,)),
    "stats.quantile": (stats.quantile, (MATRIX, 0.3)),
    "ndimage.gaussian_filter": (ndimage.gaussian_filter, (IMAGE, 1.0)),
    "ndimage.median_filter": (ndimage.median_filter, (IMAGE, 3)),
    "ndimage.convolve": (ndimage.convolve, (IMAGE, between(3, 3))),
    "ndimage.rotate": (ndimage.rotate, (IMAGE, 30.0)),
    "ndimage.zoom": (ndimage.zoom, (IMAGE, 2.0)),
    "ndimage.label": (ndimage.label, (IMAGE > 0.5,)),
    "signal.convolve": (signal.convolve, (LINE, between(3))),
    "signal.fftconvolve": (signal.fftconvolve, (LINE, between(3))),
    "signal.hilbert": (signal.hilbert, (LINE,)),
    "signal.resample": (signal.resample, (LINE, 12)),
    "signal.detrend": (signal.detrend, (LINE,)),
    "signal.savgol_filter": (signal.savgol_filter, (LONG, 5, 2)),
    "signal.sosfilt": (signal.sosfilt, (signal.butter(2, 0.3, output="sos"), LONG)),
    "signal.welch": (signal.welch, (LONG,)),
    "linalg.solve": (linalg.solve, (SQUARE, between(4))),
    "linalg.lstsq": (linalg.lstsq, (MATRIX, between(6))),
    "cluster.vq.whiten": (cluster.vq.whiten, (MATRIX,)),
    "cluster.vq.vq": (cluster.vq.vq, (MATRIX, MATRIX[:2])),
    "cluster.hierarchy.linkage": (cluster.hierarchy.linkage, (between(7, 2),)),
}
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    f"{module.__name__.removeprefix('scipy.')}.{name}": (getattr(module, name), (argument,))
    for module, (argument, names) in OF_ONE.items()
    for name in names.split()
} | OTHERS
# Those that compute in compiled code of SciPy's own, and answer with arrays.
GIVE_ARRAYS = {name for name in CASES if name.startswith("linalg.")} | {"signal.welch"}


def parts(result: Any) -> list[Any]:
    """Return what a result consists of, in order: of tuples and of objects with attributes too."""
    if isinstance(result, (tuple, list)):
        return [part for item in result for part in parts(item)]
    if hasattr(result, "__dict__") and not isinstance(result, (np.ndarray, Tensor)):
        named = sorted(vars(result).items())
        return [part for name, item in named if not name.startswith("_") for part in parts(item)]
    return [result]


def as_tensors(arguments: tuple[Any, ...]) -> list[Any]:
    return [tensor.tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_the_values_of_arrays_and_leaves_nothing_alive(name: str) -> None:
    function, arguments = CASES[name]
    expected = parts(function(*[x.copy() if isinstance(x, np.ndarray) else x for x in arguments]))
    before = statistics.live_count
    with new_dispose_scope():
        found = parts(function(*as_tensors(arguments)))
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            if isinstance(theirs, (np.ndarray, np.number, float)):
                np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6, atol=1e-9)
        assert any(isinstance(part, Tensor) for part in found) == (name not in GIVE_ARRAYS)
    assert statistics.live_count == before


# By module, which of these compute by the standard alone, on tensors with gradients.
DIFFERENTIABLE = {
    "fft": "fft ifft fft2 fftn ifftn rfft irfft rfft2 rfftn irfftn hfft ihfft",
    "special": "logsumexp softmax log_softmax xlogy rel_entr",
    "stats": """gmean hmean kurtosis skew variation sem zscore circmean circvar circstd gstd kstat
    kstatvar tmean tvar tstd tsem quantile""",
    "signal": "fftconvolve hilbert resample",
    "cluster.vq": "whiten",
}
GRADIENTS = [f"{module}.{name}" for module, names in DIFFERENTIABLE.items() for name in names.split()]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_flow_through_functions_that_scipy_computes_by_the_array_api(name: str) -> None:
    function, arguments = CASES[name]
    first, *others = as_tensors(arguments)
    with new_dispose_scope():
        gradcheck(lambda x: function(x, *others), (first.requires_grad_(),), atol=1e-5, rtol=1e-4)


def test_a_call_that_would_lose_the_gradient_raises() -> None:
    x = tensor.tensor(LINE, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        special.gammaln(x)
