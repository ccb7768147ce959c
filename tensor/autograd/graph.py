"""Nodes of graphs, and hooks on the tensors that they save (``torch.autograd.graph``)."""

from tensor.autograd.saved_tensors import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from tensor.tape.recording import Node

__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]
