"""Images drawn at random, each with a mark that tells its class."""

import numpy as np
import torch


class _Images(torch.utils.data.Dataset):
    def __init__(self, count, shape, classes, transform, seed):
        drawn = np.random.RandomState(seed)
        images = (drawn.random_sample((count, *shape)) * 255).astype("uint8")
        self.labels = drawn.randint(0, classes, count)
        for image, label in zip(images, self.labels, strict=True):
            image.reshape(-1)[label * 9 : label * 9 + 9] = 255
        self.images, self.transform = images, transform
        self.data, self.targets = torch.from_numpy(images), torch.from_numpy(self.labels)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return (self.transform(image) if self.transform else image), int(self.labels[index])


class MNIST(_Images):
    def __init__(self, root=None, train=True, transform=None, download=False, target_transform=None):
        super().__init__(640 if train else 320, (28, 28), 10, transform, int(train))


class FakeData(_Images):
    def __init__(self, size=256, image_size=(3, 64, 64), num_classes=10, transform=None, **options):
        channels, height, width = image_size
        super().__init__(256, (height, width, channels), num_classes, transform, 5)


class ImageFolder(_Images):
    def __init__(self, root, transform=None):
        super().__init__(24, (48, 48, 3), 3, transform, 6)
