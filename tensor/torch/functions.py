"""Functions of ``torch`` that are methods of their first argument: a table of names."""

from __future__ import annotations

from typing import Final

from tensor import Tensor
from tensor.torch.calling import function

__all__ = [
    "abs",
    "abs_",
    "absolute",
    "acos",
    "acosh",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "baddbmm",
    "bernoulli",
    "bincount",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bmm",
    "ceil",
    "ceil_",
    "cholesky",
    "chunk",
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "clone",
    "conj",
    "copysign",
    "corrcoef",
    "cos",
    "cos_",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "deg2rad",
    "detach",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "diff",
    "digamma",
    "dist",
    "div",
    "divide",
    "dot",
    "dsplit",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "exp_",
    "expm1",
    "fill_",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "floor",
    "floor_",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "frexp",
    "gather",
    "gcd",
    "ge",
    "ger",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "histc",
    "histogram",
    "hsplit",
    "hypot",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inner",
    "inverse",
    "is_complex",
    "is_floating_point",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "kron",
    "kthvalue",
    "lcm",
    "ldexp",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsumexp",
    "lt",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_exp",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multinomial",
    "multiply",
    "mv",
    "mvlgamma",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "ne",
    "neg",
    "neg_",
    "negative",
    "nextafter",
    "nonzero",
    "norm",
    "not_equal",
    "numel",
    "outer",
    "permute",
    "pinverse",
    "positive",
    "pow",
    "prod",
    "put",
    "qr",
    "quantile",
    "rad2deg",
    "ravel",
    "reciprocal",
    "reciprocal_",
    "relu",
    "relu_",
    "remainder",
    "renorm",
    "repeat_interleave",
    "reshape",
    "roll",
    "rot90",
    "round",
    "round_",
    "rsqrt",
    "rsqrt_",
    "rsub",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "select",
    "select_scatter",
    "sgn",
    "sigmoid",
    "sigmoid_",
    "sign",
    "signbit",
    "sin",
    "sin_",
    "sinc",
    "sinh",
    "slice_scatter",
    "softmax",
    "sort",
    "split",
    "split_with_sizes",
    "spmm",
    "sqrt",
    "sqrt_",
    "square",
    "square_",
    "squeeze",
    "std",
    "sub",
    "subtract",
    "sum",
    "svd",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tanh_",
    "tensor_split",
    "tile",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "trunc_",
    "unbind",
    "unflatten",
    "unique",
    "unique_consecutive",
    "unsqueeze",
    "var",
    "vdot",
    "vsplit",
    "xlogy",
    "zero_",
]

# Arithmetic

add: Final = function(Tensor.add)
sub: Final = function(Tensor.sub)
subtract: Final = function(Tensor.subtract)
mul: Final = function(Tensor.mul)
multiply: Final = function(Tensor.multiply)
div: Final = function(Tensor.div)
divide: Final = function(Tensor.divide)
true_divide: Final = function(Tensor.true_divide)
floor_divide: Final = function(Tensor.floor_divide)
remainder: Final = function(Tensor.remainder)
fmod: Final = function(Tensor.fmod)
pow: Final = function(Tensor.pow)
neg: Final = function(Tensor.neg)
negative: Final = function(Tensor.negative)
positive: Final = function(Tensor.positive)
abs: Final = function(Tensor.abs)
absolute: Final = function(Tensor.absolute)
reciprocal: Final = function(Tensor.reciprocal)
square: Final = function(Tensor.square)
sign: Final = function(Tensor.sign)
sgn: Final = function(Tensor.sgn)
ceil: Final = function(Tensor.ceil)
floor: Final = function(Tensor.floor)
trunc: Final = function(Tensor.trunc)
fix: Final = function(Tensor.fix)
round: Final = function(Tensor.round)
clamp: Final = function(Tensor.clamp)
clip: Final = function(Tensor.clip)
clamp_min: Final = function(Tensor.clamp_min)
clamp_max: Final = function(Tensor.clamp_max)
lerp: Final = function(Tensor.lerp)
maximum: Final = function(Tensor.maximum)
minimum: Final = function(Tensor.minimum)
hypot: Final = function(Tensor.hypot)
atan2: Final = function(Tensor.atan2)
arctan2: Final = function(Tensor.arctan2)
logaddexp: Final = function(Tensor.logaddexp)
copysign: Final = function(Tensor.copysign)
nextafter: Final = function(Tensor.nextafter)
addcmul: Final = function(Tensor.addcmul)
addcdiv: Final = function(Tensor.addcdiv)
nan_to_num: Final = function(Tensor.nan_to_num)
xlogy: Final = function(Tensor.xlogy)
logit: Final = function(Tensor.logit)
angle: Final = function(Tensor.angle)
deg2rad: Final = function(Tensor.deg2rad)
fmax: Final = function(Tensor.fmax)
fmin: Final = function(Tensor.fmin)
frac: Final = function(Tensor.frac)
frexp: Final = function(Tensor.frexp)
gcd: Final = function(Tensor.gcd)
heaviside: Final = function(Tensor.heaviside)
lcm: Final = function(Tensor.lcm)
ldexp: Final = function(Tensor.ldexp)
logaddexp2: Final = function(Tensor.logaddexp2)
rad2deg: Final = function(Tensor.rad2deg)
rsub: Final = function(Tensor.rsub)

# Powers, exponentials, trigonometry

exp: Final = function(Tensor.exp)
exp2: Final = function(Tensor.exp2)
expm1: Final = function(Tensor.expm1)
log: Final = function(Tensor.log)
log1p: Final = function(Tensor.log1p)
log2: Final = function(Tensor.log2)
log10: Final = function(Tensor.log10)
sqrt: Final = function(Tensor.sqrt)
rsqrt: Final = function(Tensor.rsqrt)
sin: Final = function(Tensor.sin)
cos: Final = function(Tensor.cos)
tan: Final = function(Tensor.tan)
asin: Final = function(Tensor.asin)
acos: Final = function(Tensor.acos)
atan: Final = function(Tensor.atan)
sinh: Final = function(Tensor.sinh)
cosh: Final = function(Tensor.cosh)
tanh: Final = function(Tensor.tanh)
asinh: Final = function(Tensor.asinh)
acosh: Final = function(Tensor.acosh)
atanh: Final = function(Tensor.atanh)
arcsin: Final = function(Tensor.arcsin)
arccos: Final = function(Tensor.arccos)
arctan: Final = function(Tensor.arctan)
arcsinh: Final = function(Tensor.arcsinh)
arccosh: Final = function(Tensor.arccosh)
arctanh: Final = function(Tensor.arctanh)
relu: Final = function(Tensor.relu)
sigmoid: Final = function(Tensor.sigmoid)
erf: Final = function(Tensor.erf)
erfc: Final = function(Tensor.erfc)
erfinv: Final = function(Tensor.erfinv)
conj: Final = function(Tensor.conj)
digamma: Final = function(Tensor.digamma)
float_power: Final = function(Tensor.float_power)
lgamma: Final = function(Tensor.lgamma)
mvlgamma: Final = function(Tensor.mvlgamma)
sinc: Final = function(Tensor.sinc)

# Comparisons, tests, bits

eq: Final = function(Tensor.eq)
ne: Final = function(Tensor.ne)
lt: Final = function(Tensor.lt)
le: Final = function(Tensor.le)
gt: Final = function(Tensor.gt)
ge: Final = function(Tensor.ge)
not_equal: Final = function(Tensor.not_equal)
less: Final = function(Tensor.less)
less_equal: Final = function(Tensor.less_equal)
greater: Final = function(Tensor.greater)
greater_equal: Final = function(Tensor.greater_equal)
logical_and: Final = function(Tensor.logical_and)
logical_or: Final = function(Tensor.logical_or)
logical_xor: Final = function(Tensor.logical_xor)
logical_not: Final = function(Tensor.logical_not)
isfinite: Final = function(Tensor.isfinite)
isinf: Final = function(Tensor.isinf)
isnan: Final = function(Tensor.isnan)
signbit: Final = function(Tensor.signbit)
isclose: Final = function(Tensor.isclose)
allclose: Final = function(Tensor.allclose)
equal: Final = function(Tensor.equal)
bitwise_and: Final = function(Tensor.bitwise_and)
bitwise_or: Final = function(Tensor.bitwise_or)
bitwise_xor: Final = function(Tensor.bitwise_xor)
bitwise_not: Final = function(Tensor.bitwise_not)
bitwise_left_shift: Final = function(Tensor.bitwise_left_shift)
bitwise_right_shift: Final = function(Tensor.bitwise_right_shift)
is_floating_point: Final = function(Tensor.is_floating_point)
is_complex: Final = function(Tensor.is_complex)
isneginf: Final = function(Tensor.isneginf)
isposinf: Final = function(Tensor.isposinf)
isreal: Final = function(Tensor.isreal)

# Reductions, scans, norms

sum: Final = function(Tensor.sum)
mean: Final = function(Tensor.mean)
prod: Final = function(Tensor.prod)
var: Final = function(Tensor.var)
std: Final = function(Tensor.std)
amax: Final = function(Tensor.amax)
amin: Final = function(Tensor.amin)
max: Final = function(Tensor.max)
min: Final = function(Tensor.min)
argmax: Final = function(Tensor.argmax)
argmin: Final = function(Tensor.argmin)
all: Final = function(Tensor.all)
any: Final = function(Tensor.any)
count_nonzero: Final = function(Tensor.count_nonzero)
nansum: Final = function(Tensor.nansum)
nanmean: Final = function(Tensor.nanmean)
median: Final = function(Tensor.median)
kthvalue: Final = function(Tensor.kthvalue)
quantile: Final = function(Tensor.quantile)
cumsum: Final = function(Tensor.cumsum)
cumprod: Final = function(Tensor.cumprod)
logsumexp: Final = function(Tensor.logsumexp)
softmax: Final = function(Tensor.softmax)
log_softmax: Final = function(Tensor.log_softmax)
norm: Final = function(Tensor.norm)
aminmax: Final = function(Tensor.aminmax)
bincount: Final = function(Tensor.bincount)
corrcoef: Final = function(Tensor.corrcoef)
cov: Final = function(Tensor.cov)
cummax: Final = function(Tensor.cummax)
cummin: Final = function(Tensor.cummin)
diff: Final = function(Tensor.diff)
histc: Final = function(Tensor.histc)
histogram: Final = function(Tensor.histogram)
logcumsumexp: Final = function(Tensor.logcumsumexp)
mode: Final = function(Tensor.mode)
nanmedian: Final = function(Tensor.nanmedian)
nanquantile: Final = function(Tensor.nanquantile)
renorm: Final = function(Tensor.renorm)

# In place

relu_: Final = function(Tensor.relu_)
sigmoid_: Final = function(Tensor.sigmoid_)
tanh_: Final = function(Tensor.tanh_)
exp_: Final = function(Tensor.exp_)
log_: Final = function(Tensor.log_)
sqrt_: Final = function(Tensor.sqrt_)
rsqrt_: Final = function(Tensor.rsqrt_)
reciprocal_: Final = function(Tensor.reciprocal_)
round_: Final = function(Tensor.round_)
floor_: Final = function(Tensor.floor_)
ceil_: Final = function(Tensor.ceil_)
trunc_: Final = function(Tensor.trunc_)
abs_: Final = function(Tensor.abs_)
neg_: Final = function(Tensor.neg_)
square_: Final = function(Tensor.square_)
sin_: Final = function(Tensor.sin_)
cos_: Final = function(Tensor.cos_)
clamp_: Final = function(Tensor.clamp_)
clamp_min_: Final = function(Tensor.clamp_min_)
clamp_max_: Final = function(Tensor.clamp_max_)
zero_: Final = function(Tensor.zero_)
fill_: Final = function(Tensor.fill_)

# Shapes and places

reshape: Final = function(Tensor.reshape)
flatten: Final = function(Tensor.flatten)
ravel: Final = function(Tensor.ravel)
unflatten: Final = function(Tensor.unflatten)
permute: Final = function(Tensor.permute)
transpose: Final = function(Tensor.transpose)
swapaxes: Final = function(Tensor.swapaxes)
swapdims: Final = function(Tensor.swapdims)
t: Final = function(Tensor.t)
movedim: Final = function(Tensor.movedim)
moveaxis: Final = function(Tensor.moveaxis)
squeeze: Final = function(Tensor.squeeze)
unsqueeze: Final = function(Tensor.unsqueeze)
tile: Final = function(Tensor.tile)
flip: Final = function(Tensor.flip)
roll: Final = function(Tensor.roll)
rot90: Final = function(Tensor.rot90)
fliplr: Final = function(Tensor.fliplr)
flipud: Final = function(Tensor.flipud)
tril: Final = function(Tensor.tril)
triu: Final = function(Tensor.triu)
diagonal: Final = function(Tensor.diagonal)
diag: Final = function(Tensor.diag)
diag_embed: Final = function(Tensor.diag_embed)
narrow: Final = function(Tensor.narrow)
select: Final = function(Tensor.select)
chunk: Final = function(Tensor.chunk)
split: Final = function(Tensor.split)
unbind: Final = function(Tensor.unbind)
repeat_interleave: Final = function(Tensor.repeat_interleave)
numel: Final = function(Tensor.numel)
clone: Final = function(Tensor.clone)
detach: Final = function(Tensor.detach)
adjoint: Final = function(Tensor.adjoint)
dsplit: Final = function(Tensor.dsplit)
hsplit: Final = function(Tensor.hsplit)
split_with_sizes: Final = function(Tensor.split_with_sizes)
tensor_split: Final = function(Tensor.tensor_split)
vsplit: Final = function(Tensor.vsplit)

# Products

mm: Final = function(Tensor.mm)
# For two dense tensors, which is what there is.
spmm: Final = function(Tensor.mm)
bmm: Final = function(Tensor.bmm)
mv: Final = function(Tensor.mv)
dot: Final = function(Tensor.dot)
matmul: Final = function(Tensor.matmul)
outer: Final = function(Tensor.outer)
ger: Final = function(Tensor.ger)
inner: Final = function(Tensor.inner)
vdot: Final = function(Tensor.vdot)
addmm: Final = function(Tensor.addmm)
addmv: Final = function(Tensor.addmv)
addr: Final = function(Tensor.addr)
baddbmm: Final = function(Tensor.baddbmm)
trace: Final = function(Tensor.trace)
cross: Final = function(Tensor.cross)
dist: Final = function(Tensor.dist)
addbmm: Final = function(Tensor.addbmm)
cholesky: Final = function(Tensor.cholesky)
diagflat: Final = function(Tensor.diagflat)
inverse: Final = function(Tensor.inverse)
kron: Final = function(Tensor.kron)
logdet: Final = function(Tensor.logdet)
matrix_exp: Final = function(Tensor.matrix_exp)
pinverse: Final = function(Tensor.pinverse)
qr: Final = function(Tensor.qr)
svd: Final = function(Tensor.svd)

# Selection and order

gather: Final = function(Tensor.gather)
index_select: Final = function(Tensor.index_select)
masked_select: Final = function(Tensor.masked_select)
masked_fill: Final = function(Tensor.masked_fill)
take: Final = function(Tensor.take)
take_along_dim: Final = function(Tensor.take_along_dim)
scatter: Final = function(Tensor.scatter)
scatter_add: Final = function(Tensor.scatter_add)
index_add: Final = function(Tensor.index_add)
index_fill: Final = function(Tensor.index_fill)
index_copy: Final = function(Tensor.index_copy)
index_put: Final = function(Tensor.index_put)
nonzero: Final = function(Tensor.nonzero)
argwhere: Final = function(Tensor.argwhere)
sort: Final = function(Tensor.sort)
argsort: Final = function(Tensor.argsort)
topk: Final = function(Tensor.topk)
unique: Final = function(Tensor.unique)
msort: Final = function(Tensor.msort)
bernoulli: Final = function(Tensor.bernoulli)
multinomial: Final = function(Tensor.multinomial)
diagonal_scatter: Final = function(Tensor.diagonal_scatter)
index_reduce: Final = function(Tensor.index_reduce)
masked_scatter: Final = function(Tensor.masked_scatter)
put: Final = function(Tensor.put)
scatter_reduce: Final = function(Tensor.scatter_reduce)
select_scatter: Final = function(Tensor.select_scatter)
slice_scatter: Final = function(Tensor.slice_scatter)
unique_consecutive: Final = function(Tensor.unique_consecutive)
