"""Functions of ``torch`` that are methods of their first argument: a table of names."""

from __future__ import annotations

import tensor as tn
from tensor import Tensor
from tensor.torch.calling import function

__all__ = [
    "abs",
    "abs_",
    "absolute",
    "acos",
    "acosh",
    "add",
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
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bmm",
    "ceil",
    "ceil_",
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
    "cos",
    "cos_",
    "cosh",
    "count_nonzero",
    "cross",
    "cumprod",
    "cumsum",
    "detach",
    "diag",
    "diag_embed",
    "diagonal",
    "dist",
    "div",
    "divide",
    "dot",
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
    "floor",
    "floor_",
    "floor_divide",
    "fmod",
    "gather",
    "ge",
    "ger",
    "greater",
    "greater_equal",
    "gt",
    "hypot",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "inner",
    "is_complex",
    "is_floating_point",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "kthvalue",
    "le",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_",
    "log_softmax",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsumexp",
    "lt",
    "masked_fill",
    "masked_select",
    "matmul",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "mm",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multinomial",
    "multiply",
    "mv",
    "nan_to_num",
    "nanmean",
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
    "positive",
    "pow",
    "prod",
    "quantile",
    "ravel",
    "reciprocal",
    "reciprocal_",
    "relu",
    "relu_",
    "remainder",
    "repeat_interleave",
    "reshape",
    "roll",
    "rot90",
    "round",
    "round_",
    "rsqrt",
    "rsqrt_",
    "scatter",
    "scatter_add",
    "select",
    "sgn",
    "sigmoid",
    "sigmoid_",
    "sign",
    "signbit",
    "sin",
    "sin_",
    "sinh",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "sqrt_",
    "square",
    "square_",
    "squeeze",
    "std",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tanh_",
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
    "unsqueeze",
    "var",
    "vdot",
    "xlogy",
    "zero_",
]

# Arithmetic

add = function(Tensor.add)
sub = function(Tensor.sub)
subtract = function(Tensor.subtract)
mul = function(Tensor.mul)
multiply = function(Tensor.multiply)
div = function(Tensor.div)
divide = function(Tensor.divide)
true_divide = function(Tensor.true_divide)
floor_divide = function(Tensor.floor_divide)
remainder = function(Tensor.remainder)
fmod = function(Tensor.fmod)
pow = function(Tensor.pow)
neg = function(Tensor.neg)
negative = function(Tensor.negative)
positive = function(Tensor.positive)
abs = function(Tensor.abs)
absolute = function(Tensor.absolute)
reciprocal = function(Tensor.reciprocal)
square = function(Tensor.square)
sign = function(Tensor.sign)
sgn = function(Tensor.sgn)
ceil = function(Tensor.ceil)
floor = function(Tensor.floor)
trunc = function(Tensor.trunc)
fix = function(Tensor.fix)
round = function(Tensor.round)
clamp = function(Tensor.clamp)
clip = function(Tensor.clip)
clamp_min = function(Tensor.clamp_min)
clamp_max = function(Tensor.clamp_max)
lerp = function(Tensor.lerp)
maximum = function(Tensor.maximum)
minimum = function(Tensor.minimum)
hypot = function(Tensor.hypot)
atan2 = function(Tensor.atan2)
arctan2 = function(Tensor.arctan2)
logaddexp = function(Tensor.logaddexp)
copysign = function(Tensor.copysign)
nextafter = function(Tensor.nextafter)
addcmul = function(Tensor.addcmul)
addcdiv = function(Tensor.addcdiv)
nan_to_num = function(Tensor.nan_to_num)
xlogy = function(Tensor.xlogy)
logit = function(Tensor.logit)

# Powers, exponentials, trigonometry

exp = function(Tensor.exp)
exp2 = function(Tensor.exp2)
expm1 = function(Tensor.expm1)
log = function(Tensor.log)
log1p = function(Tensor.log1p)
log2 = function(Tensor.log2)
log10 = function(Tensor.log10)
sqrt = function(Tensor.sqrt)
rsqrt = function(Tensor.rsqrt)
sin = function(Tensor.sin)
cos = function(Tensor.cos)
tan = function(Tensor.tan)
asin = function(Tensor.asin)
acos = function(Tensor.acos)
atan = function(Tensor.atan)
sinh = function(Tensor.sinh)
cosh = function(Tensor.cosh)
tanh = function(Tensor.tanh)
asinh = function(Tensor.asinh)
acosh = function(Tensor.acosh)
atanh = function(Tensor.atanh)
arcsin = function(Tensor.arcsin)
arccos = function(Tensor.arccos)
arctan = function(Tensor.arctan)
arcsinh = function(Tensor.arcsinh)
arccosh = function(Tensor.arccosh)
arctanh = function(Tensor.arctanh)
relu = function(Tensor.relu)
sigmoid = function(Tensor.sigmoid)
erf = function(Tensor.erf)
erfc = function(Tensor.erfc)
erfinv = function(Tensor.erfinv)
conj = function(Tensor.conj)

# Comparisons, tests, bits

eq = function(Tensor.eq)
ne = function(Tensor.ne)
lt = function(Tensor.lt)
le = function(Tensor.le)
gt = function(Tensor.gt)
ge = function(Tensor.ge)
not_equal = function(Tensor.not_equal)
less = function(Tensor.less)
less_equal = function(Tensor.less_equal)
greater = function(Tensor.greater)
greater_equal = function(Tensor.greater_equal)
logical_and = function(Tensor.logical_and)
logical_or = function(Tensor.logical_or)
logical_xor = function(Tensor.logical_xor)
logical_not = function(Tensor.logical_not)
isfinite = function(Tensor.isfinite)
isinf = function(Tensor.isinf)
isnan = function(Tensor.isnan)
signbit = function(Tensor.signbit)
isclose = function(Tensor.isclose)
allclose = function(Tensor.allclose)
equal = function(Tensor.equal)
bitwise_and = function(Tensor.bitwise_and)
bitwise_or = function(Tensor.bitwise_or)
bitwise_xor = function(Tensor.bitwise_xor)
bitwise_not = function(Tensor.bitwise_not)
bitwise_left_shift = function(Tensor.bitwise_left_shift)
bitwise_right_shift = function(Tensor.bitwise_right_shift)
is_floating_point = function(Tensor.is_floating_point)
is_complex = function(Tensor.is_complex)

# Reductions, scans, norms

sum = function(Tensor.sum)
mean = function(Tensor.mean)
prod = function(Tensor.prod)
var = function(Tensor.var)
std = function(Tensor.std)
amax = function(Tensor.amax)
amin = function(Tensor.amin)
max = function(Tensor.max)
min = function(Tensor.min)
argmax = function(Tensor.argmax)
argmin = function(Tensor.argmin)
all = function(Tensor.all)
any = function(Tensor.any)
count_nonzero = function(Tensor.count_nonzero)
nansum = function(Tensor.nansum)
nanmean = function(Tensor.nanmean)
median = function(Tensor.median)
kthvalue = function(Tensor.kthvalue)
quantile = function(Tensor.quantile)
cumsum = function(Tensor.cumsum)
cumprod = function(Tensor.cumprod)
logsumexp = function(Tensor.logsumexp)
softmax = function(Tensor.softmax)
log_softmax = function(Tensor.log_softmax)
norm = function(Tensor.norm)

# In place

relu_ = function(Tensor.relu_)
sigmoid_ = function(Tensor.sigmoid_)
tanh_ = function(Tensor.tanh_)
exp_ = function(Tensor.exp_)
log_ = function(Tensor.log_)
sqrt_ = function(Tensor.sqrt_)
rsqrt_ = function(Tensor.rsqrt_)
reciprocal_ = function(Tensor.reciprocal_)
round_ = function(Tensor.round_)
floor_ = function(Tensor.floor_)
ceil_ = function(Tensor.ceil_)
trunc_ = function(Tensor.trunc_)
abs_ = function(Tensor.abs_)
neg_ = function(Tensor.neg_)
square_ = function(Tensor.square_)
sin_ = function(Tensor.sin_)
cos_ = function(Tensor.cos_)
clamp_ = function(Tensor.clamp_)
clamp_min_ = function(Tensor.clamp_min_)
clamp_max_ = function(Tensor.clamp_max_)
zero_ = function(Tensor.zero_)
fill_ = function(Tensor.fill_)

# Shapes and places

reshape = function(Tensor.reshape)
flatten = function(Tensor.flatten)
ravel = function(Tensor.ravel)
unflatten = function(Tensor.unflatten)
permute = function(Tensor.permute)
transpose = function(Tensor.transpose)
swapaxes = function(Tensor.swapaxes)
swapdims = function(Tensor.swapdims)
t = function(Tensor.t)
movedim = function(Tensor.movedim)
moveaxis = function(Tensor.moveaxis)
squeeze = function(Tensor.squeeze)
unsqueeze = function(Tensor.unsqueeze)
tile = function(Tensor.tile)
flip = function(Tensor.flip)
roll = function(Tensor.roll)
rot90 = function(Tensor.rot90)
fliplr = function(Tensor.fliplr)
flipud = function(Tensor.flipud)
tril = function(Tensor.tril)
triu = function(Tensor.triu)
diagonal = function(Tensor.diagonal)
diag = function(Tensor.diag)
diag_embed = function(Tensor.diag_embed)
narrow = function(Tensor.narrow)
select = function(Tensor.select)
chunk = function(Tensor.chunk)
split = function(Tensor.split)
unbind = function(Tensor.unbind)
repeat_interleave = function(Tensor.repeat_interleave)
numel = function(Tensor.numel)
clone = function(Tensor.clone)
detach = function(Tensor.detach)
adjoint = function(Tensor.adjoint)

# Products

mm = function(Tensor.mm)
bmm = function(Tensor.bmm)
mv = function(Tensor.mv)
dot = function(Tensor.dot)
matmul = function(tn.matmul)
outer = function(Tensor.outer)
ger = function(Tensor.ger)
inner = function(Tensor.inner)
vdot = function(Tensor.vdot)
addmm = function(Tensor.addmm)
addmv = function(Tensor.addmv)
addr = function(Tensor.addr)
baddbmm = function(Tensor.baddbmm)
trace = function(Tensor.trace)
cross = function(Tensor.cross)
dist = function(Tensor.dist)

# Selection and order

gather = function(Tensor.gather)
index_select = function(Tensor.index_select)
masked_select = function(Tensor.masked_select)
masked_fill = function(Tensor.masked_fill)
take = function(Tensor.take)
take_along_dim = function(Tensor.take_along_dim)
scatter = function(Tensor.scatter)
scatter_add = function(Tensor.scatter_add)
index_add = function(Tensor.index_add)
index_fill = function(Tensor.index_fill)
index_copy = function(Tensor.index_copy)
index_put = function(Tensor.index_put)
nonzero = function(Tensor.nonzero)
argwhere = function(Tensor.argwhere)
sort = function(Tensor.sort)
argsort = function(Tensor.argsort)
topk = function(Tensor.topk)
unique = function(Tensor.unique)
msort = function(Tensor.msort)
bernoulli = function(Tensor.bernoulli)
multinomial = function(Tensor.multinomial)
