"""ResNet-18 and VGG-16, without the weights that torchvision loads."""

import torch
import torch.nn as nn


class _Block(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(_Block(64, 64), _Block(64, 64))
        self.layer2 = nn.Sequential(_Block(64, 128, 2), _Block(128, 128))
        self.layer3 = nn.Sequential(_Block(128, 256, 2), _Block(256, 256))
        self.layer4 = nn.Sequential(_Block(256, 512, 2), _Block(512, 512))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class _Vgg(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for size in [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0]:
            if size:
                layers += [nn.Conv2d(channels, size, 3, padding=1), nn.ReLU(inplace=True)]
                channels = size
            else:
                layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)


class VGG16_Weights:
    IMAGENET1K_V1 = None


def resnet18(weights=None, **options):
    return ResNet()


def vgg16(*args, **options):
    return _Vgg()
