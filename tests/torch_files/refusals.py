"""What of PyTorch's test files `tensor.torch` refuses on purpose, each rule with its reason.

A rule excuses a test by its name, as ``fnmatch`` reads it, an AttributeError of a name that is listed, or
an error whose text says what `tensor.torch` refuses. It excuses a wrong value only by the test's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Rule:
    """Tests that may fail, and why: by ``file.class.name``, by an absent name, or by the text of an error."""

    title: str
    reason: str
    tests: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def excuses(self, test: str, absent: str | None, error: str) -> bool:
        """Tell whether the rule excuses a failure: `absent` is the name of an AttributeError."""
        if absent in self.absent or any(fnmatchcase(test, each) for each in self.tests):
            return True
        return not error.startswith("AssertionError") and any(each in error for each in self.errors)


RULES = (
    Rule(
        "TorchScript and the compiler",
        "programs here are Python, run line by line; the compiler's own forms of ops have no user",
        ("*__refs_*", "*_hash_tensor_*", "*_view_copy_*"),
        ("jit", "_dynamo", "fx", "ops", "_refs", "_prims", "_prims_common", "overrides", "compile"),
    ),
    Rule(
        "private names",
        "PyTorch's own; programs have public ones",
        absent=("_C", "_aminmax", "_is_view", "_base", "_version", "_utils", "_empty_affine_quantized"),
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
            "new_empty_strided",
            "storage_offset",
            "Storage",
            "TypedStorage",
            "FloatStorage",
            "storage",
        ),
        errors=("can't write to this expanded view", "a storage can't be resized"),
    ),
    Rule(
        "dtypes of the same bytes",
        "`x.view(dtype)`: the error says what to write with NumPy",
        errors=("a shape consists of sizes, not of the dtype",),
    ),
    Rule(
        "memory formats",
        "a tensor has one layout; kernels choose their own",
        absent=("memory_format", "channels_last", "channels_last_3d"),
        errors=("unexpected keyword argument 'memory_format'",),
    ),
    Rule(
        "another default dtype",
        "the default dtype is float32: nothing becomes float64 that does not say so",
        errors=("the default dtype is always float32",),
    ),
    Rule(
        "promotion between tensors",
        "a tensor without dimensions and a NumPy scalar promote like other tensors, as in the array API",
        (
            "test_type_promotion.*.test_result_type*",
            "test_type_promotion.*.test_cat_different_dtypes*",
            "test_type_promotion.*.test_complex_scalar_mult_tensor_promotion*",
            "test_type_promotion.*.test_complex_assertraises*",
            "test_numpy_interop.*.test_multiplication_numpy_scalar_cpu",
        ),
    ),
    Rule(
        "Python's float as a dtype",
        "`dtype=float` is the default dtype, float32",
        ("test_view_ops.*.test_python_types_cpu",),
    ),
    Rule(
        "masks of bytes",
        "numbers of uint8 are indices, as in NumPy and the array API standard: `x[mask.bool()]`",
        (
            "test_indexing.*.test_byte_*",
            "test_indexing.*.test_multiple_byte_mask_*",
            "test_indexing.*.test_bool_indices_cpu",
            "test_indexing.*.test_boolean_shape_mismatch_cpu",
            "test_indexing.*.test_empty_ndim_index_bool_cpu",
            "test_indexing.*.test_index_?etitem*_bools_slices_cpu",
            "test_indexing.*.test_index_scalar_with_bool_mask_cpu",
        ),
    ),
    Rule(
        "legacy constructors",
        "`x.new_tensor`, `x.new_zeros` and `torch.tensor` take a shape or data, and a dtype",
        absent=("new",),
    ),
    Rule(
        "dtypes that NumPy lacks",
        "neither NumPy nor ml_dtypes has complex32; there are no quantized dtypes",
        ("*_complex32", "*_chalf*", "*quantize*"),
        ("quantize_per_tensor", "chalf"),
        ("torch.complex32 is not a dtype",),
    ),
    Rule(
        "sparse tensors",
        "all tensors are dense",
        ("*sparse*",),
        ("sparse_coo", "to_sparse", "sparse_coo_tensor", "sparse_csr_tensor"),
    ),
    Rule(
        "conjugates by flags",
        "`conj` computes; real tensors give an alias",
        (
            "*.test_conj_imag_view_*",
            "*.test_conj_neg_view_*",
            "*.test_conj_self_*",
            "test_dlpack.*.test_dlpack_export_is_conj_cpu",
        ),
        ("resolve_conj", "resolve_neg", "is_conj", "is_neg", "_neg_view"),
    ),
    Rule(
        "indices of other dtypes",
        "indices may be of each integer dtype",
        ("*.test_take_along_dim_invalid_*",),
    ),
    Rule(
        "windows that share memory",
        "`unfold` copies",
        ("*.test_unfold_view_cpu",),
    ),
    Rule(
        "NumPy's names of arguments",
        "`dim`, as in PyTorch's documentation",
        errors=("unexpected keyword argument 'axis0'",),
    ),
    Rule(
        "results of a wider dtype",
        "mixed dtypes promote, and `out=` takes each dtype that the result fits, as for other ops",
        (
            "test_type_promotion.*.test_indexing_fail_cpu",
            "test_type_promotion.*.test_non_promoting_ops_cpu",
            "test_type_promotion.*.test_unary_op_out_casting_*",
            "test_type_promotion.*.test_integer_addcdiv_deprecated_*",
            "test_shape_ops.*.test_nonzero_*",
        ),
    ),
    Rule(
        "arrays as operands",
        "NumPy arrays work as operands, in each order: the test expects PyTorch's failures",
        ("test_type_promotion.*.test_numpy_array_binary_ufunc_promotion*",),
    ),
    Rule(
        "other classes of errors",
        "BufferError, as DLPack's specification says; ValueError for ragged lists, as in NumPy",
        errors=("BufferError: DLPack:", "BufferError: can't export a tensor", "lists are ragged"),
    ),
    Rule(
        "capsules of DLPack",
        "`torch.from_dlpack(x)` takes the tensor itself, whose device a capsule can't tell",
        absent=("to_dlpack",),
    ),
    Rule(
        "what PyTorch's test expects to fail",
        "arrays of bfloat16 and uint16, and comparisons with NumPy's complex scalars, work here",
        ("test_numpy_interop.*.test_numpy_scalar_cmp_cpu_*", "test_numpy_interop.*.test_from_numpy_cpu"),
    ),
    Rule(
        "where memory is",
        "a copy shares memory until one of both is written, and memory of bytes stays with its owner",
        (
            "test_tensor_creation_ops.*.test_copy_tensor_*",
            "test_tensor_creation_ops.*.test_alias_from_buffer_*",
        ),
    ),
    Rule(
        "buffers of bytes",
        "`tensor.from_slice` copies them, `tensor.from_blob` shares their memory",
        absent=("frombuffer",),
    ),
    Rule(
        "deprecated names",
        "`torch.arange`, `torch.vstack` and `torch.signal.windows` have other names in PyTorch too",
        absent=(
            "range",
            "row_stack",
            "hann_window",
            "hamming_window",
            "bartlett_window",
            "blackman_window",
            "kaiser_window",
        ),
    ),
    Rule(
        "numbers that no integer dtype holds",
        "an error says to pass a float",
        errors=("does not fit any integer dtype",),
    ),
    Rule(
        "lists of tensors",
        "a tensor is a sequence of its rows; `meshgrid` without tensors is empty, and promotes",
        (
            "*.test_dstack_*",
            "*.test_hstack_column_stack_*",
            "*.test_meshgrid_empty_*",
            "*.test_meshgrid_inconsist*",
        ),
    ),
    Rule(
        "layouts", "all tensors are dense and strided", absent=("layout",), errors=("must be torch.layout",)
    ),
    Rule("strides of empty tensors", "they are NumPy's", ("*.test_empty_tensor_props_cpu",)),
    Rule(
        "random state by devices",
        "one generator: `torch.get_rng_state`, `torch.set_rng_state`",
        absent=("random", "fork_rng"),
    ),
    Rule("named tensors", "a prototype of PyTorch's", ("*named_tensor*", "*_names_*")),
    Rule(
        "numbers as operands",
        "functions take a tensor first: `torch.tensor(2.0)`",
        errors=("takes a tensor first",),
    ),
    Rule(
        "numbers that a dtype can't hold",
        "an error, as in NumPy, instead of a number that wraps around",
        errors=("out of bounds for", "which holds 0 to 255"),
    ),
)


def rule_of(test: str, absent: str | None, error: str) -> Rule | None:
    """Return the rule that excuses a failure, or None."""
    return next((rule for rule in RULES if rule.excuses(test, absent, error)), None)
