"""Where PyTorch's test files find another result than PyTorch's, or no error where PyTorch raises one.

Each entry names the tests, as ``fnmatch`` reads their names, and the line of the assertion. So it excuses
this assertion alone: another one of the same test fails. Refusals are in `refusals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Difference:
    """One reason, and the assertions that it is for: ``file.class.name`` of a test, and text of its line."""

    reason: str
    assertions: tuple[tuple[str, str], ...]

    def explains(self, test: str, line: str) -> bool:
        """Tell whether the entry is for the assertion `line` of `test`."""
        return any(fnmatchcase(test, tests) and text in line for tests, text in self.assertions)


DIFFERENCES = (
    Difference(
        "numbers of uint8 are indices, as in NumPy and the array API standard: `x[mask.bool()]`",
        (
            ("test_indexing.*.test_boolean_shape_mismatch_cpu", "'mask', lambda: arr[index]"),
            ("test_indexing.*.test_bool_indices_cpu", "v[uint8Indices].shape"),
            ("test_indexing.*.test_byte_mask_accumulate_cpu", "torch.ones(size=(10, 10)"),
            ("test_indexing.*.test_byte_mask_cpu", "v[mask].shape"),
            ("test_indexing.*.test_empty_ndim_index_bool_cpu", "dtype=torch.uint8"),
            ("test_indexing.*.test_index_getitem_copy_bools_slices_cpu", "a[false]"),
        ),
    ),
    Difference(
        "`any` and `all` of uint8 are bool, as of each other dtype",
        (
            ("test_reductions.*.test_all_any_vs_numpy_cpu_uint8", "torch.all(x).dtype"),
            ("test_reductions.*.test_reduction_empty_any_all_cpu", "dtype=out_dtype), xb.any(1)"),
        ),
    ),
    Difference(
        "indices may be of each integer dtype",
        (("test_indexing.*.test_take_along_dim_invalid_*", "dtype of indices should be Long"),),
    ),
    Difference(
        "`conj` computes, and of a real tensor it is an alias: there is no flag",
        (
            ("test_view_ops.*.test_conj_neg_view_numpy_error_cpu", "has conjugate bit set"),
            ("test_view_ops.*.test_conj_imag_view_*", "self.is_view_of(t, v)"),
            ("test_view_ops.*.test_conj_self_*", "s is t"),
            ("test_dlpack.*.test_dlpack_export_is_conj_cpu", "conjugate bit"),
        ),
    ),
    Difference(
        "`unfold` copies",
        (("test_view_ops.*.test_unfold_view_cpu", "self.is_view_of(t, v)"),),
    ),
    Difference(
        "`dtype=float` is the default dtype, float32",
        (("test_view_ops.*.test_python_types_cpu", "a1.dtype, a2.dtype"),),
    ),
    Difference(
        "a copy shares memory until one of both is written, and memory of bytes stays with its owner",
        (
            ("test_tensor_creation_ops.*.test_copy_tensor_*", "result.data_ptr(), original.data_ptr()"),
            ("test_tensor_creation_ops.*.test_alias_from_buffer_*", "result.data_ptr(), original.data_ptr()"),
            ("test_autograd.*.test_no_grad_copy", "p_a == p_b"),
        ),
    ),
    Difference(
        "PyTorch 2.13 differs too: `asarray` keeps `requires_grad`, and `CyclicLR` takes Adam",
        (
            ("test_tensor_creation_ops.*.test_alias_from_tensor_*", "result.requires_grad, kwargs.get("),
            ("test_tensor_creation_ops.*.test_retain_autograd_history_*", "a.requires_grad, requires_grad"),
            ("optim.*.test_cycle_lr_cycle_momentum_fail_*", "assertRaises(ValueError)"),
        ),
    ),
    Difference(
        "a tensor is a sequence of its rows; `meshgrid` without tensors is empty, and promotes",
        (
            ("test_tensor_creation_ops.*.test_dstack_*", "must be tuple of Tensors, not Tensor"),
            ("test_tensor_creation_ops.*.test_hstack_column_stack_*", "must be tuple of Tensors, not Tensor"),
            ("test_tensor_creation_ops.*.test_meshgrid_empty_cpu", "assertRaisesRegex(RuntimeError"),
            ("test_tensor_creation_ops.*.test_meshgrid_inconsistent_dtype_cpu", "assertRaisesRegex("),
        ),
    ),
    Difference(
        "strides of empty tensors and layouts of results of LAPACK and of histograms are NumPy's",
        (
            ("test_tensor_creation_ops.*.test_empty_tensor_props_cpu", "x.stride(), y.stride()"),
            ("test_linalg.*.test_nuclear_norm_axes_small_brute_force_old_cpu", "ans.is_contiguous()"),
            ("test_linalg.*.test_ormqr_cpu_*", "reflectors.mT.is_contiguous()"),
            ("test_dlpack.*.test_dlpack_normalize_strides_cpu", "z.stride(), (1,)"),
            ("test_reductions.*.test_histogram_cpu_*", "bin_edges.is_contiguous(), bins_contig"),
        ),
    ),
    Difference(
        "mixed dtypes promote, and `out=` takes each dtype that the result fits, as for other ops",
        (
            ("test_linalg.*.test_baddbmm_input_dtypes_compatibility_*", "Input dtypes must be the same"),
            ("test_linalg.*.test_linalg_lstsq_input_checks_*", "the same dtype"),
            ("test_linalg.*.test_mm_empty_inputs_mixed_dtype_errors_cpu", "to have the same dtype"),
            ("test_linalg.*.test_lu_unpack_check_input_*", "torch.int32 dtype"),
            ("test_linalg.*.test_householder_product_errors_and_warnings_cpu", "does not match input dt"),
            ("test_linalg.*.test_addr_float_and_complex_*", "assertRaisesRegex(RuntimeError"),
            ("test_reductions.*.test_all_any_vs_numpy_*", "all only supports bool tensor for result"),
            ("test_reductions.*.test_cum*_integer_upcast_cpu", "out=out, dtype=other_dtype"),
            ("test_reductions.*.test_prod_integer_upcast_cpu", "out=out, dtype=other_dtype"),
            ("test_reductions.*.test_sum_integer_upcast_cpu", "out=out, dtype=other_dtype"),
            ("test_reductions.*.test_histogram_error_handling_*", "should have the same dtype"),
            ("test_reductions.*.test_bucketization_cpu", "assertRaisesRegex("),
            ("test_unary_ufuncs.*.test_isposinf_isneginf_non_boolean_output_*", "assertRaisesRegex("),
            ("test_unary_ufuncs.*.test_frexp_assert_raises_cpu", "assertRaisesRegex("),
            ("test_shape_ops.*.test_nonzero_*", "assertRaisesRegex("),
            ("test_reductions.*.test_minmax_illegal_dtype_cpu", "assertRaisesRegex(RuntimeError, rmsg)"),
            ("test_reductions.*.test_mode_wrong_dtype_cpu", "assertRaisesRegex(RuntimeError, message)"),
            ("test_tensor_creation_ops.*.test_zeros_out_cpu", "assertRaises(RuntimeError)"),
            ("test_type_promotion.*.test_indexing_fail_cpu", "assertRaises(RuntimeError)"),
            ("test_type_promotion.*.test_non_promoting_ops_cpu", "assertRaises(RuntimeError)"),
            ("test_type_promotion.*.test_unary_op_out_casting_*", "assertRaises(RuntimeError)"),
            ("test_type_promotion.*.test_integer_addcdiv_deprecated_*", "is no longer supported"),
        ),
    ),
    Difference(
        "a tensor without dimensions and a NumPy array promote like other tensors, as in the array API",
        (
            ("test_type_promotion.*.test_result_type*", "torch.result_type(a, b)"),
            ("test_binary_ufuncs.*.test_type_promotion_*", "self.assertEqual(result.dtype, expected_dtype)"),
            ("test_type_promotion.*.test_cat_different_dtypes_cpu", "res, expected_res, exact_dtype=True"),
            ("test_type_promotion.*.test_complex_promotion_cpu", "(a + other).dtype, torch.complex64"),
            ("test_type_promotion.*.test_numpy_array_binary_ufunc_promotion*", "self.fail(msg)"),
            ("test_numpy_interop.*.test_multiplication_numpy_scalar_cpu", "r1.dtype == t_dtype"),
        ),
    ),
    Difference(
        "arrays of bfloat16 and uint16, and comparisons with NumPy's complex scalars, work: the tests expect "
        "PyTorch's failures",
        (
            ("test_numpy_interop.*.test_numpy_scalar_cmp_cpu_complex*", "self.assertFalse(t == a)"),
            ("test_numpy_interop.*.test_from_numpy_cpu", "assertRaises(TypeError)"),
            ("test_numpy_interop.*.test_numpy_scalar_cmp_cpu_bfloat16", "assertRaises(TypeError)"),
        ),
    ),
    Difference(
        "a loss that depends on the phase of complex eigenvectors has the gradient for LAPACK's phase",
        (("test_linalg.*.test_invariance_error_spectral_decompositions_*", "ill-defined"),),
    ),
    Difference(
        "batches broadcast in `ormqr`, and `multi_dot` takes what `@` takes",
        (
            (
                "test_linalg.*.test_ormqr_errors_and_warnings_*",
                "assertRaisesRegex(RuntimeError, error_regex)",
            ),
            ("test_linalg.*.test_pinv_errors_and_warnings_*", "rcond tensor of complex type"),
            ("test_linalg.*.test_multi_dot_errors_*", "assertRaisesRegex(RuntimeError, msg)"),
        ),
    ),
    Difference(
        "spaces in an equation of `einsum` have no meaning, also in an ellipsis",
        (("test_linalg.*.test_einsum_error_cases_cpu", "assertRaisesRegex(exception"),),
    ),
    Difference(
        "these work: a product over several dimensions, `nansum` of complex numbers, `slogdet` and Fourier "
        "transforms of half",
        (
            (
                "test_spectral_ops.*.test_fft_half_and_bfloat16_errors_*",
                "assertRaisesRegex(RuntimeError, err_msg)",
            ),
            ("test_reductions.*.test_dim_multi_unsupported_prod_cpu", "assertRaises(TypeError)"),
            ("test_reductions.*.test_nansum_complex_*", "nansum does not support complex inputs"),
            ("test_linalg.*.test_slogdet_errors_and_warnings_*", "Low precision dtypes not supported"),
        ),
    ),
    Difference(
        "the test expects what NumPy gave before 2.0, or before PyTorch had uint64",
        (
            ("test_linalg.*.test_solve_cpu_*", "self.assertEqual(x, expected)"),
            ("test_reductions.*.test_nansum_vs_numpy_cpu_uint8", "compare_with_numpy"),
            ("test_reductions.*.test_sum_vs_numpy_cpu_uint8", "compare_with_numpy"),
        ),
    ),
    Difference(
        "the test compares with PyTorch's own result of int64 for uint8, where NumPy's is uint64",
        (
            ("test_reductions.*.test_ref_small_input_prod_cpu_uint8", "result, expected, exact_dtype=False"),
            (
                "test_reductions.*.test_ref_small_input_masked_prod_cpu_uint8",
                "result, expected, exact_dtype=",
            ),
        ),
    ),
    Difference(
        "the norm of no elements is 0, which is also the largest of none of them",
        (
            ("test_linalg.*.test_norm_vector_degenerate_shapes_*", "assertRaises(RuntimeError)"),
            ("test_linalg.*.test_norm_matrix_degenerate_shapes_*", "assertRaises(ValueError)"),
        ),
    ),
    Difference(
        "in the last place: complex products are rounded after each step, in another order",
        (
            ("test_scatter_gather_ops.*.test_scatter__reductions_cpu_complex*", "atol=0, rtol=0"),
            ("test_scatter_gather_ops.*.test_scatter_reduce_prod_cpu_complex*", "atol=0, rtol=0"),
            (
                "test_reductions.*.test_ref_duplicate_values_masked_mean_cpu_float16",
                "result, expected, exact_dtype=False",
            ),
            ("test_binary_ufuncs.*.test_complex_scalar_pow_tensor_cpu_uint8", "actual, expected.to(actual)"),
        ),
    ),
    Difference(
        "rows with nan come last; PyTorch's order of them depends on its sorting",
        (("test_sort_and_select.*.test_unique_dim_cpu", "expected_unique_nan, x_unique"),),
    ),
    Difference(
        "variances of complex numbers are real, as `var` and `std` are",
        (("test_reductions.*.test_result_dtype_masked_???_cpu_complex*", "result.dtype, dtype"),),
    ),
    Difference(
        "a value that backward needs is kept before a write to it, and a write to one of several views is in "
        "the history of all: gradients are right where PyTorch raises an error",
        (
            ("test_autograd.*.test_inplace", "w.backward(torch.ones(5, 5))"),
            ("test_autograd.*.test_autograd_multiple_views_python", "assertRaisesRegex(RuntimeError,"),
            ("test_autograd.*.test_autograd_simple_views_python", "assertRaisesRegex(RuntimeError, err_msg)"),
            ("test_autograd.*.test_inplace_not_requires_grad", "inside a custom Function"),
            ("test_autograd.*.test_detach_then_inplace_raises_in_autograd", "modified by an inplace"),
            ("test_autograd.*.test_no_grad_modifies_version", "modified by an inplace operation"),
            ("test_autograd.*.test_inplace_on_view_multiple_outputs_cpu", "assertRaises(RuntimeError)"),
            (
                "test_autograd.*.test_inplace_on_view_of_multiple_output_view_cpu",
                "assertRaises(RuntimeError)",
            ),
            ("test_autograd.*.test_inplace_multiple_output_view_of_view_cpu", "assertRaises(RuntimeError)"),
            ("test_autograd.*.test_inplace_on_view_multi_output_safe_cpu", "error_msg"),
            ("test_autograd.*.test_anomaly_grad_warnings", "assertRaisesRegex(RuntimeError,"),
            ("test_autograd.*.test_saved_variable_saved_original_inplace_detach", "has been detached"),
            ("test_autograd.*TestAllowMutationOnSaved.test_basic", "assertRaisesRegex(RuntimeError, msg)"),
            ("test_autograd.*TestAllowMutationOnSaved.test_views", "assertRaisesRegex(RuntimeError, msg)"),
        ),
    ),
    Difference(
        "a bool is a number: 1 or 0; a tensor as `alpha`, `beta` or `value` has a gradient",
        (
            ("test_linalg.*.test_addr_integral_*", "assertRaisesRegex(RuntimeError"),
            ("test_binary_ufuncs.*.test_add_cpu", "assertRaisesRegex("),
            ("test_binary_ufuncs.*.test_sub_typing_cpu", "assertRaisesRegex("),
            ("test_binary_ufuncs.*.test_addcmul_scalars_as_floats_cpu", "y.addcmul(y, y, value=x)"),
        ),
    ),
    Difference(
        "`inference_mode` is `no_grad`: its tensors are ordinary ones",
        (
            ("test_autograd.*.test_inference_mode_inf_tensor_in_normal_mode_inplace_op", "err_msg"),
            ("test_autograd.*.test_inference_mode_handle_*_on_rebase", "err_msg"),
        ),
    ),
    Difference(
        "checkpoints have one form, whatever `use_reentrant` says, and compute their function to the end",
        (
            ("test_autograd.*.test_nested_checkpoint_set_early_stop", "counter[0], 1"),
            (
                "test_autograd.*.test_checkpointing_without_reentrant_custom_function_works",
                "assertRaisesRegex(RuntimeError, msg)",
            ),
            ("test_autograd.*.test_checkpoint_valid_reset_on_error", "not compatible with .grad()"),
            ("test_autograd.*.test_checkpointing_without_reentrant_detached_tensor_*", "err_ctx"),
        ),
    ),
    Difference(
        "outputs of a Function are tensors of their own, and the node of one of several is `Output`",
        (
            ("test_autograd.*.test_return_duplicate", "self.assertIs(a, b)"),
            ("test_autograd.*.test_return_duplicate_inplace", "self.assertIs(a, b)"),
            ("test_autograd.*.test_custom_function_local_inplace", "foo.grad_fn.__class__.__name__"),
        ),
    ),
    Difference(
        "the imaginary part of a real tensor is 0, as in NumPy",
        (("test_autograd.*.test_dir", "hasattr(x, imag_key)"),),
    ),
    Difference(
        "`out=` records no gradient, as the documentation says",
        (("test_autograd.*.test_out_variant_raises_when_inputs_require_grad", "torch.mul(a, b, out=x)"),),
    ),
    Difference(
        "the test sets an attribute of PyTorch's own, which has no effect here",
        (("test_autograd.*.test_set_materialize_non_diff_grads", "self.assertIsNone(g1)"),),
    ),
    Difference(
        "these have a derivative, or a second one",
        (
            ("test_autograd.*.test_not_implemented_grad", "assertRaisesRegex("),
            (
                "test_autograd.*.test_scatter_index_reduce_prod_gradgrad_error_cpu",
                "Double backward is unsupported",
            ),
        ),
    ),
    Difference(
        "the leaf of the view no longer exists, or the view is older than `requires_grad`",
        (
            ("test_autograd.*.test_inplace_on_view_weak_grad_fn", "assertRaises(RuntimeError)"),
            ("test_autograd.*.test_no_requires_grad_inplace", "assertRaises(RuntimeError)"),
        ),
    ),
    Difference(
        "a Function has no method `vjp`, and `gradcheck` passes no gradients of None",
        (
            ("test_autograd.*.test_custom_function_error", "Implementing both"),
            ("test_autograd.*.test_gradcheck_undefined_grad", "to handle undefined output grads"),
        ),
    ),
    Difference(
        "the test starts PyTorch itself in another process",
        (("test_autograd.*.test_pynode_destruction_deadlock", "timed out"),),
    ),
    Difference(
        "`autocast` changes nothing",
        (("test_autograd.*.test_checkpointing_non_reentrant_autocast_cpu", "expected_dtype, z.dtype"),),
    ),
    Difference(
        "the test reads the text of an error",
        (("test_autograd.*.test_python_thread_in_middle", "Specify retain_graph=True"),),
    ),
    Difference(
        "a hook is called with a gradient only, not with None",
        (("test_autograd.*.test_grad_nonleaf_register_hook", "hook_results[0], None"),),
    ),
    Difference(
        "`unique` has no derivative",
        (("test_autograd.*.test_integer_outputs", "res[0].requires_grad"),),
    ),
    Difference(
        "these work: gradients of in-place `elu` and `leaky_relu` with negative slopes, and powers of half",
        (
            ("test_nn.*.test_elu_inplace_with_neg_alpha_cpu", "call out-of-place version"),
            ("test_nn.*.test_leaky_relu_inplace_with_neg_slope_cpu", "call out-of-place version"),
            ("test_binary_ufuncs.*.test_complex_scalar_pow_tensor_cpu_float16", "not implemented for"),
            ("test_binary_ufuncs.*.test_pow_cpu_float16", "not implemented for"),
        ),
    ),
    Difference(
        "padding and patches of no elements have no elements",
        (
            ("test_nn.*.test_ReflectionPad_empty_*", "2D or 3D"),
            ("test_nn.*.test_ReplicationPad_empty_*", "Expected 2D or 3D"),
            ("test_nn.*.test_Unfold_empty_cpu", "Expected 3D or 4D"),
        ),
    ),
    Difference(
        "`load_state_dict` takes arrays, and `Unflatten` checks its sizes when it is called",
        (
            ("test_nn.TestNN.test_load_state_dict_invalid", "assertRaisesRegex(RuntimeError,"),
            ("test_nn.TestNN.test_unflatten_invalid_arg", "assertRaisesRegex("),
        ),
    ),
    Difference(
        "parameters and modules are attributes of their module, and private names are ours",
        (
            ("test_nn.TestNN.test_assignment", "assertNotIn('a', l.__dict__)"),
            ("test_nn.TestNN.test_dir_digit", "assertNotIn('0', keys)"),
            ("test_nn.TestNN.test_module_super_init", "mixin_init"),
            ("test_nn.TestNN.test_register_state_dict_pre_hook_backward_compat", "_state_dict_pre_hooks"),
        ),
    ),
    Difference(
        "for a sequence that is masked whole, the encoder layer gives what PyTorch's gives while it records "
        "gradients; without them, PyTorch's shortcut gives nan",
        (("test_nn.*.test_transformerencoderlayer_cpu_*", "np.isnan(result).all()"),),
    ),
    Difference(
        "derivatives in float16 are rounded after each step, as NumPy's arithmetic is",
        (("test_nn.*.test_activations_bfloat16_half_cpu_*float16", "input.grad.data, input2.grad.data"),),
    ),
    Difference(
        "nodes of the graph have names of their own, and the base class `Node`",
        (
            ("test_autograd.*.test_function", "x_grad_desc"),
            ("test_autograd.*.test_once_differentiable", "graph_desc(x.grad.grad_fn)"),
            ("test_autograd.*.test_autograd_node_isinstance", "Node not in type(b.grad_fn).mro()"),
        ),
    ),
    Difference(
        "`strict` works with `vectorize`, and hooks of saved tensors with data parallelism on one device",
        (
            ("autograd.test_functional.*_strict_vectorize_*", "not supported together"),
            ("test_autograd.*.test_dataparallel_saved_tensors_hooks", "len(w), 0"),
        ),
    ),
    Difference(
        "`sub` of complex infinities is infinite: PyTorch multiplies by an `alpha` of 1, for nan. The "
        "test's reference for numbers is float64",
        (
            ("test_binary_ufuncs.*.test_reference_numerics_extremal_values_sub_cpu_complex*", "assertEqual"),
            ("test_binary_ufuncs.*.test_scalar_support_sub_cpu_*", "assert expected.dtype"),
        ),
    ),
    Difference(
        "`silu` of minus infinity is 0, its limit",
        (("test_unary_ufuncs.*.test_reference_numerics_extremal_nn_functional_silu_cpu_*", "assertEqual"),),
    ),
    Difference(
        "`expm1` of a complex infinity has the values of the array API standard and of C, such as inf+0j: "
        "PyTorch and NumPy multiply the infinity by a sine of 0, for inf+nanj",
        (("test_unary_ufuncs.*.test_reference_numerics_extremal_expm1_cpu_complex*", "assertEqual"),),
    ),
    Difference(
        "division of integers by zero is 0, as in NumPy",
        (
            ("test_binary_ufuncs.*.test_floor_divide_zero_cpu_*", "ZeroDivisionError"),
            ("test_binary_ufuncs.*.test_fmod_remainder_by_zero_integral_cpu_*", "ZeroDivisionError"),
        ),
    ),
    Difference(
        "infinities in `//` follow the array API standard: `inf // 2` is `inf`",
        (("test_binary_ufuncs.*.test_div_rounding_nonfinite_cpu_*", "self.assertEqual("),),
    ),
    Difference(
        "the test calls `div` without the rounding mode that its entry is for",
        (("test_binary_ufuncs.*.test_type_promotion_div_*_rounding_cpu", "op(lhs_i16, rhs_i32).dtype"),),
    ),
    Difference(
        "`isclose` is bool, `float_power` is float64, as PyTorch documents; the test expects another dtype",
        (
            ("test_binary_ufuncs.*.test_type_promotion_isclose_cpu", "op(lhs_i16, rhs_i32).dtype"),
            ("test_binary_ufuncs.*.test_type_promotion_float_power_cpu", "op(lhs_i16, rhs_i32).dtype"),
        ),
    ),
    Difference(
        "a quotient of integers is float32, the default dtype, where the test expects NumPy's float64",
        (("test_binary_ufuncs.*.test_div_rounding_numpy_cpu_*int*", "self.assertEqual("),),
    ),
    Difference(
        "operands of several dtypes promote, and complex numbers have the order of NumPy",
        (
            ("test_binary_ufuncs.*.test_float_power_*", "assertRaisesRegex("),
            ("test_binary_ufuncs.*.test_heaviside_*", "assertRaisesRegex("),
            ("test_binary_ufuncs.*.test_maximum_minimum_complex_*", "not implemented for"),
        ),
    ),
    Difference(
        "a write to a view that overlaps itself or its source is computed first",
        (
            ("test_binary_ufuncs.*.test_binary_op_mem_overlap_cpu_*", "unsupported operation"),
            ("test_binary_ufuncs.*.test_pow_scalar_overloads_mem_overlap_*", "unsupported operation"),
            ("test_unary_ufuncs.*.test_unary_out_op_mem_overlap_*", "unsupported operation"),
        ),
    ),
    Difference(
        "`gradcheck` runs the function again to find random numbers, and needs outputs of one shape",
        (
            ("test_autograd.*.test_gradcheck_nondeterministic", "nondet_tol=1e-5"),
            ("test_autograd.*.test_gradcheck_output_shape_or_dtype_depend_on_values", "gradcheck(fn, (a,)"),
        ),
    ),
)


def difference_of(test: str, line: str) -> Difference | None:
    """Return the entry for the assertion `line` of `test`, or None."""
    return next((each for each in DIFFERENCES if each.explains(test, line)), None)
