"""Transforms of arrays of uint8 with the channels last."""

import numpy as np
import torch


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x


class ToTensor:
    def __call__(self, x):
        x = np.asarray(x)
        x = x[None] if x.ndim == 2 else x.transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(x).astype("float32") / np.float32(255))


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, x):
        return (x - torch.tensor(self.mean).view(-1, 1, 1)) / torch.tensor(self.std).view(-1, 1, 1)


class Lambda:
    def __init__(self, function):
        self.function = function

    def __call__(self, x):
        return self.function(x)


class _Same:
    """Images have the size that is wanted already."""

    def __init__(self, *args, **options):
        pass

    def __call__(self, x):
        return x


class Resize(_Same):
    pass


class CenterCrop(_Same):
    pass
