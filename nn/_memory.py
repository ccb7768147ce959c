"""What `nn` uses of the memory pool: large intermediate results lie there, as those of `tensor` do."""

from tensor import _placing, _pool, _pooled

copy = _pool.copy
empty = _pool.empty
zeros = _pool.zeros

astype = _placing.astype
laid_out = _placing.laid_out
matmul = _placing.matmul
of_two = _placing.of_two
take = _placing.take

enter = _pooled.enter
leave = _pooled.leave
xp = _pooled.xp
