"""Random heads, and rules of which token attends to which."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from models.encoder.position_hooks import Positions
from models.encoder.sequence_layout import Packing
from models.torch_backend.attention import Rules

CPU = torch.device("cpu")

HEADS, KEY_HEADS, SIZE = 4, 2, 8

SCALE = 1 / math.sqrt(SIZE)


class Slanted(Positions):
    """A bias that differs by head and by the order of the two tokens."""

    def bias(self, reach: int) -> Tensor:
        distance = torch.arange(1 - reach, reach, dtype=torch.float32)
        slopes = torch.tensor([0.05, -0.03, 0.01, 0.0])[:, None]
        return slopes * (2 * distance.abs() + distance)


class Contents(Positions):
    """Scores that depend on both tokens and on the order of the two."""

    def relative(self, reach: int) -> Tensor:
        return torch.arange(1 - reach, reach)

    def score(self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor) -> Tensor:
        turned = relative[index].to(query.dtype).sin()
        return query[..., :1] * turned + key[..., None, :, 1] * turned.square()


RULES = {
    "plain": Rules(Positions(), SCALE),
    "bias": Rules(Slanted(), SCALE),
    "causal": Rules(Positions(), SCALE, causal=True),
    "reach": Rules(Positions(), SCALE, reach=3),
    "itself": Rules(Positions(), SCALE, reach=0),
    "softcap": Rules(Positions(), 2.0, softcap=1.5),
    "content": Rules(Contents(), SCALE),
    "all": Rules(Slanted(), 2.0, causal=True, reach=4, softcap=1.5),
    "content behind": Rules(Contents(), 2.0, causal=True, reach=4),
}


def heads_of(packing: Packing, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: each head of keys is read by two of queries."""
    noise = torch.Generator().manual_seed(packing.rows)
    split = [HEADS, KEY_HEADS, KEY_HEADS]
    both = torch.randn(packing.rows, sum(split), SIZE, generator=noise).to(dtype)
    query, key, value = torch.split(both, split, dim=1)
    return query, key, value


PLAIN = Rules(Positions(), SCALE)

NAMES = ("plain", "causal", "reach", "itself")

WINDOWS = {name: RULES[name] for name in NAMES} | {"both": replace(PLAIN, causal=True, reach=3)}
