"""Tensors: storage and copy-on-write, the tensor itself, views, the handle."""

from tensor.core.holders import held_buffers
from tensor.memory.holders import list_holders_by

list_holders_by(held_buffers)
