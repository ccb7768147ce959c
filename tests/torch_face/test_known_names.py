"""Names of PyTorch that known programs use, with the keywords of their calls, are on `tensor.torch`."""

# ruff: noqa: E501 -- a line for each name

from __future__ import annotations

import re

from tests.programs.names import missing_of

# From PyTorch's examples, minGPT, nanoGPT, LLMs-from-scratch and the annotated papers of labml.ai; without
# distributed, fx, jit and CUDA.
KNOWN = """
torch.FloatTensor
torch.Generator
torch.LongTensor
torch.Size
torch.Tensor
torch.__version__
torch._amp_foreach_non_finite_check_and_unscale_
torch.accelerator.current_accelerator
torch.accelerator.device_count
torch.accelerator.is_available
torch.accelerator.set_device_index
torch.all
torch.allclose(atol, rtol)
torch.amp.autocast(device_type, dtype)
torch.arange(device, dtype, end, start)
torch.argmax(dim, keepdim)
torch.as_tensor(device, dtype)
torch.autograd.Function
torch.autograd.grad(create_graph, grad_outputs, inputs, outputs)
torch.backends.cuda.matmul.allow_tf32
torch.backends.cudnn
torch.backends.cudnn.allow_tf32
torch.backends.cudnn.benchmark
torch.backends.cudnn.deterministic
torch.backends.mps.is_available
torch.bernoulli
torch.bfloat16
torch.bool
torch.cat(dim)
torch.chunk(dim)
torch.clamp(max, min)
torch.clamp_min
torch.clip(min)
torch.compile
torch.cos
torch.cumprod(dim)
torch.cumsum(dim)
torch.device
torch.diag
torch.digamma
torch.distributions.Categorical(logits)
torch.distributions.MultivariateNormal(covariance_matrix)
torch.double
torch.dtype
torch.einsum
torch.empty(device, dtype, requires_grad, size)
torch.empty_like
torch.enable_grad
torch.eq
torch.equal
torch.exp
torch.eye(device, dtype)
torch.fft.fft(dim)
torch.flatten
torch.float
torch.float16
torch.float32
torch.float64
torch.from_numpy
torch.full(device, dtype)
torch.gather(dim, index)
torch.get_default_dtype
torch.hub._download_url_to_file
torch.inf
torch.inference_mode
torch.int64
torch.is_grad_enabled
torch.isnan
torch.lgamma
torch.linspace(dtype)
torch.load(map_location, weights_only)
torch.log
torch.log1p
torch.log_softmax(dim)
torch.long
torch.manual_seed
torch.matmul
torch.max(dim, keepdim)
torch.maximum(out)
torch.mean(dim, keepdim)
torch.min
torch.mm
torch.multinomial(num_samples)
torch.nn
torch.nn.AdaptiveAvgPool2d
torch.nn.AvgPool1d(ceil_mode)
torch.nn.BCELoss
torch.nn.BCEWithLogitsLoss(reduction)
torch.nn.BatchNorm1d
torch.nn.BatchNorm2d
torch.nn.Conv1d(bias, groups, in_channels, kernel_size, out_channels, padding, stride)
torch.nn.Conv2d(bias, groups, in_channels, kernel_size, out_channels, padding, padding_mode, stride)
torch.nn.ConvTranspose2d(bias, kernel_size, stride)
torch.nn.CrossEntropyLoss(ignore_index)
torch.nn.DataParallel
torch.nn.Dropout(p)
torch.nn.Dropout2d
torch.nn.ELU
torch.nn.Embedding(dtype)
torch.nn.GELU(approximate)
torch.nn.GRUCell
torch.nn.GroupNorm(affine, eps, num_channels, num_groups)
torch.nn.Identity
torch.nn.InstanceNorm2d(affine)
torch.nn.KLDivLoss(log_target, reduction)
torch.nn.L1Loss
torch.nn.LSTM(batch_first, bidirectional, dropout, hidden_size, input_size, num_layers)
torch.nn.LSTMCell
torch.nn.LayerNorm(eps)
torch.nn.LeakyReLU(inplace, negative_slope)
torch.nn.Linear(bias, dtype, in_features, out_features)
torch.nn.LogSoftmax
torch.nn.MSELoss
torch.nn.MaxPool2d(kernel_size, stride)
torch.nn.Module
torch.nn.ModuleDict
torch.nn.ModuleList
torch.nn.NLLLoss
torch.nn.Parameter(requires_grad)
torch.nn.ParameterList
torch.nn.PixelShuffle
torch.nn.RMSNorm(dtype, eps)
torch.nn.ReLU(inplace)
torch.nn.ReflectionPad2d
torch.nn.ReplicationPad2d
torch.nn.Sequential
torch.nn.SiLU
torch.nn.Sigmoid
torch.nn.SmoothL1Loss(reduction)
torch.nn.Softmax(dim)
torch.nn.Softplus
torch.nn.Tanh
torch.nn.Transformer(d_model, dim_feedforward, dropout, nhead, num_decoder_layers, num_encoder_layers)
torch.nn.Upsample(align_corners, mode, scale_factor)
torch.nn.ZeroPad2d
torch.nn.functional
torch.nn.functional.binary_cross_entropy(reduction)
torch.nn.functional.conv1d(groups, padding)
torch.nn.functional.conv2d(bias, groups, padding)
torch.nn.functional.cross_entropy(ignore_index)
torch.nn.functional.dropout(training)
torch.nn.functional.elu
torch.nn.functional.embedding
torch.nn.functional.gelu
torch.nn.functional.interpolate(align_corners, mode, scale_factor)
torch.nn.functional.layer_norm
torch.nn.functional.linear(bias)
torch.nn.functional.log_softmax(dim)
torch.nn.functional.max_pool2d
torch.nn.functional.mse_loss
torch.nn.functional.nll_loss(reduction)
torch.nn.functional.normalize(dim)
torch.nn.functional.pad(mode, value)
torch.nn.functional.relu
torch.nn.functional.scaled_dot_product_attention(attn_mask, dropout_p, is_causal)
torch.nn.functional.sigmoid
torch.nn.functional.silu
torch.nn.functional.smooth_l1_loss
torch.nn.functional.softmax(dim)
torch.nn.functional.softplus
torch.nn.init
torch.nn.init.calculate_gain
torch.nn.init.constant_
torch.nn.init.kaiming_uniform_(a)
torch.nn.init.normal_(mean, std)
torch.nn.init.ones_
torch.nn.init.orthogonal_
torch.nn.init.xavier_normal_
torch.nn.init.xavier_uniform_
torch.nn.init.zeros_
torch.nn.modules.activation.ReLU
torch.nn.modules.conv.Conv2d
torch.nn.modules.pixelshuffle.PixelShuffle
torch.nn.utils.clip_grad_norm_(max_norm)
torch.nn.utils.rnn.pad_sequence(padding_value)
torch.no_grad
torch.nonzero(as_tuple)
torch.normal
torch.ones(device, dtype, requires_grad)
torch.ones_like
torch.onnx._export(opset_version)
torch.optim
torch.optim.Adadelta(lr)
torch.optim.Adam(betas, eps, lr, weight_decay)
torch.optim.AdamW(betas, fused, lr, weight_decay)
torch.optim.LBFGS(lr)
torch.optim.Optimizer
torch.optim.SGD(lr, momentum, weight_decay)
torch.optim.lr_scheduler.LambdaLR(lr_lambda)
torch.optim.lr_scheduler.StepLR(gamma, step_size)
torch.optim.optimizer.Optimizer
torch.outer
torch.pi
torch.pow
torch.preserve_format
torch.profiler.ProfilerActivity.CPU
torch.profiler.ProfilerActivity.CUDA
torch.profiler.profile(activities, on_trace_ready, profile_memory, record_shapes, schedule, with_flops, with_modules, with_stack)
torch.profiler.schedule(active, repeat, wait, warmup)
torch.profiler.tensorboard_trace_handler
torch.rand(device)
torch.randint(device, dtype, size)
torch.randn(device, dtype, requires_grad)
torch.randn_like
torch.randperm(generator)
torch.real
torch.relu
torch.repeat_interleave(dim)
torch.rsqrt
torch.save
torch.serialization.safe_globals
torch.set_float32_matmul_precision
torch.set_grad_enabled
torch.sigmoid
torch.sin
torch.softmax(dim)
torch.sort(descending, dim)
torch.sparse_coo_tensor(dtype)
torch.split(dim)
torch.spmm
torch.sqrt
torch.square
torch.stack(dim)
torch.sum(dim, keepdim)
torch.tanh
torch.tensor(device, dtype)
torch.testing.assert_close(atol, rtol)
torch.tile
torch.topk(dim, k)
torch.transpose
torch.tril
torch.triu(diagonal)
torch.unbind(dim)
torch.unique
torch.utils.data
torch.utils.data.DataLoader(batch_size, collate_fn, dataset, drop_last, num_workers, pin_memory, sampler, shuffle)
torch.utils.data.Dataset
torch.utils.data.IterableDataset
torch.utils.data.RandomSampler(num_samples, replacement)
torch.utils.data.Subset
torch.utils.data.TensorDataset
torch.utils.data.dataloader.DataLoader(batch_size, drop_last, num_workers, pin_memory, sampler, shuffle)
torch.utils.data.sampler.Sampler
torch.var_mean(dim, keepdim)
torch.version.cuda
torch.where
torch.zeros(device, dtype, requires_grad)
torch.zeros_like(device, dtype, memory_format)
"""
# The others are sparse tensors, bfloat16, and functions that start with an underscore.
LEAST = 0.97


def test_known_names_are_there() -> None:
    used = {}
    for line in KNOWN.split("\n"):
        if found := re.fullmatch(r"([\w.]+)(?:\((.*)\))?", line):
            used[found[1]] = {tuple(filter(None, (found[2] or "").split(", ")))}
    missing = [gap for name, calls in used.items() if (gap := missing_of(name, calls))]
    assert {"torch.zeros", "torch.zeros_like"} <= set(used)
    assert len(missing) <= (1 - LEAST) * len(used), missing
