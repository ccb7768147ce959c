# Written by .ci/write-stubs.
from typing import Final

from tensor import Tensor
from tensor.torch.calling import function

__all__ = [  # noqa: RUF022
    "abs",
    "abs_",
    "absolute",
    "acos",
    "acos_",
    "acosh",
    "acosh_",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addmv_",
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
    "arccos_",
    "arccosh",
    "arccosh_",
    "arcsin",
    "arcsin_",
    "arcsinh",
    "arcsinh_",
    "arctan",
    "arctan2",
    "arctan_",
    "arctanh",
    "arctanh_",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "asin",
    "asin_",
    "asinh",
    "asinh_",
    "atan",
    "atan2",
    "atan_",
    "atanh",
    "atanh_",
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
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "clip_",
    "clone",
    "conj",
    "copysign",
    "corrcoef",
    "cos",
    "cos_",
    "cosh",
    "cosh_",
    "count_nonzero",
    "cov",
    "cross",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "deg2rad",
    "deg2rad_",
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
    "erf_",
    "erfc",
    "erfc_",
    "erfinv",
    "exp",
    "exp2",
    "exp2_",
    "exp_",
    "expm1",
    "expm1_",
    "fill_",
    "fix",
    "fix_",
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
    "frac_",
    "frexp",
    "gather",
    "gcd",
    "gcd_",
    "ge",
    "geqrf",
    "ger",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "histc",
    "histogram",
    "hsplit",
    "hypot",
    "i0",
    "i0_",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_put_",
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
    "istft",
    "kron",
    "kthvalue",
    "lcm",
    "lcm_",
    "ldexp",
    "ldexp_",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log10",
    "log10_",
    "log1p",
    "log1p_",
    "log2",
    "log2_",
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
    "logit_",
    "logsumexp",
    "lt",
    "lu",
    "lu_solve",
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
    "nan_to_num_",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "ne",
    "neg",
    "neg_",
    "negative",
    "negative_",
    "nextafter",
    "nonzero",
    "norm",
    "not_equal",
    "numel",
    "orgqr",
    "ormqr",
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
    "rad2deg_",
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
    "sinc_",
    "sinh",
    "sinh_",
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
    "stft",
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
    "tan_",
    "tanh",
    "tanh_",
    "tensor_split",
    "tile",
    "topk",
    "trace",
    "transpose",
    "triangular_solve",
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
    "xlogy_",
    "zero_",
]

abs: Final = function(Tensor.abs)
abs_: Final = function(Tensor.abs_)
absolute: Final = function(Tensor.absolute)
acos: Final = function(Tensor.acos)
acos_: Final = function(Tensor.acos_)
acosh: Final = function(Tensor.acosh)
acosh_: Final = function(Tensor.acosh_)
add: Final = function(Tensor.add)
addbmm: Final = function(Tensor.addbmm)
addcdiv: Final = function(Tensor.addcdiv)
addcmul: Final = function(Tensor.addcmul)
addmm: Final = function(Tensor.addmm)
addmv: Final = function(Tensor.addmv)
addmv_: Final = function(Tensor.addmv_)
addr: Final = function(Tensor.addr)
adjoint: Final = function(Tensor.adjoint)
all: Final = function(Tensor.all)
allclose: Final = function(Tensor.allclose)
amax: Final = function(Tensor.amax)
amin: Final = function(Tensor.amin)
aminmax: Final = function(Tensor.aminmax)
angle: Final = function(Tensor.angle)
any: Final = function(Tensor.any)
arccos: Final = function(Tensor.arccos)
arccos_: Final = function(Tensor.arccos_)
arccosh: Final = function(Tensor.arccosh)
arccosh_: Final = function(Tensor.arccosh_)
arcsin: Final = function(Tensor.arcsin)
arcsin_: Final = function(Tensor.arcsin_)
arcsinh: Final = function(Tensor.arcsinh)
arcsinh_: Final = function(Tensor.arcsinh_)
arctan: Final = function(Tensor.arctan)
arctan2: Final = function(Tensor.arctan2)
arctan_: Final = function(Tensor.arctan_)
arctanh: Final = function(Tensor.arctanh)
arctanh_: Final = function(Tensor.arctanh_)
argmax: Final = function(Tensor.argmax)
argmin: Final = function(Tensor.argmin)
argsort: Final = function(Tensor.argsort)
argwhere: Final = function(Tensor.argwhere)
as_strided: Final = function(Tensor.as_strided)
asin: Final = function(Tensor.asin)
asin_: Final = function(Tensor.asin_)
asinh: Final = function(Tensor.asinh)
asinh_: Final = function(Tensor.asinh_)
atan: Final = function(Tensor.atan)
atan2: Final = function(Tensor.atan2)
atan_: Final = function(Tensor.atan_)
atanh: Final = function(Tensor.atanh)
atanh_: Final = function(Tensor.atanh_)
baddbmm: Final = function(Tensor.baddbmm)
bernoulli: Final = function(Tensor.bernoulli)
bincount: Final = function(Tensor.bincount)
bitwise_and: Final = function(Tensor.bitwise_and)
bitwise_left_shift: Final = function(Tensor.bitwise_left_shift)
bitwise_not: Final = function(Tensor.bitwise_not)
bitwise_or: Final = function(Tensor.bitwise_or)
bitwise_right_shift: Final = function(Tensor.bitwise_right_shift)
bitwise_xor: Final = function(Tensor.bitwise_xor)
bmm: Final = function(Tensor.bmm)
ceil: Final = function(Tensor.ceil)
ceil_: Final = function(Tensor.ceil_)
cholesky: Final = function(Tensor.cholesky)
cholesky_inverse: Final = function(Tensor.cholesky_inverse)
cholesky_solve: Final = function(Tensor.cholesky_solve)
chunk: Final = function(Tensor.chunk)
clamp: Final = function(Tensor.clamp)
clamp_: Final = function(Tensor.clamp_)
clamp_max: Final = function(Tensor.clamp_max)
clamp_max_: Final = function(Tensor.clamp_max_)
clamp_min: Final = function(Tensor.clamp_min)
clamp_min_: Final = function(Tensor.clamp_min_)
clip: Final = function(Tensor.clip)
clip_: Final = function(Tensor.clamp_)
clone: Final = function(Tensor.clone)
conj: Final = function(Tensor.conj)
copysign: Final = function(Tensor.copysign)
corrcoef: Final = function(Tensor.corrcoef)
cos: Final = function(Tensor.cos)
cos_: Final = function(Tensor.cos_)
cosh: Final = function(Tensor.cosh)
cosh_: Final = function(Tensor.cosh_)
count_nonzero: Final = function(Tensor.count_nonzero)
cov: Final = function(Tensor.cov)
cross: Final = function(Tensor.cross)
cummax: Final = function(Tensor.cummax)
cummin: Final = function(Tensor.cummin)
cumprod: Final = function(Tensor.cumprod)
cumsum: Final = function(Tensor.cumsum)
deg2rad: Final = function(Tensor.deg2rad)
deg2rad_: Final = function(Tensor.deg2rad_)
detach: Final = function(Tensor.detach)
diag: Final = function(Tensor.diag)
diag_embed: Final = function(Tensor.diag_embed)
diagflat: Final = function(Tensor.diagflat)
diagonal: Final = function(Tensor.diagonal)
diagonal_scatter: Final = function(Tensor.diagonal_scatter)
diff: Final = function(Tensor.diff)
digamma: Final = function(Tensor.digamma)
dist: Final = function(Tensor.dist)
div: Final = function(Tensor.div)
divide: Final = function(Tensor.div)
dot: Final = function(Tensor.dot)
dsplit: Final = function(Tensor.dsplit)
eq: Final = function(Tensor.eq)
equal: Final = function(Tensor.equal)
erf: Final = function(Tensor.erf)
erf_: Final = function(Tensor.erf_)
erfc: Final = function(Tensor.erfc)
erfc_: Final = function(Tensor.erfc_)
erfinv: Final = function(Tensor.erfinv)
exp: Final = function(Tensor.exp)
exp2: Final = function(Tensor.exp2)
exp2_: Final = function(Tensor.exp2_)
exp_: Final = function(Tensor.exp_)
expm1: Final = function(Tensor.expm1)
expm1_: Final = function(Tensor.expm1_)
fill_: Final = function(Tensor.fill_)
fix: Final = function(Tensor.fix)
fix_: Final = function(Tensor.fix_)
flatten: Final = function(Tensor.flatten)
flip: Final = function(Tensor.flip)
fliplr: Final = function(Tensor.fliplr)
flipud: Final = function(Tensor.flipud)
float_power: Final = function(Tensor.float_power)
floor: Final = function(Tensor.floor)
floor_: Final = function(Tensor.floor_)
floor_divide: Final = function(Tensor.floor_divide)
fmax: Final = function(Tensor.fmax)
fmin: Final = function(Tensor.fmin)
fmod: Final = function(Tensor.fmod)
frac: Final = function(Tensor.frac)
frac_: Final = function(Tensor.frac_)
frexp: Final = function(Tensor.frexp)
gather: Final = function(Tensor.gather)
gcd: Final = function(Tensor.gcd)
gcd_: Final = function(Tensor.gcd_)
ge: Final = function(Tensor.ge)
geqrf: Final = function(Tensor.geqrf)
ger: Final = function(Tensor.ger)
greater: Final = function(Tensor.greater)
greater_equal: Final = function(Tensor.greater_equal)
gt: Final = function(Tensor.gt)
heaviside: Final = function(Tensor.heaviside)
histc: Final = function(Tensor.histc)
histogram: Final = function(Tensor.histogram)
hsplit: Final = function(Tensor.hsplit)
hypot: Final = function(Tensor.hypot)
i0: Final = function(Tensor.i0)
i0_: Final = function(Tensor.i0_)
index_add: Final = function(Tensor.index_add)
index_copy: Final = function(Tensor.index_copy)
index_fill: Final = function(Tensor.index_fill)
index_put: Final = function(Tensor.index_put)
index_put_: Final = function(Tensor.index_put_)
index_reduce: Final = function(Tensor.index_reduce)
index_select: Final = function(Tensor.index_select)
inner: Final = function(Tensor.inner)
inverse: Final = function(Tensor.inverse)
is_complex: Final = function(Tensor.is_complex)
is_floating_point: Final = function(Tensor.is_floating_point)
isclose: Final = function(Tensor.isclose)
isfinite: Final = function(Tensor.isfinite)
isinf: Final = function(Tensor.isinf)
isnan: Final = function(Tensor.isnan)
isneginf: Final = function(Tensor.isneginf)
isposinf: Final = function(Tensor.isposinf)
isreal: Final = function(Tensor.isreal)
istft: Final = function(Tensor.istft)
kron: Final = function(Tensor.kron)
kthvalue: Final = function(Tensor.kthvalue)
lcm: Final = function(Tensor.lcm)
lcm_: Final = function(Tensor.lcm_)
ldexp: Final = function(Tensor.ldexp)
ldexp_: Final = function(Tensor.ldexp_)
le: Final = function(Tensor.le)
lerp: Final = function(Tensor.lerp)
less: Final = function(Tensor.less)
less_equal: Final = function(Tensor.less_equal)
lgamma: Final = function(Tensor.lgamma)
log: Final = function(Tensor.log)
log10: Final = function(Tensor.log10)
log10_: Final = function(Tensor.log10_)
log1p: Final = function(Tensor.log1p)
log1p_: Final = function(Tensor.log1p_)
log2: Final = function(Tensor.log2)
log2_: Final = function(Tensor.log2_)
log_: Final = function(Tensor.log_)
log_softmax: Final = function(Tensor.log_softmax)
logaddexp: Final = function(Tensor.logaddexp)
logaddexp2: Final = function(Tensor.logaddexp2)
logcumsumexp: Final = function(Tensor.logcumsumexp)
logdet: Final = function(Tensor.logdet)
logical_and: Final = function(Tensor.logical_and)
logical_not: Final = function(Tensor.logical_not)
logical_or: Final = function(Tensor.logical_or)
logical_xor: Final = function(Tensor.logical_xor)
logit: Final = function(Tensor.logit)
logit_: Final = function(Tensor.logit_)
logsumexp: Final = function(Tensor.logsumexp)
lt: Final = function(Tensor.lt)
lu: Final = function(Tensor.lu)
lu_solve: Final = function(Tensor.lu_solve)
masked_fill: Final = function(Tensor.masked_fill)
masked_scatter: Final = function(Tensor.masked_scatter)
masked_select: Final = function(Tensor.masked_select)
matmul: Final = function(Tensor.matmul)
matrix_exp: Final = function(Tensor.matrix_exp)
max: Final = function(Tensor.max)
maximum: Final = function(Tensor.maximum)
mean: Final = function(Tensor.mean)
median: Final = function(Tensor.median)
min: Final = function(Tensor.min)
minimum: Final = function(Tensor.minimum)
mm: Final = function(Tensor.mm)
mode: Final = function(Tensor.mode)
moveaxis: Final = function(Tensor.moveaxis)
movedim: Final = function(Tensor.movedim)
msort: Final = function(Tensor.msort)
mul: Final = function(Tensor.mul)
multinomial: Final = function(Tensor.multinomial)
multiply: Final = function(Tensor.multiply)
mv: Final = function(Tensor.mv)
mvlgamma: Final = function(Tensor.mvlgamma)
nan_to_num: Final = function(Tensor.nan_to_num)
nan_to_num_: Final = function(Tensor.nan_to_num_)
nanmean: Final = function(Tensor.nanmean)
nanmedian: Final = function(Tensor.nanmedian)
nanquantile: Final = function(Tensor.nanquantile)
nansum: Final = function(Tensor.nansum)
narrow: Final = function(Tensor.narrow)
ne: Final = function(Tensor.ne)
neg: Final = function(Tensor.neg)
neg_: Final = function(Tensor.neg_)
negative: Final = function(Tensor.negative)
negative_: Final = function(Tensor.negative_)
nextafter: Final = function(Tensor.nextafter)
nonzero: Final = function(Tensor.nonzero)
norm: Final = function(Tensor.norm)
not_equal: Final = function(Tensor.not_equal)
numel: Final = function(Tensor.numel)
orgqr: Final = function(Tensor.orgqr)
ormqr: Final = function(Tensor.ormqr)
outer: Final = function(Tensor.outer)
permute: Final = function(Tensor.permute)
pinverse: Final = function(Tensor.pinverse)
positive: Final = function(Tensor.positive)
pow: Final = function(Tensor.pow)
prod: Final = function(Tensor.prod)
put: Final = function(Tensor.put)
qr: Final = function(Tensor.qr)
quantile: Final = function(Tensor.quantile)
rad2deg: Final = function(Tensor.rad2deg)
rad2deg_: Final = function(Tensor.rad2deg_)
ravel: Final = function(Tensor.ravel)
reciprocal: Final = function(Tensor.reciprocal)
reciprocal_: Final = function(Tensor.reciprocal_)
relu: Final = function(Tensor.relu)
relu_: Final = function(Tensor.relu_)
remainder: Final = function(Tensor.remainder)
renorm: Final = function(Tensor.renorm)
repeat_interleave: Final = function(Tensor.repeat_interleave)
reshape: Final = function(Tensor.reshape)
roll: Final = function(Tensor.roll)
rot90: Final = function(Tensor.rot90)
round: Final = function(Tensor.round)
round_: Final = function(Tensor.round_)
rsqrt: Final = function(Tensor.rsqrt)
rsqrt_: Final = function(Tensor.rsqrt_)
rsub: Final = function(Tensor.rsub)
scatter: Final = function(Tensor.scatter)
scatter_add: Final = function(Tensor.scatter_add)
scatter_reduce: Final = function(Tensor.scatter_reduce)
select: Final = function(Tensor.select)
select_scatter: Final = function(Tensor.select_scatter)
sgn: Final = function(Tensor.sgn)
sigmoid: Final = function(Tensor.sigmoid)
sigmoid_: Final = function(Tensor.sigmoid_)
sign: Final = function(Tensor.sign)
signbit: Final = function(Tensor.signbit)
sin: Final = function(Tensor.sin)
sin_: Final = function(Tensor.sin_)
sinc: Final = function(Tensor.sinc)
sinc_: Final = function(Tensor.sinc_)
sinh: Final = function(Tensor.sinh)
sinh_: Final = function(Tensor.sinh_)
slice_scatter: Final = function(Tensor.slice_scatter)
softmax: Final = function(Tensor.softmax)
sort: Final = function(Tensor.sort)
split: Final = function(Tensor.split)
split_with_sizes: Final = function(Tensor.split_with_sizes)
spmm: Final = function(Tensor.mm)
sqrt: Final = function(Tensor.sqrt)
sqrt_: Final = function(Tensor.sqrt_)
square: Final = function(Tensor.square)
square_: Final = function(Tensor.square_)
squeeze: Final = function(Tensor.squeeze)
std: Final = function(Tensor.std)
stft: Final = function(Tensor.stft)
sub: Final = function(Tensor.sub)
subtract: Final = function(Tensor.subtract)
sum: Final = function(Tensor.sum)
svd: Final = function(Tensor.svd)
swapaxes: Final = function(Tensor.swapaxes)
swapdims: Final = function(Tensor.swapdims)
t: Final = function(Tensor.t)
take: Final = function(Tensor.take)
take_along_dim: Final = function(Tensor.take_along_dim)
tan: Final = function(Tensor.tan)
tan_: Final = function(Tensor.tan_)
tanh: Final = function(Tensor.tanh)
tanh_: Final = function(Tensor.tanh_)
tensor_split: Final = function(Tensor.tensor_split)
tile: Final = function(Tensor.tile)
topk: Final = function(Tensor.topk)
trace: Final = function(Tensor.trace)
transpose: Final = function(Tensor.transpose)
triangular_solve: Final = function(Tensor.triangular_solve)
tril: Final = function(Tensor.tril)
triu: Final = function(Tensor.triu)
true_divide: Final = function(Tensor.div)
trunc: Final = function(Tensor.trunc)
trunc_: Final = function(Tensor.trunc_)
unbind: Final = function(Tensor.unbind)
unflatten: Final = function(Tensor.unflatten)
unique: Final = function(Tensor.unique)
unique_consecutive: Final = function(Tensor.unique_consecutive)
unsqueeze: Final = function(Tensor.unsqueeze)
var: Final = function(Tensor.var)
vdot: Final = function(Tensor.vdot)
vsplit: Final = function(Tensor.vsplit)
xlogy: Final = function(Tensor.xlogy)
xlogy_: Final = function(Tensor.xlogy_)
zero_: Final = function(Tensor.zero_)
