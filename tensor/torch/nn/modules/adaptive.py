"""``torch.nn.modules.adaptive``."""

from nn import AdaptiveLogSoftmaxWithLoss

__all__ = ["AdaptiveLogSoftmaxWithLoss"]
