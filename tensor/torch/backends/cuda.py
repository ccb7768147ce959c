"""``torch.backends.cuda``: not available."""

from tensor.torch.accelerator import is_available as is_built

__all__ = ["is_built", "matmul"]


class _Products:
    """Settings of matrix products on CUDA devices, without effect."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = False
    allow_bf16_reduced_precision_reduction: bool = False


matmul: _Products = _Products()
