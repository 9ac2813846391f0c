"""Sentence models of random weights."""

import torch
from torch import nn

from tests.conftest import WORDS

SENTENCES = [" ".join(WORDS[5 * i : 5 * i + 1 + 3 * i]) for i in range(7)]

WIDTH = 48


def randomised(module: nn.Module) -> nn.Module:
    noise = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.3, generator=noise)
    return module
