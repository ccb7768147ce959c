"""What `tensor.torch` refuses on purpose, each rule with its reason; all else is equal, or it fails.

A rule excuses an error, never another value. It names ops by patterns, as ``fnmatch`` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import torch

from tests.opinfo.samples import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Rule:
    """Ops that may raise, or samples of theirs, and why."""

    title: str
    reason: str
    names: tuple[str, ...]
    when: Callable[[Any, Any], bool] = lambda given, kwargs: True
    # The forms that it speaks of; all where there are none.
    forms: tuple[str, ...] = ()


def _has_integers(given: Any, kwargs: Any) -> bool:
    tensors = tensors_of((given, kwargs))
    return bool(tensors) and not tensors[0].is_floating_point()


def _has_complex(given: Any, kwargs: Any) -> bool:
    return any(x.is_complex() for x in tensors_of((given, kwargs)))


def _has_numbers(given: Any, kwargs: Any) -> bool:
    return any(isinstance(x, (int, float)) for x in given)


def _names_modules(given: Any, kwargs: Any) -> bool:
    values = (*given, *kwargs.values())
    return any(isinstance(x, torch.nn.Module) or (callable(x) and not isinstance(x, type)) for x in values)


RULES = (
    Rule(
        "forms of PyTorch's compiler",
        "functions that PyTorch's compiler calls and programs don't: copies of views, parts of other ops",
        (
            "_[!_]*",
            "__rdiv__",
            "torch.*",
            "native_*",
            "*_backward",
            "*_copy",
            "unsafe_*",
            "constant_pad_nd",
            "grid_sampler_*",
            "hash_tensor",
            "nonzero_static",
            "slice",
            "conj_physical",
            "resolve_*",
        ),
    ),
    Rule("CUDA kernels as text", "`jiterator` compiles CUDA source", ("jiterator_*",)),
    Rule("sparse tensors", "all tensors are dense", ("to_sparse", "sparse.*")),
    Rule(
        "complex numbers of 32 bits",
        "neither NumPy nor ml_dtypes has complex32",
        ("chalf",),
    ),
    Rule(
        "memory by strides",
        "memory as such: a tensor's can be shared with a clone, and moves when one is written",
        ("as_strided_*", "empty_strided", "new_empty_strided", "empty_permuted", "resize_", "resize_as_"),
    ),
    Rule(
        "special functions of physics and statistics",
        "SciPy has them (`scipy.special`), and PyTorch has no gradient for most",
        (
            "igamma*",
            "special.airy_ai",
            "special.bessel_*",
            "special.chebyshev_*",
            "special.hermite_*",
            "special.laguerre_*",
            "special.legendre_*",
            "special.modified_bessel_*",
            "special.scaled_modified_bessel_*",
            "special.shifted_chebyshev_*",
            "special.spherical_bessel_*",
            "special.zeta",
        ),
    ),
    Rule(
        "LDL factorizations",
        "NumPy's LAPACK has none: symmetric matrices have `linalg.eigh` and `linalg.lu_factor`",
        ("linalg.ldl_*",),
    ),
    Rule("random factorizations", "approximations by random projections", ("svd_lowrank", "pca_lowrank")),
    Rule("complex tensors", "samples with complex values are not compared", ("*",), _has_complex),
    Rule(
        "networks on integers",
        "layers, activations and losses compute on floating tensors: `x.float()`",
        ("nn.functional.*", "nn.*"),
        _has_integers,
    ),
    Rule(
        "functions of PyTorch as arguments",
        "a sample passes a module or a function of PyTorch's own, which does not take our tensors",
        ("nn.functional.triplet_margin_with_distance_loss", "nn.Transformer*"),
        _names_modules,
    ),
    Rule(
        "another layout in place",
        "memory as such: a tensor's can be shared with a clone, and moves when one is written",
        ("as_strided",),
        forms=("in place",),
    ),
    Rule(
        "negative powers of integers",
        "PyTorch gives 0: an error that says so finds the mistake, as in NumPy",
        ("pow", "__rpow__", "ldexp"),
        _has_integers,
    ),
    Rule(
        "numbers as operands",
        "the array API standard asks for them where PyTorch wants a tensor",
        (
            "atan2",
            "float_power",
            "fmax",
            "fmin",
            "gcd",
            "lcm",
            "hypot",
            "logaddexp",
            "logical_*",
            "maximum",
            "minimum",
            "nextafter",
            "pow",
            "remainder",
            "xlogy",
            "isclose",
            "special.xlog1py",
        ),
        _has_numbers,
        ("error",),
    ),
    Rule(
        "signs of bools",
        "the array API standard and NumPy have none: `x.int().sign()`",
        ("sign", "sgn"),
        _has_integers,
    ),
    Rule(
        "means of integers",
        "they are float32, as those of PyTorch's sums by division: no error",
        ("mean",),
        _has_integers,
        ("error",),
    ),
    Rule("histograms of several dimensions", "NumPy has them: `numpy.histogramdd`", ("histogramdd",)),
    Rule("a segment reduction", "a prototype of PyTorch's", ("_segment_reduce",)),
)


def is_refused(name: str, form: str, given: Any, kwargs: Any) -> bool:
    """Tell whether a rule lets a sample of the op `name` raise in a form."""
    return any(
        any(fnmatchcase(name, pattern) for pattern in rule.names)
        and (not rule.forms or form in rule.forms)
        and rule.when(given, kwargs)
        for rule in RULES
    )


# Samples that are parts of larger memory, which our samples are not.
OF_LARGER_MEMORY = {"as_strided.partial_views"}
# Random numbers, of which each library has its own, and memory that is not set: shapes and dtypes count.
ANY_VALUE = {
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.rrelu",
    "normal",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "uniform",
}
# Results with parts that are right in several forms: what the data base makes of them is compared.
NON_UNIQUE = {"linalg.eig", "linalg.eigh", "linalg.svd", "svd", "linalg.lstsq"}
# Of equal elements PyTorch names any, and not the first one: values are compared, and not indices.
ANY_INDEX = {"argsort", "kthvalue", "mode", "sort", "topk"}
RANDOM_MODULES = {
    "nn.AlphaDropout",
    "nn.Dropout",
    "nn.Dropout1d",
    "nn.Dropout2d",
    "nn.Dropout3d",
    "nn.FeatureAlphaDropout",
    "nn.RReLU",
}
# Sums of many terms, and inverses: how many times the usual error.
TOLERANCE = {
    "linalg.inv": 10,
    "linalg.pinv": 50,
    "linalg.matrix_power": 50,
    "pinverse": 50,
    "matrix_exp": 100,
    "polygamma": 5,
    "special.polygamma": 5,
}
