"""What the programs use of torchvision, with images drawn at random."""

from torchvision import datasets, models, transforms, utils
