"""What of PyTorch's test files `tensor.torch` refuses on purpose, each rule with its reason.

A rule excuses a test by its name, as ``fnmatch`` reads it, or an AttributeError of a name that is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Rule:
    """Tests that may fail, and why: by ``file.class.name``, or by a name that `tensor.torch` lacks."""

    title: str
    reason: str
    tests: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def excuses(self, test: str, absent: str | None) -> bool:
        """Tell whether the rule excuses a failure: `absent` is the name of an AttributeError."""
        return absent in self.absent or any(fnmatchcase(test, each) for each in self.tests)


RULES = (
    Rule(
        "TorchScript and the compiler",
        "programs here are Python, run line by line",
        absent=("jit", "_dynamo", "fx"),
    ),
    Rule(
        "memory by strides",
        "memory as such: a tensor's can be shared with a clone, and moves when one is written",
        absent=(
            "set_",
            "resize_",
            "resize_as_",
            "as_strided_",
            "empty_strided",
            "storage",
            "untyped_storage",
        ),
    ),
    Rule(
        "the storage classes",
        "a tensor's memory has no object of its own",
        ("*_storage_*", "*typed_storage*"),
    ),
    Rule(
        "legacy constructors of methods",
        "`x.new_tensor`, `x.new_zeros` take a shape and a dtype",
        absent=("new",),
    ),
    Rule(
        "complex numbers of 32 bits", "neither NumPy nor ml_dtypes has complex32", ("*_complex32", "*_chalf*")
    ),
    Rule(
        "sparse tensors",
        "all tensors are dense",
        ("*sparse*",),
        ("sparse_coo", "to_sparse", "sparse_coo_tensor"),
    ),
    Rule("quantized tensors", "no quantized dtypes", ("*quantize*",), ("quantize_per_tensor",)),
    Rule("named tensors", "a prototype of PyTorch's", ("*named_tensor*", "*_names_*")),
)


def rule_of(test: str, absent: str | None) -> Rule | None:
    """Return the rule that excuses a failure, or None."""
    return next((rule for rule in RULES if rule.excuses(test, absent)), None)
