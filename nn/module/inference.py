"""Copies of modules for inference."""

from __future__ import annotations

from copy import deepcopy
from typing import Self

from nn.module.traversal import Traversal


class Inference(Traversal):
    """Methods for inference copies. A copy stores which parameters ``train()`` makes trainable again."""

    def valid(self) -> Self:
        """Return a copy for inference that shares memory with this module and requires no gradients.

        Parameters and buffers are copy-on-write clones: they use no memory until one side writes a tensor,
        which copies that tensor. So you can train this module further while the copy keeps the current
        values. The copy is in evaluation mode (``training`` is False), and has no gradients. ``train()`` on
        the copy makes the same parameters trainable as here.

        Examples
        --------
        >>> import nn, tensor
        >>> model = nn.Linear(2, 1)
        >>> before = tensor.memory.statistics().bytes_live
        >>> frozen = model.valid()
        >>> tensor.memory.statistics().bytes_live - before
        0
        >>> frozen(tensor.ones((1, 2))).requires_grad
        False
        >>> frozen.train().weight.requires_grad
        True
        """
        copied = deepcopy(self)
        trainable = [x for x in copied.parameters() if x.requires_grad]
        for parameter in trainable:
            parameter.requires_grad_(False)
        copied.__dict__["_trainable"] = trainable
        return copied.eval()

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` in this module and all submodules, and return this module.

        On a copy made by `valid`, ``train()`` also makes its parameters trainable again.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.Dropout().eval().training
        False
        """
        super().train(mode)
        if mode:
            for parameter in self.__dict__.pop("_trainable", ()):
                parameter.requires_grad_()
        return self
