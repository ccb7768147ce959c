"""What of PyTorch's test files `tensor.torch` refuses on purpose, each rule with its reason.

A rule excuses an error that is raised: in a test that it names, an AttributeError of a name that it lists,
both as ``fnmatch`` reads them, or an error whose text says what `tensor.torch` refuses. No rule excuses a
wrong value, a wrong derivative, an error that does not come, or a crash: `differences` lists those that are
meant, each with its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

# Failures that are no refusals: a comparison, a check of derivatives, a test that takes too long, a crash.
NO_REFUSALS = ("AssertionError", "GradcheckError", "TimeoutError", "the process ends")


@dataclass(frozen=True)
class Rule:
    """Tests that may fail, and why: by ``file.class.name``, by an absent name, or by the text of an error."""

    title: str
    reason: str
    tests: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def entry_for(self, test: str, absent: str | None, error: str) -> str | None:
        """Return the entry that excuses a failure, or None: `absent` is the name of an AttributeError."""
        if error.startswith(NO_REFUSALS):
            return None
        for each in self.absent:
            if absent is not None and fnmatchcase(absent, each):
                return each
        for each in self.tests:
            if fnmatchcase(test, each):
                return each
        return next((each for each in self.errors if each in error), None)


RULES = (
    Rule(
        "TorchScript and the compiler",
        "programs here are Python, run line by line; the compiler's own forms of ops have no user",
        ("*__refs_*", "*_hash_tensor_*", "*_view_copy_*"),
        (
            "jit",
            "_dynamo",
            "fx",
            "ops",
            "_refs",
            "_prims",
            "_prims_common",
            "overrides",
        ),
    ),
    Rule(
        "private names",
        "PyTorch's own; programs have public ones",
        tests=("test_view_ops.*.test_flatten_nonview_cpu", "test_autograd.*.test_autograd_views_codegen"),
        absent=(
            "_[!_]*",
            "SinCounterMode",
            "MyMode",
            "VerboseTorchDispatchMode",
            "__rdiv__",
            "get_analytical_jacobian",
            "get_numerical_jacobian",
            "preferred_linalg_library",
        ),
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
        absent=("memory_format",),
        errors=("unexpected keyword argument 'memory_format'",),
    ),
    Rule(
        "another default dtype",
        "the default dtype is float32: nothing becomes float64 that does not say so",
        absent=("set_default_tensor_type",),
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
        ("sparse_coo", "to_sparse", "sparse_coo_tensor", "sparse_csr_tensor", "to_sparse_*", "to_dense"),
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
        "BufferError, as DLPack's specification says; ValueError for ragged lists; TypeError for dtypes",
        errors=(
            "BufferError: DLPack:",
            "BufferError: can't export a tensor",
            "lists are ragged",
            "a write in place can't change the dtype",
        ),
    ),
    Rule(
        "capsules of DLPack",
        "`torch.from_dlpack(x)` takes the tensor itself, whose device a capsule can't tell",
        absent=("to_dlpack",),
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
    Rule(
        "random state by devices",
        "one generator: `torch.get_rng_state`, `torch.set_rng_state`",
        absent=("random", "fork_rng"),
    ),
    Rule(
        "forward derivatives",
        "derivatives are computed backward, and each error of an option says so",
        tests=("test_autograd.*.test_custom_function_forward_mode_*",),
        absent=("dual_level", "make_dual", "forward_ad", "_is_fwd_grad_enabled", "jvp"),
        errors=("unexpected keyword argument 'check_forward_ad'", "'_Absent' and 'int'"),
    ),
    Rule(
        "batched gradients",
        "`torch.vmap`, or a call for each gradient",
        errors=(
            "unexpected keyword argument 'is_grads_batched'",
            "unexpected keyword argument 'is_grads_batched",
        ),
    ),
    Rule(
        "nodes of the graph",
        "`grad_fn` names the op; its edges, calls and saved values belong to the engine",
        tests=(
            "test_autograd.*.test_grad_fn_badcalls",
            "test_autograd.*.test_grad_fn_prehooks_multiple_outputs",
            "test_autograd.*.test_inplace_on_view_saved_output",
        ),
        absent=(
            "metadata",
            "output_nr",
            "saved_tensors",
            "saved_variables",
            "SavedTensor",
            "allow_mutation_on_saved_tensors",
            "register_multi_grad_hook",
            "set_multithreading_enabled",
        ),
    ),
    Rule(
        "inference tensors",
        "`inference_mode` is `no_grad`: its tensors are ordinary ones",
        absent=("is_inference",),
    ),
    Rule(
        "checkpoints that stop early",
        "a checkpoint computes its function again to the end",
        absent=("set_checkpoint_early_stop",),
    ),
    Rule(
        "methods of functions",
        "`forward` and `backward` of a Function are static, as PyTorch's documentation says",
        errors=("must be a static method", "can't be instantiated, because its methods are static"),
    ),
    Rule(
        "recorded writes to views of another dtype",
        "an error, whose text says what to write",
        errors=(
            "shares memory with a tensor of another dtype",
            "can't write complex values into a tensor of",
        ),
    ),
    Rule(
        "writes to a leaf's history",
        "errors, whose texts say what to write",
        errors=(
            "detach_: a view or an alias shares gradient history",
            "only the gradient of a leaf that requires grad can be set",
            "can't convert a tensor that requires grad to an array",
            "is not a leaf that requires grad, so it accumulates no gradient",
        ),
    ),
    Rule(
        "numerical routines of rare use",
        "`svd`, `eigh` and `qr` compute what the approximate and special ones do",
        absent=(
            "chain_matmul",
            "eig",
            "histogramdd",
            "ldl_factor",
            "ldl_factor_ex",
            "ldl_solve",
            "lobpcg",
            "lstsq",
            "matrix_rank",
            "nuclear_norm",
            "pca_lowrank",
            "solve",
            "svd_lowrank",
            "symeig",
        ),
    ),
    Rule(
        "a Python function for each element",
        "`x.copy_(torch.tensor([f(n) for n in x.tolist()]))`",
        absent=("apply_", "map_", "map2_"),
    ),
    Rule(
        "special functions of rare use",
        "SciPy has Bessel functions, orthogonal polynomials and zeta, for `x.numpy()`",
        absent=("airy_ai", "*bessel_*", "*_polynomial_*", "zeta"),
    ),
    Rule(
        "floating tensors for functions of networks",
        "activations, losses and interpolation take floating tensors; the error says what to write",
        errors=("must be floating, not ", "normal_ fills floating tensors"),
    ),
    Rule(
        "operands of one dtype",
        "`complex`, `polar` and `heaviside` take operands of one dtype; the error says what to write",
        errors=("takes floating tensors of one dtype", "values must have the tensor's dtype"),
    ),
    Rule(
        "signs of bools",
        "the sign of a bool is the bool itself: an error says to convert it",
        errors=("sign is not defined for bool",),
    ),
    Rule(
        "shapes of inputs and targets",
        "a loss does not broadcast its target, which is often a mistake: the error says what to write",
        ("test_nn.TestNN.test_MultiLabelMarginLoss_0d_*",),
        errors=("input and target must have the same shape",),
    ),
    Rule(
        "older arguments of losses",
        "`reduction`: PyTorch deprecates `reduce` and `size_average`",
        errors=("unexpected keyword argument 'reduce'", "unexpected keyword argument 'size_average'"),
    ),
    Rule(
        "modules without memory",
        "there is no device without memory; `nn.Module.to_empty` and `skip_init` have no use",
        absent=("skip_init",),
        errors=("device 'meta' does not exist", "'Device' object does not support the context manager"),
    ),
    Rule(
        "names in modules",
        "a name is a str without dots, an attribute of its module, and the name in its state dict",
        errors=("must be a non-empty str without dots", "has no attribute '_forward_pre_hooks'"),
    ),
    Rule(
        "modules of rare use",
        "`register_buffer`, `register_full_backward_hook`; no program that was run has used the others",
        absent=(
            "Buffer",
            "CrossMapLRN2d",
            "SyncBatchNorm",
            "fuse_*",
            "fusion",
            "register_backward_hook",
            "register_state_dict_pre_hook",
        ),
    ),
    Rule(
        "rare arguments of modules",
        "errors, whose texts say what was wrong",
        (
            "test_nn.TestNN.test_*_raises_error_if_attr_exists",
            "test_nn.TestNN.test_Sequential_insert_fail_case",
            "test_nn.TestNN.test_extra_state_non_dict",
            "test_nn.TestNN.test_grid_sample_3d",
            "test_nn.TestNN.test_load_state_dict_custom",
            "test_nn.TestNN.test_projections_errors_on_gru_and_rnn",
            "test_nn.TestNN.test_train_errors_for_invalid_mode",
            "test_nn.TestNN.test_transformer_args_check",
            "test_nn.TestNN.test_unflatten",
        ),
        errors=("batch_norm: eps must be above 0 in training",),
    ),
    Rule(
        "containers of parameters",
        "`ParameterList` and `ParameterDict` hold parameters only, and have the methods that programs use",
        ("test_nn.TestNN.test_ParameterDict",),
        errors=("a Parameter must be a leaf",),
    ),
    Rule(
        "replaced modules",
        "a module that another one replaces is disposed, unless a module holds it",
        ("test_nn.TestNN.test_Sequential_setitem",),
    ),
    Rule(
        "SciPy's integrals of no points",
        "SciPy raises an error where the test computes what it expects",
        errors=("At least one point is required along `axis`",),
    ),
    Rule(
        "PyTorch's older profiler",
        "`torch.profiler.profile` and `disposescope.memory` measure",
        absent=("profiler", "kineto_available", "record_function", "EventList", "FunctionEventAvg"),
    ),
    Rule(
        "what is rare",
        "no program that was run has used these names",
        (
            "test_autograd.*.test_volatile_deprecated",
            "test_autograd.*.test_attribute_deletion",
            "test_autograd.*.test_requires_grad",
            "test_autograd.*.test_grad_materialize_grads",
            "test_autograd.*.test_custom_function_vmap_defaults",
            "test_autograd.*.test_return_leaf_inplace",
            "test_autograd.*.test_autograd_python_custom_function_inplace",
            "test_autograd.*.test_inplace_on_view_backward",
            "test_autograd.*.test_input_buffer_accum",
        ),
        (
            "Binomial",
            "constant_pad_nd",
            "conj_physical",
            "igamma",
            "igammac",
            "unsafe_split",
            "generate_vmap_rule",
            "hardshrink",
        ),
    ),
    Rule(
        "options and errors of PyTorch's gradcheck",
        "ours has one error, GradcheckError, and takes the options that its documentation lists",
        ("test_autograd.*.test_gradcheck_*",),
    ),
    Rule(
        "backward within backward, a thousand times",
        "each is a call of Python, which has a limit",
        ("test_autograd.*.test_deep_reentrant",),
    ),
    Rule("nested tensors", "lists of tensors", absent=("nested",)),
    Rule(
        "lists of slices as an index",
        "a tuple is an index of several dimensions: `x[tuple(index)]`, which PyTorch recommends too",
        errors=("is of type slice, not a number",),
    ),
    Rule(
        "more than 64 dimensions",
        "the limit is NumPy's, 64",
        errors=("maximum supported dimension for an ndarray is currently 64", "maximum supported dimension"),
    ),
    Rule(
        "complex logarithms of sums",
        "`logsumexp`, `logcumsumexp` and `logaddexp` take real numbers",
        (
            "test_reductions.*logsumexp*complex*",
            "test_reductions.*.test_logcumsumexp_complex_*",
            "test_binary_ufuncs.*logaddexp*complex*",
            "test_binary_ufuncs.*.test_type_promotion_logaddexp_cpu",
        ),
    ),
    Rule(
        "reductions of empty dimensions",
        "a ValueError, which is a RuntimeError for other values too; PyTorch has an IndexError",
        errors=("there are no elements to choose from",),
    ),
    Rule(
        "optimizers",
        "parameters are checked before their options; no state is kept that a step does not need",
        (
            "optim.*.test_lbfgs_returns_consistent_type",
            "optim.*.test_duplicate_params_in_one_param_group",
            "optim.*.test_sgd",
            "optim.*.test_update_bn_*",
            "optim.*.test_step_is_noop_*",
        ),
        ("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"),
        ("'NoneType' object is not iterable",),
    ),
    Rule(
        "older positions of arguments",
        "`x.addbmm(batch1, batch2, beta=1)`: PyTorch's documentation no longer has numbers before tensors",
        ("test_linalg.*.test_addbmm_*", "test_linalg.*.test_baddbmm_cpu_*"),
    ),
    Rule(
        "integers to the power of negative ones",
        "an error for `2 ** -1` too, where PyTorch has 0",
        errors=("integers have no negative integer powers",),
    ),
    Rule(
        "tensors without dimensions as a vector of quantiles",
        "one number from 0 to 1, or a vector of them",
        errors=("q must be a number from 0 to 1, or a vector of them",),
    ),
    Rule(
        "SciPy's windows of no elements",
        "SciPy raises an error where the test computes what it expects",
        errors=("Parameter Nx=0 is not a positive integer",),
    ),
    Rule(
        "classes of errors of `tensor` and `topk`",
        "InvalidArgumentError and TypeError, whose texts say what was wrong",
        (
            "test_sort_and_select.*.test_topk_arguments_cpu",
            "test_tensor_creation_ops.*.test_as_tensor_cpu",
            "test_tensor_creation_ops.*.test_tensor_from_sequence_cpu",
            "test_autograd.*.test_grad",
        ),
    ),
    Rule(
        "unique columns of a complete Q",
        "they have no derivative: an error at the call, PyTorch's comes in backward",
        errors=("the columns of the complete Q from index", "unexpected keyword argument 'driver'"),
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
    return next((rule for rule in RULES if rule.entry_for(test, absent, error) is not None), None)


def unused(excused: set[tuple[str, str]]) -> list[str]:
    """Return the entries of rules that are not in `excused`, which has titles of rules and entries."""
    return [
        f"{rule.title}: {entry}"
        for rule in RULES
        for entry in (*rule.tests, *rule.absent, *rule.errors)
        if (rule.title, entry) not in excused
    ]
