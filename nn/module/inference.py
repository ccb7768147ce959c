"""A copy of a module for inference, and its return to training."""

from __future__ import annotations

from copy import deepcopy
from typing import Self

from nn.module.traversal import Traversal


class Inference(Traversal):
    """A copy from ``valid()`` remembers the parameters that ``train()`` makes trainable again."""

    def valid(self) -> Self:
        """Return a copy for inference: it shares all memory with this module, and records nothing.

        Parameters and buffers are copy-on-write clones: no memory is taken until one side writes, and then
        the writer copies what it writes. So training goes on here while the copy keeps the values of now. The
        copy is in evaluation mode (``training`` is False), its parameters require no gradients, and it has no
        gradients. ``train()`` on it makes those trainable again that were trainable here.

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
        """Set ``training`` here and in all modules inside, and return this one.

        On a copy made by `valid`, ``train()`` also makes its parameters trainable again.

        Examples
        --------
        >>> import nn
        >>> nn.Dropout().eval().training
        False
        """
        super().train(mode)
        if mode:
            for parameter in self.__dict__.pop("_trainable", ()):
                parameter.requires_grad_()
        return self
